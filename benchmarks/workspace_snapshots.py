"""What does a snapshot of a workspace cost, in time and in bytes?

    python -m benchmarks.workspace_snapshots

A workspace gets 10,000 text files with a median of 4 KB, as a tool would write them. The time of the first snapshot is
compared with that of a snapshot after 10 changes, and the bytes that are stored after the first with those after 100
further snapshots, before each of which 1 % of the files get another content. Stored are the contents, the manifests and
the records: the SQLite file and the folder for blobs beside it.

The same changes are also stored as differences, to compare: each version of an edited file is compressed with the
version before as its dictionary. That needs fewer bytes, and to read a file all versions before it.
"""

import argparse
import random
import sqlite3
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.engines import build_settings, open_engine
from benchmarks.report import Report
from everhold import WorkspaceFolder
from everhold.testing.fake_embedder import FakeEmbedder

FILES, QUICK_FILES = 10_000, 1_000
MEDIAN_BYTES, SPREAD = 4_096, 1.0
CHANGES = 10
SNAPSHOTS, QUICK_SNAPSHOTS = 100, 20
CHANGED_SHARE = 0.01
FOLDERS = 100
RUNS = 5
WORDS = 8_000


class TextMaker:
    """Makes texts of random words, which compress about as well as source code."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        letters = "etaoinshrdlucmfwypvbgk"
        self._words = ["".join(self.rng.choices(letters, k=self.rng.randint(2, 10))) for _ in range(WORDS)]

    def make_line(self) -> str:
        return " ".join(self.rng.choices(self._words, k=12)) + "\n"

    def make_text(self) -> str:
        size = min(max(int(MEDIAN_BYTES * self.rng.lognormvariate(0, SPREAD)), 16), 200_000)
        lines: list[str] = []
        length = 0
        while length < size:
            lines.append(self.make_line())
            length += len(lines[-1])
        return "".join(lines)[:size]

    def edit_text(self, text: str) -> str:
        """Return a text with one line replaced."""
        lines = text.splitlines(keepends=True)
        lines[self.rng.randrange(len(lines))] = self.make_line()
        return "".join(lines)


def measure_snapshots(report: Report, *, quick: bool = False) -> None:
    """Add the figures of snapshots to a report."""
    files, snapshots = (QUICK_FILES, QUICK_SNAPSHOTS) if quick else (FILES, SNAPSHOTS)
    maker = TextMaker(7)
    with _open_workspace() as (workspace, count_bytes):
        paths = _write_files(workspace, maker, files)
        first_seconds = _time_call(workspace.snapshot)
        count_bytes()  # empties the write-ahead log, which the first snapshot has filled
        seconds = []
        for _ in range(RUNS):
            _change_files(workspace, maker, paths, CHANGES)
            seconds.append(_time_call(workspace.snapshot))
        unchanged_seconds = median(_time_call(workspace.snapshot) for _ in range(RUNS))
        report.add("first_snapshot_seconds", first_seconds)
        report.add("changed_snapshot_seconds", median(seconds))
        # With few files, the commits of a snapshot take longer than the files.
        bar = () if quick else ("<=", 1 / 20)
        report.add("changed_to_first_ratio", median(seconds) / first_seconds, *bar)
        report.add("unchanged_snapshot_seconds", unchanged_seconds)
    with _open_workspace() as (workspace, count_bytes):
        maker = TextMaker(8)
        paths = _write_files(workspace, maker, files)
        workspace.snapshot()
        first_bytes = count_bytes()
        report.add("first_stored_bytes", first_bytes)
        for _ in range(snapshots):
            _change_files(workspace, maker, paths, max(1, int(files * CHANGED_SHARE)))
            latest_snapshot = workspace.snapshot()
        expected = 1 + snapshots * CHANGED_SHARE
        report.add("snapshots", snapshots)
        # 100 snapshots of 1 % store as much content again as the first; the rest is for manifests and records.
        report.add("stored_ratio", count_bytes() / first_bytes, "<=", 1.1 * expected)
        report.add("manifest_bytes", _count_manifests(workspace))
        report.add("manifest_seconds", _time_call(lambda: workspace.manifest(latest_snapshot.id)))
        report.add("intact", int(workspace.verify().is_intact), "==", 1)
    _compare_with_differences(report, TextMaker(9), versions=snapshots)


def _time_call(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@contextmanager
def _open_workspace() -> Iterator[tuple[WorkspaceFolder, Callable[[], int]]]:
    """Yield an empty workspace on a SQLite store, and a function that counts the bytes that the workspace needs."""
    with TemporaryDirectory(prefix="everhold-snapshots-") as name:
        folder = Path(name)
        settings = build_settings(folder / "store.db", data=folder / "data", workspaces={"folder": folder / "files"})

        def count_bytes() -> int:
            engine.flush()
            with closing(sqlite3.connect(folder / "store.db")) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the log of the last commits is not stored data
            paths = [*folder.glob("store.db*"), *folder.glob("store.db.blobs/**/*")]
            return sum(path.stat().st_size for path in paths if path.is_file())

        with open_engine(settings, FakeEmbedder(), FakeEmbedder()) as engine:
            yield engine.scope(agent="coder").workspace("bench"), count_bytes


def _write_files(workspace: WorkspaceFolder, maker: TextMaker, count: int) -> list[Path]:
    workspace.scan()  # creates the folder
    paths = [workspace.folder / f"part-{number % FOLDERS:02}" / f"file-{number:05}.txt" for number in range(count)]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text(maker.make_text())
    return paths


def _change_files(workspace: WorkspaceFolder, maker: TextMaker, paths: list[Path], count: int) -> None:
    for path in maker.rng.sample(paths, count):
        path.write_text(maker.make_text())


def _count_manifests(workspace: WorkspaceFolder) -> int:
    """Return how many bytes the pages of all manifests have, compressed."""
    contents = workspace._parts.workspace_deps.contents
    organization = workspace.workspace.organization_id
    pages = {page for snapshot in workspace.snapshots(limit=10_000) for page in snapshot.manifest["pages"]}
    return sum(len(zlib.compress(contents.load(organization, page), 6)) for page in pages)


def _compare_with_differences(report: Report, maker: TextMaker, versions: int) -> None:
    """Add what versions of one edited file cost as whole contents and as differences."""
    texts = [maker.make_text().ljust(MEDIAN_BYTES, "x")[:MEDIAN_BYTES]]
    for _ in range(versions):
        texts.append(maker.edit_text(texts[-1]))
    contents = [text.encode() for text in texts]
    whole_contents = [zlib.compress(content, 6) for content in contents]
    differences = [whole_contents[0]]
    for before, after in pairwise(contents):
        packer = zlib.compressobj(6, zdict=before)
        differences.append(packer.compress(after) + packer.flush())
    report.add("edited_file_whole_bytes", sum(map(len, whole_contents)))
    report.add("edited_file_difference_bytes", sum(map(len, differences)))
    report.add(
        "read_whole_us", 1e6 * median(_time_call(lambda: zlib.decompress(whole_contents[-1])) for _ in range(50))
    )
    report.add(
        "read_differences_us", 1e6 * median(_time_call(lambda: _read_differences(differences)) for _ in range(50))
    )


def _read_differences(differences: list[bytes]) -> bytes:
    content = zlib.decompress(differences[0])
    for difference in differences[1:]:
        content = zlib.decompressobj(zdict=content).decompress(difference)
    return content


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer files and snapshots")
    report = Report("workspace_snapshots")
    measure_snapshots(report, quick=parser.parse_args().quick)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
