"""Maintenance that is killed loses no memory and leaves no change half-done; undoing its run restores the store."""

import pytest

from benchmarks import maintenance_crash
from tests.exhaustive import choose_size

pytestmark = [pytest.mark.crash, pytest.mark.slow]

# `make attack` kills maintenance 200 times on SQLite and 50 times on PostgreSQL.
KILLS = {"sqlite": choose_size(3, 8), "postgres": choose_size(1, 4)}


@pytest.mark.parametrize("store", KILLS)
def test_killed_maintenance_is_undone(store: str) -> None:
    outcome = maintenance_crash.run(store, KILLS[store])
    assert not outcome.wrong
    assert outcome.kills == KILLS[store]
    assert outcome.journalled > 0


def test_a_change_that_is_not_journalled_is_caught() -> None:
    outcome = maintenance_crash.run("sqlite", 1, plant=maintenance_crash.UNJOURNALLED)
    assert outcome.half_done
    assert outcome.not_restored
