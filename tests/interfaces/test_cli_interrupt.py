"""Ctrl-C while the command line loads its modules, runs or ends: exit code 130 and no traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
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
ENDING = """
import atexit, os, signal, sys
from everhold_command import main
atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.exit(main())
"""
LOADED = ("everhold", "numpy", "typer")


def run(program: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    arguments = [sys.executable, "-c", program, "list", "--json"]
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("module", LOADED)
def test_an_interrupt_while_modules_load_ends_quietly(module: str, tmp_path: Path) -> None:
    done = run(PROGRAM.format(module=module), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_while_the_interpreter_ends_is_quiet(tmp_path: Path) -> None:
    done = run(ENDING, tmp_path)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
