"""An agent that is killed continues where it stopped: it loses no action and takes none twice."""

import pytest

from benchmarks import agent_crash
from tests.exhaustive import choose_size

pytestmark = [pytest.mark.crash, pytest.mark.slow]

# The number of kills. `make attack` kills the agent 200 times on each store.
KILLS = {"sqlite": choose_size(4, 12), "postgres": choose_size(2, 6)}


@pytest.mark.parametrize("store", KILLS)
def test_a_killed_agent_does_everything_once(store: str) -> None:
    outcome = agent_crash.run(store, KILLS[store])
    assert not outcome.wrong
    assert outcome.kills == KILLS[store]


def test_a_tool_that_ignores_its_key_is_caught() -> None:
    outcome = agent_crash.run("sqlite", 1, plant=agent_crash.IGNORED_KEYS)
    assert outcome.problems["other_mails"]
    assert not outcome.problems["other_cycles"]
