"""The connection to the separate process that runs Chroma. There is one process per address."""

import subprocess
import sys
import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from everhold.adapters.chroma.address import Address
from everhold.adapters.chroma.failures import ConnectionBroken, Damaged, NotReady, ServerRestarted, Unavailable
from everhold.errors import InvalidInput
from everhold.interrupts import uninterrupted
from everhold.settings import switch_telemetry_off

_START_SECONDS = 60.0  # how long the process may take to start
_END_SECONDS = 30.0  # how long it may take to end before it is killed
_READ_VERBS = ("count", "nearest")
# How much longer a write may take than a read.
_WRITE_FACTOR = 6
_PROGRAM = "import sys; sys.path[:] = {path!r}; from everhold.adapters.chroma.process import main; main({descriptor})"


class ChromaProcess:
    """The process for one address. One thread at a time uses it. If it dies or hangs, a new one is started."""

    def __init__(self, address: Address, seconds: float) -> None:
        self.address = address
        self._seconds = seconds
        self._pipe_lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._users = 0

    def ask(self, verb: str, *arguments: Any) -> Any:
        """Return the result of a method of `Collections` in the process. Raise CannotAnswer if it fails."""
        with uninterrupted:  # an interrupt here would leave this answer in the pipe for the next caller
            if not self._pipe_lock.acquire(timeout=self._seconds):
                raise NotReady("Chroma is busy")
            try:
                pipe = self._pipe or self._start()
                seconds = self._seconds if verb in _READ_VERBS else _WRITE_FACTOR * self._seconds
                outcome, value = self._exchange(pipe, (verb, arguments), seconds)
            finally:
                self._pipe_lock.release()
        match outcome:
            case "done":
                return value
            case "damaged":
                raise Damaged(value)
            case "broken off":
                raise ConnectionBroken(value)
            case "restarted":
                raise ServerRestarted(value)
            case "refused":
                raise InvalidInput.from_sentence(value)
            case _:
                raise Unavailable(value)

    @property
    def process_id(self) -> int | None:
        """The id of the running process, if there is one."""
        return self._process.pid if self._process is not None else None

    def _start(self) -> Connection:
        try:
            self._pipe = own_end = self._launch()
        except OSError as error:
            raise Unavailable(f"the process for {self.address.url} cannot be started ({error})") from error
        self._exchange(own_end, self.address, _START_SECONDS)
        return own_end

    def _launch(self) -> Connection:
        """Start a process and return the engine's end of the socket to it."""
        switch_telemetry_off()  # the process inherits the environment
        own_end, other_end = Pipe()
        with other_end:
            program = _PROGRAM.format(path=sys.path, descriptor=other_end.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(other_end.fileno(),),
                start_new_session=True,  # Ctrl-C must reach only the engine, which then closes this process
            )
        return own_end

    def _exchange(self, pipe: Connection, request: Any, seconds: float) -> tuple[str, Any]:
        try:
            pipe.send(request)
            if pipe.poll(seconds):
                answer: tuple[str, Any] = pipe.recv()
                return answer
            problem = f"did not answer within {seconds:g} s"
        except (EOFError, OSError):
            problem = "has ended"
        self._end(kill=True)
        raise Unavailable(f"the process for {self.address.url} {problem}")

    def _end(self, *, kill: bool) -> None:
        """Wait until the process has closed its files and ended; with `kill`, end it at once."""
        process, pipe = self._process, self._pipe
        self._process = self._pipe = None
        if pipe is not None:
            pipe.close()
        if process is None:
            return
        if kill:
            process.kill()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    # shared use

    def release(self) -> None:
        """Release the process; the last release ends it."""
        with uninterrupted:
            with _lock:
                self._users -= 1
                if self._users:
                    return
                del _processes[self.address]
            with self._pipe_lock:
                self._end(kill=False)


_lock = threading.Lock()
_processes: dict[Address, ChromaProcess] = {}


def acquire_process(address: Address, seconds: float) -> ChromaProcess:
    """Return the process for an address. All callers share it; it ends when the last one has released it."""
    with _lock:
        process = _processes.setdefault(address, ChromaProcess(address, seconds))
        process._users += 1
        return process
