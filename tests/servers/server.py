"""The base class of the servers for tests, and a function that finds a free port."""

import socket
import subprocess
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Server(ABC):
    """A server program in a separate process. Entering a `with` block starts it, and leaving the block closes it."""

    _process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def start(self) -> None:
        """Start the server, unless it is running, and return when it answers."""

    @abstractmethod
    def close(self) -> None:
        """End the server and remove its files."""

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def find_free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
