"""What a reader of questions was taught: names for tables, columns and values, metrics, named conditions, and joins."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from everhold.ask.formulas import Formula
from everhold.ask.frame import Predicate
from everhold.ask.language.stems import stem
from everhold.ask.language.tokens import Token, split_words
from everhold.ask.linking.mention import COLUMN, TABLE, VALUE, Mention
from everhold.ask.schema import AskColumn, AskSchema, ColumnKind, ColumnRef, ForeignKey

LEARNED = "learned"  # how a name was recognised
_TAUGHT_SCORE = 1.05  # a little more than a whole name: the user said so
_PREFERENCE = 0.8  # what each confirmed use leaves of the cost of a join
_MOST_USES = 3


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
    """A phrase that means a condition: "active" customers are those with an order this year."""

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

    `table` is the table whose rows are computed with; each row has at most one row in the other tables of the formula.
    """

    lesson_id: str
    phrase: str
    table: str
    formula: Formula

    @property
    def ref(self) -> ColumnRef:
        """The address by which frames name the metric."""
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
    """Columns by which confirmed statements join two tables, and how often they did."""

    lesson_id: str
    left: ColumnRef
    right: ColumnRef
    uses: int = 1


@dataclass(frozen=True)
class Lessons:
    """All that a reader was taught."""

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
        """Return the lessons about tables and columns that a schema has."""
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
        """Yield a mention for each taught name and metric that stands in a question."""
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
        taken = {place for listed in spans.values() for start, end in listed for place in range(start, end)}
        kept = [token for place, token in enumerate(tokens) if place not in taken] if taken else tokens
        return kept, [condition for condition, listed in spans.items() if listed]

    def extend(self, schema: AskSchema) -> AskSchema:
        """Return a schema with the taught metrics, in which taught joins are keys, cheaper the more they were used."""
        if not self.joins and not self.metrics:
            return schema
        keys = list(schema.foreign_keys)
        for join in self.joins:
            ends = {join.left, join.right}
            known = [place for place, key in enumerate(keys) if {key.ref, key.to_ref} == ends]
            preference = _PREFERENCE ** min(join.uses, _MOST_USES)
            for place in known:
                keys[place] = replace(keys[place], preference=preference)
            if not known:
                keys.append(_make_key(schema, join, preference))
        return AskSchema(schema.tables, tuple(keys), tuple(metric.make_column() for metric in self.metrics))


def _make_key(schema: AskSchema, join: TaughtJoin, preference: float) -> ForeignKey:
    """Return the key of a join, from the side that repeats values to the side that does not."""
    left, right = join.left, join.right
    if schema.column(left).is_unique and not schema.column(right).is_unique:
        left, right = right, left
    return ForeignKey(left.table, left.column, right.table, right.column, preference=preference)


def _find_phrase(phrase: str, tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the places in a question at which a phrase stands, whatever its endings."""
    stems = split_stems(phrase)
    for start in range(len(tokens) - len(stems) + 1):
        span = tokens[start : start + len(stems)]
        if all(token.kind == "word" for token in span) and [token.stem for token in span] == stems:
            yield start, start + len(stems)


def split_stems(phrase: str) -> list[str]:
    """Return the stems of the words of a phrase."""
    return [stem(word) for word in split_words(phrase)]


def contains_phrase(question: Sequence[Token], phrase: str) -> bool:
    """Say whether a phrase stands in a question."""
    return next(_find_phrase(phrase, question), None) is not None
