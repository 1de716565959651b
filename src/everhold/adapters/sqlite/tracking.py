"""Which rows of a SQLite file were changed since a backup, so that the next one reads no others.

Triggers note the number of each row that is added, changed or deleted, by any program, together with the current epoch.
Every snapshot begins an epoch. A row that changed since a snapshot has the epoch of the snapshot or a later one. The
triggers are created with the first snapshot: a store that is never backed up does not pay for them.
"""

import secrets
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from everhold.schema.catalog import get_table
from everhold.schema.snapshots import list_snapshot_entities
from everhold.schema.sql import quote
from everhold.schema.table import Table

_CREATE = (
    'CREATE TABLE IF NOT EXISTS "row_epoch" ("tracking" TEXT NOT NULL, "epoch" INTEGER NOT NULL)',
    # One entry per row, however often it changes.
    """CREATE TABLE IF NOT EXISTS "row_changes" (
  "table_name" TEXT NOT NULL, "row" INTEGER NOT NULL, "epoch" INTEGER NOT NULL, PRIMARY KEY ("table_name", "row")
) WITHOUT ROWID""",
)
_READ_EPOCH = 'SELECT "tracking", "epoch" FROM "row_epoch"'
_HAS_TRACKING = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'row_epoch'"
_BEGIN_EPOCH = 'UPDATE "row_epoch" SET "epoch" = "epoch" + 1'
_TRIM = 'DELETE FROM "row_changes" WHERE "epoch" < ?'
_READ_TOUCHED = 'SELECT "row" FROM "row_changes" WHERE "table_name" = ? AND "epoch" >= ? ORDER BY "row"'
_EPOCHS_KEPT = 100  # an older snapshot is compared row by row


class Epoch(NamedTuple):
    """The current epoch. `tracking` is a random name: another file has another."""

    tracking: str
    number: int

    @property
    def mark(self) -> str:
        return f"{self.tracking}/{self.number}"

    def find_since(self, mark: str) -> int | None:
        """Return the epoch that a mark names; None if it names none of this history."""
        tracking, _, number = mark.partition("/")
        if tracking != self.tracking or not number.isdecimal():
            return None
        since = int(number)
        return since if self.number - _EPOCHS_KEPT < since <= self.number else None


def begin_epoch(writer: sqlite3.Connection) -> None:
    """Begin an epoch, inside a transaction of the writer; create the triggers if there are none."""
    if not writer.execute(_HAS_TRACKING).fetchone()[0]:
        for statement in (*_CREATE, *_create_triggers()):
            writer.execute(statement)
        writer.execute('INSERT INTO "row_epoch" VALUES (?, 0)', (secrets.token_hex(8),))
    writer.execute(_BEGIN_EPOCH)
    writer.execute(_TRIM, (_read(writer).number - _EPOCHS_KEPT,))


def read_epoch(reader: sqlite3.Connection) -> Epoch | None:
    """Return the current epoch; None if the file is not tracked."""
    return _read(reader) if reader.execute(_HAS_TRACKING).fetchone()[0] else None


def read_touched(reader: sqlite3.Connection, table: Table, since: int) -> list[int]:
    """Return the numbers of the rows of a table that were added, changed or deleted since an epoch began."""
    return [row for (row,) in reader.execute(_READ_TOUCHED, (table.name, since)).fetchall()]


def name_row_number(table: Table) -> str:
    """Return the column with the numbers of a table's rows."""
    return table.generated or "row"


def _read(connection: sqlite3.Connection) -> Epoch:
    return Epoch(*connection.execute(_READ_EPOCH).fetchone())


def _create_triggers() -> Iterator[str]:
    for entity in list_snapshot_entities():
        table = get_table(entity)
        number = quote(name_row_number(table))
        for event, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
            yield f"""CREATE TRIGGER "{table.name}_{event.lower()}_noted" AFTER {event} ON {quote(table.name)} BEGIN
  INSERT INTO "row_changes" SELECT '{table.name}', {row}.{number}, "epoch" FROM "row_epoch" WHERE true
  ON CONFLICT DO UPDATE SET "epoch" = excluded."epoch" WHERE "epoch" < excluded."epoch";
END"""
