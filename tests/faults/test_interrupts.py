"""The engine survives random interrupts: a short form of `python -m benchmarks.interrupts`."""

import pytest

from benchmarks import interrupts

pytestmark = [pytest.mark.crash, pytest.mark.slow]


@pytest.mark.parametrize("store", ["sqlite", "memory"])
def test_the_engine_works_after_random_interrupts(store: str) -> None:
    outcome = interrupts.run(store, 40)
    assert not outcome.wrong
    assert outcome.interrupts == 40
    assert outcome.acknowledged > 40
