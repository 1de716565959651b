"""An import that is killed and repeated ends with the same rows as an undisturbed import."""

import pytest

from benchmarks import import_crash
from tests.exhaustive import choose_size

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def test_repeating_a_killed_import_completes_it() -> None:
    # `python -m benchmarks.import_crash` kills 30 imports.
    outcome = import_crash.run(choose_size(1, 8))
    assert outcome["different"] == []
