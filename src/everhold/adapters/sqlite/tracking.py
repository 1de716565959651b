"""Record which rows of a SQLite file changed since a backup, so that the next backup reads only those.

Triggers record the number of each row that any program adds, changes or deletes, together with the current epoch. Every
snapshot begins an epoch, so a row that changed after a snapshot has the epoch of that snapshot or a later one. The
first snapshot creates the triggers: a store that is never backed up does not pay for them.
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
# Changes of older epochs are deleted. A backup that follows an older snapshot compares all rows.
_EPOCHS_KEPT = 100
_TRIM_INTERVAL = 10  # trimming reads all recorded changes, so it is done rarely


class Epoch(NamedTuple):
    """The current epoch. `tracking` is a random id of the file, which distinguishes its marks from those of other
    files."""

    tracking: str
    number: int

    @property
    def mark(self) -> str:
        return f"{self.tracking}/{self.number}"

    def find_since(self, mark: str) -> int | None:
        """Return the epoch that `mark` names; None if it is of another file or its changes are no longer recorded."""
        tracking, _, number = mark.partition("/")
        if tracking != self.tracking or not number.isdecimal():
            return None
        since = int(number)
        return since if self.number - _EPOCHS_KEPT < since <= self.number else None


def begin_epoch(writer: sqlite3.Connection) -> None:
    """Begin an epoch inside the writer's transaction. The first call creates the tables and triggers."""
    if not writer.execute(_HAS_TRACKING).fetchone()[0]:
        for statement in (*_CREATE, *_create_triggers()):
            writer.execute(statement)
        writer.execute('INSERT INTO "row_epoch" VALUES (?, 0)', (secrets.token_hex(8),))
    writer.execute(_BEGIN_EPOCH)
    number = _read_epoch_row(writer).number
    if number > _EPOCHS_KEPT and number % _TRIM_INTERVAL == 0:
        writer.execute(_TRIM, (number - _EPOCHS_KEPT,))


def read_epoch(reader: sqlite3.Connection) -> Epoch | None:
    """Return the current epoch; None if the file is not tracked."""
    return _read_epoch_row(reader) if reader.execute(_HAS_TRACKING).fetchone()[0] else None


def read_touched(reader: sqlite3.Connection, table: Table, since: int) -> list[int]:
    """Return the numbers of the rows of a table that were added, changed or deleted since an epoch began."""
    return [row for (row,) in reader.execute(_READ_TOUCHED, (table.name, since)).fetchall()]


def name_row_number(table: Table) -> str:
    """Return the name of the column that contains a table's row numbers."""
    return table.generated or "row"


def _read_epoch_row(connection: sqlite3.Connection) -> Epoch:
    return Epoch(*connection.execute(_READ_EPOCH).fetchone())


def _create_triggers() -> Iterator[str]:
    for entity in list_snapshot_entities():
        table = get_table(entity)
        number = quote(name_row_number(table))
        for event, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
            # Without WHERE true, SQLite would read ON CONFLICT as the condition of a join.
            yield f"""CREATE TRIGGER "{table.name}_{event.lower()}_noted" AFTER {event} ON {quote(table.name)} BEGIN
  INSERT INTO "row_changes" SELECT '{table.name}', {row}.{number}, "epoch" FROM "row_epoch" WHERE true
  ON CONFLICT DO UPDATE SET "epoch" = excluded."epoch" WHERE "epoch" < excluded."epoch";
END"""
