"""The log reports slow calls and threads, and contains no text of users."""

import logging
import threading
from pathlib import Path

import pytest

from everhold import Everhold
from everhold.background import BackgroundThread
from everhold.errors import StoreUnavailable
from everhold.interfaces.cli import main
from everhold.testing.fake_embedder import FakeEmbedder

SECRET = "Alice keeps her passport in the blue drawer"


def log_a_call(folder: Path, caplog: pytest.LogCaptureFixture, slow_call_seconds: float) -> list[str]:
    with (
        caplog.at_level(logging.DEBUG, "everhold"),
        Everhold.open(folder / "a.db", embedder=FakeEmbedder(), slow_call_seconds=slow_call_seconds) as engine,
    ):
        engine.scope(user="alice").remember(SECRET)
        engine.scope(user="alice").recall("passport")
    return [record.getMessage() for record in caplog.records]


def test_slow_calls_are_named_and_texts_are_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = log_a_call(tmp_path, caplog, slow_call_seconds=1e-9)
    assert [line.split(" took ")[0] for line in lines if "slow" in line] == ["slow call: remember", "slow call: recall"]
    assert "everhold-access started" in lines
    assert "everhold-access stopped" in lines
    assert "passport" not in caplog.text


def test_fast_calls_are_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert not [line for line in log_a_call(tmp_path, caplog, slow_call_seconds=3600) if "slow" in line]


def test_verbose_shows_the_log_on_standard_error_during_the_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("everhold")
    state_before = (list(logger.handlers), logger.level)
    file = str(tmp_path / "a.db")
    Everhold.open(file, embedder=FakeEmbedder()).close()
    assert main(["-v", "log", "--store", file]) == 0
    assert "INFO everhold.background: everhold-access started" in capfd.readouterr().err
    assert (logger.handlers, logger.level) == state_before


def test_texts_in_errors_of_background_threads_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        try:
            raise ValueError(SECRET)
        except ValueError as error:
            raise StoreUnavailable(f"it failed ({error})") from error

    BackgroundThread("everhold-test", fail, threading.Event()).attempt(fail)
    assert "StoreUnavailable" in caplog.text
    assert "ValueError" in caplog.text
    assert "passport" not in caplog.text
