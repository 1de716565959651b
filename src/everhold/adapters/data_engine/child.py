"""The process that runs one query: it reads a request, takes away its own rights, runs the statement, writes the rows.

It is started in a clean interpreter with an empty environment, in an empty folder, and ends after one query. It writes
lines of JSON: the columns, batches of rows, and the end or an error.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, BinaryIO, Final

from everhold.adapters.data_engine.encoding import encode_value

BATCH_ROWS: Final = 500
READERS: Final[Mapping[str, str]] = {
    "duckdb": "everhold.adapters.data_engine.duckdb_reader",
    "sqlite": "everhold.adapters.data_engine.sqlite_reader",
    "postgres": "everhold.adapters.data_engine.postgres_reader",
}


class QueryFailure(Exception):
    """A query that failed: `kind` is failed, time, memory, size, unavailable, role or driver."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind, self.message = kind, message


@dataclass(frozen=True)
class RowStream:
    """What a statement returns: the columns with their types, and batches of rows."""

    columns: list[tuple[str, str]]
    batches: Iterator[list[tuple[Any, ...]]]


Read = Callable[[Mapping[str, Any]], RowStream]


def main(dialect: str) -> None:
    """Run the request that arrives on standard input, if one arrives."""
    with _claim_output() as output:
        _answer(dialect, output)


def _claim_output() -> BinaryIO:
    """Return standard output for the answer alone. What a driver prints, such as a progress bar, goes nowhere."""
    output = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return output


def _answer(dialect: str, output: BinaryIO) -> None:
    try:
        read: Read = import_module(READERS[dialect]).read_rows
    except ImportError as error:
        _write(output, {"error": "driver", "message": str(error.name)})
        return
    line = sys.stdin.buffer.readline()
    if not line:
        return
    request = json.loads(line)
    started = time.perf_counter()
    try:
        _write_rows(output, read(request), request, started)
    except QueryFailure as failure:
        _write(output, {"error": failure.kind, "message": failure.message})
    except MemoryError:
        _write(output, {"error": "memory", "message": ""})


def _write_rows(output: BinaryIO, rows: RowStream, request: Mapping[str, Any], started: float) -> None:
    _write(output, {"columns": rows.columns})
    room, count, most = request["limits"]["result_megabytes"] << 20, 0, request["limits"]["rows"]
    for batch in rows.batches:
        kept = batch[: most - count]
        count += len(kept)
        room -= _write(output, {"rows": [[encode_value(value) for value in row] for row in kept]})
        if room < 0:
            raise QueryFailure("size", "")
        if len(kept) < len(batch):
            _write(output, {"end": True, "truncated": True, "seconds": time.perf_counter() - started})
            return
    _write(output, {"end": True, "truncated": False, "seconds": time.perf_counter() - started})


def _write(output: BinaryIO, document: Mapping[str, Any]) -> int:
    line = json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
    output.write(line)
    output.flush()
    return len(line)


def fetch_batches(fetch: Callable[[int], Iterable[tuple[Any, ...]]]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield what a driver's `fetchmany` returns until it returns nothing."""
    while batch := list(fetch(BATCH_ROWS)):
        yield batch
