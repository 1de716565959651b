"""Answers the many small queries of a commit plan with few queries to the store.

Most queries can be predicted: a row that is added needs a query for its key, its unique rules and its references; a row
that was read may need queries for the rows that refer to it. Predicted queries are collected by their shape: a table
and some columns. The first query of a shape fetches all predicted ones of that shape together. A query that was not
predicted is sent alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from everhold.model.base import Row
from everhold.schema.catalog import TABLES, get_key, get_table
from everhold.schema.operations import Delete, Ensure, Hide, Increment, Operation, Patch, Put, Require, Unhide
from everhold.schema.rows import Key
from everhold.schema.rules import find_problems, get_child_values, get_target_values, is_storable, list_referrers
from everhold.schema.table import TENANT, Table

_Shape = tuple[str, tuple[str, ...]]
_CHECK_BATCH = 2048  # rows that are checked together: few queries, bounded memory


class BatchReader(Protocol):
    """A store that can answer many queries of one shape together."""

    def find_rows_by_columns(self, table: Table, columns: Sequence[str], keys: Sequence[Key]) -> Iterable[Row]:
        """Return every row whose values of these columns are among `keys`, including deleted rows. None equals None."""
        ...


class Prefetch:
    """A `Reader` for the planning of one commit. The store must not change during it."""

    def __init__(self, store: BatchReader) -> None:
        self._store = store
        self._answers: dict[_Shape, dict[Key, list[Row]]] = {}
        self._predicted: dict[_Shape, dict[Key, None]] = {}
        self._read_keys: set[tuple[str, Key]] = set()

    def find_rows(self, table: Table, values: Mapping[str, Any]) -> list[Row]:
        columns = tuple(sorted(values))
        key = tuple(values[name] for name in columns)
        answers = self._answers.setdefault((table.name, columns), {})
        if key not in answers:
            self._fetch(table, columns, key, answers)
        return answers[key]

    def _fetch(self, table: Table, columns: tuple[str, ...], key: Key, answers: dict[Key, list[Row]]) -> None:
        predicted_keys = self._predicted.pop((table.name, columns), {})
        keys = [candidate for candidate in {key: None, **predicted_keys} if candidate not in answers]
        answers.update((candidate, []) for candidate in keys)
        # No row can have a value that the store cannot represent, and a driver may fail on such a value.
        storable_keys = [candidate for candidate in keys if all(map(is_storable, candidate))]
        for row in self._store.find_rows_by_columns(table, columns, storable_keys) if storable_keys else ():
            values = row.__dict__
            rows = answers.get(tuple(values[name] for name in columns))
            if rows is not None:
                rows.append(row)
                self._remember(table, row)

    # predictions

    def predict(self, operations: Iterable[Operation]) -> None:
        """Predict the queries that the planning of these operations needs."""
        for operation in operations:
            match operation:
                case Put(row) | Ensure(row):
                    table = get_table(type(row))
                    if not table.generated:
                        self._expect(table, {name: row.__dict__[name] for name in table.key})
                    self.predict_rules(table, row)
                case Patch() | Increment() | Hide() | Delete() | Require():
                    table = get_table(operation.entity)
                    self._expect(table, dict(zip(table.key, operation.key, strict=True)))
                case Unhide():
                    pass

    def predict_rules(self, table: Table, row: Row) -> None:
        """Predict the queries for a row's unique rules and references."""
        values = row.__dict__
        for unique in table.uniques:
            if not unique.when or values[unique.when] is not None:
                names = (TENANT, *unique.columns) if TENANT in table.by_name else unique.columns
                self._expect(table, {name: values[name] for name in names})
        for reference in table.references:
            target_values = get_target_values(reference, row)
            if target_values:
                self._expect(TABLES[reference.target], target_values)

    def note_unused(self, table: Table, number: int) -> None:
        """Record that no row has a number that was generated just now, which saves a query."""
        self._answers.setdefault((table.name, tuple(sorted(table.key))), {})[number,] = []

    def _expect(self, table: Table, values: Mapping[str, Any]) -> None:
        columns = tuple(sorted(values))
        self._predicted.setdefault((table.name, columns), {})[tuple(values[name] for name in columns)] = None

    def _remember(self, table: Table, row: Row) -> None:
        """Answer later queries for the row's key, and predict the queries for changing or purging it."""
        key = get_key(row)
        if (table.name, key) in self._read_keys:
            return
        self._read_keys.add((table.name, key))
        columns = tuple(sorted(table.key))
        values = row.__dict__
        self._answers.setdefault((table.name, columns), {}).setdefault(tuple(values[name] for name in columns), [row])
        self.predict_rules(table, row)
        for child, reference in list_referrers(table.name):
            self._expect(child, get_child_values(reference, row))


def find_problems_in_batches(store: BatchReader, table: Table, rows: Iterable[Row]) -> Iterator[str]:
    """Yield sentences about the problems of these rows of a table, with few queries for many rows."""
    iterator = iter(rows)
    while batch := list(islice(iterator, _CHECK_BATCH)):
        reader = Prefetch(store)
        for row in batch:
            reader.predict_rules(table, row)
        yield from find_problems(reader, table, batch)
