"""Operations and reads as SQL statements with bound values."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isnan
from typing import Any, NamedTuple

from everhold.model.base import Row
from everhold.schema.catalog import CATALOG, TABLES, table_of
from everhold.schema.codec import Codec
from everhold.schema.conditions import list_fields
from everhold.schema.operations import (
    AllOf,
    AnyOf,
    Condition,
    Delete,
    Ensure,
    Hide,
    Increment,
    Not,
    Op,
    Operation,
    Page,
    Patch,
    Put,
    Unhide,
    Where,
)
from everhold.schema.rules import check_changes, check_fields, check_row_rules, descent, rules_about
from everhold.schema.sql import Dialect, listed, quoted
from everhold.schema.table import TENANT, Kind, Reference, Table

_MOST_VALUES = 10_000  # bound one by one; SQLite as it is usually built takes 32,766 in a statement
_MOST_BOUND = 30_000  # in one statement, with some to spare for the rest of it
_COMPARISONS = {Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}
_EXACT_REAL = 2**53
_PUSHED_TYPES: dict[Kind, type | tuple[type, ...]] = {
    Kind.TEXT: str,
    Kind.INTEGER: int,
    Kind.REAL: (float, int),
    Kind.BOOLEAN: bool,
    Kind.TIME: datetime,
    Kind.BYTES: bytes,
}


class Statement(NamedTuple):
    """SQL, its values, and whether it must touch a row: `stale` is what to say if it does not.

    `judge` takes each row that the statement returns and raises the error that must undo the transaction.
    """

    sql: str
    values: Sequence[Any]
    stale: str = ""
    judge: Callable[[Sequence[Any]], None] | None = None


@dataclass(frozen=True)
class Read:
    """A SELECT's conditions, what they bind, and the conditions left for Python to judge."""

    conditions: str
    values: list[Any]
    residual: tuple[Condition, ...]

    @property
    def sql(self) -> str:
        """The SELECT's ending."""
        return f" WHERE {self.conditions}" if self.conditions else ""


