"""Can a statement leave the sandbox: read or write a file, reach the network, or exceed its time or memory?

    python -m benchmarks.sql_escapes --engine all --mutations 20

Each seed of `benchmarks/escape_seeds.py` and its mutations run twice on each engine: through the guard, and without it.
Without it, the settings of the engine and the limits of the process are the only protection. An escape is a result or a
message with the text of the secret file or table, a created or changed file, a connection to the listening port, or a
changed row.
"""

import argparse
import os
import socket
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Final

import duckdb
import psutil

from benchmarks.escape_seeds import SEEDS, mutate
from benchmarks.report import Report
from everhold.adapters.data_engine import SandboxedDataEngine
from everhold.ask.connections.address import parse_address
from everhold.ask.guard import check_statement
from everhold.errors import EverholdError, StatementRefused
from everhold.ports.data_engine import (
    CheckedStatement,
    DataSet,
    ParquetTables,
    QueryLimits,
    SqliteTables,
)
from everhold.ports.databases import DatabaseTables

if TYPE_CHECKING:
    from tests.servers.mariadb import MariadbServer

CANARY: Final = "canary7f3a91"
LIMITS: Final = QueryLimits(seconds=1.5, megabytes=256, cpu_seconds=5, rows=1000, result_megabytes=8)
_ROWS: Final = 2_000
# Uploaded files, then connected databases. `make connections` downloads MariaDB, so `all` leaves it out.
_ENGINES: Final = ("duckdb", "sqlite", "postgres", "duckdb_connection", "sqlite_connection", "adbc_connection")
_MARIADB: Final = "mysql"


@dataclass(frozen=True)
class EscapeWorld:
    """The data set of an engine, its folder, a port, and a function that reads the state that must not change."""

    data: DataSet
    folder: Path
    port: int
    read_state: Callable[[], object]

    def fill(self, seed: str) -> str:
        """Replace the placeholders of a seed by paths and the port of this world."""
        for name, value in {
            "{secret}": str(self.folder / "secret"),
            "{write}": str(self.folder / "written"),
            "{data}": str(self.folder / "orders.parquet"),
            "{port}": str(self.port),
        }.items():
            seed = seed.replace(name, value)
        return seed


@dataclass
class EscapeOutcome:
    """The number of statements of a run, and the escapes."""

    statements: int = 0
    passed_guard: int = 0
    answered: int = 0
    escapes: list[str] = field(default_factory=list)
    longest_seconds: float = 0.0


def attack(
    engine: SandboxedDataEngine, world: EscapeWorld, seeds: tuple[str, ...], mutations: int, guarded: bool
) -> EscapeOutcome:
    """Run every seed and its mutations, and look for escapes after each."""
    outcome, before = EscapeOutcome(), world.read_state()
    for number, seed in enumerate(seeds):
        for sql in mutate(world.fill(seed), mutations, Random(number)):
            outcome.statements += 1
            started = perf_counter()
            output, ending = _run(engine, world.data, sql, guarded)
            outcome.longest_seconds = max(outcome.longest_seconds, perf_counter() - started)
            outcome.passed_guard += ending != "refused"
            outcome.answered += ending == "answered"
            if CANARY in output or (ending != "refused" and world.read_state() != before):
                outcome.escapes.append(sql)
                before = world.read_state()
    return outcome


def _run(engine: SandboxedDataEngine, data: DataSet, sql: str, guarded: bool) -> tuple[str, str]:
    """Run a statement. Return its result or error message, and whether it was "refused", "failed" or "answered"."""
    tables = frozenset({"orders"})
    try:
        if guarded:
            statement = check_statement(sql, data.dialect, tables, row_limit=LIMITS.rows)
        else:
            statement = CheckedStatement(sql, data.dialect, tables, LIMITS.rows)
        result = engine.run(data, statement)
    except StatementRefused:
        return "", "refused"
    except EverholdError as error:
        # A message may repeat a path from the caller's statement; only the canary counts as an escape.
        return str(error), "failed"
    return f"{result.columns}{result.rows}", "answered"


