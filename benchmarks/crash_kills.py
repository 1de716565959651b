"""Start writers and kill them: at a random moment, or, with `strace`, at one of their write calls."""

import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from benchmarks.crash_writer import ACKNOWLEDGED, FAILED, FATAL, WriterJob, encode_job

DEATH_SECONDS: Final = 30.0
_CHUNK: Final = 65_536


@dataclass
class WriterOutput:
    """The lines that a writer reported before it was killed."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    """The memory id for each idempotency key."""
    failed_writes: list[str] = field(default_factory=list)
    fatal_errors: list[str] = field(default_factory=list)
    """Errors after which the writer stopped, although it should not have failed."""
    _partial_line: bytes = b""

    def parse(self, data: bytes) -> None:
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            word, _, details = line.decode("utf-8", "replace").partition(" ")
            if word == ACKNOWLEDGED:
                key, memory_id = details.split(" ")
                self.acknowledged[key] = memory_id
            elif word == FAILED:
                self.failed_writes.append(details)
            elif word == FATAL:
                self.fatal_errors.append(details)

    def find_keys_in_flight(self, job: WriterJob) -> list[str]:
        """Return the key that each thread was writing when it died: its first key that was not acknowledged."""
        keys = []
        for thread in range(job.threads):
            number = 0
            while job.make_key(thread, number) in self.acknowledged:
                number += 1
            keys.append(job.make_key(thread, number))
        return keys


class WriterForkServer:
    """The process that forks writers."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from benchmarks.crash_writer import run_fork_server; run_fork_server()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def start(self, job: WriterJob) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(encode_job(job) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


class WriterProcess:
    """A running writer, from its start to its death."""

    def __init__(self, fork_server: WriterForkServer, job: WriterJob, strace: list[str] | None = None) -> None:
        os.mkfifo(job.fifo)
        self.output = WriterOutput()
        self._process = fork_server.start(job)
        self._tracer = _attach(strace, self._process) if strace else None
        self._pipe = os.open(job.fifo, os.O_RDONLY | os.O_NONBLOCK)  # the writer waits for a reader
        self._fifo = Path(job.fifo)
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN)
        self._ended = False

    def listen(self, seconds: float, until: Callable[[WriterOutput], bool] = lambda _: False) -> bool:
        """Read the writer's output for some seconds, or until a condition holds; False once the writer is dead."""
        deadline = time.monotonic() + seconds
        while not self._ended and not until(self.output) and (seconds_left := deadline - time.monotonic()) > 0:
            for _, event in self._poll.poll(1000 * seconds_left):
                data = os.read(self._pipe, _CHUNK) if event & select.POLLIN else b""
                self.output.parse(data)
                self._ended = not data
        return not self._ended

    def kill(self) -> bool:
        """Kill the writer. Return whether it was still alive."""
        was_alive = not self._ended and self._is_alive()
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)
        deadline = time.monotonic() + DEATH_SECONDS
        # Waiting for the end of the pipe is not enough, because a writer may die before it opens the pipe.
        while self._is_alive():
            assert time.monotonic() < deadline, f"writer {self._process} survived SIGKILL"
            time.sleep(0.002)
        self._drain()
        os.close(self._pipe)
        self._fifo.unlink()
        if self._tracer is not None:
            _wait_for_exit(self._tracer)
        return was_alive

    def _is_alive(self) -> bool:
        """Return whether the process exists. The fork server reaps dead writers at once."""
        return Path(f"/proc/{self._process}").exists()

    def _drain(self) -> None:
        """Read the rest of what the writer reported before it died."""
        with suppress(BlockingIOError):
            while data := os.read(self._pipe, _CHUNK):
                self.output.parse(data)


def choose_strace(rng: random.Random, calls: Mapping[str, int]) -> list[str]:
    """Return an strace command that kills its process at the nth call of a kind; `calls` has the highest n of each."""
    call = rng.choice(list(calls))
    # Each thread counts its own calls. Small counts hit the opening of the store, large ones its checkpoints.
    when = int(calls[call] ** rng.random())
    return ["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={when}"]


def _attach(strace: list[str], process: int) -> subprocess.Popen[bytes]:
    tracer = subprocess.Popen(
        [*strace, "-p", str(process)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert tracer.stderr is not None
    first_line = tracer.stderr.readline()  # stderr stays open, because strace writes a message for every new thread
    if b"attached" not in first_line:
        _wait_for_exit(tracer)
        raise OSError(f"strace cannot attach: {first_line.decode('utf-8', 'replace')}")
    return tracer


def _wait_for_exit(tracer: subprocess.Popen[bytes]) -> None:
    """Wait for a tracer whose process is dead."""
    tracer.communicate(timeout=DEATH_SECONDS)


def can_trace() -> bool:
    """Return whether strace is installed and may attach to child processes."""
    if shutil.which("strace") is None:
        return False
    sleeper = subprocess.Popen(["sleep", "30"])
    try:
        tracer = _attach(["strace", "-o", "/dev/null"], sleeper.pid)
        sleeper.kill()
        _wait_for_exit(tracer)
    except OSError:
        return False
    finally:
        sleeper.kill()
        sleeper.wait()
    return True
