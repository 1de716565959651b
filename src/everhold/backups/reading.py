"""Read the rows of a backup by combining the layers of each table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from everhold.backups.comparing import DELETED
from everhold.backups.manifest import USE_ANOTHER, Layer, Manifest, TableEntry
from everhold.backups.objects import Objects
from everhold.backups.sealing import EVERYONE
from everhold.errors import StoreDamaged
from everhold.model.base import Row
from everhold.ports.row_packing import Digests, RowShape
from everhold.schema.catalog import ENTITIES, TABLES, get_table
from everhold.schema.plain_values import make_plain_decoder
from everhold.schema.table import Table

_BATCH = 1000
_NO_DIGESTS = np.array([], np.uint64)


@dataclass
class BackupReader:
    """Reads the tables of one backup. `unreadable` counts rows whose keys were destroyed, by table."""

    manifest: Manifest
    objects: Objects
    unreadable: dict[str, int] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        return self.manifest.id

    def count_row(self, table: Table) -> None:
        """Do nothing. `RowsBetween` counts rows here, but a single backup has only exact rows."""

    def list_entities(self) -> list[type[Row]]:
        """Return the entities whose rows the backup has, parents before the rows that belong to them."""
        unknown = sorted(self.manifest.tables.keys() - TABLES.keys())
        if unknown:
            raise StoreDamaged(f"the backup has the unknown table {unknown[0]!r:.60}", remedy="upgrade Everhold")
        return [ENTITIES[name] for name in TABLES if name in self.manifest.tables]

    def read_fields(self, entity: type[Row]) -> Iterator[dict[str, Any]]:
        """Yield the values of each row of a table by field, decoded but not validated.

        Raise StoreDamaged if a value does not fit its column.
        """
        table = get_table(entity)
        entry = self.manifest.tables[table.name]
        unknown = set(entry.columns) - set(table.names)
        if unknown or not set(table.key) <= set(entry.columns):
            raise StoreDamaged(
                f"the backup has other columns of {table.name} than this program: {', '.join(sorted(unknown))}",
                remedy="upgrade Everhold",
            )
        decode = make_plain_decoder(entity, entry.columns)
        for row in self._read_rows(table, entry):
            try:
                yield dict(zip(entry.columns, decode(*row), strict=True))
            except (TypeError, ValueError, OverflowError, StoreDamaged) as error:
                raise StoreDamaged(
                    f"a row of {table.name} has a value that is none of its column ({error})", remedy=USE_ANOTHER
                ) from None

    def _read_rows(self, table: Table, entry: TableEntry) -> Iterator[list[Any]]:
        """Yield the current rows: all of the latest layer, then those of each earlier layer that no later layer
        replaces."""
        shape = RowShape.of_columns(table, entry.columns)
        self.unreadable[table.name] = 0
        replaced = _NO_DIGESTS
        for index in reversed(range(len(entry.layers))):
            layer = entry.layers[index]
            keys: list[Digests] = [replaced]
            for rows in self._read_layer(table, layer):
                if any(len(row) != len(entry.columns) for row in rows):
                    raise StoreDamaged(f"a row of {table.name} has a wrong number of values", remedy=USE_ANOTHER)
                if len(entry.layers) == 1:
                    yield from rows
                    continue
                digests = self._digest_keys(table, rows, shape)
                keys.append(digests)
                is_current = ~np.isin(digests, replaced)
                yield from (row for row, current in zip(rows, is_current, strict=True) if current)
            if index:
                replaced = np.unique(np.concatenate([*keys, *self._read_deleted(layer)]))

    def _digest_keys(self, table: Table, rows: Sequence[list[Any]], shape: RowShape) -> Digests:
        try:
            return self.objects.packing.digest_keys([[row[index] for index in shape.key] for row in rows], shape)
        except (TypeError, ValueError, OverflowError):
            raise StoreDamaged(f"a row of {table.name} has a key that is none", remedy=USE_ANOTHER) from None

    def _read_layer(self, table: Table, layer: Layer) -> Iterator[Sequence[list[Any]]]:
        for entry in layer.rows:
            for frame in self.objects.read_pack(entry, table.name):
                if frame.content is None:
                    self.unreadable[table.name] += frame.rows
                    continue
                batch: list[list[Any]] = []
                for row in self.objects.packing.unpack(frame.content, frame.size):
                    batch.append(row)
                    if len(batch) >= _BATCH:
                        yield batch
                        batch = []
                if batch:
                    yield batch

    def _read_deleted(self, layer: Layer) -> Iterator[Digests]:
        for entry in layer.deleted:
            content = self.objects.get_bytes(entry, EVERYONE, DELETED) or b""
            if len(content) % 8:
                raise StoreDamaged("a list of deleted rows has a wrong length", remedy=USE_ANOTHER)
            yield np.frombuffer(content, "<u8").astype(np.uint64)
