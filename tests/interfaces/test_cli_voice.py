"""`everhold serve-voice` as a process: what it prints, how it stops, and that it keeps every acknowledged write."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq

from everhold import Everhold, interfaces
from everhold.testing.fake_embedder import FakeEmbedder
from tests.interfaces.conftest import Run
from tests.voice_gateway import Client

# The command with an embedder that needs no model to be loaded.
PROGRAM = """
import sys
from everhold import embedders
from everhold.embedders import EmbeddingParts
from everhold.testing.fake_embedder import FakeEmbedder
model = FakeEmbedder()
embedders.make_embedder = lambda _: EmbeddingParts(model, model)
from everhold.interfaces.cli import main
sys.exit(main(sys.argv[1:]))
"""
FREE_PORTS = ("--bind", "tcp://127.0.0.1:*=jarvis@home", "--publish", "tcp://127.0.0.1:*")


@contextmanager
def start(folder: Path, *options: str, **variables: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "serve-voice", *options],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_addresses(process: "subprocess.Popen[str]") -> list[dict[str, Any]]:
    assert process.stdout is not None
    addresses: list[dict[str, Any]] = json.loads(process.stdout.readline())["listening"]
    return addresses


def write_until_stopped(stop: threading.Event, address: str, name: str, acknowledged: list[str]) -> None:
    context = zmq.Context()
    client = Client(context, address)
    number = 0
    while not stop.is_set():
        client.send(json.dumps({"action": "add_memory", "user_id": name, "memory": f"{name} {number}"}).encode())
        if not client.socket.poll(1500):
            break
        assert json.loads(client.socket.recv()) == {"status": "ok"}
        acknowledged.append(f"{name} {number}")
        number += 1
    context.destroy(0)


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_gateway_and_keeps_every_acknowledged_write(
    tmp_path: Path, signal_number: signal.Signals
) -> None:
    acknowledged: dict[str, list[str]] = {f"client-{number}": [] for number in range(4)}
    with start(tmp_path, *FREE_PORTS, "--json") as process:
        address, stop = read_addresses(process)[0]["address"], threading.Event()
        threads = [
            threading.Thread(target=write_until_stopped, args=(stop, address, name, writes))
            for name, writes in acknowledged.items()
        ]
        for thread in threads:
            thread.start()
        while not all(acknowledged.values()):
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(signal_number)
        assert process.wait(100) == 0
        stop.set()
        for thread in threads:
            thread.join()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    with Everhold.open(tmp_path / "everhold.db", embedder=FakeEmbedder()) as engine:
        for name, writes in acknowledged.items():
            view = engine.scope(organization="home", user=name)
            stored = {memory.content["value"] for memory in view.list(kind="interaction", limit=1000)}
            assert set(writes) <= stored
        assert engine.verify_log("home").intact


def test_the_first_line_of_output_names_protocols_and_addresses(tmp_path: Path) -> None:
    with start(
        tmp_path, EVERHOLD_VOICE__BIND="ipc://a=jarvis@home ipc://b=unified", EVERHOLD_VOICE__PUBLISH="none"
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "listening: jarvis@home on ipc://a, unified@default on ipc://b\n"
        context = zmq.Context()
        reply = Client(context, f"ipc://{tmp_path}/b").ask(action="health_check")
        context.destroy(0)
        assert reply["status"] == "ok"
        process.terminate()
        assert process.wait(100) == 0


def test_settings_that_are_wrong_are_refused_before_anything_is_opened(run: Run, tmp_path: Path) -> None:
    result = run("serve-voice", "--bind", "tcp://0.0.0.0:5596=unified@home")
    assert result.code == 2
    assert "tcp://0.0.0.0:5596 can be reached from other machines" in result.err
    result = run("serve-voice", "--bind", "tcp://127.0.0.1:5596=unity", "--json")
    assert result.error["fact"] == "no protocol 'unity'"
    assert not (tmp_path / "everhold.db").exists()


def test_without_pyzmq_the_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    # Importing the package again binds another module to its parent; this puts the first one back.
    monkeypatch.setattr(interfaces, "voice", interfaces.voice)
    for name in [name for name in sys.modules if name.startswith("everhold.interfaces.voice")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "zmq", None)
    result = run("serve-voice")
    assert result.code == 1
    assert "the voice gateway needs pyzmq; pip install 'everhold[voice]'" in result.err
