"""What became of a commit whose answer was lost with the connection.

The server is asked by transaction id. A crashed server may give an id out again that no flushed record held, so after
a crash "committed" may be said of somebody else's transaction; then a row that ours wrote must bear witness.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import psycopg

from everhold.adapters.postgres.connection import incarnation_of
from everhold.schema.catalog import get_key, get_table
from everhold.schema.operations import Delete, Increment, Operation, Patch, Put
from everhold.schema.sql import quote

_SHORT_ID = 0xFFFF_FFFF  # a row remembers the last 32 bits of its transaction's id

# An id that was never given out again after a crash lies in the future; asking for it would be an error.
_STATUS = """SELECT CASE WHEN %(xid)s::text::xid8 >= pg_snapshot_xmax(pg_current_snapshot()) THEN 'unborn'
  ELSE pg_xact_status(%(xid)s::text::xid8) END"""


class Outcome(Enum):
    """What became of a transaction."""

    COMMITTED = auto()
    ABORTED = auto()
    IN_PROGRESS = auto()
    UNKNOWN = auto()


@dataclass(frozen=True)
class Ticket:
    """A transaction about to commit: its id, and the server's run that gave it."""

    xid: int
    incarnation: str


def outcome_of(
    connection: psycopg.Connection[tuple[Any, ...]], ticket: Ticket, operations: Sequence[Operation]
) -> Outcome:
    [(status,)] = connection.execute(_STATUS, {"xid": str(ticket.xid)}, binary=True).fetchall()
    same_run = incarnation_of(connection) == ticket.incarnation
    match status:
        case "committed":
            return Outcome.COMMITTED if same_run else _testimony(connection, ticket, operations)
        case "aborted":
            return Outcome.ABORTED
        case "in progress" | "unborn":
            return Outcome.IN_PROGRESS if same_run else Outcome.ABORTED
        case _:
            return Outcome.UNKNOWN


def _testimony(
    connection: psycopg.Connection[tuple[Any, ...]], ticket: Ticket, operations: Sequence[Operation]
) -> Outcome:
    """Looks for a row that the transaction must have left, preferably one it added."""
    added = [one for one in operations if isinstance(one, Put) and not get_table(type(one.row)).generated]
    changed = [one for one in operations if isinstance(one, Patch | Increment)]
    if added:
        table = get_table(type(added[0].row))
        key = get_key(added[0].row)
    elif changed:
        table, key = get_table(changed[0].entity), changed[0].key
    else:
        return Outcome.UNKNOWN
    condition = " AND ".join(f"{quote(name)} = %s" for name in table.key)
    sql = f"SELECT xmin::text::bigint FROM {quote(table.name)} WHERE {condition}"
    writers = connection.execute(sql.encode(), key, binary=True).fetchall()
    if writers == [(ticket.xid & _SHORT_ID,)]:
        return Outcome.COMMITTED
    removed = any(isinstance(one, Delete) for one in operations)
    return Outcome.ABORTED if added and not writers and not removed else Outcome.UNKNOWN
