"""Is every hostile data file read or refused within 10 s and 256 MB above an idle process, with no file left behind?

python -m benchmarks.hostile_files            more than 300 files
python -m benchmarks.hostile_files --quick    the handwritten files, and one mutation of each valid file
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.hostile_cases import FULL_SEEDS, QUICK_SEEDS, HostileFile, list_hostile_files
from benchmarks.report import Report
from everhold import Everhold, EverholdError, UnreadableFile, View
from everhold.testing.fake_embedder import FakeEmbedder

MAX_MEGABYTES = 256
MAX_SECONDS = 10.0
_POLL_SECONDS = 0.003


class Measure(NamedTuple):
    """A number of seconds or megabytes, and the file for which it was measured."""

    value: float
    file: str


NOTHING = Measure(0.0, "")


@dataclass
class HostileFilesOutcome:
    """The number of files with each result, the slowest file, and the file that took the most memory."""

    results: Counter[str] = field(default_factory=Counter)
    slowest: Measure = NOTHING
    largest: Measure = NOTHING
    failures: list[str] = field(default_factory=list)


class PeakWatch:
    """Measures the most memory that this process and its children take together during a block, in megabytes."""

    def __init__(self) -> None:
        self.peak = 0.0
        self._stop = threading.Event()

    def __enter__(self) -> "PeakWatch":
        self.peak = 0.0
        self._stop.clear()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_POLL_SECONDS):
            self.peak = max(self.peak, sum(map(_read_megabytes, [os.getpid(), *_list_children()])))


def _list_children() -> list[int]:
    try:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    except OSError:
        return []
    return [int(child) for child in children if _is_reader(child)]


def _is_reader(pid: str) -> bool:
    """Return whether a child already runs the reader. A child that has only forked shares this process's memory."""
    try:
        return b"data_files" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _read_megabytes(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024


def try_files(files: list[HostileFile], view: View, folder: Path, *, verbose: bool = False) -> HostileFilesOutcome:
    """Upload every file and record its result, time and memory."""
    outcome = HostileFilesOutcome()
    plain = folder / "plain.csv"
    plain.write_text("a,b\n1,2\n")
    view.upload(str(plain))  # the first upload imports modules into this process, so it is not measured
    plain.write_text("a,b\n1,3\n")
    own_megabytes = _read_megabytes(os.getpid())
    with PeakWatch() as watch:
        view.upload(str(plain))
    idle_child = watch.peak - own_megabytes
    for number, file in enumerate(files):
        path = folder / f"{number}-{Path(file.name).suffix}"
        file.write(path)
        own_megabytes, began = _read_megabytes(os.getpid()), time.monotonic()
        with PeakWatch() as watch:
            result = _upload(view, path, f"{number} {file.name}", outcome)
        seconds, megabytes = time.monotonic() - began, watch.peak - own_megabytes - idle_child
        path.unlink()
        outcome.results[result] += 1
        if verbose:
            print(f"{result:8} {seconds:6.2f} s {megabytes:6.0f} MB  {file.name!r}", file=sys.stderr)
        outcome.slowest = max(outcome.slowest, Measure(round(seconds, 2), file.name))
        outcome.largest = max(outcome.largest, Measure(round(megabytes, 1), file.name))
        if seconds > MAX_SECONDS or megabytes > MAX_MEGABYTES:
            outcome.failures.append(f"{file.name}: {seconds:.1f} s, {megabytes:.0f} MB")
    return outcome


def _upload(view: View, path: Path, name: str, outcome: HostileFilesOutcome) -> str:
    try:
        view.upload(str(path), name=name if name.isprintable() else None)
    except UnreadableFile:
        return "refused"
    except EverholdError as error:
        outcome.failures.append(f"{name!r}: {type(error).__name__}: {error}")
        return "error"
    return "read"


def count_leftovers(view: View, blobs: Path, temporary: Path) -> int:
    """Return the number of stored and temporary files that belong to no source."""
    view.sources()
    referenced = 0
    for source in view.sources(every_version=True):
        tables = view.tables(source=source.id)
        addresses = {source.sha256, *(table.metadata[key] for table in tables for key in ("content", "values"))}
        referenced += len(addresses)
    stored = sum(1 for path in blobs.rglob("*") if path.is_file())
    return stored - referenced + sum(1 for path in temporary.iterdir() if path.name.startswith("everhold-upload-"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="show the result of each file")
    arguments = parser.parse_args()
    report = Report("hostile_files")
    files = list_hostile_files(QUICK_SEEDS if arguments.quick else FULL_SEEDS)
    with tempfile.TemporaryDirectory() as root:
        folder, blobs, temporary = (Path(root) / name for name in ("files", "blobs", "temporary"))
        for new_folder in (folder, blobs, temporary):
            new_folder.mkdir()
        tempfile.tempdir = str(temporary)
        with Everhold.open("memory://", embedder=FakeEmbedder(), blobs=str(blobs)) as engine:
            view = engine.scope(project="hostile")
            outcome = try_files(files, view, folder, verbose=arguments.verbose)
            leftovers = count_leftovers(view, blobs, temporary)
        tempfile.tempdir = None
    for failure in outcome.failures:
        print(f"hostile_files: {failure}", file=sys.stderr)
    report.add("files", len(files), ">=", 100 if arguments.quick else 300)
    for result in ("refused", "read"):
        report.add(result, outcome.results[result])
    report.add("slowest_file", outcome.slowest.file)
    report.add("slowest_seconds", outcome.slowest.value, "<=", MAX_SECONDS)
    report.add("largest_file", outcome.largest.file)
    report.add("megabytes_above_idle", outcome.largest.value, "<=", MAX_MEGABYTES)
    report.add("other_errors", outcome.results["error"], "==", 0)
    report.add("leftovers", leftovers, "==", 0)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
