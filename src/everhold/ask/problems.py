"""Find the words of a question that are not understood, so that they are reported instead of guessed."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from everhold.ask.frame import AnyPredicate, Predicate, QueryFrame
from everhold.ask.language.cues import FILLERS, match_cue
from everhold.ask.language.stems import stem
from everhold.ask.language.tokens import split_words, tokenize
from everhold.ask.outcome import LIMITS, UNKNOWN, NotUnderstood
from everhold.ask.reading import QuestionReading, Readings
from everhold.ask.schema import AskSchema
from everhold.ask.values import ValueIndex

_MAX_CLOSEST = 3
_GRAINS = frozenset({"year", "quarter", "month", "week", "day"})
_MIN_LIKENESS = 0.7
_UNCONNECTED = "is known, but no key connects it with the rest of the question"
_AMBIGUOUS = "is not the whole name of a column"
# Nouns that say how to show a result. They need not name anything in the data.
_DISPLAY_NOUN_LIST = """
bar breakdown chart charts comparison development diagram distribution evolution graph histogram line list overview pie
plot ranking report spread summary table trend trends
"""
_DISPLAY_NOUNS = frozenset(_DISPLAY_NOUN_LIST.split())


def find_problems(schema: AskSchema, values: ValueIndex, question: str, readings: Readings) -> list[NotUnderstood]:
    """Return the reasons why a question cannot be answered; an empty list if its best reading may be run."""
    best = readings.best
    if best is None and readings.unconnected:
        return [_describe_gap(readings.unconnected)]
    if best is None:
        return [*_list_unknown(schema, list_content_words(question))] or [_describe_nothing(schema)]
    if best.frame is None:
        return [] if best.confidence >= LIMITS.hopeless else [_describe_doubt(best)]
    heads = [word for word in best.missing_heads if word.lower() not in _DISPLAY_NOUNS]
    problems = [
        *_list_unlinked_quotes(schema, values, best),
        *_list_unused_names(schema, values, best),
        *_list_unknown(schema, [*heads, *_list_unreachable(schema, best, best.frame.entity)], best.frame.entity),
        *_list_ignored(best),
    ]
    if problems or best.confidence >= LIMITS.hopeless:
        return problems
    return [*_list_unknown(schema, best.unexplained, best.frame.entity)] or [_describe_doubt(best)]


def _list_ignored(best: QuestionReading) -> Iterator[NotUnderstood]:
    if best.ignored:
        reason = f"was not understood; without it, the question is read as {best.restatement!r}"
        yield NotUnderstood(" … ".join(dict.fromkeys(best.ignored)), reason)


def list_content_words(question: str) -> list[str]:
    """Return the words of a question that should name something in the data."""
    words = [token for token in tokenize(question) if token.kind in ("word", "quoted")]
    grammar_words = FILLERS | _GRAINS
    return [word.text for word in words if word.lower not in grammar_words and match_cue([word.lower]) is None]


def _list_unknown(schema: AskSchema, words: Iterable[str], entity: str | None = None) -> Iterator[NotUnderstood]:
    for word in dict.fromkeys(words):
        owners = find_owners(schema, word)
        reachable = schema.measure_distances(entity) if entity else owners
        if not owners:
            yield NotUnderstood(word, UNKNOWN, find_closest(schema, word))
        elif reachable.keys().isdisjoint(owners):
            yield NotUnderstood(word, _UNCONNECTED)
        else:
            names = [name for owner_names in owners.values() for name in owner_names]
            yield NotUnderstood(word, _AMBIGUOUS, tuple(names[:_MAX_CLOSEST]))


def _list_unreachable(schema: AskSchema, best: QuestionReading, entity: str) -> Iterator[str]:
    """Yield unexplained words that name tables or columns which no key connects with the reading's tables."""
    reachable = schema.measure_distances(entity)
    for word in best.unexplained:
        owners = find_owners(schema, word)
        if owners and reachable.keys().isdisjoint(owners):
            yield word


