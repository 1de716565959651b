"""A DynamoDB for tests: moto's HTTP server in a process of its own.

It keeps everything in memory and enforces few of AWS's limits; what is sent to it is held to them by our own code.
"""

import re
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.request import Request, urlopen

START_SECONDS: Final = 300.0
CREDENTIALS: Final = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
PROGRAM: Final = Path(__file__).with_name("moto_program.py")


class DynamoServer:
    """One server with its own data; `close`, or leaving the `with` block, ends both."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, or start again on the same port, without data."""
        self._process = subprocess.Popen(
            [sys.executable, PROGRAM, str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        deadline = time.monotonic() + START_SECONDS
        while not (found := re.search(r"port (\d+)", self._process.stdout.readline())):
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError("moto's server did not start; is moto[server] installed?")
        self.port = int(found[1])

    def reset(self) -> None:
        """Delete all tables."""
        urlopen(Request(f"{self.url}/moto-api/reset", method="POST"), timeout=30).close()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None

    close = kill

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
