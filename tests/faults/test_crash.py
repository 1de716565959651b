"""A crash loses nothing that was acknowledged, leaves nothing half there, and a retry makes no duplicate."""

import pytest

from benchmarks import crash
from benchmarks.crash_writer import VECTOR_FIRST
from tests.exhaustive import choose_size

pytestmark = [pytest.mark.crash, pytest.mark.slow]

KILLS = {
    "sqlite": choose_size(6, 12),
    "postgres": choose_size(4, 8),
    "duckdb": choose_size(3, 6),
    "dynamodb": choose_size(3, 5),
}
"""`make attack` kills each store's writers 500 times."""
KILLS_BESIDE = choose_size(1, 2)
SERVER_KILLS = choose_size(1, 2)
PLANTED_KILLS = 8


@pytest.mark.parametrize("store", KILLS)
def test_every_promise_is_kept_when_writers_are_killed(store: str) -> None:
    """And PostgreSQL's server, too."""
    server_kills = SERVER_KILLS if store == "postgres" else 0
    toll = crash.run(store, KILLS[store], server_kills=server_kills)
    assert not toll.wrong
    assert (toll.kills, toll.server_kills, toll.went_on) == (KILLS[store], server_kills, server_kills)
    assert toll.figures["acknowledged"] > KILLS[store]
    assert toll.figures["in_flight"] >= KILLS[store]


@pytest.mark.parametrize("store", [pytest.param(store, id=f"{store}_chroma_redis") for store in KILLS])
def test_with_vectors_in_chroma_and_sessions_in_redis_too(store: str) -> None:
    toll = crash.run(store, KILLS_BESIDE, beside=True)
    assert not toll.wrong
    assert toll.kills == KILLS_BESIDE
    assert toll.figures["acknowledged"] > KILLS_BESIDE


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_vector_written_before_its_record_is_caught(store: str) -> None:
    toll = crash.run(store, PLANTED_KILLS, plant=VECTOR_FIRST)
    assert toll.figures["orphans"] > 0
    assert "but not the memory" in toll.wrong[0]
