"""Compile operations and queries to SQL statements with bound values."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from math import isnan
from typing import Any, NamedTuple

from everhold.model.base import Row
from everhold.schema.catalog import TABLES, ByEntity, get_table
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
    Require,
    Unhide,
    Where,
)
from everhold.schema.rules import check_changes, check_fields, check_live, check_row_rules, find_rules, list_descendants
from everhold.schema.sql import Dialect, quote, quote_names
from everhold.schema.table import TENANT, Kind, Reference, Table
from everhold.values import Value, value_class

_MAX_IN_VALUES = 10_000  # values of one IN, bound one by one; SQLite usually allows 32,766 in a statement
_MAX_BOUND_VALUES = 30_000  # values of one statement, with some to spare for the rest of it
_COMPARISONS = {Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}
_EXACT_REAL = 2**53  # a float holds every integer up to this one exactly
_PUSHED_TYPES: dict[Kind, type | tuple[type, ...]] = {
    Kind.TEXT: str,
    Kind.INTEGER: int,
    Kind.REAL: (float, int),
    Kind.BOOLEAN: bool,
    Kind.TIME: datetime,
    Kind.BYTES: bytes,
}


class SqlStatement(NamedTuple):
    """A statement and its values.

    If `stale` is not empty, the statement must change a row; otherwise `stale` is the fact of the error. `check` is
    called with each row that the statement returns, and raises the error that rolls back the transaction.
    """

    sql: str
    values: Sequence[Any]
    stale: str = ""
    check: Callable[[Sequence[Any]], None] | None = None


@value_class
class CompiledConditions(Value):
    """The conditions of a query in SQL, the values to bind, and the conditions that must be evaluated in Python."""

    conditions: str
    values: list[Any]
    residual: tuple[Condition, ...]

    @property
    def sql(self) -> str:
        """The WHERE clause; empty without conditions."""
        return f" WHERE {self.conditions}" if self.conditions else ""


def _select(entity: type[Row]) -> str:
    table = get_table(entity)
    return f"SELECT {quote_names(table.names)} FROM {quote(table.name)}"


class Compiler:
    """Compiles statements for one dialect. SQL that depends only on the table is built once."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.codecs: ByEntity[Codec[Any]] = ByEntity(lambda entity: Codec(entity, dialect.encoders, dialect.decoders))
        self._inserts = ByEntity(lambda entity: self._insert(self.codecs[entity]))
        self.selects = ByEntity(_select)
        self._gets: dict[tuple[type[Row], int, bool], str] = {}

    def codec(self, entity: type[Row]) -> Codec[Any]:
        return self.codecs[entity]

    # writing

    def compile(self, operation: Operation) -> Iterable[SqlStatement]:
        """Return the statements of an operation."""
        if isinstance(operation, Put):  # first, because most operations add a row
            return (self._put(operation.row),)
        return self._compile_other(operation)

    def _put(self, row: Row) -> SqlStatement:
        entity = type(row)
        if entity.rules:
            check_row_rules(self.codecs[entity].table, entity.rules, row.__dict__)
        return SqlStatement(self._inserts[entity], self.codecs[entity].encode(row))

    def _compile_other(self, operation: Operation) -> Iterator[SqlStatement]:
        """Yield the statements of an operation other than Put."""
        match operation:
            case Ensure(row):
                table = get_table(type(row))
                sql, values, *_ = self._put(row)
                if not table.generated:  # a generated key is never taken
                    sql += f" ON CONFLICT ({quote_names(table.key)}) DO NOTHING"
                yield SqlStatement(sql, values)
            case Patch():
                yield self._patch(operation)
            case Increment():
                yield self._increment(operation)
            case Hide():
                yield from self._hide(operation)
            case Unhide(organization_id, deletion_id):
                yield from self._unhide(organization_id, deletion_id)
            case Delete(entity, key):
                yield SqlStatement(
                    f"DELETE FROM {quote(get_table(entity).name)} WHERE {self._match_key(get_table(entity))}", key
                )
            case Require(entity, key):
                yield self._require(entity, key)

    def _require(self, entity: type[Row], key: Sequence[Any]) -> SqlStatement:
        table = get_table(entity)
        live_condition = f' AND "is_deleted" = {self.dialect.false}' if table.soft else ""
        return SqlStatement(
            f"SELECT count(*) FROM {quote(table.name)} WHERE {self._match_key(table)}{live_condition}",
            key,
            check=lambda row: check_live(table, tuple(key), row[0] > 0),
        )

    def _insert(self, codec: Codec[Any]) -> str:
        marks = ", ".join([self.dialect.placeholder] * len(codec.written_columns))
        return f"INSERT INTO {quote(codec.table.name)} ({quote_names(codec.written_columns)}) VALUES ({marks})"

    def _match_key(self, table: Table) -> str:
        return " AND ".join(f"{quote(name)} = {self.dialect.placeholder}" for name in table.key)

    def _compile_assignments(self, entity: type[Row], changes: dict[str, Any]) -> tuple[list[str], list[Any]]:
        codec = self.codecs[entity]
        check_changes(codec.table, changes)
        parts = [f"{quote(name)} = {self.dialect.placeholder}" for name in changes]
        return parts, [codec.encode_value(name, value) for name, value in changes.items()]

    def _patch(self, patch: Patch) -> SqlStatement:
        table = get_table(patch.entity)
        parts, values = self._compile_assignments(patch.entity, dict(patch.changes))
        if table.versioned:
            parts.append('"version" = "version" + 1')
        sql = f"UPDATE {quote(table.name)} SET {', '.join(parts)} WHERE {self._match_key(table)}"
        values += patch.key
        if patch.version is not None:
            sql += f' AND "version" = {self.dialect.placeholder}'
            values.append(patch.version)
        version = f" at version {patch.version}" if patch.version is not None else ""
        stale = f"{table.name} {patch.key[-1]!r} does not exist{version}"
        return self._check_rules_after(patch.entity, patch.changes, SqlStatement(sql, values, stale))

    def _check_rules_after(
        self, entity: type[Row], changed_fields: Iterable[str], update: SqlStatement
    ) -> SqlStatement:
        """Let an UPDATE return the changed row's values, so that rules over several fields are checked in Python."""
        if not entity.rules:
            return update
        rules = find_rules(entity, changed_fields)
        if not rules:
            return update
        table = get_table(entity)
        names = tuple(dict.fromkeys(name for rule in rules for name in rule.fields))
        decode = self.codecs[entity].make_decoder(names)

        def check(row: Sequence[Any]) -> None:
            check_row_rules(table, rules, dict(zip(names, decode(*row), strict=True)))

        return update._replace(sql=f"{update.sql} RETURNING {quote_names(names)}", check=check)

    def _increment(self, increment: Increment) -> SqlStatement:
        table = get_table(increment.entity)
        parts, values = self._compile_assignments(increment.entity, dict(increment.changes))
        check_fields(table, increment.amounts)
        for name, amount in increment.amounts.items():
            parts.append(f"{quote(name)} = {quote(name)} + {self.dialect.placeholder}")
            values.append(amount)
        sql = f"UPDATE {quote(table.name)} SET {', '.join(parts)} WHERE {self._match_key(table)}"
        changed_fields = (*increment.changes, *increment.amounts)
        return self._check_rules_after(increment.entity, changed_fields, SqlStatement(sql, [*values, *increment.key]))

    def _hide(self, hide: Hide) -> Iterator[SqlStatement]:
        """Yield the statements of a soft deletion: of the row itself, and then of each table below it."""
        root = get_table(hide.entity)
        mark = self.dialect.placeholder
        set_deleted = (
            f'SET "is_deleted" = {self.dialect.true}, "deleted_at" = {mark}, "deletion_id" = {mark}, '
            f'"version" = "version" + 1'
        )
        at = self.codecs[hide.entity].encode_value("deleted_at", hide.at)
        live = f'"is_deleted" = {self.dialect.false}'
        yield SqlStatement(
            f"UPDATE {quote(root.name)} {set_deleted} WHERE {self._match_key(root)} AND {live}",
            [at, hide.deletion_id, *hide.key],
        )
        organization = hide.key[0]
        for child, reference in list_descendants(root):
            parent = TABLES[reference.target]
            condition, values = self._match_hidden_parents(child, reference, parent)
            yield SqlStatement(
                f"UPDATE {quote(child.name)} {set_deleted} WHERE {quote(TENANT)} = {mark} AND {live} AND {condition}",
                [at, hide.deletion_id, organization, *values, organization, hide.deletion_id],
            )

    def _match_hidden_parents(self, child: Table, reference: Reference, parent: Table) -> tuple[str, list[Any]]:
        mark = self.dialect.placeholder
        tenant = TENANT if parent.name != "organizations" else "id"
        kind, values = "", []
        if reference.kind:
            kind, values = f"{quote(reference.kind[0])} = {mark} AND ", [reference.kind[1]]
        parent_query = (
            f"SELECT {quote_names(reference.target_columns)} FROM {quote(parent.name)} "
            f'WHERE {quote(tenant)} = {mark} AND "deletion_id" = {mark}'
        )
        return f"{kind}({quote_names(reference.columns)}) IN ({parent_query})", values

    def _unhide(self, organization_id: str, deletion_id: str) -> Iterator[SqlStatement]:
        mark = self.dialect.placeholder
        for table in TABLES.values():
            if table.soft and table.tenant:
                yield SqlStatement(
                    f'UPDATE {quote(table.name)} SET "is_deleted" = {self.dialect.false}, "deleted_at" = NULL, '
                    f'"deletion_id" = NULL, "version" = "version" + 1 '
                    f'WHERE {quote(table.tenant)} = {mark} AND "deletion_id" = {mark}',
                    [organization_id, deletion_id],
                )

    # reading

    def compile_get(
        self, entity: type[Row], organization_id: str, ids: Sequence[str], *, deleted: bool
    ) -> SqlStatement:
        """Return the query for the rows with these ids."""
        table = self.codecs[entity].table
        sql = self._gets.get((entity, len(ids), deleted))
        if sql is None:
            tenant = f"{quote(table.tenant)} = {self.dialect.placeholder} AND " if table.tenant else ""
            live = "" if deleted or not table.soft else f' AND "is_deleted" = {self.dialect.false}'
            sql = f"{self.selects[entity]} WHERE {tenant}{self.match_any(quote('id'), ids)[0]}{live}"
            self._gets[entity, len(ids), deleted] = sql
        bound = [list(ids)] if self.dialect.among else ids
        return SqlStatement(sql, [organization_id, *bound] if table.tenant else bound)

    def compile_conditions(
        self,
        entity: type[Row],
        organization_id: str | None,
        where: Sequence[Condition],
        *,
        deleted: bool = False,
    ) -> CompiledConditions:
        """Compile the conditions of a query. Conditions that SQL evaluates differently are left to Python."""
        table = get_table(entity)
        check_fields(table, list_fields(where))
        parts, values, residual = [], [], []
        if table.tenant and organization_id is not None:
            parts.append(f"{quote(table.tenant)} = {self.dialect.placeholder}")
            values.append(organization_id)
        if table.soft and not deleted:
            parts.append(f'"is_deleted" = {self.dialect.false}')
        for condition in where:
            pushed = self._compile_condition(entity, condition)
            if pushed is None or (not self.dialect.among and len(values) + len(pushed[1]) > _MAX_BOUND_VALUES):
                residual.append(condition)
            else:
                parts.append(pushed[0])
                values += pushed[1]
        return CompiledConditions(" AND ".join(parts), values, tuple(residual))

    def _compile_condition(self, entity: type[Row], condition: Condition) -> tuple[str, list[Any]] | None:
        """Return a condition in SQL and its values; None if a part of it must be evaluated in Python."""
        match condition:
            case Where():
                return self._compile_comparison(entity, condition)
            case AllOf(conditions=parts):
                return self._compile_combination(entity, parts, " AND ")
            case AnyOf(conditions=parts):
                return self._compile_combination(entity, parts, " OR ")
            case Not(condition=part):
                pushed = self._compile_condition(entity, part)
                # A comparison with NULL is unknown in SQL, and so is its negation.
                return pushed and (f"NOT COALESCE({pushed[0]}, {self.dialect.false})", pushed[1])

    def _compile_combination(
        self, entity: type[Row], parts: Sequence[Condition], operator: str
    ) -> tuple[str, list[Any]] | None:
        texts: list[str] = []
        values: list[Any] = []
        for part in parts:
            pushed = self._compile_condition(entity, part)
            if pushed is None:
                return None
            texts.append(pushed[0])
            values += pushed[1]
        if not texts:
            return f"(NOT {self.dialect.false})" if operator == " AND " else self.dialect.false, []
        return f"({operator.join(texts)})", values

    def _compile_comparison(self, entity: type[Row], condition: Where) -> tuple[str, list[Any]] | None:
        """Return the SQL of a comparison with the values to bind; None if SQL cannot decide it exactly."""
        column = get_table(entity).by_name.get(condition.field)
        if (
            column is None
            or condition.op is Op.CONTAINS
            or not _can_push(column.kind, condition)
            or self._has_too_many_values(condition)
        ):
            return None
        name, mark = quote(column.name), self.dialect.placeholder
        encode = self.codecs[entity].encode_value if column.kind is not Kind.REAL else _encode_real
        if condition.op in (Op.EQ, Op.NE):
            if condition.value is None:
                return f"{name} IS {'NOT ' if condition.op is Op.NE else ''}NULL", []
            operator = "=" if condition.op is Op.EQ else self.dialect.differs
            # A flag is written as a literal: the planner does not use a partial index for a bound value.
            is_flag = column.kind is Kind.BOOLEAN
            operand = (self.dialect.true if condition.value else self.dialect.false) if is_flag else mark
            return f"{name} {operator} {operand}", [] if is_flag else [encode(column.name, condition.value)]
        if condition.op is Op.IN:
            return self.match_any(name, [encode(column.name, value) for value in condition.value])
        if condition.value is None:
            return self.dialect.false, []
        return f"{name} {_COMPARISONS[condition.op]} {mark}", [encode(column.name, condition.value)]

    def _has_too_many_values(self, condition: Where) -> bool:
        return condition.op is Op.IN and not self.dialect.among and len(condition.value) > _MAX_IN_VALUES

    def match_any(self, name: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
        """Return the condition that a column has one of these values, and the values to bind."""
        present_values = [value for value in values if value is not None]
        one_by_one = f"IN ({', '.join([self.dialect.placeholder] * len(present_values))})"
        parts = [f"{name} {self.dialect.among or one_by_one}"] if present_values else []
        if len(present_values) < len(values):
            parts.append(f"{name} IS NULL")
        bound = [present_values] if present_values and self.dialect.among else present_values
        return f"({' OR '.join(parts)})" if parts else self.dialect.false, bound

    def compile_order(
        self, entity: type[Row], order: str | None, descending: bool, after: Page | None
    ) -> tuple[str, list[Any], str]:
        """Return the condition for the rows after a page, its values, and the ORDER BY clause."""
        table = get_table(entity)
        names = list(dict.fromkeys(([order] if order else []) + list(table.key)))
        direction = " DESC" if descending else ""
        order_by = " ORDER BY " + ", ".join(quote(name) + direction for name in names)
        if after is None:
            return "", [], order_by
        last = dict(zip(table.key, after.key, strict=True))
        if order:
            last[order] = after.value
        codec = self.codecs[entity]
        values = [codec.encode_value(name, last[name]) for name in names]
        marks = ", ".join([self.dialect.placeholder] * len(names))
        return f"({quote_names(names)}) {'<' if descending else '>'} ({marks})", values, order_by


def _encode_real(_: str, value: Any) -> Any:
    return value if value is None else float(value)


def _can_push(kind: Kind, condition: Where) -> bool:
    """Return whether databases compare a column of this kind with the condition's value as Python does."""
    operands = condition.value if condition.op is Op.IN else [condition.value]
    if kind is Kind.TEXT and all(
        type(value) is str for value in operands
    ):  # first, because there may be hundreds of ids
        return True
    return kind in _PUSHED_TYPES and all(value is None or _is_comparable(kind, value) for value in operands)


def _is_comparable(kind: Kind, value: Any) -> bool:
    if isinstance(value, datetime) and value.tzinfo is None:
        return False
    if isinstance(value, float) and isnan(value):
        return False
    if kind is Kind.REAL and isinstance(value, int) and abs(value) > _EXACT_REAL:
        return False
    return isinstance(value, _PUSHED_TYPES[kind]) and isinstance(value, bool) == (kind is Kind.BOOLEAN)
