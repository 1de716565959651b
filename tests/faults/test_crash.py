"""A crash loses nothing that was acknowledged, leaves nothing half there, and a retry makes no duplicate."""

import pytest

from benchmarks import crash
from benchmarks.crash_writer import VECTOR_FIRST

pytestmark = [pytest.mark.crash, pytest.mark.slow]

KILLS = 25
SERVER_KILLS = 3
PLANTED_KILLS = 12


def test_sqlite_keeps_every_promise_when_its_writers_are_killed() -> None:
    toll = crash.run("sqlite", KILLS)
    assert not toll.wrong
    assert toll.kills == KILLS
    assert toll.figures["acknowledged"] > KILLS
    assert toll.figures["in_flight"] >= KILLS


def test_postgres_keeps_every_promise_when_its_writers_and_its_server_are_killed() -> None:
    toll = crash.run("postgres", KILLS, server_kills=SERVER_KILLS)
    assert not toll.wrong
    assert (toll.kills, toll.server_kills, toll.went_on) == (KILLS, SERVER_KILLS, SERVER_KILLS)
    assert toll.figures["acknowledged"] > KILLS
    assert toll.figures["in_flight"] >= KILLS


@pytest.mark.parametrize("store", ["duckdb", "dynamodb"])
def test_the_other_stores_keep_every_promise_when_their_writers_are_killed(store: str) -> None:
    toll = crash.run(store, PLANTED_KILLS)
    assert not toll.wrong
    assert toll.kills == PLANTED_KILLS
    assert toll.figures["acknowledged"] > PLANTED_KILLS


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_vector_written_before_its_record_is_caught(store: str) -> None:
    toll = crash.run(store, PLANTED_KILLS, plant=VECTOR_FIRST)
    assert toll.figures["orphans"] > 0
    assert "but not the memory" in toll.wrong[0]
