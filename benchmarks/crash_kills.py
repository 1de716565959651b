"""Starting writers and killing them: at a random instant, or at one of their write calls by `strace`."""

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

from benchmarks.crash_writer import BROKE, FAILED, KEPT, Job, described

DEATH_SECONDS: Final = 30.0
_CHUNK: Final = 65_536


@dataclass
class Heard:
    """What a writer said before it died."""

    kept: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    broke: list[str] = field(default_factory=list)
    _rest: bytes = b""

    def take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            word, _, details = line.decode("utf-8", "replace").partition(" ")
            if word == KEPT:
                key, memory_id = details.split(" ")
                self.kept[key] = memory_id
            elif word == FAILED:
                self.failed.append(details)
            elif word == BROKE:
                self.broke.append(details)

    def in_flight(self, job: Job) -> list[str]:
        """What each thread was at when it died: whatever follows the last it acknowledged."""
        return [
            next(key for number in range(10**9) if (key := job.key(thread, number)) not in self.kept)
            for thread in range(job.threads)
        ]


class Nursery:
    """The process that forks writers."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from benchmarks.crash_writer import nursery; nursery()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def start(self, job: Job) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(described(job) + "\n")
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


class Writer:
    """A running writer, from its start to its death."""

    def __init__(self, nursery: Nursery, job: Job, strace: list[str] | None = None) -> None:
        os.mkfifo(job.fifo)
        self.heard = Heard()
        self._process = nursery.start(job)
        self._tracer = _attach(strace, self._process) if strace else None
        self._pipe = os.open(job.fifo, os.O_RDONLY | os.O_NONBLOCK)  # which lets the writer begin
        self._fifo = Path(job.fifo)
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN)
        self._ended = False

    def listen(self, seconds: float, until: Callable[[Heard], bool] = lambda _: False) -> bool:
        """Hears the writer for a while, or until something is heard; False once it is dead."""
        deadline = time.monotonic() + seconds
        while not self._ended and not until(self.heard) and (left := deadline - time.monotonic()) > 0:
            for _, event in self._poll.poll(1000 * left):
                data = os.read(self._pipe, _CHUNK) if event & select.POLLIN else b""
                self.heard.take(data)
                self._ended = not data
        return not self._ended

    def kill(self) -> bool:
        """Kills the writer if it still lives; whether it was this that killed it."""
        alive = not self._ended and self._lives()
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)
        deadline = time.monotonic() + DEATH_SECONDS
        while self._lives():  # the end of the pipe would not do: one that dies before it opens it never closes it
            assert time.monotonic() < deadline, f"writer {self._process} survived SIGKILL"
            time.sleep(0.002)
        self._drain()
        os.close(self._pipe)
        self._fifo.unlink()
        if self._tracer is not None:
            _end(self._tracer)
        return alive

    def _lives(self) -> bool:
        """The nursery lets the dead go at once, so that whoever is there is alive."""
        return Path(f"/proc/{self._process}").exists()

    def _drain(self) -> None:
        """Hears what was said before death and not yet heard."""
        with suppress(BlockingIOError):
            while data := os.read(self._pipe, _CHUNK):
                self.heard.take(data)


def strace_at(draw: random.Random, calls: Mapping[str, int]) -> list[str]:
    """A tracer that kills its process as it makes one of these calls for the nth time, n at most the number given."""
    call = draw.choice(list(calls))
    # each thread counts its own; small counts reach the opening of the store, great ones its checkpoints
    when = int(calls[call] ** draw.random())
    return ["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={when}"]


def _attach(strace: list[str], process: int) -> subprocess.Popen[bytes]:
    tracer = subprocess.Popen(
        [*strace, "-p", str(process)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert tracer.stderr is not None
    first = tracer.stderr.readline()  # and it stays open, for there is a message about every thread to come
    if b"attached" not in first:
        _end(tracer)
        raise OSError(f"strace cannot attach: {first.decode('utf-8', 'replace')}")
    return tracer


def _end(tracer: subprocess.Popen[bytes]) -> None:
    """Waits for a tracer, whose process is dead."""
    tracer.communicate(timeout=DEATH_SECONDS)


def can_trace() -> bool:
    """Whether strace is there and may attach to our children."""
    if shutil.which("strace") is None:
        return False
    sleeper = subprocess.Popen(["sleep", "30"])
    try:
        tracer = _attach(["strace", "-o", "/dev/null"], sleeper.pid)
        sleeper.kill()
        _end(tracer)
    except OSError:
        return False
    finally:
        sleeper.kill()
        sleeper.wait()
    return True
