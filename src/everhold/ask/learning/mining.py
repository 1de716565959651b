"""Find candidates for lessons: parts of a confirmed statement that the rules did not find in its question."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

import sqlglot
from sqlglot import exp

from everhold.ask.frame import Expression, Predicate
from everhold.ask.frame_parts import list_columns, list_tables
from everhold.ask.language.cues import FILLERS, match_cue
from everhold.ask.language.tokens import Token, fold_text, tokenize
from everhold.ask.learning.formulas import find_formulas, is_plain
from everhold.ask.learning.patterns import LearnedPattern
from everhold.ask.learning.templates import find_compared_column, list_literals, resolve_column
from everhold.ask.lessons import TaughtCondition, TaughtJoin, TaughtMetric, TaughtName, split_stems
from everhold.ask.reading import QuestionReading
from everhold.ask.schema import AskSchema, ColumnRef

_MAX_PHRASE_WORDS = 3
_MAX_CANDIDATES = 16
_MAX_METRICS = 6
_OPERATORS = {exp.EQ: "=", exp.NEQ: "!=", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}

Lesson = TaughtName | TaughtCondition | TaughtJoin | TaughtMetric


@dataclass(frozen=True)
class _UsedElements:
    """The tables, the columns and the conditions on constants of a statement."""

    tables: tuple[str, ...]
    columns: tuple[ColumnRef, ...]
    conditions: tuple[Predicate, ...]


def list_joins(schema: AskSchema, sql: str, dialect: str) -> list[tuple[ColumnRef, ColumnRef]]:
    """Return the pairs of columns by which a statement joins different tables, including joins by IN and subqueries."""
    tree = sqlglot.parse_one(sql, read=dialect)
    pairs = []
    for node in tree.find_all(exp.EQ, exp.In):
        sides = [node.this, node.args.get("query") or node.args.get("expression")]
        refs = [ref for side in sides if (ref := _find_joined(schema, side)) is not None]
        if len(refs) == 2 and refs[0].table != refs[1].table:
            pairs.append((min(refs), max(refs)))
    return list(dict.fromkeys(pairs))


def _find_joined(schema: AskSchema, side: exp.Expr | None) -> ColumnRef | None:
    """Return the column on one side of a comparison, or the only column that a subquery on this side selects."""
    if isinstance(side, exp.Subquery):
        side = side.this
    if isinstance(side, exp.Select):
        side = side.expressions[0] if len(side.expressions) == 1 else None
    return resolve_column(schema, side) if isinstance(side, exp.Column) else None


def mine_lessons(schema: AskSchema, pattern: LearnedPattern, reading: QuestionReading | None) -> list[Lesson]:
    """Return candidate lessons with which the rules might read a question as its confirmed statement.

    Each unexplained phrase is paired with each part of the statement that the reading does not use. The replay gate
    decides later which candidates are right.
    """
    used = _list_used(schema, pattern)
    known_columns = set(list_columns(reading.frame)) if reading and reading.frame else set()
    known_tables = set(list_tables(reading.frame)) if reading and reading.frame else set()
    phrases = list(_list_phrases(pattern.question, reading))
    columns = [column for column in used.columns if column not in known_columns]
    tables = [table for table in used.tables if table not in known_tables]
    # Longer phrases come first for conditions: "major rivers" and "major cities" have different conditions.
    condition_pairs = [
        pair for pair in product(reversed(phrases), used.conditions) if _may_mean(pattern.question, *pair)
    ]
    conditions = (TaughtCondition("", phrase, item) for phrase, item in condition_pairs if not _is_value(item))
    names = (TaughtName("", phrase, ref.table, ref.column) for phrase, ref in product(phrases, columns))
    entities = (TaughtName("", phrase, table) for phrase, table in product(phrases, tables))
    values = (
        TaughtName("", phrase, item.left.column.table, item.left.column.column, str(item.values[0]))
        for phrase, item in condition_pairs
        if _is_value(item) and item.left.column is not None
    )
    metrics = _list_metrics(schema, pattern)
    return [
        *islice(conditions, _MAX_CANDIDATES),
        *islice(values, _MAX_CANDIDATES),
        *islice((metric for metric in metrics if not is_plain(metric.formula)), _MAX_METRICS),
        *islice(names, _MAX_CANDIDATES),
        *islice(entities, _MAX_CANDIDATES),
        # Plain formulas come last, because for the total of a column an alias may suffice.
        *islice((metric for metric in metrics if is_plain(metric.formula)), _MAX_METRICS),
    ]


def _list_metrics(schema: AskSchema, pattern: LearnedPattern) -> list[TaughtMetric]:
    """Return the formulas of the statement, each paired with phrases of the question that may name it.

    Explained words are tried too, because the rules often take the name of a metric for a column with a similar name.
    At least one word of a phrase must not be in a name of the schema: "states border" may be in other questions too.
    Long phrases come before short ones, and phrases without the name of a table or column before phrases with one.
    """
    formulas = list(find_formulas(schema, pattern.template))
    names = {words for table in schema.tables for words in (table.words, table.core)}
    names.update(words for column in schema.columns() for words in (column.words, column.core))
    vocabulary = {word for words in names for word in words}
    phrases = list(_list_free_phrases(pattern)) if formulas else []
    stems = {phrase: tuple(split_stems(phrase)) for phrase in phrases}
    has_name = {phrase: any((word,) in names for word in stems[phrase]) for phrase in phrases}
    ranked = sorted(phrases, key=lambda phrase: (has_name[phrase], -len(stems[phrase])))
    chosen = [phrase for phrase in dict.fromkeys(ranked) if not vocabulary.issuperset(stems[phrase])]
    return [TaughtMetric("", phrase, table, formula) for (table, formula), phrase in product(formulas, chosen)]


def _list_free_phrases(pattern: LearnedPattern) -> Iterator[str]:
    """Yield sequences of words of a question that are not values, numbers, periods or cues."""
    tokens = tokenize(pattern.question)
    slots = {index for slot in pattern.masked.slots for index in range(slot.start, slot.end)}
    is_free = [index not in slots and _is_free(token, None) for index, token in enumerate(tokens)]
    yield from _join_free_words(tokens, is_free)


def _is_value(condition: Predicate) -> bool:
    return condition.operator == "=" and isinstance(condition.values[0], str)


def _may_mean(question: str, phrase: str, condition: Predicate) -> bool:
    """Return whether a phrase may mean a constant.

    A constant that is in the question is meant by its own words only.
    """
    text = fold_text(str(condition.values[0]))
    return f" {text} " not in f" {fold_text(question)} " or text == fold_text(phrase)


def _list_used(schema: AskSchema, pattern: LearnedPattern) -> _UsedElements:
    tree = sqlglot.parse_one(pattern.template.sql, read=pattern.template.dialect)
    columns = [ref for column in tree.find_all(exp.Column) if (ref := resolve_column(schema, column)) is not None]
    names = {table.name.lower(): table.name for table in schema.tables}
    tables = [names[table.name.lower()] for table in tree.find_all(exp.Table) if table.name.lower() in names]
    filled = {use.place for use in pattern.template.uses}
    conditions = [
        predicate
        for index, node in enumerate(list_literals(tree))
        if index not in filled and (predicate := _read_condition(schema, node)) is not None
    ]
    return _UsedElements(tuple(dict.fromkeys(tables)), tuple(dict.fromkeys(columns)), tuple(dict.fromkeys(conditions)))


def _read_condition(schema: AskSchema, node: exp.Literal) -> Predicate | None:
    """Return the comparison of a column with a constant that contains a literal; None if there is none."""
    parent, column = node.parent, find_compared_column(schema, node)
    operator = _OPERATORS.get(type(parent)) if isinstance(parent, exp.Binary) else None
    if operator is None or column is None or parent is None:
        return None
    if parent.this is node:
        operator = _MIRRORED.get(operator, operator)
    value = node.name if node.is_string else float(node.name) if "." in node.name else int(node.name)
    return Predicate(Expression(column), operator, (value,))


def _list_phrases(question: str, reading: QuestionReading | None) -> Iterator[str]:
    """Yield sequences of unexplained words, single words first, because they occur in more other questions."""
    tokens = tokenize(question)
    unexplained = None if reading is None else {text.lower() for text in (*reading.unexplained, *reading.unused)}
    yield from _join_free_words(tokens, [_is_free(token, unexplained) for token in tokens])


def _join_free_words(tokens: Sequence[Token], is_free: Sequence[bool]) -> Iterator[str]:
    """Yield the sequences of free words, single words first. `is_free` says for each token whether it is free."""
    for length in range(1, _MAX_PHRASE_WORDS + 1):
        for start in range(len(tokens) - length + 1):
            if all(is_free[start : start + length]):
                yield " ".join(token.lower for token in tokens[start : start + length])


def _is_free(token: Token, unexplained: set[str] | None) -> bool:
    """Return whether a word is in `unexplained`, or without that set, whether it is neither a filler nor a cue."""
    if token.kind != "word" or not token.lower.isalpha():
        return False
    if unexplained is not None:
        return token.text.lower() in unexplained
    return token.lower not in FILLERS and match_cue([token.lower]) is None
