"""A store of record over any SQL database. Subclasses add the driver."""

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from everhold.model.base import Row
from everhold.schema.catalog import get_key, get_table
from everhold.schema.conditions import evaluate, is_match, list_fields
from everhold.schema.operations import Condition, Operation, Page
from everhold.schema.rules import check_fields, check_order, check_size
from everhold.schema.sql import Dialect, quote, quote_names
from everhold.schema.statements import Compiler, SqlStatement

E = TypeVar("E", bound=Row)
COMMIT_LIMIT = 1_000_000
_BATCH = 500  # ids in one query
_PAGE = 256  # rows per query if some conditions are evaluated in Python, so that a small limit needs few queries


class SqlRecords:
    """The methods of a store of record. A subclass runs the queries and the transactions."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.compiler = Compiler(dialect)

    @abstractmethod
    def _fetch(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run a query and return all rows."""

    @abstractmethod
    def _stream(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Run a query and yield its rows."""

    def _fetch_for(
        self, entity: type[Row], organization_id: str | None, sql: str, values: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        """Do the same as `_fetch`. A database with row security overrides this to name the organization."""
        return self._fetch(sql, values)

    def _stream_for(
        self, entity: type[Row], organization_id: str | None, sql: str, values: Sequence[Any]
    ) -> Iterator[tuple[Any, ...]]:
        """Do the same as `_stream`. A database with row security overrides this to name the organization."""
        return self._stream(sql, values)

    @abstractmethod
    def _transact(self, statements: Iterable[SqlStatement]) -> None:
        """Run all statements in one durable transaction, or none."""

    def commit(self, operations: Sequence[Operation]) -> None:
        check_size(operations, COMMIT_LIMIT)
        self._transact(self.compile_statements(operations))

    def compile_statements(self, operations: Sequence[Operation]) -> Iterator[SqlStatement]:
        """Return the operations as SQL statements, in their order."""
        return itertools.chain.from_iterable(map(self.compiler.compile, operations))

    def get(self, entity: type[E], organization_id: str, ids: Sequence[str], *, deleted: bool = False) -> dict[str, E]:
        decode = self.compiler.codec(entity).decode
        rows: dict[str, E] = {}
        for start in range(0, len(ids), _BATCH):
            query = self.compiler.compile_get(entity, organization_id, ids[start : start + _BATCH], deleted=deleted)
            for row in map(decode, self._fetch_for(entity, organization_id, query.sql, query.values)):
                rows[row.id] = row
        return rows

    def scan(
        self,
        entity: type[E],
        organization_id: str | None,
        where: Sequence[Condition] = (),
        *,
        order: str | None = None,
        descending: bool = False,
        after: Page | None = None,
        limit: int | None = None,
        deleted: bool = False,
    ) -> list[E]:
        table, codec = get_table(entity), self.compiler.codec(entity)
        check_order(table, order)
        compiled = self.compiler.compile_conditions(entity, organization_id, where, deleted=deleted)
        matches: list[E] = []
        page = limit if not compiled.residual or limit is None else max(limit, _PAGE)
        while True:
            continuation, values_after, ending = self.compiler.compile_order(entity, order, descending, after)
            sql = self.compiler.selects[entity] + compiled.sql
            if continuation:
                sql += (" AND " if compiled.sql else " WHERE ") + continuation
            sql += ending + (f" LIMIT {int(page)}" if page is not None else "")
            rows = self._fetch_for(entity, organization_id, sql, [*compiled.values, *values_after])
            batch = [codec.decode(values) for values in rows]
            matches += [row for row in batch if is_match(row, compiled.residual)]
            if page is None or len(batch) < page or (limit is not None and len(matches) >= limit):
                return matches if limit is None else matches[:limit]
            after = make_page(batch[-1], order)

    def columns(
        self,
        entity: type[Row],
        organization_id: str | None,
        names: Sequence[str],
        where: Sequence[Condition] = (),
        *,
        deleted: bool = False,
    ) -> Iterator[tuple[Any, ...]]:
        codec = self.compiler.codec(entity)
        check_fields(codec.table, names)
        compiled = self.compiler.compile_conditions(entity, organization_id, where, deleted=deleted)
        columns = tuple(dict.fromkeys([*names, *list_fields(compiled.residual)]))
        sql = f"SELECT {quote_names(columns)} FROM {quote(codec.table.name)}{compiled.sql}"
        rows = itertools.starmap(
            codec.make_decoder(columns), self._stream_for(entity, organization_id, sql, compiled.values)
        )
        if not compiled.residual:
            yield from rows
            return
        for row in rows:
            fields = dict(zip(columns, row, strict=True))
            if all(evaluate(fields, condition) for condition in compiled.residual):
                yield row[: len(names)]

    def count(
        self, entity: type[Row], organization_id: str | None, where: Sequence[Condition] = (), *, deleted: bool = False
    ) -> int:
        compiled = self.compiler.compile_conditions(entity, organization_id, where, deleted=deleted)
        if compiled.residual:
            key = get_table(entity).key[-1]
            return sum(1 for _ in self.columns(entity, organization_id, [key], where, deleted=deleted))
        sql = f"SELECT count(*) FROM {quote(get_table(entity).name)}{compiled.sql}"
        rows = self._fetch_for(entity, organization_id, sql, compiled.values)
        return int(rows[0][0])


def make_page(row: Row, order: str | None) -> Page:
    """Return the page position after a row."""
    values = row.__dict__
    return Page(values[order] if order else None, get_key(row))
