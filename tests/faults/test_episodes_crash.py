"""If a build of episodes is killed and then completed, each message is summarised once, as in an undisturbed build."""

import pytest

from benchmarks import episodes_crash
from tests.exhaustive import choose_size

pytestmark = [pytest.mark.crash, pytest.mark.slow]

# `make attack` kills builds in 200 stores on SQLite and in 50 on PostgreSQL.
STORES = {"sqlite": choose_size(3, 8), "postgres": choose_size(1, 4)}


@pytest.mark.parametrize("store", STORES)
def test_a_killed_build_is_finished(store: str) -> None:
    outcome = episodes_crash.run(store, STORES[store])
    assert not outcome.wrong
    assert outcome.kills >= STORES[store]


def test_rollups_without_their_episodes_are_caught() -> None:
    outcome = episodes_crash.run("sqlite", 1, plant=episodes_crash.DIVIDED)
    assert outcome.half_done
    assert outcome.different
