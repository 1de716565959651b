"""Start the process of a query, send it the request, read its answer, and end it at the deadline."""

import json
import os
import select
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from everhold.adapters.data_engine.child import READY
from everhold.errors import DataUnavailable
from everhold.interrupts import uninterrupted

_CHUNK: Final = 1 << 16
# How long a process may take to import its driver. On a busy machine that may take longer than the query may.
_START_SECONDS: Final = 60.0
_PROGRAM: Final = """
import sys
sys.path[:] = {module_path!r}
from everhold.adapters.data_engine.child import main
main({reader!r})
"""


@dataclass(frozen=True)
class ChildAnswer:
    """The output of a process, the signal that ended it (0 if none), and whether it was ended at the deadline."""

    output: bytes
    ended_by: int
    at_deadline: bool
    is_too_long: bool


class QueryProcess:
    """A clean interpreter that waits for one request. It inherits no variables, files or folders of this process."""

    def __init__(self, reader: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="everhold-query-")
        module_path = [entry for entry in sys.path if Path(entry).is_absolute()]
        program = _PROGRAM.format(module_path=module_path, reader=reader)
        try:
            self._process = subprocess.Popen(
                # Isolated, without site packages' start-up files, without writing bytecode.
                [sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self._folder,
                env={},
                close_fds=True,
                start_new_session=True,  # ^C is for the engine, which then ends this process
            )
        except OSError as error:
            self._remove_folder()
            raise DataUnavailable(f"no process can be started for the query ({error.strerror})") from error

    @property
    def is_waiting(self) -> bool:
        return self._process.poll() is None

    def run(
        self, request: Mapping[str, Any], seconds: float, max_bytes: int, watch: Callable[[bytes], None] | None = None
    ) -> ChildAnswer:
        """Send the request and return what the process wrote until it ended or was ended.

        `seconds` are counted from the moment when the process has started. `watch` is called with each piece of the
        output.
        """
        try:
            output = self._wait_until_ready()
            deadline = time.monotonic() + seconds
            is_late = self._exchange(output, json.dumps(request).encode("ascii") + b"\n", deadline, max_bytes, watch)
            is_too_long = len(output) > max_bytes
            is_late = is_late or not (is_too_long or self._wait(deadline))
        finally:
            self.end()
        code = self._process.returncode
        return ChildAnswer(bytes(output), -code if code < 0 else 0, is_late, is_too_long)

    def _wait_until_ready(self) -> bytearray:
        """Return what the process has written instead of READY: nothing, or the beginning of an error."""
        stdout = self._process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], _START_SECONDS)[0]:
            raise DataUnavailable(
                f"the process of the query did not start within {_START_SECONDS:g} s",
                value=_START_SECONDS,
                remedy="try again when the machine has less to do",
            )
        first_bytes = os.read(stdout.fileno(), len(READY))
        return bytearray() if first_bytes == READY else bytearray(first_bytes)

    def _exchange(
        self,
        output: bytearray,
        request: bytes,
        deadline: float,
        max_bytes: int,
        watch: Callable[[bytes], None] | None,
    ) -> bool:
        """Write the request and add the answer to `output`; return whether the deadline came first.

        It writes and reads alternately, so that neither side blocks the other.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        remaining = memoryview(request)
        os.set_blocking(stdin.fileno(), False)
        with selectors.DefaultSelector() as selector:
            selector.register(stdin, selectors.EVENT_WRITE)
            selector.register(stdout, selectors.EVENT_READ)
            while selector.get_map() and len(output) <= max_bytes:
                seconds_left = deadline - time.monotonic()
                if seconds_left <= 0:
                    return True
                for key, _ in selector.select(seconds_left):
                    if key.fileobj is stdout:
                        chunk = os.read(stdout.fileno(), _CHUNK)
                        output += chunk
                        if not chunk:
                            return False
                        if watch is not None:
                            watch(chunk)
                    else:
                        remaining = remaining[_write_part(stdin.fileno(), remaining) :]
                        if not remaining:
                            selector.unregister(stdin)
        return False

    def _wait(self, deadline: float) -> bool:
        """Return whether the process, which has closed its output, ends before the deadline."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))
        return self._process.returncode is not None

    def end(self) -> None:
        """Kill the process, if it still runs, and remove its folder."""
        with uninterrupted:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
            self._remove_folder()

    def _remove_folder(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _write_part(descriptor: int, content: memoryview) -> int:
    try:
        return os.write(descriptor, content)
    except BlockingIOError:
        return 0
    except BrokenPipeError:  # the process has ended; its output says why
        return len(content)
