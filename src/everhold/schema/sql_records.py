"""Records over any SQL database: everything but the driver."""

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from everhold.model.base import Row
from everhold.schema.catalog import key_of, table_of
from everhold.schema.conditions import judge, list_fields, meets
from everhold.schema.operations import Condition, Operation, Page
from everhold.schema.rules import check_fields, check_order, check_size
from everhold.schema.sql import Dialect, listed, quoted
from everhold.schema.statements import Compiler, Statement

E = TypeVar("E", bound=Row)
COMMIT_LIMIT = 1_000_000
_BATCH = 500
_PAGE = 256


class SqlRecords:
    """The verbs of a store of record, given how to run a query and a transaction."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.compiler = Compiler(dialect)

    @abstractmethod
    def _rows(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Runs a query and fetches everything."""

    @abstractmethod
    def _stream(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Runs a query and yields its rows."""

    def _rows_of(
        self, entity: type[Row], organization_id: str | None, sql: str, values: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        """`_rows`, for a database that must be told whose rows are asked for; others need not know."""
        return self._rows(sql, values)

    def _stream_of(
        self, entity: type[Row], organization_id: str | None, sql: str, values: Sequence[Any]
    ) -> Iterator[tuple[Any, ...]]:
        """`_stream`, likewise."""
        return self._stream(sql, values)

    @abstractmethod
    def _transact(self, statements: Iterable[Statement]) -> None:
        """Runs all statements in one durable transaction, or none."""

    def commit(self, operations: Sequence[Operation]) -> None:
        check_size(operations, COMMIT_LIMIT)
        self._transact(self.statements(operations))

    def statements(self, operations: Sequence[Operation]) -> Iterator[Statement]:
        """The operations as SQL, in their order."""
        return itertools.chain.from_iterable(map(self.compiler.compile, operations))

    def get(self, entity: type[E], organization_id: str, ids: Sequence[str], *, deleted: bool = False) -> dict[str, E]:
        decode = self.compiler.codec(entity).decode
        found: dict[str, E] = {}
        for start in range(0, len(ids), _BATCH):
            query = self.compiler.get(entity, organization_id, ids[start : start + _BATCH], deleted=deleted)
            for row in map(decode, self._rows_of(entity, organization_id, query.sql, query.values)):
                found[row.id] = row
        return found

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
        table, codec = table_of(entity), self.compiler.codec(entity)
        check_order(table, order)
        read = self.compiler.read(entity, organization_id, where, deleted=deleted)
        found: list[E] = []
        page = limit if not read.residual or limit is None else max(limit, _PAGE)
        while True:
            position, position_values, ending = self.compiler.ordering(entity, order, descending, after)
            sql = self.compiler.selects[entity] + read.sql
            if position:
                sql += (" AND " if read.sql else " WHERE ") + position
            sql += ending + (f" LIMIT {int(page)}" if page is not None else "")
            rows = self._rows_of(entity, organization_id, sql, [*read.values, *position_values])
            batch = [codec.decode(values) for values in rows]
            found += [row for row in batch if meets(row, read.residual)]
            if page is None or len(batch) < page or (limit is not None and len(found) >= limit):
                return found if limit is None else found[:limit]
            after = page_after(batch[-1], order)

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
        read = self.compiler.read(entity, organization_id, where, deleted=deleted)
        asked = tuple(dict.fromkeys([*names, *list_fields(read.residual)]))
        sql = f"SELECT {listed(asked)} FROM {quoted(codec.table.name)}{read.sql}"
        rows = itertools.starmap(codec.reader(asked), self._stream_of(entity, organization_id, sql, read.values))
        if not read.residual:
            yield from rows
            return
        for row in rows:
            fields = dict(zip(asked, row, strict=True))
            if all(judge(fields, condition) for condition in read.residual):
                yield row[: len(names)]

    def count(
        self, entity: type[Row], organization_id: str | None, where: Sequence[Condition] = (), *, deleted: bool = False
    ) -> int:
        read = self.compiler.read(entity, organization_id, where, deleted=deleted)
        if read.residual:
            key = table_of(entity).key[-1]
            return sum(1 for _ in self.columns(entity, organization_id, [key], where, deleted=deleted))
        sql = f"SELECT count(*) FROM {quoted(table_of(entity).name)}{read.sql}"
        rows = self._rows_of(entity, organization_id, sql, read.values)
        return int(rows[0][0])


def page_after(row: Row, order: str | None) -> Page:
    """The place of a row in an order, to go on from."""
    values = row.__dict__
    return Page(values[order] if order else None, key_of(row))