@contextmanager
def build_world(engine: str, server_url: str | None = None) -> Iterator[EscapeWorld]:
    """Yield a data set with a table `orders`, and secrets outside it that no statement may reach."""
    read_database = _read_mysql_state if engine == _MARIADB else _read_postgres_state
    with TemporaryDirectory(prefix="everhold-escapes-") as name, _count_connections() as (port, connections):
        folder = Path(name)
        data = _write_files(folder, engine, server_url)
        yield EscapeWorld(data, folder, port, lambda: (_list_files(folder), connections(), read_database(server_url)))


def _connect(url: str) -> DatabaseTables:
    return DatabaseTables(parse_address(url, ["adbc"]), hosts=("localhost",))


def _write_files(folder: Path, engine: str, server_url: str | None) -> DataSet:
    secret = folder / "secret"
    for path in (secret, secret.with_suffix(".csv"), secret.with_suffix(".json")):
        path.write_text(f'"note"\n"{CANARY}"\n', encoding="utf-8")
    with sqlite3.connect(secret.with_suffix(".sqlite")) as connection:
        connection.execute("CREATE TABLE secret AS SELECT ? AS note", [CANARY])
    with duckdb.connect(str(secret.with_suffix(".duckdb"))) as writer:
        writer.execute(f"CREATE TABLE secret AS SELECT '{CANARY}' AS note")
        writer.execute(f"COPY secret TO '{secret}.parquet'")
        query = f"SELECT i AS id, 'order ' || i AS name FROM range({_ROWS}) AS t(i)"
        writer.execute(f"COPY ({query}) TO '{folder / 'orders.parquet'}'")
    if server_url is not None:
        return _connect(server_url)
    if engine == "duckdb":
        return ParquetTables({"orders": (str(folder / "orders.parquet"),)})
    if engine == "duckdb_connection":
        with duckdb.connect(str(folder / "orders.duckdb")) as connection:
            connection.execute(f"CREATE TABLE orders AS {query}")
        return _connect(f"duckdb:///{folder / 'orders.duckdb'}")
    with sqlite3.connect(folder / "orders.sqlite") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER, name TEXT)")
        connection.executemany("INSERT INTO orders VALUES (?, ?)", [(i, f"order {i}") for i in range(_ROWS)])
    if engine in ("sqlite_connection", "adbc_connection"):
        driver = "adbc+" if engine == "adbc_connection" else ""
        return _connect(f"{driver}sqlite:///{folder / 'orders.sqlite'}")
    return SqliteTables(str(folder / "orders.sqlite"))


