"""Runs of maintenance on the command line: repeated, listed and undone."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.interfaces.conftest import Run
from tests.interfaces.test_cli_edge import COMMAND, make_environment


def test_a_run_is_listed_and_undone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "has not run" in run("remember", "The first", "--user", "alice").out + run("runs").out
    run("remember", "The second", "--user", "alice", "--priority", "9")
    monkeypatch.setenv("EVERHOLD_MAINTENANCE__MAX_MEMORIES", "1")
    report = run("maintain", "prune", "--json").document
    assert run("count", "--user", "alice", "--json").document == {"count": 1}
    listed = run("runs")
    assert report["run_id"] in listed.out
    assert "prune: 1 memories" in listed.out
    assert run("undo-run", report["run_id"]).out == "undid 1 change\n"
    assert run("count", "--user", "alice", "--json").document == {"count": 2}
    assert run("runs", "--json").document["runs"][0]["undone_at"] is not None
    unknown = run("undo-run", "run_none")
    assert (unknown.code, unknown.err) == (
        1,
        "everhold: no run 'run_none' of maintenance; `everhold runs` lists the runs\n",
    )


@pytest.mark.parametrize("every", ["0s", "often", "-1h", "1.5h", ""])
def test_a_wrong_duration_is_refused(run: Run, every: str) -> None:
    result = run("maintain", "--every", every)
    assert result.code == 2
    assert result.err == f"everhold: --every {every!r} is not a duration; write it as 30m, 1h or 2d\n"
    assert run("maintain", "--every", "1h", "--dry-run").code == 2


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_repeated_maintenance_ends_cleanly(run: Run, tmp_path: Path, signal_number: signal.Signals) -> None:
    """After two runs a signal comes, while the process waits or works; the exit code is 0."""
    run("remember", "hello")
    # A test run in the background ignores SIGINT, and so do its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [*COMMAND, "maintain", "outbox", "--every", "1s", "--json"], env=make_environment(tmp_path), cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    reports = [json.loads(process.stdout.readline()) for _ in range(2)]
    process.send_signal(signal_number)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    reports += map(json.loads, out.splitlines())
    assert {job["outcome"] for report in reports for job in report["jobs"]} <= {"done", "unfinished"}
    assert len({report["run_id"] for report in reports}) == len(reports)
