"""If a backup is killed, earlier backups stay intact."""

import pytest

from benchmarks import backup_crash
from tests.exhaustive import choose_size

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def test_a_killed_backup_damages_no_other_backup() -> None:
    # `python -m benchmarks.backup_crash` kills a backup 30 times.
    outcome = backup_crash.run(choose_size(2, 8))
    assert outcome["faults"] == []