def _list_files(folder: Path) -> tuple[object, ...]:
    return tuple(sorted((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")))


def prepare_postgres(owner_url: str, reader: str) -> None:
    """Create a table that `reader` may read, and one that it may not read."""
    import psycopg

    with psycopg.connect(owner_url) as connection:
        connection.execute("CREATE TABLE orders (id int, name text)")
        connection.execute(f"INSERT INTO orders SELECT i, 'order ' || i FROM generate_series(1, {_ROWS}) AS t(i)")
        connection.execute(f"CREATE TABLE secret AS SELECT '{CANARY}'::text AS note")
        connection.execute("CREATE SEQUENCE numbers")
        connection.execute(f"GRANT SELECT ON orders TO {reader}")


def prepare_mysql(server: "MariadbServer") -> str:
    """Create a table that a reader may read, and tables that it may not read. Return the reader's address."""
    server.execute("CREATE DATABASE escapes", "CREATE DATABASE hidden")
    server.execute("CREATE TABLE secret (note text)", f"INSERT INTO secret VALUES ('{CANARY}')", database="hidden")
    server.execute(
        "CREATE TABLE orders (id int, name text)",
        f"INSERT INTO orders SELECT seq, CONCAT('order ', seq) FROM seq_1_to_{_ROWS}",
        "CREATE TABLE secret (note text)",
        f"INSERT INTO secret VALUES ('{CANARY}')",
        "CREATE SEQUENCE numbers",
        database="escapes",
    )
    url = server.create_reader("reader", "escapes")
    server.execute(
        "REVOKE SELECT ON escapes.* FROM reader", "GRANT SELECT, INSERT, DELETE, DROP ON escapes.orders TO reader"
    )
    return url


def _read_mysql_state(url: str | None) -> object:
    import pymysql

    address = parse_address(str(url))
    with (
        pymysql.connect(
            host=address.host, port=int(address.port or 0), user=address.user, password=address.password,
            database=address.database,
        ) as connection,
        connection.cursor() as cursor,
    ):  # fmt: skip
        cursor.execute("SELECT COUNT(*), MAX(name) FROM orders")
        row_counts = cursor.fetchall()
        cursor.execute("SHOW TABLES")
        return row_counts, cursor.fetchall()


def _read_postgres_state(postgres_url: str | None) -> object:
    if postgres_url is None:
        return None
    import psycopg

    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
        )
        return (
            tables.fetchall(),
            connection.execute("SELECT count(*), max(name) FROM orders").fetchall(),
            connection.execute("SELECT count(*) FROM pg_largeobject_metadata").fetchall(),
        )


@contextmanager
def _count_connections() -> Iterator[tuple[int, Callable[[], int]]]:
    """Listen on a port. Yield the port, and a function that returns the number of connections to it so far."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    count = 0

    def accept_waiting() -> int:
        nonlocal count
        try:
            while True:
                listener.accept()[0].close()
                count += 1
        except BlockingIOError:
            return count

    try:
        yield listener.getsockname()[1], accept_waiting
    finally:
        listener.close()


class MemorySampler:
    """Measures the largest resident memory of any child process, in megabytes, every 5 milliseconds."""

    def __init__(self) -> None:
        self.peak_megabytes = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "MemorySampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        process = psutil.Process()
        while not self._stop.wait(0.005):
            for child in process.children():
                try:
                    if "everhold.adapters.data_engine" in " ".join(child.cmdline()):
                        status = Path(f"/proc/{child.pid}/status").read_text("ascii", "replace")
                        peak = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")), "0")
                        self.peak_megabytes = max(self.peak_megabytes, int(peak) / 1024)
                except (psutil.Error, OSError):
                    continue


@contextmanager
def _start_server(engine: str) -> Iterator[str | None]:
    if engine == _MARIADB:
        from tests.servers.mariadb import MariadbServer

        with MariadbServer() as server:
            yield prepare_mysql(server)
    elif engine == "postgres":
        from tests.servers.postgres import PostgresServer

        with PostgresServer() as postgres:
            postgres.create_role("reader")
            url = postgres.create_database("escapes")
            prepare_postgres(url, "reader")
            yield postgres.url("escapes", role="reader")
    else:
        yield None


def main() -> int:
    parser = argparse.ArgumentParser(description="Try to leave the sandbox of statements.")
    parser.add_argument("--engine", choices=(*_ENGINES, _MARIADB, "all"), default="all")
    parser.add_argument("--mutations", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=1000, help="at most this many seeds per engine")
    options = parser.parse_args()
    os.environ["CANARY"] = CANARY  # shows whether a child process inherits the environment
    report = Report("sql_escapes")
    for engine_name in _ENGINES if options.engine == "all" else (options.engine,):
        with _start_server(engine_name) as url, build_world(engine_name, url) as world:
            for guarded in (True, False):
                engine = SandboxedDataEngine(LIMITS, cache_megabytes=0)
                with MemorySampler() as memory:
                    outcome = attack(
                        engine, world, SEEDS[world.data.dialect][: options.seeds], options.mutations, guarded
                    )
                engine.close()
                name = f"{engine_name}_{'guarded' if guarded else 'unguarded'}"
                report.add(f"{name}_statements", outcome.statements)
                report.add(f"{name}_escapes", len(outcome.escapes), "==", 0)
                report.add(f"{name}_passed_guard", outcome.passed_guard)
                report.add(f"{name}_answered", outcome.answered)
                report.add(f"{name}_longest_seconds", outcome.longest_seconds, "<=", LIMITS.seconds + 1)
                report.add(f"{name}_peak_megabytes", memory.peak_megabytes, "<=", 1.2 * LIMITS.megabytes)
                for sql in outcome.escapes:
                    print(f"escape: {sql}", file=sys.stderr)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
