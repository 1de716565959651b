"""Find all possible mentions in the tokens of a question, including overlapping ones."""

from collections.abc import Iterator, Sequence
from datetime import date

from everhold.ask.grouping import find_amount, is_money
from everhold.ask.language.cues import FILLERS, match_cue
from everhold.ask.language.lexicon import MONEY_TABLES, MONEY_VERBS
from everhold.ask.language.numbers import read_number
from everhold.ask.language.periods import read_period
from everhold.ask.language.stems import stem
from everhold.ask.language.tokens import Token, split_words
from everhold.ask.linking.mention import COLUMN, NUMBER, PERIOD, TABLE, VALUE, VERB, Mention
from everhold.ask.linking.names import NameIndex, NameMatch
from everhold.ask.schema import AskColumn, AskSchema, AskTable, ColumnKind, ColumnRef
from everhold.ask.values import ValueIndex, ValueMatch

_ID, _NUMBER, _NAME, _SALARY = map(stem, ("id", "number", "name", "salary"))
_CODES = frozenset(map(stem, ("code", "type")))  # words that refer to a code itself
_MAX_NAME_TOKENS = 6  # tokens, with words such as "of" between
_MAX_VALUE_TOKENS = 9
_MAX_PERIOD_TOKENS = 6
_MAX_PER_SPAN = 8
_INNER_WORDS = frozenset({"of", "the", "a", "an", "s"})
_UNKNOWN_NAME = 0.4  # capitalised words that are in no column
_LOWER_CASE = 0.75  # a single word in lower case that is a value of some column
_CATEGORY = 0.87  # a single word in lower case that is a value of a column with few values: "approved"
_GRAMMAR_WORD = 1.2  # a column named like a word of the grammar, such as "average"
_MONEY, _OTHER_MONEY = 0.75, 0.45  # "revenue" means the amounts of invoices more likely than those of other tables
# Penalties for columns that likely mean a table.
_REFERENCE = 0.6  # a column of codes or numbers, whose name means the rows that they refer to
_FOREIGN_KEY = 0.12  # a column that refers to a table of the same name
_TABLE_NAME = 0.06  # a column named like its own table


def find_mentions(
    schema: AskSchema, names: NameIndex, values: ValueIndex, tokens: Sequence[Token], today: date
) -> list[Mention]:
    """Return all possible mentions of all spans of tokens."""
    mentions = [*_find_numbers(tokens), *_find_periods(tokens, today), *_find_values(schema, names, values, tokens)]
    for start in range(len(tokens)):
        for end in range(start + 1, min(start + _MAX_NAME_TOKENS, len(tokens)) + 1):
            span = tokens[start:end]
            if _can_be_name(span):
                mentions.extend(_find_names(schema, names, span, start))
    return mentions


def _can_be_name(span: Sequence[Token]) -> bool:
    has_inner_edge = span[0].lower in _INNER_WORDS or span[-1].lower in _INNER_WORDS
    return not has_inner_edge and all(token.kind == "word" for token in span)


def _find_names(schema: AskSchema, names: NameIndex, span: Sequence[Token], start: int) -> Iterator[Mention]:
    """Yield mentions for the tables and columns whose names a span of tokens matches.

    `start` is the position of the span.
    """
    stems = [token.stem for token in span if token.lower not in _INNER_WORDS]
    written = [token.lower for token in span if token.lower not in _INNER_WORDS]
    if len(span) == 2 and names.has_word(joined := stem("".join(token.lower for token in span))):
        stems, written = [joined], []  # "high schooler" for a table called Highschooler
    end, weight = start + len(span), sum(token.lower not in _INNER_WORDS for token in span)
    has_grammar = any(_is_grammar(token) for token in span)
    tables = names.match_tables(stems, written)[:_MAX_PER_SPAN]
    for match in tables if not has_grammar else [match for match in tables if match.why == "name"]:
        yield Mention(start, end, TABLE, match.score, weight, table=match.table, why=match.why)
    if len(span) == 1:
        yield from _find_money(schema, names, span[0], start)
    for match in (*names.match_initials(stems), *names.match_columns(stems, written)[:_MAX_PER_SPAN]):
        if match.column and (not has_grammar or match.why == "name") and not _is_count(span, match.column):
            score = (
                match.score
                - _compute_penalty(schema, match, stems)
                - _GRAMMAR_WORD * (len(span) == 1 and _is_cue(span[0]))
            )
            if score > 0 or has_grammar:
                yield Mention(start, end, COLUMN, score, weight, column=match.column.ref, why=match.why)


