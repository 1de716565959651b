"""Databases that are dead, slow or hostile: a clear error in time, bounded memory, and no secret given away."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.sql_escapes import MemorySampler
from everhold import DataUnavailable, EverholdError, InvalidInput
from everhold.adapters.data_engine import SandboxedDataEngine, SandboxedProfiler
from everhold.ask.connections.address import parse_address
from everhold.ports.data_engine import CheckedStatement, QueryLimits
from everhold.ports.databases import DatabaseTables, ProfileLimits
from everhold.progress import ignore_progress
from tests.servers import hostile_database as hostile
from tests.servers.hostile_database import Behaviour, HostileDatabase
from tests.servers.server import find_free_port

LIMITS = QueryLimits(seconds=30, megabytes=128)
SHORT_LIMITS = QueryLimits(seconds=1.5, megabytes=128)
SECRET = "hunter2secret"
SCHEMES = ("postgresql", "mysql")


@pytest.fixture
def engine() -> Iterator[SandboxedDataEngine]:
    engine = SandboxedDataEngine(LIMITS)
    yield engine
    engine.close()


def make_tables(scheme: str, port: int) -> DatabaseTables:
    return DatabaseTables(parse_address(f"{scheme}://reader:{SECRET}@127.0.0.1:{port}/shop"), hosts=("localhost",))


def get_error(engine: SandboxedDataEngine, scheme: str, port: int, limits: QueryLimits = LIMITS) -> EverholdError:
    """Run a statement that must fail, and return its error, which must not show the password."""
    data = make_tables(scheme, port)
    statement = CheckedStatement("SELECT 1", data.dialect, frozenset(), 10)
    with pytest.raises(EverholdError) as raised:
        engine.run(data, statement, limits)
    assert SECRET not in str(raised.value)
    return raised.value


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_dead_server_is_reported_with_its_port(engine: SandboxedDataEngine, scheme: str) -> None:
    port = find_free_port()
    error = get_error(engine, scheme, port)
    assert isinstance(error, DataUnavailable)
    assert "refused" in str(error)
    assert str(port) in str(error)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("behaviour", [hostile.hang_up, hostile.speak_http, hostile.send_garbage])
def test_a_server_with_another_protocol_is_reported(
    engine: SandboxedDataEngine, scheme: str, behaviour: Behaviour
) -> None:
    with HostileDatabase(behaviour) as server:
        assert isinstance(get_error(engine, scheme, server.port), DataUnavailable)


@pytest.mark.parametrize(
    ("scheme", "behaviour"),
    [
        ("postgresql", hostile.keep_silent),
        ("postgresql", hostile.drip_postgres),
        ("mysql", hostile.keep_silent),
        ("mysql", hostile.drip_mysql),
    ],
)
def test_a_slow_server_is_a_retryable_error(engine: SandboxedDataEngine, scheme: str, behaviour: Behaviour) -> None:
    with HostileDatabase(behaviour) as server:
        error = get_error(engine, scheme, server.port, SHORT_LIMITS)
    assert isinstance(error, DataUnavailable)
    assert error.retryable


def test_a_server_that_is_slow_while_tables_are_read_is_reported() -> None:
    with HostileDatabase(hostile.keep_silent) as server, pytest.raises(DataUnavailable, match="did not answer within"):
        SandboxedProfiler().profile(make_tables("mysql", server.port), ProfileLimits(seconds=1.5), ignore_progress)


@pytest.mark.parametrize(
    ("scheme", "behaviour"), [("postgresql", hostile.flood_postgres), ("mysql", hostile.flood_mysql)]
)
def test_memory_is_bounded(engine: SandboxedDataEngine, scheme: str, behaviour: Behaviour) -> None:
    with HostileDatabase(behaviour) as server, MemorySampler() as memory:
        get_error(engine, scheme, server.port, replace(LIMITS, seconds=6))
    assert 0 < memory.peak_megabytes <= 1.2 * LIMITS.megabytes


def test_no_file_is_sent_to_a_server_that_asks_for_one(engine: SandboxedDataEngine, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary5d1c")
    with HostileDatabase(hostile.ask_for_file(str(secret))) as server:
        assert isinstance(get_error(engine, "mysql", server.port), DataUnavailable)
        time.sleep(0.05)  # so that the last bytes of the client arrive
        assert server.received
        assert b"canary5d1c" not in server.received


def test_the_password_is_not_sent_in_clear_text(engine: SandboxedDataEngine) -> None:
    with HostileDatabase(hostile.ask_for_password) as server:
        assert "clear text" in str(get_error(engine, "mysql", server.port))
        assert SECRET.encode() not in server.received


def test_messages_of_a_server_are_cleaned(engine: SandboxedDataEngine) -> None:
    with HostileDatabase(hostile.repeat_password(SECRET)) as server:
        message = str(get_error(engine, "mysql", server.port))
    assert "Access denied" in message
    assert message.isprintable()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "10.1.2.3"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_private_hosts_are_refused(engine: SandboxedDataEngine, scheme: str, host: str) -> None:
    with HostileDatabase(hostile.keep_silent) as server:
        address = parse_address(f"{scheme}://reader@{host}:{server.port}/shop")
        statement = CheckedStatement("SELECT 1", address.dialect, frozenset(), 10)
        with pytest.raises(InvalidInput, match=r"not allowed; add the host to the setting connections\.hosts"):
            engine.run(DatabaseTables(address), statement)
        assert not server.received
