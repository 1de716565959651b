"""Start the child process that reads a file, and end it if it takes too much memory or time."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from everhold.adapters.data_files.result import decode_content
from everhold.errors import UnreadableFile
from everhold.ports.data_files import FileContent, ReadLimits
from everhold.progress import ReportProgress, StepProgress

_POLL_SECONDS = 0.02
# How long a process may take to start. On a busy machine, the imports alone can take longer than a file is allowed.
_START_SECONDS = 60.0
# For each such step in its size, a file is allowed the time limit once more.
_SIZE_STEP = 32 * 1024 * 1024
_MEGABYTE = 1024 * 1024
_MAX_LINE = 100_000
_MAX_RESULT = 256 * 1024 * 1024
# The memory that a child has before it opens the file: Python and DuckDB.
_IDLE_BYTES = 60 * _MEGABYTE
# The share of the memory limit at which a child is ended, because it may grow between two measurements.
_SHARE_OF_LIMIT = 0.85
_PROGRAM = "from everhold.adapters.data_files.child import main; main()"


class ChildReader:
    """Reads each file in a separate process."""

    def __init__(self, limits: ReadLimits | None = None) -> None:
        self._limits = limits or ReadLimits()

    def read(self, path: Path, name: str, folder: Path, report: ReportProgress) -> FileContent:
        folder.mkdir(parents=True, exist_ok=True)
        job = {"path": str(path), "name": name, "folder": str(folder), "limits": asdict(self._limits)}
        child = _Child(job, folder, report)
        seconds = self._limits.seconds * (1 + path.stat().st_size // _SIZE_STEP)
        child.wait(seconds, _IDLE_BYTES + int(_SHARE_OF_LIMIT * self._limits.memory_megabytes * _MEGABYTE))
        result = folder / "result.json"
        if not result.is_file() or result.stat().st_size > _MAX_RESULT:
            raise UnreadableFile("the file has more columns or values than can be described", remedy="split the file")
        return decode_content(json.loads(result.read_bytes()), folder)


class _Child:
    """A running child process: its messages, and the memory and time that it has used."""

    def __init__(self, job: dict[str, Any], folder: Path, report: ReportProgress) -> None:
        self._report = report
        self._refusal: str | None = None
        self._has_started = False
        self._unread = b""
        (folder / "job.json").write_text(json.dumps(job))
        # -I: neither the environment nor the current folder can put other modules in place of those that are imported.
        # The child gets a new session, so that Ctrl-C reaches only the parent, which then ends the child.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "MALLOC_ARENA_MAX": "2", "HOME": str(folder)},
            start_new_session=True,
        )

    def wait(self, seconds: float, max_bytes: int) -> None:
        """Return when the child has read the file. Raise UnreadableFile if it refuses, fails or costs too much.

        `seconds` are counted from the moment when the child has started.
        """
        deadline, is_counting = time.monotonic() + _START_SECONDS, False
        try:
            while self._read_messages():
                if self._has_started and not is_counting:
                    deadline, is_counting = time.monotonic() + seconds, True
                if time.monotonic() > deadline:
                    raise _make_time_error(seconds) if is_counting else _make_start_error()
                if _read_resident_bytes(self._process.pid) > max_bytes:
                    raise _make_memory_error()
            self._process.wait(max(0.0, deadline - time.monotonic()) + 1)
        finally:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
        self._check_end(self._process.returncode)

    def _read_messages(self) -> bool:
        """Wait a moment for messages of the child; return False once it has closed its output."""
        pipe = self._process.stdout
        if pipe is None or not select.select([pipe], [], [], _POLL_SECONDS)[0]:
            return True
        block = os.read(pipe.fileno(), _MAX_LINE)
        *lines, self._unread = (self._unread + block).split(b"\n")
        self._unread = self._unread[:_MAX_LINE]
        for line in lines:
            self._read_message(line)
        return bool(block)

    def _read_message(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            kind, text, done, total = message["kind"], str(message["text"]), int(message["done"]), message["total"]
        except (ValueError, KeyError, TypeError):
            return  # the file may have corrupted the child's memory
        if kind == "refusal":
            self._refusal = text
        elif kind == "started":
            self._has_started = True
        else:
            self._report(StepProgress(text, done, total if isinstance(total, int) else None))

    def _check_end(self, code: int) -> None:
        if self._refusal is not None:
            raise UnreadableFile.from_sentence(self._refusal)
        if code == -signal.SIGXFSZ:
            raise UnreadableFile("the file is too large once it is unpacked", remedy="split it")
        if code:
            raise UnreadableFile("the file is damaged: the process that read it crashed", remedy="save it again")


def _make_time_error(seconds: float) -> UnreadableFile:
    return UnreadableFile(
        f"the file takes longer than {seconds:g} s to read", value=seconds, remedy="split it, or raise uploads.seconds"
    )


def _make_start_error() -> UnreadableFile:
    return UnreadableFile(
        f"the process that reads the file did not start within {_START_SECONDS:g} s",
        value=_START_SECONDS,
        remedy="try again when the machine has less to do",
    )


def _make_memory_error() -> UnreadableFile:
    return UnreadableFile(
        "reading the file takes more memory than is allowed", remedy="split it, or raise uploads.memory_megabytes"
    )


def _read_resident_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0  # it has just ended, or this is not Linux; the limit of the address space holds then
    return pages * os.sysconf("SC_PAGE_SIZE")
