"""PostgreSQL: connections that break, servers that restart, and commits whose answer was lost."""

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from everhold import clock
from everhold.adapters.postgres import PostgresOptions, PostgresRecords
from everhold.adapters.postgres.connection import connect, read_incarnation
from everhold.adapters.postgres.outcome import Ticket, TransactionOutcome, find_outcome
from everhold.errors import StoreUnavailable
from everhold.model import Memory, Organization
from everhold.schema.operations import Delete, Operation, Patch, Put
from tests.servers.postgres import PostgresServer

NOW = clock.now()
SOCKET_NAME = ".s.PGSQL.5432"
ORGANIZATION = Put(Organization(id="o", name="o", created_at=NOW, updated_at=NOW))


def make_memory(name: str) -> Memory:
    return Memory(id=name, organization_id="o", text=name, created_at=NOW, updated_at=NOW)


class CommitProxy:
    """Stands between a client and a server and can cut the connection at the next COMMIT.

    `at_commit` is called with a function that sends the COMMIT on. The server's answer never reaches the client.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self._target = f"{parse_qs(urlsplit(url).query)['host'][0]}/{SOCKET_NAME}"
        self.url = url.partition("?")[0] + f"?host={folder}"
        self.at_commit: Callable[[Callable[[], object]], object] | None = None
        self.refuses_after_a_cut = False
        self.cuts = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / SOCKET_NAME))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(self._target if not (self.cuts and self.refuses_after_a_cut) else "/nowhere")
                except OSError:
                    client.close()
                    continue
                threading.Thread(target=self._pass_requests, args=(client, server), daemon=True).start()
                threading.Thread(target=self._pass_answers, args=(client, server), daemon=True).start()

    def _pass_requests(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if b"COMMIT" in data and self.at_commit:
                    at_commit, self.at_commit = self.at_commit, None
                    self.cuts += 1
                    client.shutdown(socket.SHUT_WR)  # from here on the client receives nothing
                    at_commit(partial(server.sendall, data))
                    break
                server.sendall(data)
        for connection in (client, server):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _pass_answers(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                with contextlib.suppress(OSError):
                    client.sendall(data)
        for connection in (client, server):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Pooler:
    """Stands between clients and a server. Like PgBouncer it stays connected to clients when the server restarts."""

    IDLE = b"Z\x00\x00\x00\x05I"

    def __init__(self, url: str, folder: Path) -> None:
        self._target = f"{parse_qs(urlsplit(url).query)['host'][0]}/{SOCKET_NAME}"
        self.url = url.partition("?")[0] + f"?host={folder}"
        self.sessions = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / SOCKET_NAME))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            greeting = client.recv(65536)
            server, welcome = self._open_session(greeting)
            client.sendall(welcome)
            idle = True
            while True:
                ready, _, _ = select.select([client, server], [], [])
                if client in ready:
                    data = client.recv(65536)
                    if idle and server in ready:  # the only message of an idle session is that it ends
                        server.close()
                        server, _ = self._open_session(greeting)
                    if not data:
                        server.close()
                        return
                    idle = False
                    server.sendall(data)
                elif idle:
                    time.sleep(0.01)
                else:
                    data = server.recv(65536)
                    if not data:
                        return
                    idle = data.endswith(self.IDLE)
                    client.sendall(data)

    def _open_session(self, greeting: bytes) -> tuple[socket.socket, bytes]:
        self.sessions += 1
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._target)
        server.sendall(greeting)
        welcome = b""
        while not welcome.endswith(self.IDLE):
            welcome += server.recv(65536)
        return server, welcome


@pytest.fixture
def proxy(postgres_url: str, tmp_path: Path) -> Iterator[CommitProxy]:
    proxy = CommitProxy(postgres_url, tmp_path)
    yield proxy
    proxy.close()


@pytest.fixture
def records(proxy: CommitProxy) -> Iterator[PostgresRecords]:
    records = PostgresRecords(PostgresOptions(proxy.url))
    records.commit([ORGANIZATION])
    yield records
    records.close()


def test_a_commit_that_never_arrived_is_repeated(records: PostgresRecords, proxy: CommitProxy) -> None:
    proxy.at_commit = lambda _: None
    records.commit([Put(make_memory("m"))])
    assert proxy.cuts == 1
    assert records.get(Memory, "o", ["m"])


def test_a_commit_whose_answer_was_lost_is_not_repeated(records: PostgresRecords, proxy: CommitProxy) -> None:
    records.commit([Put(make_memory("m"))])
    proxy.at_commit = lambda send: (send(), time.sleep(0.3))
    records.commit([Patch(Memory, ("o", "m"), {"text": "once"})])
    assert proxy.cuts == 1
    assert records.get(Memory, "o", ["m"])["m"].version == 2


def test_a_commit_still_under_way_is_waited_for(
    records: PostgresRecords, proxy: CommitProxy, postgres_url: str
) -> None:
    """The old backend keeps its transaction open until it is ended; before that no other session may write the row."""
    may_continue = threading.Event()

    def hold_commit(_: Callable[[], object]) -> None:
        threading.Thread(target=_continue_later, args=(may_continue,), daemon=True).start()
        may_continue.wait()

    proxy.at_commit = hold_commit
    started = time.monotonic()
    records.commit([Put(make_memory("m"))])
    assert time.monotonic() - started > 0.4
    assert records.get(Memory, "o", ["m"])


def _continue_later(may_continue: threading.Event) -> None:
    time.sleep(0.5)
    may_continue.set()


def test_an_outcome_that_cannot_be_found_is_reported_as_unknown(proxy: CommitProxy) -> None:
    records = PostgresRecords(PostgresOptions(proxy.url, pool_size=1, connect_seconds=0.5, query_seconds=0.5))
    records.commit([ORGANIZATION])
    proxy.refuses_after_a_cut, proxy.at_commit = True, lambda _: None
    with pytest.raises(StoreUnavailable, match="outcome is unknown"):
        records.commit([Put(make_memory("m"))])
    records.close()


def test_sessions_ended_by_the_server_are_replaced(postgres_url: str) -> None:
    records = PostgresRecords(PostgresOptions(postgres_url))
    records.commit([ORGANIZATION])
    for number in range(5):
        with psycopg.connect(postgres_url, autocommit=True) as administrator:
            administrator.execute(
                """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()"""
            )
        records.commit([Put(make_memory(str(number)))])
        assert records.count(Memory, "o") == number + 1
    records.close()


class TestCrashedServer:
    """Each test has a server of its own to kill."""

    @pytest.fixture
    def server(self) -> Iterator[PostgresServer]:
        with PostgresServer(durable=True) as server:
            yield server

    def test_a_restarted_server_is_found_again(self, server: PostgresServer) -> None:
        records = PostgresRecords(PostgresOptions(server.create_database()))
        records.commit([ORGANIZATION, Put(make_memory("a"))])
        assert next(iter(records.columns(Memory, "o", ["id"]))) == ("a",)
        server.kill()
        restart = threading.Timer(1.0, server.start)
        restart.start()
        records.commit([Put(make_memory("b"))])
        restart.join()
        server.restart()
        assert list(records.columns(Memory, "o", ["id"])) == [("a",), ("b",)]
        records.close()

    @pytest.mark.parametrize("arrives", [False, True])
    def test_a_commit_during_a_server_crash_is_stored_once(
        self, server: PostgresServer, tmp_path: Path, arrives: bool
    ) -> None:
        url = server.create_database()
        proxy = CommitProxy(url, tmp_path)
        records = PostgresRecords(PostgresOptions(proxy.url))
        records.commit([ORGANIZATION, Put(make_memory("m"))])

        def crash(send: Callable[[], object]) -> None:
            if arrives:
                send()
                time.sleep(0.3)
            server.kill()
            server.start()
            with psycopg.connect(url) as other:  # this takes a transaction id that the lost transaction may have had
                other.execute("UPDATE organizations SET name = 'other'")

        proxy.at_commit = crash
        records.commit([Patch(Memory, ("o", "m"), {"text": "once"}), Put(make_memory("n"))])
        assert records.get(Memory, "o", ["m"])["m"].version == 2
        assert records.get(Memory, "o", ["n"])
        records.close()
        proxy.close()

    def test_a_commit_under_way_is_waited_for_behind_a_pooler_that_outlived_a_restart(
        self, server: PostgresServer, tmp_path: Path
    ) -> None:
        for name in ("pooler", "proxy"):
            (tmp_path / name).mkdir()
        pooler = Pooler(server.create_database(), tmp_path / "pooler")
        proxy = CommitProxy(pooler.url, tmp_path / "proxy")
        records = PostgresRecords(PostgresOptions(proxy.url, pool_size=1, transaction_pooler=True))
        records.commit([ORGANIZATION, Put(make_memory("m"))])
        before = pooler.sessions
        server.restart()
        assert records.count(Memory, "o") == 1
        assert pooler.sessions == before + 1  # the pooler kept the client
        proxy.at_commit = lambda send: (time.sleep(0.7), send(), time.sleep(0.3))
        records.commit([Patch(Memory, ("o", "m"), {"text": "once"})])
        assert proxy.cuts == 1
        assert records.get(Memory, "o", ["m"])["m"].version == 2
        records.close()
        proxy.close()
        pooler.close()

    def test_a_crash_of_one_backend_begins_another_run(self, server: PostgresServer) -> None:
        options = PostgresOptions(server.create_database())
        with connect(options) as connection:
            before = read_incarnation(connection)
        with connect(options) as connection:
            assert read_incarnation(connection) == before
            victim = connection.info.backend_pid
            os.kill(victim, signal.SIGKILL)
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT pg_sleep(5)")
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline:
            with contextlib.suppress(psycopg.OperationalError), connect(options) as connection:
                if read_incarnation(connection) != before:  # the server may not have noticed the kill yet
                    return
            time.sleep(0.1)
        pytest.fail("the server did not begin another run")


class TestReusedTransactionIds:
    """After a crash a transaction id alone proves nothing, because ids are reused: its rows must be found."""

    @pytest.fixture
    def connection_and_xid(self, postgres_url: str) -> Iterator[tuple[psycopg.Connection[tuple[object, ...]], int]]:
        records = PostgresRecords(PostgresOptions(postgres_url))
        records.commit([ORGANIZATION])
        records.commit([Put(make_memory("m"))])
        records.close()
        with connect(PostgresOptions(postgres_url)) as connection:
            [(xid,)] = connection.execute("SELECT xmin::text::bigint FROM memories").fetchall()
            yield connection, xid

    @pytest.mark.parametrize(
        ("operations", "expected"),
        [
            ([Put(make_memory("m"))], TransactionOutcome.COMMITTED),
            ([Patch(Memory, ("o", "m"), {"text": "m"})], TransactionOutcome.COMMITTED),
            ([Put(make_memory("lost"))], TransactionOutcome.ABORTED),
            ([Put(make_memory("lost")), Delete(Memory, ("o", "lost"))], TransactionOutcome.UNKNOWN),
            ([Patch(Memory, ("o", "other"), {"text": "m"})], TransactionOutcome.UNKNOWN),
            ([Delete(Memory, ("o", "m"))], TransactionOutcome.UNKNOWN),
        ],
    )
    def test_an_id_of_an_earlier_run_counts_only_with_its_rows(
        self,
        connection_and_xid: tuple[psycopg.Connection[tuple[object, ...]], int],
        operations: list[Operation],
        expected: TransactionOutcome,
    ) -> None:
        connection, xid = connection_and_xid
        assert find_outcome(connection, Ticket(xid, "an earlier run"), operations) is expected
        assert (
            find_outcome(connection, Ticket(xid, read_incarnation(connection)), operations)
            is TransactionOutcome.COMMITTED
        )

    def test_an_id_that_was_never_reused_means_aborted(
        self, connection_and_xid: tuple[psycopg.Connection[tuple[object, ...]], int]
    ) -> None:
        connection, xid = connection_and_xid
        assert find_outcome(connection, Ticket(xid + 1_000_000, "an earlier run"), []) is TransactionOutcome.ABORTED
