"""Fixtures for all tests: real servers and stores. Makes Hypothesis repeatable, and counts contract tests."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from _pytest.nodeid import coerce_node_id

from everhold.adapters.chroma import read_address
from everhold.adapters.chroma.connection import acquire_process
from tests.engines import EVERY_STORE, STORES, Store, make_store
from tests.exhaustive import LEFT_OUT_FILES, is_left_out
from tests.servers.chroma import ChromaServer
from tests.servers.dynamodb import DynamoServer
from tests.servers.postgres import PostgresServer
from tests.servers.shared_database import SharedDatabase, read_database_name
from tests.servers.valkey import ValkeyCluster, ValkeyServer

REPOSITORY = Path(__file__).resolve().parent.parent
CONTRACT_TESTS = "tests/contract/"
# The contract that each file of contract tests checks; the crash tests are in tests/faults.
SUITES = {
    "records": "records", "records_machine": "machine", "third_party_store": "records", "session_cache": "sessions",
    "engine": "engine", "crash": "crash",
}  # fmt: skip

# A busy machine may take longer to read a file than the usual limit allows.
os.environ.setdefault("EVERHOLD_UPLOADS__SECONDS", "120")

hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server per test process, started by the first test that needs it. It may lose data in a crash."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def durable_postgres_server() -> Iterator[PostgresServer]:
    """A server that loses no data in a crash, for tests that kill and restart it."""
    with PostgresServer(durable=True) as server:
        yield server


@pytest.fixture(scope="session")
def dynamodb_server() -> Iterator[DynamoServer]:
    """One server per test process, started by the first test that needs it."""
    with DynamoServer() as server:
        yield server


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    """One server per test process, started by the first test that needs it. Tests must not stop it."""
    with ValkeyServer() as server:
        yield server


@pytest.fixture(scope="session")
def valkey_cluster() -> Iterator[ValkeyCluster]:
    """Three servers as a Cluster, started by the first test that needs them."""
    with ValkeyCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def chroma_server() -> Iterator[ChromaServer]:
    """One server per test process, started by the first test that needs it. Tests must not kill it.

    The engine's client process for it takes a second to start, so it is kept from test to test.
    """
    with ChromaServer() as server:
        chroma = acquire_process(read_address(server.url), 10.0)
        yield server
        chroma.release()


@pytest.fixture(scope="session")
def shared_database(postgres_server: PostgresServer) -> SharedDatabase:
    return SharedDatabase(postgres_server)


@pytest.fixture
def postgres_url(shared_database: SharedDatabase) -> str:
    """The address of a database with the schema and without rows."""
    return shared_database.provide()


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a new database without a table, in which `CREATE EXTENSION vector` works."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(read_database_name(url))


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = make_store(request.param, request, tmp_path)
    yield store
    store.close()


@pytest.fixture(params=EVERY_STORE)
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = make_store(request.param, request, tmp_path)
    yield store
    store.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if is_left_out(item.nodeid)]
    config.stash[LEFT_OUT_FILES] = {item.path for item in left_out}
    if left_out:
        items[:] = [item for item in items if not is_left_out(item.nodeid)]
        config.hook.pytest_deselected(items=left_out)
    # Slow tests and groups run first. Otherwise, at the end of the run, one process works and the others wait.
    items.sort(key=lambda item: not any(item.get_closest_marker(name) for name in ("slow", "xdist_group")))
    if config.getoption("loadgroup", default=False):
        for item in items:
            _name_group(item)


def _name_group(item: pytest.Item) -> None:
    """Append the group of a test to its id, because pytest-xdist assigns tests to processes by this part of the id.

    pytest-xdist 3.8 itself appends it to an attribute that pytest 9.2 no longer reads.
    """
    group = item.get_closest_marker("xdist_group")
    if group is not None and "@" not in item.nodeid.rpartition("]")[2]:
        item._id = coerce_node_id(f"{item.nodeid}@{group.args[0]}")  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed = count_contract_tests(report.nodeid for report in terminalreporter.getreports("passed"))
    if not passed:
        return
    terminalreporter.section("contract tests passed")
    for (suite, store_name), count in sorted(passed.items()):
        terminalreporter.write_line(f"{suite:10} {store_name:32} {count:5}")
    gaps = [report for report in terminalreporter.getreports("xfailed") if CONTRACT_TESTS in report.nodeid]
    for report in gaps:
        test, _, store_name = report.nodeid.rpartition("test_")[2].rstrip("]").partition("[")
        terminalreporter.write_line(f"{'gap':10} {store_name}, {test.replace('_', ' ')}: {report.wasxfail}")
    if not gaps:
        terminalreporter.write_line(f"{'gaps':10} none")


def count_contract_tests(test_names: Iterator[str]) -> Counter[tuple[str, str]]:
    """Count the contract tests by contract and store. `test_records.py::…[sqlite-3]` counts for records and sqlite."""
    counts: Counter[tuple[str, str]] = Counter()
    for name in test_names:
        match = re.search(r"/test_(?P<file>\w+)\.py::.*\[(?P<store>[a-z_]+)", name)
        if match and match["file"] in SUITES:
            counts[SUITES[match["file"]], match["store"]] += 1
    return counts
