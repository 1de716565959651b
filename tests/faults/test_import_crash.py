"""An import that is killed and repeated ends like one that was never disturbed."""

import pytest

from benchmarks import import_crash
from tests.exhaustive import choose_size

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def test_a_killed_import_is_finished() -> None:
    # `python -m benchmarks.import_crash` kills it 30 times.
    outcome = import_crash.run(choose_size(1, 8))
    assert outcome["different"] == []
