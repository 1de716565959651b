"""Ctrl-C while the command line loads its modules, runs or ends: exit code 130 and no traceback."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold
from everhold.interfaces.cli.failures import Interrupted
from everhold.interfaces.cli.interrupts import explain_interrupted_import, track_steps
from everhold.progress import StepProgress, UnstoredProgress
from everhold.testing.fake_embedder import FakeEmbedder
from tests.http_endpoint import Answer, HttpEndpoint
from tests.interfaces.conftest import Run

Start = Callable[..., "subprocess.Popen[bytes]"]

INTERRUPT_IMPORT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
        return None

sys.meta_path.insert(0, Interrupting())
from everhold_command import main
sys.exit(main())
"""
INTERRUPT_FLUSH = """
import os, signal, sys
from everhold_command import main
sys.stdout.flush = lambda: os.kill(os.getpid(), signal.SIGINT)
sys.exit(main())
"""
COMMAND = "import sys; from everhold_command import main; sys.exit(main())"
MODULES = ("everhold", "numpy", "typer")


def run_program(program: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    arguments = [sys.executable, "-c", program, "list", "--json"]
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("module", MODULES)
def test_an_interrupt_while_modules_load_ends_quietly(module: str, tmp_path: Path) -> None:
    store_memories(tmp_path / "everhold.db", 1)  # numpy is loaded when a store is opened
    completed = run_program(INTERRUPT_IMPORT.format(module=module), tmp_path)
    assert (completed.returncode, completed.stdout, completed.stderr) == (130, "", "")


def test_an_interrupt_while_the_output_is_written_is_quiet(tmp_path: Path) -> None:
    completed = run_program(INTERRUPT_FLUSH, tmp_path)
    assert completed.returncode == 130
    assert "Traceback" not in completed.stderr


def test_output_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    store_memories(tmp_path / "everhold.db", 1)
    arguments = [sys.executable, "-c", COMMAND, "list", "--user", "alice", "--json"]
    with Path("/dev/full").open("w") as full_device:
        completed = subprocess.run(
            arguments, cwd=tmp_path, stdout=full_device, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert completed.returncode != 0
    assert b"No space left" in completed.stderr


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A function that starts a command. Ctrl-C interrupts it even if the tests run in the background."""
    previous_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    processes: list[subprocess.Popen[bytes]] = []

    def start_command(*arguments: str, **streams: Any) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data"), "COLUMNS": "120", "TERM": "xterm"}
        command = [sys.executable, "-m", "everhold.interfaces.cli", *arguments]
        processes.append(subprocess.Popen(command, cwd=tmp_path, env=environment, **streams))
        return processes[-1]

    yield start_command
    for process in processes:
        process.kill()
        process.wait()
    signal.signal(signal.SIGINT, previous_handler)


def read_all(file: int) -> str:
    parts = []
    with suppress(OSError):  # Linux reports in this way that the other side of a terminal is closed
        while part := os.read(file, 4096):
            parts.append(part)
    return b"".join(parts).decode()


class PressingEndpoint(HttpEndpoint):
    """Embeds, and presses Ctrl-C in the process that sent the first request."""

    def __init__(self) -> None:
        super().__init__()
        self.press: Callable[[], None] | None = None

    def answer(self, body: dict[str, Any]) -> Answer:
        if self.press is not None:
            self.press()
            self.press = None
        rows = [{"index": index, "embedding": [float(len(text)), 1.0]} for index, text in enumerate(body["input"])]
        return 200, {}, {"data": rows}


def store_memories(path: Path, count: int) -> None:
    with Everhold.open(path, embedder=FakeEmbedder()) as engine:
        engine.scope(user="alice").remember_many(f"Note {number} is about ship {number}" for number in range(count))


def test_an_interrupted_import_says_what_was_stored(run: Run, start: Start, tmp_path: Path) -> None:
    store_memories(tmp_path / "everhold.db", 100)
    rows = run("export", "all.jsonl", "--json").document["rows"]
    with PressingEndpoint.serve() as endpoint:
        embedding = f"{{url: '{endpoint.url}', model: two, dimensions: 2}}"
        (tmp_path / "copy.yaml").write_text(f"storage: copy.db\nembedding: {embedding}\n", "utf-8")
        arguments = ("import", "all.jsonl", "--store", "copy.yaml")
        process = start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        endpoint.press = lambda: process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=300)
        assert (process.returncode, out) == (130, b"")
        message = f"all {rows} rows were imported, but not all are embedded; run the same command again to continue"
        assert errors.decode() == f"everhold: interrupted: {message}\n"
        second_import = json.loads(start(*arguments, "--json", stdout=subprocess.PIPE).communicate(timeout=300)[0])
    assert (second_import["added"], second_import["embedded"]) == (
        0,
        100 - 64,
    )  # the first batch of 64 was embedded before


def test_an_interrupt_waits_until_a_batch_is_stored() -> None:
    def import_two_batches() -> None:
        with track_steps(explain_interrupted_import, is_quiet=True) as report:
            os.kill(os.getpid(), signal.SIGINT)
            report(UnstoredProgress("embedding", 128, 256))
            report(StepProgress("importing", 256, 1500))

    previous_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(Interrupted, match="256 of 1,500 memories were imported and are kept"):
            import_two_batches()
    finally:
        signal.signal(signal.SIGINT, previous_handler)


def test_an_interrupted_export_to_a_pipe_says_that_it_is_incomplete(run: Run, start: Start, tmp_path: Path) -> None:
    store_memories(tmp_path / "everhold.db", 500)
    process = start("export", "-", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    process.stdout.read(1)  # the rest of the export does not fit into the pipe, so the command waits
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=300)
    assert (process.returncode, b'"end"' in out) == (130, False)
    message = "everhold: interrupted: the export is incomplete and cannot be imported; run the same command again\n"
    assert errors.decode() == message


def test_progress_on_a_terminal_has_a_total_and_a_rate(start: Start, tmp_path: Path) -> None:
    store_memories(tmp_path / "everhold.db", 500)
    terminal, errors = os.openpty()
    process = start("export", "all.jsonl", stdout=subprocess.PIPE, stderr=errors)
    os.close(errors)
    shown = read_all(terminal)
    os.close(terminal)
    assert process.wait(300) == 0
    assert re.search(r"exporting .* 1,\d{3} of 1,5\d{2}, [\d,]+/s", re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", shown))