def _find_money(schema: AskSchema, names: NameIndex, token: Token, start: int) -> Iterator[Mention]:
    """Yield the amounts that "revenue" or "spent" may mean if no column has that name."""
    tables = MONEY_TABLES.get(token.stem)
    if tables is None or names.has_word(token.stem):
        return
    is_cost = token.stem in MONEY_VERBS
    for table in schema.tables:
        amount = find_amount(table)
        can_be_meant = is_cost or len(schema.tables) == 1 or _is_event(schema, table)
        if can_be_meant and amount and is_money(amount) and _SALARY not in amount.words:
            ranks = [index for index, word in enumerate(tables) if word in table.words]
            score = _MONEY - 0.03 * ranks[0] if ranks else _OTHER_MONEY
            if any(word.startswith(token.stem) for word in table.words):
                score = 1.0  # "pay" and "payments"
            why = VERB if is_cost else "synonym"
            yield Mention(start, start + 1, COLUMN, score, 1, column=amount.ref, why=why)


def _is_event(schema: AskSchema, table: AskTable) -> bool:
    """Return whether the rows of a table are events such as orders, that is, whether it refers to another table."""
    return any(key.table == table.name for key in schema.keys_at(table.name))


def _is_count(span: Sequence[Token], column: AskColumn) -> bool:
    """Return whether a span such as "number of flights" is a count, because the column's name has no "number"."""
    return span[0].stem == _NUMBER and len(span) > 1 and span[1].lower == "of" and column.words[0] != _NUMBER


def _is_grammar(token: Token) -> bool:
    return token.lower in FILLERS or _is_cue(token)


def _is_cue(token: Token) -> bool:
    """Return whether a word is a cue, except names of periods such as "year", because columns often have such names."""
    matched = match_cue([token.lower])
    return matched is not None and matched[0].code != "M"


def _compute_penalty(schema: AskSchema, match: NameMatch, stems: Sequence[str]) -> float:
    """Return the penalty for a column that likely means a table: a foreign key, or a column named like its table."""
    assert match.column
    table = schema.table(match.table)
    key = schema.foreign_key(match.column.ref)
    is_foreign = key is not None and match.column.kind is not ColumnKind.CODE
    if key and match.column.kind is ColumnKind.CODE and not _CODES & set(stems) and _is_named(schema, key.to_table):
        return _REFERENCE  # without a word for codes, the rows with these codes are meant
    if key and _ID not in stems and (match.column.is_numeric or match.column.kind is ColumnKind.ID):
        return _REFERENCE
    is_like_table = set(match.column.words) <= set(table.words) and len(table.columns) > 1
    return _FOREIGN_KEY * is_foreign + _TABLE_NAME * is_like_table


def _is_named(schema: AskSchema, name: str) -> bool:
    """Return whether the display column of a table is a name, not a description, which is often too long."""
    table = schema.table(name)
    return table.display != table.key and _NAME in schema.column(table.display_ref).words


def _find_numbers(tokens: Sequence[Token]) -> Iterator[Mention]:
    words = [token.lower for token in tokens]
    for start, token in enumerate(tokens):
        if token.kind in ("number", "word"):
            phrase = read_number(words[start:])
            if phrase:
                end = start + phrase.length
                yield Mention(start, end, NUMBER, 1.0, 1, value=phrase.value, counts_times=phrase.counts_times)


def _find_periods(tokens: Sequence[Token], today: date) -> Iterator[Mention]:
    for start in range(len(tokens)):
        pieces = [token.lower for token in tokens[start : start + _MAX_PERIOD_TOKENS] if token.kind != "mark"]
        phrase = read_period(" ".join(pieces), today)
        if phrase:
            text, end = "", start
            while len(text) < phrase.length and end < len(tokens):
                if tokens[end].kind != "mark":
                    text = f"{text} {tokens[end].lower}".strip()
                end += 1
            yield Mention(start, end, PERIOD, 1.0, end - start, period=phrase.interval)


