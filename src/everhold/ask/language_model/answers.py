"""Find the statement in the answer of a language model: in a code block, in prose, or in JSON.

The answer is not trusted. The text that is found may not be a statement; the guard checks it later.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

MAX_ANSWER: Final = 40_000  # characters; the rest of a longer answer is not read
MAX_STATEMENT: Final = 4_000

_THOUGHTS: Final = re.compile(
    r"<(think|thinking|thought|reasoning|scratchpad)\b[^>]{0,40}>.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE
)
_THOUGHTS_END: Final = re.compile(r"</(?:think|thinking|thought|reasoning|scratchpad)\s*>", re.IGNORECASE)
_FENCE: Final = re.compile(r"(?:```|~~~)[ \t]*(\w*)[^\n]{0,40}\n(.*?)(?:```|~~~|\Z)", re.DOTALL)
_INLINE: Final = re.compile(r"`((?:SELECT|WITH)\b[^`]{5,})`", re.IGNORECASE)
# A query begins at the start of a line in any case, or within a line in capitals, because sentences begin there too.
_QUERY_START: Final = re.compile(
    r"(?:^|\n)[ \t>*-]*(?:\w{1,20}[ \t]*:[ \t]*)?(?=(?i:SELECT|WITH|FROM)\b)|[.:;!?][ \t]+(?=(?:SELECT|WITH)\b)"
)
_EMBEDDED_START: Final = re.compile(r"\w[ \t]+(?=SELECT\b)")
# In plain text, a statement ends at an empty line, or at a line that begins like a sentence.
_QUERY_END: Final = re.compile(r"\n[ \t]*\n|\n(?=[A-Z][a-z]+[,'’]?[ \t]+[a-z])")
_MAX_STARTS: Final = 20
_FIRST_TOKENS: Final = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.FROM})
_STATEMENT_KEYS: Final = ("sql", "query", "statement", "sql_query")
_FRAME_KEYS: Final = ("table", "entity")
_NONE: Final = re.compile(r"[\s`*.\"']*NONE[\s`*.\"']*", re.IGNORECASE)


@dataclass(frozen=True)
class ModelAnswer:
    """The content of an answer: a statement, a frame as JSON, or the problem why neither was found.

    `is_none` says that the model declined to answer.
    """

    sql: str = ""
    frame: Mapping[str, Any] | None = None
    problem: str = ""
    is_none: bool = False


def read_answer(text: str, dialect: str) -> ModelAnswer:
    """Return the statement of an answer. If it has none, or several different ones, return a problem instead."""
    visible_text = _remove_thoughts(text[:MAX_ANSWER]).strip()
    if _NONE.fullmatch(visible_text):
        return ModelAnswer(is_none=True)
    for list_parts in (_list_fenced, _list_inline, _list_bare, _list_embedded):
        parts = list_parts(visible_text)
        # The same statement may occur twice, with different line breaks or in another case.
        answers = {
            " ".join((answer.sql or part).split()).casefold(): answer
            for part in parts
            for answer in _read_part(part, dialect)
        }
        if len(answers) > 1:
            return ModelAnswer(problem=f"the answer has {len(answers)} different statements instead of one")
        if answers:
            return _limit_length(next(iter(answers.values())))
    return ModelAnswer(problem="the answer has no SELECT statement")


def _limit_length(answer: ModelAnswer) -> ModelAnswer:
    if len(answer.sql) <= MAX_STATEMENT:
        return answer
    return ModelAnswer(problem=f"the statement has more than {MAX_STATEMENT:,} characters")


def _remove_thoughts(text: str) -> str:
    """Return a text without the thoughts of the model. Some models leave out the opening tag."""
    text = _THOUGHTS.sub(" ", text)
    return _THOUGHTS_END.split(text)[-1]


def _list_fenced(text: str) -> list[str]:
    """Return the blocks of code; the last one may not be closed, because the answer was cut off."""
    return [body for language, body in _FENCE.findall(text) if language.lower() not in ("text", "python", "bash")]


def _list_inline(text: str) -> list[str]:
    return _INLINE.findall(text)


def _list_bare(text: str) -> list[str]:
    """Return the statements in plain text: each begins a line and ends with a semicolon or an empty line."""
    if text.startswith(("{", "[")):
        return [text]
    return _list_after(text, _QUERY_START)


def _list_embedded(text: str) -> list[str]:
    """Return the statements that follow a word of a sentence, as in "The answer is SELECT …"."""
    return _list_after(text, _EMBEDDED_START)


def _list_after(text: str, start: re.Pattern[str]) -> list[str]:
    """Return the statements that begin after a match of `start`."""
    parts = []
    for match in islice(start.finditer(text), _MAX_STARTS):
        part = _QUERY_END.split(text[match.end() :], maxsplit=1)[0]
        # "Select the rows where …" is English: a statement has a FROM.
        if re.search(r"\bFROM\b", part, re.IGNORECASE):
            parts.append(part)
    return parts[:1] if len(parts) > 1 and _is_nested(parts) else parts


def _is_nested(parts: list[str]) -> bool:
    """Return whether all later parts are contained in the first, because subqueries often begin a line."""
    return all(part in parts[0] for part in parts[1:])


def _read_part(part: str, dialect: str) -> Iterator[ModelAnswer]:
    part = part.strip()
    if part.startswith(("{", "[")):
        yield from _read_document(part, dialect)
        return
    for statement in _split_statements(part, dialect):
        yield ModelAnswer(sql=statement)


def _read_document(text: str, dialect: str) -> Iterator[ModelAnswer]:
    """Yield the statement or the frame of a JSON object; what follows the object is ignored."""
    try:
        document, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    if not isinstance(document, dict):
        return
    texts = [document[key] for key in _STATEMENT_KEYS if isinstance(document.get(key), str)]
    if texts:
        yield from (ModelAnswer(sql=statement) for statement in _split_statements(texts[0], dialect))
        return
    frame = document.get("frame", document)
    if isinstance(frame, dict) and any(isinstance(frame.get(key), str) for key in _FRAME_KEYS):
        yield ModelAnswer(frame=frame)


def _split_statements(text: str, dialect: str) -> Iterator[str]:
    """Yield the queries among statements that semicolons separate; other statements are left out."""
    try:
        tokens = sqlglot.tokenize(text, read=dialect)
    except (SqlglotError, ValueError, RecursionError):
        return
    group: list[Token] = []
    for token in [*tokens, None]:
        if token is not None and token.token_type is not TokenType.SEMICOLON:
            group.append(token)
            continue
        if group and group[0].token_type in _FIRST_TOKENS:
            yield text[group[0].start : group[-1].end + 1]
        group = []
