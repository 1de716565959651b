"""A real Chroma server for tests, with its own folder and port. Tests may kill it and start it again."""

import atexit
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from tests.servers.server import Server, find_free_port

START_SECONDS = 300.0
STOP_SECONDS = 150.0
LOG_TAIL_CHARACTERS = 2000
# The function that chromadb's command line calls. Importing chromadb itself would take a second and is not needed.
_PROGRAM = "import sys, chromadb_rust_bindings; chromadb_rust_bindings.cli(sys.argv)"


class ChromaServer(Server):
    """One server; `close`, or leaving the `with` block, ends it and removes its folder."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="everhold-chroma-"))
        self.folder = self._home / "data"
        self._log = self._home / "log"
        self._port = find_free_port()
        atexit.register(self.close)

    @property
    def url(self) -> str:
        """The address, in the form of the setting `vectors`."""
        return f"chroma://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the server on the same port each time, and return when it answers."""
        if self.is_running:
            return
        self.folder.mkdir(exist_ok=True)
        options = ["--path", str(self.folder), "--host", "127.0.0.1", "--port", str(self._port)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, "run", *options],
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait_until_ready()

    def kill(self) -> None:
        """End the server by SIGKILL. The data stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
        self._process = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)
        atexit.unregister(self.close)

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"Chroma exited with {self._process.returncode}:\n{self._read_log_tail()}")
            try:
                httpx.get(f"http://127.0.0.1:{self._port}/api/v2/heartbeat", timeout=5).raise_for_status()
            except httpx.HTTPError:
                time.sleep(0.02)
            else:
                return
        self.kill()
        raise RuntimeError(f"Chroma was not ready after {START_SECONDS:.0f} s:\n{self._read_log_tail()}")

    def _read_log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]
