"""For every test: a real PostgreSQL, Hypothesis without chance, the count of contract tests per store."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from recollect.testing.postgres_server import PostgresServer

REPOSITORY = Path(__file__).resolve().parent.parent
CONTRACT_TESTS = "tests/contract/"

hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server per test process, started by the first test that needs it. Fast; not for crashes."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def durable_postgres_server() -> Iterator[PostgresServer]:
    """A server that keeps every promise of a production one; for tests that kill and restart it."""
    with PostgresServer(durable=True) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a new, empty database in which `CREATE EXTENSION vector` works."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url.partition("?")[0].rpartition("/")[2])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed = contract_tests_per_store(report.nodeid for report in terminalreporter.getreports("passed"))
    if passed:
        counts = " · ".join(f"{store} {count}" for store, count in sorted(passed.items()))
        terminalreporter.section("contract tests")
        terminalreporter.write_line(f"contract tests passed: {counts}")


def contract_tests_per_store(test_names: Iterator[str]) -> Counter[str]:
    """How many of these are contract tests, by the store among their parameters: `test_x[sqlite-3]`."""
    stores = {folder.name for folder in (REPOSITORY / "src/recollect/adapters").glob("*/")}
    parameters = (re.search(r"\[(.*)]$", name) for name in test_names if CONTRACT_TESTS in name)
    return Counter(part for found in parameters if found for part in set(found[1].split("-")) if part in stores)
