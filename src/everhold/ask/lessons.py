"""Lessons for a reader of questions: names of tables, columns and values, metrics, named conditions, and joins."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from everhold.ask.formulas import Formula
from everhold.ask.frame import Predicate
from everhold.ask.language.stems import stem
from everhold.ask.language.tokens import Token, split_words
from everhold.ask.linking.mention import COLUMN, TABLE, VALUE, Mention
from everhold.ask.schema import AskColumn, AskSchema, ColumnKind, ColumnRef, ForeignKey

LEARNED = "learned"  # the value of `Mention.why` for learned names
_TAUGHT_SCORE = 1.05  # a little more than a whole name, because a user taught it
_PREFERENCE = 0.8  # each confirmed use multiplies the cost of a join by this
_MAX_USES = 3


@dataclass(frozen=True)
class TaughtName:
    """A phrase that means a table, a column, or with `value` a value of the column."""

    lesson_id: str
    phrase: str
    table: str
    column: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class TaughtCondition:
    """A phrase that means a condition: "active" customers may be customers with an order this year."""

    lesson_id: str
    phrase: str
    predicate: Predicate

    @property
    def table(self) -> str:
        """The table whose rows the condition is about."""
        return self.predicate.left.column.table if self.predicate.left.column is not None else ""


@dataclass(frozen=True)
class TaughtMetric:
    """A phrase that means a computation: "turnover" is the sum of price * quantity.

    `table` is the table whose rows are aggregated. Each of them has at most one row in the other tables of the formula.
    """

    lesson_id: str
    phrase: str
    table: str
    formula: Formula

    @property
    def ref(self) -> ColumnRef:
        """The reference by which frames name the metric, like that of a column."""
        return ColumnRef(self.table, self.phrase)

    def make_column(self) -> AskColumn:
        """Return the metric as a measure of its table."""
        words = tuple(split_stems(self.phrase))
        kind = ColumnKind.MEASURE
        return AskColumn(
            self.table, self.phrase, kind, words, words, is_numeric=True, label=self.phrase, formula=self.formula
        )


@dataclass(frozen=True)
class TaughtJoin:
    """Columns by which confirmed statements join two tables, and the number of these statements."""

    lesson_id: str
    left: ColumnRef
    right: ColumnRef
    uses: int = 1


@dataclass(frozen=True)
class Lessons:
    """All lessons of a reader."""

    names: tuple[TaughtName, ...] = ()
    conditions: tuple[TaughtCondition, ...] = ()
    joins: tuple[TaughtJoin, ...] = ()
    metrics: tuple[TaughtMetric, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.names or self.conditions or self.joins or self.metrics)

    def drop(self, lesson_ids: Collection[str]) -> "Lessons":
        """Return the lessons without those with these ids."""
        return Lessons(
            tuple(name for name in self.names if name.lesson_id not in lesson_ids),
            tuple(condition for condition in self.conditions if condition.lesson_id not in lesson_ids),
            tuple(join for join in self.joins if join.lesson_id not in lesson_ids),
            tuple(metric for metric in self.metrics if metric.lesson_id not in lesson_ids),
        )

    def choose_known(self, schema: AskSchema) -> "Lessons":
        """Return the lessons whose tables and columns are in a schema."""
        tables = {table.name for table in schema.tables}
        columns = {column.ref for column in schema.columns()}
        return Lessons(
            tuple(
                name
                for name in self.names
                if (name.table in tables if name.column is None else ColumnRef(name.table, name.column) in columns)
            ),
            tuple(condition for condition in self.conditions if condition.predicate.left.column in columns),
            tuple(join for join in self.joins if {join.left, join.right} <= columns),
            tuple(
                metric
                for metric in self.metrics
                if metric.table in tables and set(metric.formula.columns) <= columns and metric.ref not in columns
            ),
        )

    def find_names(self, tokens: Sequence[Token]) -> Iterator[Mention]:
        """Yield a mention for each taught name and metric that occurs in a question."""
        for name in self.names:
            column = ColumnRef(name.table, name.column) if name.column is not None else None
            kind = TABLE if column is None else COLUMN if name.value is None else VALUE
            table = name.table if column is None else None
            for start, end in _find_phrase(name.phrase, tokens):
                weight = end - start
                yield Mention(
                    start, end, kind, _TAUGHT_SCORE, weight, table, column, name.value, why=LEARNED,
                    lesson_id=name.lesson_id,
                )  # fmt: skip
        for metric in self.metrics:
            for start, end in _find_phrase(metric.phrase, tokens):
                yield Mention(
                    start, end, COLUMN, _TAUGHT_SCORE, end - start, column=metric.ref, why=LEARNED,
                    lesson_id=metric.lesson_id,
                )  # fmt: skip

    def take_conditions(self, tokens: Sequence[Token]) -> tuple[Sequence[Token], list[TaughtCondition]]:
        """Return a question without the phrases of taught conditions, and the conditions.

        A phrase may have several meanings, one for each table.
        """
        spans = {condition: list(_find_phrase(condition.phrase, tokens)) for condition in self.conditions}
        taken: set[int] = set()
        for condition_spans in spans.values():
            taken.update(*(range(start, end) for start, end in condition_spans))
        remaining = [token for index, token in enumerate(tokens) if index not in taken] if taken else tokens
        return remaining, [condition for condition, condition_spans in spans.items() if condition_spans]

    def extend(self, schema: AskSchema) -> AskSchema:
        """Return the schema with the taught metrics, and with taught joins as keys. More uses make a join cheaper."""
        if not self.joins and not self.metrics:
            return schema
        keys = list(schema.foreign_keys)
        for join in self.joins:
            ends = {join.left, join.right}
            positions = [index for index, key in enumerate(keys) if {key.ref, key.to_ref} == ends]
            preference = _PREFERENCE ** min(join.uses, _MAX_USES)
            for position in positions:
                keys[position] = replace(keys[position], preference=preference)
            if not positions:
                keys.append(_make_key(schema, join, preference))
        return AskSchema(schema.tables, tuple(keys), tuple(metric.make_column() for metric in self.metrics))


def _make_key(schema: AskSchema, join: TaughtJoin, preference: float) -> ForeignKey:
    """Return a join as a foreign key. If only one of its columns is unique, the other one refers to it."""
    left, right = join.left, join.right
    if schema.column(left).is_unique and not schema.column(right).is_unique:
        left, right = right, left
    return ForeignKey(left.table, left.column, right.table, right.column, preference=preference)


def _find_phrase(phrase: str, tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each occurrence of a phrase in a question. The endings of words may differ."""
    stems = split_stems(phrase)
    for start in range(len(tokens) - len(stems) + 1):
        span = tokens[start : start + len(stems)]
        if all(token.kind == "word" for token in span) and [token.stem for token in span] == stems:
            yield start, start + len(stems)


def split_stems(phrase: str) -> list[str]:
    """Return the stems of the words of a phrase."""
    return [stem(word) for word in split_words(phrase)]


def contains_phrase(question: Sequence[Token], phrase: str) -> bool:
    """Return whether a phrase occurs in a question."""
    return next(_find_phrase(phrase, question), None) is not None
