"""Runs commands in this process, in a new folder for each test, with the real model loaded once."""

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold, embedders, settings
from everhold.interfaces.cli import main


@dataclass(frozen=True)
class CommandOutput:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)


Run = Callable[..., CommandOutput]


@pytest.fixture(scope="session")
def model() -> Any:
    """The real model. Loading it takes most of a command's time, so all commands in this process share it."""
    return embedders.make_embedder(settings.load())


@pytest.fixture
def run(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that runs a command as `everhold` would; `typed` is its standard input."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("EVERHOLD_SQLITE__SYNCHRONOUS", "NORMAL")  # a command need not survive a power cut here
    monkeypatch.setattr(embedders, "make_embedder", lambda _: model)

    def run_command(*arguments: str, typed: str | bytes = b"") -> CommandOutput:
        stream = io.BytesIO(typed.encode() if isinstance(typed, str) else typed)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream, encoding="utf-8"))
        capsys.readouterr()
        code = main(arguments)
        output = capsys.readouterr()
        return CommandOutput(code, output.out, output.err)

    return run_command


@pytest.fixture
def empty_store(run: Run, tmp_path: Path) -> None:
    """The default store, without any data. Commands that read do not create it."""
    Everhold.open(tmp_path / "everhold.db").close()
