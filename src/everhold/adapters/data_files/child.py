"""The program of the child process: limits itself, reads one file and describes it in `result.json`."""

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from everhold.adapters.data_files.refusal import Refusal

_MEGABYTE = 1024 * 1024
# Address space that is reserved and never touched: stacks of threads, arenas of the allocator.
_RESERVED_MEGABYTES = 512


def main() -> None:
    """Read the file that `job.json` of the current folder names. The exit code is 0 unless the process is broken."""
    sys.setrecursionlimit(2_000)
    job = json.loads(Path("job.json").read_text())
    try:
        _run(job)
    except Refusal as refusal:
        send("refusal", str(refusal))
    except MemoryError:
        send(
            "refusal",
            "reading the file takes more memory than is allowed; split it, or raise uploads.memory_megabytes",
        )
    # Do not wait for the threads of DuckDB and for destructors.
    sys.stdout.flush()
    os._exit(0)


def _run(job: dict[str, Any]) -> None:
    began = time.perf_counter()
    from everhold.adapters.data_files.context import ReadContext
    from everhold.adapters.data_files.database import connect
    from everhold.adapters.data_files.reading import read_file
    from everhold.adapters.data_files.result import encode_content
    from everhold.ports.data_files import ReadLimits

    limits, folder = ReadLimits(**job["limits"]), Path(job["folder"])
    source = Path(job["path"])
    connection = connect(folder, source, limits.memory_megabytes)
    _limit_resources(limits)
    send("started", "")
    context = ReadContext(connection, folder, limits, report=lambda *step: send("progress", *step))
    context.seconds["start"] = time.perf_counter() - began
    content = read_file(context, source, job["name"])
    (folder / "result.json").write_text(json.dumps(encode_content(content)))


def _limit_resources(limits: Any) -> None:
    mapped_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    max_mapped_bytes = mapped_bytes + (limits.memory_megabytes + _RESERVED_MEGABYTES) * _MEGABYTE
    resource.setrlimit(resource.RLIMIT_AS, (max_mapped_bytes, max_mapped_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.max_bytes, limits.max_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def send(kind: str, text: str, done: int = 0, total: int | None = None) -> None:
    """Send the parent one message: that reading starts, a refusal, or how far the reading has come."""
    line = json.dumps({"kind": kind, "text": text, "done": done, "total": total})
    os.write(1, line.encode() + b"\n")
