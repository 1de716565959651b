"""Imports refuse or quarantine hostile files with a reason, need little memory, and leave the store unchanged."""

import json
import subprocess
import sys
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.import_hostile import HOSTILE

MAX_MEGABYTES = 256


def test_hostile_files_are_refused_or_quarantined(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.import_hostile", str(tmp_path)]
    process = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=1500, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    outcomes = json.loads(process.stdout)
    assert outcomes.keys() == HOSTILE.keys()
    assert len(outcomes) >= 50
    assert {name: outcome for name, outcome in outcomes.items() if not outcome["is_unchanged"]} == {}
    assert {name: outcome for name, outcome in outcomes.items() if outcome["reason"].startswith("imported")} == {}
    assert all(outcome["reason"] for outcome in outcomes.values())
    assert max(outcome["megabytes"] for outcome in outcomes.values()) <= MAX_MEGABYTES
    assert not Path("/tmp/everhold-was-here").exists()
