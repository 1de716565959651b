"""The process that runs one query: it reads a request, takes away its own rights, runs the statement, writes the rows.

It is started in a clean interpreter with an empty environment, in an empty folder, and ends after one query. It writes
an empty line when it waits for the request, and then lines of JSON: for a database one that says that it is connected,
then the columns, batches of rows, and the end or an error. A request without a statement asks for the profile of a
database, which has a line per table.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from everhold.adapters.data_engine.encoding import encode_value

if TYPE_CHECKING:
    from everhold.adapters.data_engine.session import DatabaseSession

BATCH_ROWS: Final = 500
DATABASE_PREFIX: Final = "database:"
READY: Final = b"\n"  # written when the driver is imported and a request can be read
CONNECTED: Final = b'{"connected":true}'  # the line that is written when the database is connected
READERS: Final[Mapping[str, str]] = {
    "duckdb": "everhold.adapters.data_engine.duckdb_reader",
    "sqlite": "everhold.adapters.data_engine.sqlite_reader",
}
DATABASES: Final[Mapping[str, str]] = {
    "adbc": "everhold.adapters.data_engine.adbc_database",
    "duckdb": "everhold.adapters.data_engine.duckdb_database",
    "mysql": "everhold.adapters.data_engine.mysql_database",
    "postgres": "everhold.adapters.data_engine.postgres_database",
    "sqlalchemy": "everhold.adapters.data_engine.sqlalchemy_database",
    "sqlite": "everhold.adapters.data_engine.sqlite_database",
}


class QueryFailure(Exception):
    """A query that failed: `kind` is failed, time, memory, size, unavailable, unreachable, login, format, host, role
    or driver."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind, self.message = kind, message


# What servers answer to a wrong user or password.
_REFUSED_LOGINS: Final = (
    "authentication failed", "no password supplied", "Access denied for user", "Login failed for user",
)  # fmt: skip


def make_connection_failure(message: str) -> QueryFailure:
    """Return the failure of a connection for the message of a server or a driver."""
    is_login = any(words in message for words in _REFUSED_LOGINS)
    return QueryFailure("login" if is_login else "unreachable", message)


@dataclass(frozen=True)
class RowStream:
    """The result of a statement: the columns with their types, and batches of rows."""

    columns: list[tuple[str, str]]
    batches: Iterator[list[tuple[Any, ...]]]


def main(reader: str) -> None:
    """Run the request that arrives on standard input, if one arrives. `reader` is a key of READERS, or "database:"
    and a key of DATABASES."""
    with _claim_output() as output:
        _answer(reader, output)


def _claim_output() -> BinaryIO:
    """Return standard output for the answer, and discard everything that a driver prints, such as a progress bar."""
    output = os.fdopen(os.dup(1), "wb")
    null_device = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, 1)
    os.close(null_device)
    return output


def _answer(reader: str, output: BinaryIO) -> None:
    """Read one request from standard input and write its answer, which may be an error."""
    is_database, name = reader.startswith(DATABASE_PREFIX), reader.removeprefix(DATABASE_PREFIX)
    try:
        module = import_module((DATABASES if is_database else READERS)[name])
    except ImportError as error:
        _write(output, {"error": "driver", "message": str(error.name)})
        return
    output.write(READY)
    output.flush()
    line = sys.stdin.buffer.readline()
    if not line:
        return
    request = json.loads(line)
    started = time.perf_counter()
    try:
        if is_database:
            _answer_from_database(output, module, request, started)
        else:
            _write_rows(output, module.read_rows(request), request, started)
    except QueryFailure as failure:
        _write(output, {"error": failure.kind, "message": _hide_secret(failure.message, request)})
    except MemoryError:
        _write(output, {"error": "memory", "message": ""})


def _answer_from_database(output: BinaryIO, module: Any, request: Mapping[str, Any], started: float) -> None:
    # Imported first: a session can read no more files, modules included.
    sampling = import_module("everhold.adapters.data_engine.sampling") if request["sql"] is None else None
    session: DatabaseSession = module.open_session(request)
    # A timeout before this line is reported as one of the connection, a later one as one of the statement.
    output.write(CONNECTED + b"\n")
    output.flush()
    if sampling is None:
        _write_rows(output, session.read_rows(request["sql"]), request, started)
        return
    for document in sampling.profile_database(session, request):
        _write(output, document)


def _hide_secret(message: str, request: Mapping[str, Any]) -> str:
    """Return a message of a driver or a server without the password, which a hostile server may repeat."""
    secret = request["data"].get("password")
    return message.replace(secret, "***") if secret else message


def _write_rows(output: BinaryIO, rows: RowStream, request: Mapping[str, Any], started: float) -> None:
    _write(output, {"columns": rows.columns})
    bytes_left, rows_left = request["limits"]["result_megabytes"] << 20, request["limits"]["rows"]
    for batch in rows.batches:
        kept_rows = batch[:rows_left]
        rows_left -= len(kept_rows)
        bytes_left -= _write(output, {"rows": [[encode_value(value) for value in row] for row in kept_rows]})
        if bytes_left < 0:
            raise QueryFailure("size", "")
        if len(kept_rows) < len(batch):
            _write(output, {"end": True, "truncated": True, "seconds": time.perf_counter() - started})
            return
    _write(output, {"end": True, "truncated": False, "seconds": time.perf_counter() - started})


def _write(output: BinaryIO, document: Mapping[str, Any]) -> int:
    """Write a line of JSON, and return its number of bytes."""
    line = json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
    output.write(line)
    output.flush()
    return len(line)


def fetch_batches(fetch: Callable[[int], Iterable[tuple[Any, ...]]]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the batches of a driver's `fetchmany` until it returns an empty one."""
    while batch := list(fetch(BATCH_ROWS)):
        yield batch
