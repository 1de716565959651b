"""Hostile data files are refused or read within the memory limit, and leave no files behind."""

import tempfile
from functools import partial
from pathlib import Path

import pytest

from benchmarks.hostile_cases import FULL_SEEDS, QUICK_SEEDS, list_hostile_files
from benchmarks.hostile_files import MAX_MEGABYTES, count_leftovers, try_files
from everhold import Everhold
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.views import data_deps
from tests.exhaustive import choose_size

# Each of the two tests tries every eighth file, and begins at a different one. `python -m benchmarks.hostile_files`
# tries all of them.
_STEP = choose_size(8, 4)


def test_there_are_three_hundred_hostile_files() -> None:
    assert len(list_hostile_files(FULL_SEEDS)) >= 300


@pytest.mark.slow
@pytest.mark.parametrize("start", range(2))
def test_hostile_files_are_refused_or_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    folder, blobs, temporary = (tmp_path / name for name in ("files", "blobs", "temporary"))
    for path in (folder, blobs, temporary):
        path.mkdir()
    monkeypatch.setattr(data_deps, "mkdtemp", partial(tempfile.mkdtemp, dir=temporary))
    with Everhold.open("memory://", embedder=FakeEmbedder(), blobs=str(blobs)) as engine:
        view = engine.scope(project="hostile")
        outcome = try_files(list_hostile_files(QUICK_SEEDS)[2 * start + 1 :: _STEP], view, folder)
        assert count_leftovers(view, blobs, temporary) == 0
    assert outcome.results["error"] == 0
    assert outcome.results["refused"] > 5
    assert outcome.results["read"] > 5
    assert outcome.largest[0] <= MAX_MEGABYTES
