"""What the servers for tests have in common."""

import socket
import subprocess
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Server(ABC):
    """A program in a process of its own. Entering its `with` block starts it, leaving closes it."""

    _process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def start(self) -> None:
        """Returns when the server answers; at once, if it runs already."""

    @abstractmethod
    def close(self) -> None:
        """Ends the server and removes what it has written."""

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
