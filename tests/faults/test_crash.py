"""A crash loses no acknowledged write and leaves no partial one, and a retry adds no duplicate."""

import pytest

from benchmarks import crash
from benchmarks.crash_writer import VECTOR_FIRST
from tests.exhaustive import choose_size

pytestmark = [pytest.mark.crash, pytest.mark.slow]

# `make attack` kills each store's writers 500 times.
KILLS = {
    "sqlite": choose_size(6, 12),
    "postgres": choose_size(4, 8),
    "duckdb": choose_size(3, 6),
    "dynamodb": choose_size(3, 5),
}
KILLS_WITH_SERVERS = choose_size(1, 2)
SERVER_KILLS = choose_size(1, 2)
PLANTED_KILLS = 8


@pytest.mark.parametrize("store", KILLS)
def test_every_promise_is_kept_when_writers_are_killed(store: str) -> None:
    """On PostgreSQL, the server is killed too."""
    server_kills = SERVER_KILLS if store == "postgres" else 0
    outcome = crash.run(store, KILLS[store], server_kills=server_kills)
    assert not outcome.wrong
    assert (outcome.kills, outcome.server_kills, outcome.went_on) == (KILLS[store], server_kills, server_kills)
    assert outcome.figures["acknowledged"] > KILLS[store]
    assert outcome.figures["in_flight"] >= KILLS[store]


@pytest.mark.parametrize("store", [pytest.param(store, id=f"{store}_chroma_redis") for store in KILLS])
def test_killed_writers_lose_nothing_with_chroma_and_redis(store: str) -> None:
    outcome = crash.run(store, KILLS_WITH_SERVERS, with_servers=True)
    assert not outcome.wrong
    assert outcome.kills == KILLS_WITH_SERVERS
    assert outcome.figures["acknowledged"] > KILLS_WITH_SERVERS


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_vector_written_before_its_record_is_caught(store: str) -> None:
    outcome = crash.run(store, PLANTED_KILLS, plant=VECTOR_FIRST)
    assert outcome.figures["orphans"] > 0
    assert "without the memory" in outcome.wrong[0]