class Compiler:
    """Statements for one dialect. Text that depends only on the table is made once."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.codecs: dict[type[Row], Codec[Any]] = {
            entity: Codec(entity, dialect.encoders, dialect.decoders) for entity in CATALOG
        }
        self._inserts = {entity: self._insert(codec) for entity, codec in self.codecs.items()}
        self.selects = {
            entity: f"SELECT {listed(codec.table.names)} FROM {quoted(codec.table.name)}"
            for entity, codec in self.codecs.items()
        }
        self._gets: dict[tuple[type[Row], int, bool], str] = {}

    def codec(self, entity: type[Row]) -> Codec[Any]:
        return self.codecs[entity]

    # writing

    def compile(self, operation: Operation) -> Iterable[Statement]:
        if isinstance(operation, Put):  # by far the most frequent
            return (self._put(operation.row),)
        return self._others(operation)

    def _put(self, row: Row) -> Statement:
        entity = type(row)
        if entity.rules:
            check_row_rules(self.codecs[entity].table, entity.rules, row.__dict__)
        return Statement(self._inserts[entity], self.codecs[entity].encode(row))

    def _others(self, operation: Operation) -> Iterator[Statement]:
        match operation:
            case Ensure(row):
                table = table_of(type(row))
                sql, values, *_ = self._put(row)
                if not table.drawn:  # a drawn key is never taken
                    sql += f" ON CONFLICT ({listed(table.key)}) DO NOTHING"
                yield Statement(sql, values)
            case Patch():
                yield self._patch(operation)
            case Increment():
                yield self._increment(operation)
            case Hide():
                yield from self._hide(operation)
            case Unhide(organization_id, deletion_id):
                yield from self._unhide(organization_id, deletion_id)
            case Delete(entity, key):
                yield Statement(
                    f"DELETE FROM {quoted(table_of(entity).name)} WHERE {self._keyed(table_of(entity))}", key
                )

    def _insert(self, codec: Codec[Any]) -> str:
        marks = ", ".join([self.dialect.placeholder] * len(codec.written))
        return f"INSERT INTO {quoted(codec.table.name)} ({listed(codec.written)}) VALUES ({marks})"

    def _keyed(self, table: Table) -> str:
        return " AND ".join(f"{quoted(name)} = {self.dialect.placeholder}" for name in table.key)

    def _assignments(self, entity: type[Row], changes: dict[str, Any]) -> tuple[list[str], list[Any]]:
        codec = self.codecs[entity]
        check_changes(codec.table, changes)
        parts = [f"{quoted(name)} = {self.dialect.placeholder}" for name in changes]
        return parts, [codec.encode_value(name, value) for name, value in changes.items()]

    def _patch(self, patch: Patch) -> Statement:
        table = table_of(patch.entity)
        parts, values = self._assignments(patch.entity, dict(patch.changes))
        if table.versioned:
            parts.append('"version" = "version" + 1')
        sql = f"UPDATE {quoted(table.name)} SET {', '.join(parts)} WHERE {self._keyed(table)}"
        values += patch.key
        if patch.version is not None:
            sql += f' AND "version" = {self.dialect.placeholder}'
            values.append(patch.version)
        wanted = f" at version {patch.version}" if patch.version is not None else ""
        stale = f"{table.name} {patch.key[-1]!r} is not there{wanted}"
        return self._judged(patch.entity, patch.changes, Statement(sql, values, stale))

    def _judged(self, entity: type[Row], changed: Iterable[str], update: Statement) -> Statement:
        """Let an UPDATE return the changed row's values, so that rules over several fields are judged in Python."""
        if not entity.rules:
            return update
        rules = rules_about(entity, changed)
        if not rules:
            return update
        table = table_of(entity)
        names = tuple(dict.fromkeys(name for rule in rules for name in rule.fields))
        read = self.codecs[entity].reader(names)

        def judge(row: Sequence[Any]) -> None:
            check_row_rules(table, rules, dict(zip(names, read(*row), strict=True)))

        return update._replace(sql=f"{update.sql} RETURNING {listed(names)}", judge=judge)

    def _increment(self, increment: Increment) -> Statement:
        table = table_of(increment.entity)
        parts, values = self._assignments(increment.entity, dict(increment.changes))
        check_fields(table, increment.amounts)
        for name, amount in increment.amounts.items():
            parts.append(f"{quoted(name)} = {quoted(name)} + {self.dialect.placeholder}")
            values.append(amount)
        sql = f"UPDATE {quoted(table.name)} SET {', '.join(parts)} WHERE {self._keyed(table)}"
        changed = (*increment.changes, *increment.amounts)
        return self._judged(increment.entity, changed, Statement(sql, [*values, *increment.key]))

    def _hide(self, hide: Hide) -> Iterator[Statement]:
        root = table_of(hide.entity)
        mark = self.dialect.placeholder
        set_deleted = (
            f'SET "is_deleted" = {self.dialect.true}, "deleted_at" = {mark}, "deletion_id" = {mark}, '
            f'"version" = "version" + 1'
        )
        at = self.codecs[hide.entity].encode_value("deleted_at", hide.at)
        live = f'"is_deleted" = {self.dialect.false}'
        yield Statement(
            f"UPDATE {quoted(root.name)} {set_deleted} WHERE {self._keyed(root)} AND {live}",
            [at, hide.deletion_id, *hide.key],
        )
        organization = hide.key[0]
        for child, reference in descent(root):
            parent = TABLES[reference.target]
            condition, values = self._belonging(child, reference, parent)
            yield Statement(
                f"UPDATE {quoted(child.name)} {set_deleted} WHERE {quoted(TENANT)} = {mark} AND {live} AND {condition}",
                [at, hide.deletion_id, organization, *values, organization, hide.deletion_id],
            )

    def _belonging(self, child: Table, reference: Reference, parent: Table) -> tuple[str, list[Any]]:
        mark = self.dialect.placeholder
        own = TENANT if parent.name != "organizations" else "id"
        kind, values = "", []
        if reference.kind:
            kind, values = f"{quoted(reference.kind[0])} = {mark} AND ", [reference.kind[1]]
        inner = (
            f"SELECT {listed(reference.target_columns)} FROM {quoted(parent.name)} "
            f'WHERE {quoted(own)} = {mark} AND "deletion_id" = {mark}'
        )
        return f"{kind}({listed(reference.columns)}) IN ({inner})", values

    def _unhide(self, organization_id: str, deletion_id: str) -> Iterator[Statement]:
        mark = self.dialect.placeholder
        for table in TABLES.values():
            if table.soft and table.tenant:
                yield Statement(
                    f'UPDATE {quoted(table.name)} SET "is_deleted" = {self.dialect.false}, "deleted_at" = NULL, '
                    f'"deletion_id" = NULL, "version" = "version" + 1 '
                    f'WHERE {quoted(table.tenant)} = {mark} AND "deletion_id" = {mark}',
                    [organization_id, deletion_id],
                )

    # reading

    def get(self, entity: type[Row], organization_id: str, ids: Sequence[str], *, deleted: bool) -> Statement:
        """The rows of these ids."""
        table = self.codecs[entity].table
        text = self._gets.get((entity, len(ids), deleted))
        if text is None:
            tenant = f"{quoted(table.tenant)} = {self.dialect.placeholder} AND " if table.tenant else ""
            live = "" if deleted or not table.soft else f' AND "is_deleted" = {self.dialect.false}'
            text = f"{self.selects[entity]} WHERE {tenant}{self.among(quoted('id'), ids)[0]}{live}"
            self._gets[entity, len(ids), deleted] = text
        bound = [list(ids)] if self.dialect.among else ids
        return Statement(text, [organization_id, *bound] if table.tenant else bound)

    def read(
        self,
        entity: type[Row],
        organization_id: str | None,
        where: Sequence[Condition],
        *,
        deleted: bool = False,
    ) -> Read:
        table = table_of(entity)
        check_fields(table, list_fields(where))
        parts, values, residual = [], [], []
        if table.tenant and organization_id is not None:
            parts.append(f"{quoted(table.tenant)} = {self.dialect.placeholder}")
            values.append(organization_id)
        if table.soft and not deleted:
            parts.append(f'"is_deleted" = {self.dialect.false}')
        for condition in where:
            pushed = self._condition(entity, condition)
            if pushed is None or (not self.dialect.among and len(values) + len(pushed[1]) > _MOST_BOUND):
                residual.append(condition)
            else:
                parts.append(pushed[0])
                values += pushed[1]
        return Read(" AND ".join(parts), values, tuple(residual))

    def _condition(self, entity: type[Row], condition: Condition) -> tuple[str, list[Any]] | None:
        """Return a condition in SQL and what it binds; None if Python must judge any part of it."""
        match condition:
            case Where():
                return self._comparison(entity, condition)
            case AllOf(conditions=parts):
                return self._combination(entity, parts, " AND ")
            case AnyOf(conditions=parts):
                return self._combination(entity, parts, " OR ")
            case Not(condition=part):
                pushed = self._condition(entity, part)
                # SQL compares an absent value to "unknown", which NOT would leave unknown.
                return pushed and (f"NOT COALESCE({pushed[0]}, {self.dialect.false})", pushed[1])

    def _combination(
        self, entity: type[Row], parts: Sequence[Condition], operator: str
    ) -> tuple[str, list[Any]] | None:
        texts: list[str] = []
        values: list[Any] = []
        for part in parts:
            pushed = self._condition(entity, part)
            if pushed is None:
                return None
            texts.append(pushed[0])
            values += pushed[1]
        if not texts:
            return f"(NOT {self.dialect.false})" if operator == " AND " else self.dialect.false, []
        return f"({operator.join(texts)})", values

    def _comparison(self, entity: type[Row], condition: Where) -> tuple[str, list[Any]] | None:
        column = table_of(entity).by_name.get(condition.field)
        if (
            column is None
            or condition.op is Op.CONTAINS
            or not _is_pushed(column.kind, condition)
            or self._overflows(condition)
        ):
            return None
        name, mark = quoted(column.name), self.dialect.placeholder
        encode = self.codecs[entity].encode_value if column.kind is not Kind.REAL else _real
        if condition.op in (Op.EQ, Op.NE):
            if condition.value is None:
                return f"{name} IS {'NOT ' if condition.op is Op.NE else ''}NULL", []
            operator = "=" if condition.op is Op.EQ else self.dialect.differs
            # a flag is spelt out: an index over false rows does not serve a bound value
            is_flag = column.kind is Kind.BOOLEAN
            shown = (self.dialect.true if condition.value else self.dialect.false) if is_flag else mark
            return f"{name} {operator} {shown}", [] if is_flag else [encode(column.name, condition.value)]
        if condition.op is Op.IN:
            return self.among(name, [encode(column.name, value) for value in condition.value])
        if condition.value is None:
            return self.dialect.false, []
        return f"{name} {_COMPARISONS[condition.op]} {mark}", [encode(column.name, condition.value)]

    def _overflows(self, condition: Where) -> bool:
        return condition.op is Op.IN and not self.dialect.among and len(condition.value) > _MOST_VALUES

    def among(self, name: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
        """The condition that a column holds one of these values, and what it binds."""
        present = [value for value in values if value is not None]
        one_by_one = f"IN ({', '.join([self.dialect.placeholder] * len(present))})"
        parts = [f"{name} {self.dialect.among or one_by_one}"] if present else []
        if len(present) < len(values):
            parts.append(f"{name} IS NULL")
        bound = [present] if present and self.dialect.among else present
        return f"({' OR '.join(parts)})" if parts else self.dialect.false, bound

    def ordering(
        self, entity: type[Row], order: str | None, descending: bool, after: Page | None
    ) -> tuple[str, list[Any], str]:
        """The condition that goes on after a page, its values, and the ORDER BY."""
        table = table_of(entity)
        names = list(dict.fromkeys(([order] if order else []) + list(table.key)))
        direction = " DESC" if descending else ""
        ending = " ORDER BY " + ", ".join(quoted(name) + direction for name in names)
        if after is None:
            return "", [], ending
        given = dict(zip(table.key, after.key, strict=True))
        if order:
            given[order] = after.value
        codec = self.codecs[entity]
        values = [codec.encode_value(name, given[name]) for name in names]
        marks = ", ".join([self.dialect.placeholder] * len(names))
        return f"({listed(names)}) {'<' if descending else '>'} ({marks})", values, ending


def _real(_: str, value: Any) -> Any:
    return value if value is None else float(value)


def _is_pushed(kind: Kind, condition: Where) -> bool:
    """Whether databases agree with Python about comparing a column of this kind with what is asked for."""
    wanted = condition.value if condition.op is Op.IN else [condition.value]
    if kind is Kind.TEXT and all(type(value) is str for value in wanted):  # hundreds of ids
        return True
    return kind in _PUSHED_TYPES and all(value is None or _is_of(kind, value) for value in wanted)


def _is_of(kind: Kind, value: Any) -> bool:
    if isinstance(value, datetime) and value.tzinfo is None:
        return False
    if isinstance(value, float) and isnan(value):
        return False
    if kind is Kind.REAL and isinstance(value, int) and abs(value) > _EXACT_REAL:
        return False
    return isinstance(value, _PUSHED_TYPES[kind]) and isinstance(value, bool) == (kind is Kind.BOOLEAN)
