"""Find the outcome of a commit whose reply was lost with the connection.

The server knows the outcome of a transaction id. But after a crash it may assign an id again that it had not yet
written to disk, so "committed" may refer to another transaction. Then a row of the lost transaction decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import psycopg

from everhold.adapters.postgres.connection import read_incarnation
from everhold.schema.catalog import get_key, get_table
from everhold.schema.operations import Delete, Increment, Operation, Patch, Put
from everhold.schema.sql import quote

_SHORT_ID = 0xFFFF_FFFF  # a row's `xmin` is the last 32 bits of its transaction's id

# After a crash, the server may not have assigned the id again yet. Asking for the status of such an id is an error.
_STATUS = """SELECT CASE WHEN %(xid)s::text::xid8 >= pg_snapshot_xmax(pg_current_snapshot()) THEN 'unborn'
  ELSE pg_xact_status(%(xid)s::text::xid8) END"""


class TransactionOutcome(Enum):
    """The outcome of a transaction."""

    COMMITTED = auto()
    ABORTED = auto()
    IN_PROGRESS = auto()
    UNKNOWN = auto()


@dataclass(frozen=True)
class Ticket:
    """A transaction about to commit: its id, and the incarnation of the server that assigned it."""

    xid: int
    incarnation: str


def find_outcome(
    connection: psycopg.Connection[tuple[Any, ...]], ticket: Ticket, operations: Sequence[Operation]
) -> TransactionOutcome:
    """Return whether the ticket's transaction was committed."""
    [(status,)] = connection.execute(_STATUS, {"xid": str(ticket.xid)}, binary=True).fetchall()
    is_same_run = read_incarnation(connection) == ticket.incarnation
    match status:
        case "committed":
            return TransactionOutcome.COMMITTED if is_same_run else _find_outcome_by_row(connection, ticket, operations)
        case "aborted":
            return TransactionOutcome.ABORTED
        case "in progress" | "unborn":
            return TransactionOutcome.IN_PROGRESS if is_same_run else TransactionOutcome.ABORTED
        case _:
            return TransactionOutcome.UNKNOWN


def _find_outcome_by_row(
    connection: psycopg.Connection[tuple[Any, ...]], ticket: Ticket, operations: Sequence[Operation]
) -> TransactionOutcome:
    """Return the outcome according to a row that the transaction wrote, preferably one that it added."""
    puts = [operation for operation in operations if isinstance(operation, Put)]
    added_rows = [put for put in puts if not get_table(type(put.row)).generated]
    changes = [operation for operation in operations if isinstance(operation, Patch | Increment)]
    if added_rows:
        table = get_table(type(added_rows[0].row))
        key = get_key(added_rows[0].row)
    elif changes:
        table, key = get_table(changes[0].entity), changes[0].key
    else:
        return TransactionOutcome.UNKNOWN
    condition = " AND ".join(f"{quote(name)} = %s" for name in table.key)
    sql = f"SELECT xmin::text::bigint FROM {quote(table.name)} WHERE {condition}"
    writers = connection.execute(sql.encode(), key, binary=True).fetchall()
    if writers == [(ticket.xid & _SHORT_ID,)]:
        return TransactionOutcome.COMMITTED
    has_deletes = any(isinstance(operation, Delete) for operation in operations)
    return TransactionOutcome.ABORTED if added_rows and not writers and not has_deletes else TransactionOutcome.UNKNOWN
