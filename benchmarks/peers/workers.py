"""The processes that work the stores."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.peers.endpoint import Endpoint

REPOSITORY = Path(__file__).resolve().parents[2]
PEERS_PYTHON = REPOSITORY / ".venv-peers" / "bin" / "python"
OURS = "everhold"
PEERS = ("mem0", "chroma", "langgraph")
SILENT = {
    "ANONYMIZED_TELEMETRY": "False",
    "HF_HUB_OFFLINE": "1",
    "LANGSMITH_TRACING": "false",
    "MEM0_TELEMETRY": "False",
    "NO_PROXY": "127.0.0.1",
    "OPENAI_API_KEY": "none",
    "no_proxy": "127.0.0.1",
}
"""No peer reports home, looks for a newer version of anything or waits for a network that may not be there."""


class Process:
    """One worker. `ready_seconds` is from its start to its first store being open."""

    def __init__(self, name: str, folder: Path, endpoint: Endpoint) -> None:
        self.name = name
        self.ready_seconds = 0.0
        self._folder = folder / name
        self._endpoint = endpoint
        self._running: subprocess.Popen[str] | None = None
        self._opened = 0

    def start(self) -> None:
        ours = [sys.executable, "-m", "benchmarks.peers.ours"]
        theirs = [str(PEERS_PYTHON), "-m", "benchmarks.peers.worker", self.name]
        home = self._folder / "home"
        home.mkdir(parents=True)
        self._running = subprocess.Popen(
            ours if self.name == OURS else theirs,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, **SILENT, "HOME": str(home), "MEM0_DIR": str(home / "mem0")},
        )

    def ask(self, do: str, **given: Any) -> dict[str, Any]:
        assert self._running is not None
        assert self._running.stdin is not None
        assert self._running.stdout is not None
        print(json.dumps({"do": do, **given}), file=self._running.stdin, flush=True)
        line = self._running.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker of {self.name} ended while it was to {do}; what it said is above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def open(self) -> None:
        """An empty store; the one before is closed."""
        self._opened += 1
        self.ask("open", folder=str(self._folder / str(self._opened)), url=self._endpoint.url)

    def stop(self) -> None:
        if self._running is None:
            return
        try:
            self._running.communicate(timeout=30)  # the end of its input is the end of its work
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.communicate()


@contextmanager
def started(names: Sequence[str], folder: Path, endpoint: Endpoint) -> Iterator[Mapping[str, Process]]:
    """All of them, started one after the other."""
    with ExitStack() as stack:
        processes = {}
        for name in names:
            process = Process(name, folder, endpoint)
            stack.callback(process.stop)
            begun = perf_counter()
            process.start()
            process.open()
            process.ready_seconds = perf_counter() - begun
            processes[name] = process
        yield processes