def find_owners(schema: AskSchema, word: str) -> dict[str, list[str]]:
    """Return the tables and columns whose name contains a word, by table."""
    part = stem(word.lower())
    owners: dict[str, list[str]] = {table.name: [table.name] for table in schema.tables if part in table.words}
    for column in schema.columns():
        if part in column.words:
            owners.setdefault(column.table, []).append(f"{column.table}.{column.name}")
    return owners


def find_closest(schema: AskSchema, word: str) -> tuple[str, ...]:
    """Return names of tables and columns that are spelled like a word."""
    names = {table.name.lower(): table.name for table in schema.tables}
    for column in schema.columns():
        names.setdefault(column.name.lower(), f"{column.table}.{column.name}")
        for part in column.name.lower().split("_"):
            names.setdefault(part, f"{column.table}.{column.name}")
    close = get_close_matches(word.lower(), names, _MAX_CLOSEST, _MIN_LIKENESS)
    return tuple(dict.fromkeys(names[name] for name in close))


def _list_unlinked_quotes(schema: AskSchema, values: ValueIndex, best: QuestionReading) -> Iterator[NotUnderstood]:
    """Yield quoted texts that are in no column, unless the column is not indexed or is searched for a pattern."""
    for text in best.unlinked_quotes:
        if text.replace(".", "").isdigit():
            continue  # numbers are not indexed
        predicates = [item for item in _list_predicates(best.frame) if text in map(str, item.values)]
        columns = [item.left.column for item in predicates if item.left.column is not None]
        patterns = [item.values[0] for item in _list_predicates(best.frame) if item.operator == "like"]
        if any(text in str(pattern) for pattern in patterns) or any(
            not schema.column(column).is_indexed for column in columns
        ):
            continue
        where = f"{columns[0].table}.{columns[0].column}" if columns else ""
        reason = f"is not a value of {where}" if where else "is not a value here"
        similar = [str(match.value.raw) for match in values.find_similar(text.lower().split())]
        yield NotUnderstood(text, reason, tuple(dict.fromkeys(similar))[:_MAX_CLOSEST])


def _list_unused_names(schema: AskSchema, values: ValueIndex, best: QuestionReading) -> Iterator[NotUnderstood]:
    """Yield names such as "Lisbon" that no condition uses, so that the reading would answer a different question."""
    used = {
        str(value)
        for predicate in _list_predicates(best.frame)
        if predicate.left.column is not None and not schema.column(predicate.left.column).is_numeric
        for value in predicate.values
    }
    for name in best.unlinked_names:
        if name not in used:
            matches = values.find_exact(split_words(name))
            columns = dict.fromkeys(f"{match.value.ref.table}.{match.value.ref.column}" for match in matches)
            reason = f"is a value of {', '.join(columns)}, which no key connects with the rest" if columns else UNKNOWN
            yield NotUnderstood(name, reason)


def _list_predicates(frame: QueryFrame | None) -> Iterator[Predicate]:
    """Yield the predicates of a frame and of the frames inside it."""
    if frame is None:
        return
    for condition in frame.where:
        if isinstance(condition, Predicate):
            yield condition
        elif isinstance(condition, AnyPredicate):
            yield from condition.choices
        if not isinstance(condition, AnyPredicate) and condition.frame is not None:
            yield from _list_predicates(condition.frame)
    if frame.combined is not None:
        yield from _list_predicates(frame.combined[1])


def _describe_gap(tables: Iterable[str]) -> NotUnderstood:
    return NotUnderstood("", f"no key connects the tables {' and '.join(tables)}")


def _describe_nothing(schema: AskSchema) -> NotUnderstood:
    names = [table.name for table in schema.tables[:_MAX_CLOSEST]]
    return NotUnderstood("", f"the question names no table, column or value; there is data about {', '.join(names)}")


def _describe_doubt(best: QuestionReading) -> NotUnderstood:
    return NotUnderstood(
        "", f"the likeliest reading, {best.restatement!r}, is right in {best.confidence:.0%} of such cases"
    )