def _find_values(schema: AskSchema, names: NameIndex, values: ValueIndex, tokens: Sequence[Token]) -> Iterator[Mention]:
    words = [split_words(token.text) for token in tokens]
    for start, token in enumerate(tokens):
        if token.kind == "quoted":
            yield from _find_quoted(values, token, start)
            continue
        is_sentence_start = _begins_sentence(tokens, start)
        for end in range(start + 1, min(start + _MAX_VALUE_TOKENS, len(tokens)) + 1):
            span = tokens[start:end]
            if span[-1].kind == "quoted" or span[0].kind == "mark":
                break
            if span[-1].kind != "mark" or span[-1].text == ")":
                span_words = [word for token_words in words[start:end] for word in token_words]
                yield from _find_stored(schema, names, values, span, span_words, start, is_sentence_start)
    yield from _find_unknown_names(names, tokens)


def _begins_sentence(tokens: Sequence[Token], position: int) -> bool:
    """Return whether a sentence begins at a position, which would explain a capital letter."""
    return position == 0 or tokens[position - 1].text in (".", "?", "!", ";", ":")


def _find_quoted(values: ValueIndex, token: Token, start: int) -> Iterator[Mention]:
    yield Mention(start, start + 1, VALUE, 0.9, 2, value=token.text, why="quoted")
    for match in values.find_exact(split_words(token.text))[:_MAX_PER_SPAN]:
        yield _make_value(start, start + 1, match, 1.1, 2)


def _find_stored(
    schema: AskSchema, names: NameIndex, values: ValueIndex, span: Sequence[Token], words: Sequence[str], start: int,
    is_sentence_start: bool,
) -> Iterator[Mention]:  # fmt: skip
    """Yield mentions for the stored values that a span of tokens names, exactly or nearly.

    `start` is the position of the span, and `is_sentence_start` says whether it begins a sentence.
    """
    if not words or _is_common(span, is_sentence_start):
        return
    matches = values.find_exact(words)
    if not matches and span[0].is_capitalised and not is_sentence_start:
        is_known = any(names.has_word(token.stem) for token in span) or match_cue([span[0].lower])
        matches = [] if is_known else values.find_similar(words)
    if not matches:
        return
    is_capitalised = all(token.is_capitalised for token in span if token.lower not in _INNER_WORDS)
    factor = 1.0 if len(words) > 1 or (is_capitalised and not is_sentence_start) else _LOWER_CASE
    columns: set[ColumnRef] = set()
    for match in _drop_references(schema, matches):
        if match.value.ref not in columns and len(columns) < _MAX_PER_SPAN:
            columns.add(match.value.ref)
            is_category = schema.column(match.value.ref).kind is ColumnKind.CATEGORY
            is_stored = match.why == "exact" and is_category and not names.match_tables([span[0].stem])
            match_factor = max(factor, _CATEGORY) if is_stored else factor
            yield _make_value(start, start + len(span), match, match_factor, len(words))


def _drop_references(schema: AskSchema, matches: Sequence[ValueMatch]) -> list[ValueMatch]:
    """Return the matches without foreign keys to another matching column, because the joins choose between them."""
    refs = {match.value.ref for match in matches}
    keys = [(match, schema.foreign_key(match.value.ref)) for match in matches]
    return [match for match, key in keys if key is None or key.to_ref not in refs]


def _is_common(span: Sequence[Token], is_sentence_start: bool) -> bool:
    """Return whether a span is a single word of the grammar, which is a value only if it is capitalised."""
    if len(span) > 1:
        return False
    token = span[0]
    is_grammar = token.lower in FILLERS or token.lower in _INNER_WORDS or match_cue([token.lower]) is not None
    return is_grammar and not (token.is_capitalised and not is_sentence_start)


def _make_value(start: int, end: int, match: ValueMatch, factor: float, weight: int) -> Mention:
    raw = match.value.raw
    # Spaces around a stored value do not belong to its meaning.
    value = raw.strip() if isinstance(raw, str) else raw if isinstance(raw, int | float) else str(raw)
    score = factor * match.similarity
    return Mention(start, end, VALUE, score, weight, column=match.value.ref, value=value, why=match.why)


def _find_unknown_names(names: NameIndex, tokens: Sequence[Token]) -> Iterator[Mention]:
    """Yield sequences of capitalised words, which may be values that are in no column or were not indexed."""
    start = 1
    while start < len(tokens):
        end = start
        while end < len(tokens) and tokens[end].kind == "word" and tokens[end].is_capitalised:
            end += 1
        if _begins_sentence(tokens, start):
            end = start
        plain = [token for token in tokens[start:end] if not names.has_word(token.stem)]
        if plain:
            text = " ".join(token.text for token in tokens[start:end])
            yield Mention(start, end, VALUE, _UNKNOWN_NAME, end - start, value=text, why="unknown")
        start = max(end, start + 1)
