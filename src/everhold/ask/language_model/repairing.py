"""The prompt that lets a language model correct its statement, once."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from everhold.ask.language_model.privacy import hide_error_values, list_unknown_words
from everhold.ask.language_model.quoting import quote_line, shorten
from everhold.ask.problems import find_closest
from everhold.ask.schema import AskSchema
from everhold.errors import EverholdError, QueryFailed

_MAX_PROBLEM: Final = 300
_MAX_STATEMENT: Final = 2_000
_MAX_NAMES: Final = 6
_MAX_WORDS: Final = 5

_TASK: Final = """
Your answer could not be used. It is quoted here as JSON, with the reason and names that are spelled alike:
{}

Answer with a corrected SELECT statement in a ```sql block, and nothing else.
"""


class FailedStatement(NamedTuple):
    """Why a statement could not be used. `names` are those in it that may be misspelled."""

    problem: str
    names: Sequence[str] = ()


def describe_failure(error: EverholdError, sql: str, schema: AskSchema, *, sends_values: bool) -> FailedStatement:
    """Return why a statement could not be run. A database's message may quote values, and these are hidden.

    The guard only knows the statement and the names of the schema.
    """
    if not isinstance(error, QueryFailed):
        return FailedStatement(str(error), [error.value] if isinstance(error.value, str) else ())
    names = list_unknown_words(error.fact, sql)[:_MAX_WORDS]
    return FailedStatement(error.fact if sends_values else hide_error_values(error.fact, sql, schema), names)


def make_repair_prompt(prompt: str, sql: str, failure: FailedStatement, schema: AskSchema) -> str:
    """Return the prompt of a question with the statement that failed, why, and names with a similar spelling."""
    similar = dict.fromkeys(name for word in failure.names for name in find_closest(schema, word))
    quoted = quote_line(
        {
            "statement": shorten(sql, _MAX_STATEMENT),
            "reason": shorten(failure.problem, _MAX_PROBLEM),
            "similar_names": list(similar)[:_MAX_NAMES],
        }
    )
    return prompt + _TASK.format(quoted)
