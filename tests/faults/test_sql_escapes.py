"""No statement leaves the sandbox. `benchmarks.sql_escapes` runs all mutations of every seed and measures them."""

from collections.abc import Iterator
from random import Random
from typing import Any

import duckdb
import pytest

from benchmarks.escape_seeds import MUTATIONS, SEEDS, mutate
from benchmarks.sql_escapes import LIMITS, EscapeWorld, attack, build_world, prepare_postgres
from everhold.adapters.data_engine import SandboxedDataEngine
from everhold.ports.data_engine import CheckedStatement, ParquetTables, QueryResult
from tests.exhaustive import IS_EXHAUSTIVE, choose_size
from tests.servers.postgres import PostgresServer
from tests.servers.shared_database import read_database_name

# The number of seeds at the end of each engine's list that only take time and memory.
BOMBS = {"duckdb": 10, "sqlite": 10, "postgres": 4}

# The same engines read files of connections and uploaded files. `make connections` attacks MariaDB.
CONNECTIONS = ("duckdb_connection", "sqlite_connection", "adbc_connection")
ENGINES = ("duckdb", "sqlite", "postgres", *(CONNECTIONS if IS_EXHAUSTIVE else ()))


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[EscapeWorld]:
    monkeypatch.setenv("CANARY", "canary7f3a91")
    url = None
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        owner = request.getfixturevalue("empty_postgres_url")
        server.create_role("reader")
        prepare_postgres(owner, "reader")
        url = server.url(read_database_name(owner), role="reader")
    with build_world(request.param, url) as world:
        yield world


@pytest.fixture
def engine() -> Iterator[SandboxedDataEngine]:
    engine = SandboxedDataEngine(LIMITS, cache_megabytes=0)
    yield engine
    engine.close()


@pytest.mark.slow
def test_the_guard_refuses_statements_that_try_to_escape(world: EscapeWorld, engine: SandboxedDataEngine) -> None:
    seeds = SEEDS[world.data.dialect]
    outcome = attack(engine, world, seeds[: -BOMBS[world.data.dialect]], 20, guarded=True)
    assert outcome.escapes == []
    assert outcome.passed_guard <= 2 * len(MUTATIONS), "only statements that select nothing but constants may pass"


@pytest.mark.slow
def test_the_sandbox_holds_without_the_guard(world: EscapeWorld, engine: SandboxedDataEngine) -> None:
    seeds, mutations = SEEDS[world.data.dialect], choose_size(0, 20)
    outcome = attack(engine, world, seeds[: -BOMBS[world.data.dialect]], mutations, guarded=False)
    assert outcome.escapes == []
    assert outcome.statements == (mutations + 1) * (len(seeds) - BOMBS[world.data.dialect])


@pytest.mark.slow
def test_statements_that_take_too_long_are_ended(world: EscapeWorld, engine: SandboxedDataEngine) -> None:
    bombs = SEEDS[world.data.dialect][-BOMBS[world.data.dialect] :]
    outcome = attack(engine, world, bombs, 0, guarded=False)
    assert outcome.escapes == []
    assert outcome.answered <= 4, "a few stay within the limits"


def test_the_attack_notices_an_escape() -> None:
    """Without a sandbox the same attack reads the secret and writes a file."""

    class UnguardedEngine:
        def run(self, data: Any, statement: CheckedStatement) -> QueryResult:
            rows = tuple(duckdb.connect().execute(statement.sql).fetchall())
            return QueryResult((), rows, False, 0.0, len(rows))

    with build_world("duckdb") as world:
        assert isinstance(world.data, ParquetTables)
        seeds = ("SELECT content FROM read_text('{secret}')", "COPY (SELECT 1) TO '{write}'")
        outcome = attack(UnguardedEngine(), world, seeds, 0, guarded=False)  # type: ignore[arg-type]
        assert outcome.escapes == [world.fill(seed) for seed in seeds]


@pytest.mark.parametrize("dialect", SEEDS)
def test_every_seed_has_twenty_mutations(dialect: str) -> None:
    assert len(SEEDS[dialect]) >= 25
    for seed in SEEDS[dialect]:
        assert len(set(mutate(seed, 20, Random(1)))) == 21, seed
