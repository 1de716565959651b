"""The worker processes, one per store."""

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
# Stops the peers from sending telemetry, checking for updates or waiting for a network.
SILENT = {
    "ANONYMIZED_TELEMETRY": "False",
    "HF_HUB_OFFLINE": "1",
    "LANGSMITH_TRACING": "false",
    "MEM0_TELEMETRY": "False",
    "NO_PROXY": "127.0.0.1",
    "OPENAI_API_KEY": "none",
    "no_proxy": "127.0.0.1",
}


class Process:
    """One worker. `ready_seconds` is the time from its start until its first store is open."""

    def __init__(self, name: str, folder: Path, endpoint: Endpoint) -> None:
        self.name = name
        self.ready_seconds = 0.0
        self._folder = folder / name
        self._endpoint = endpoint
        self._process: subprocess.Popen[str] | None = None
        self._stores_opened = 0

    def start(self) -> None:
        own_command = [sys.executable, "-m", "benchmarks.peers.ours"]
        peer_command = [str(PEERS_PYTHON), "-m", "benchmarks.peers.worker", self.name]
        home = self._folder / "home"
        home.mkdir(parents=True)
        self._process = subprocess.Popen(
            own_command if self.name == OURS else peer_command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, **SILENT, "HOME": str(home), "MEM0_DIR": str(home / "mem0")},
        )

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"do": command, **arguments}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"the worker of {self.name} ended during the command {command!r}; its error output is above"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer

    def open(self) -> None:
        """Open an empty store and close the previous one."""
        self._stores_opened += 1
        self.ask("open", folder=str(self._folder / str(self._stores_opened)), url=self._endpoint.url)

    def stop(self) -> None:
        if self._process is None:
            return
        try:
            self._process.communicate(timeout=30)  # the worker ends when its input ends
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


@contextmanager
def start_processes(names: Sequence[str], folder: Path, endpoint: Endpoint) -> Iterator[Mapping[str, Process]]:
    """Start the workers one after the other and yield them by name."""
    with ExitStack() as stack:
        processes = {}
        for name in names:
            process = Process(name, folder, endpoint)
            stack.callback(process.stop)
            started_at = perf_counter()
            process.start()
            process.open()
            process.ready_seconds = perf_counter() - started_at
            processes[name] = process
        yield processes
