"""Tampered bundles reach no other user or organization, and the fuzz finds planted faults.

The full size is `python -m benchmarks.import_fuzz`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import import_fuzz
from benchmarks.import_fuzz import TARGET, Fuzz
from everhold import Everhold
from everhold.model import Chunk, Memory, Scope
from everhold.recall.pipeline import recall
from everhold.schema.operations import Patch, Put
from tests.engines import make_store

BUNDLES = {"sqlite": 15, "memory": 25}


@pytest.mark.parametrize("store", BUNDLES)
def test_no_bundle_reaches_another_organization_or_user(store: str) -> None:
    findings = import_fuzz.run(store, BUNDLES[store])
    assert findings.wrong == []
    assert findings.counts["taken"] > 0
    assert findings.counts["refused"] > 0


@pytest.fixture(scope="module")
def fuzz(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzz]:
    folder = tmp_path_factory.mktemp("fuzz")
    store = make_store("in_memory", request, folder)
    yield Fuzz(store.open(), folder, seed=0)
    store.close()


def touch_another_organization(fuzz: Fuzz) -> None:
    fuzz.records.commit([Patch(Memory, ("bolt", "note-1"), {"revision": 1})])


def change_an_existing_memory(fuzz: Fuzz) -> None:
    fuzz.records.commit([Patch(Memory, (TARGET, "note-1"), {"text": "another text"})])


def leave_an_impossible_row(fuzz: Fuzz) -> None:
    [chunk, *_] = fuzz.records.scan(Chunk, TARGET)
    fuzz.records.commit([Put(Chunk.build_unchecked({**chunk.__dict__, "chunk_index": 9, "user_id": "another user"}))])


def raise_an_error_of_python(fuzz: Fuzz) -> None:
    raise KeyError("hash")


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (touch_another_organization, "another organization changed"),
        (change_an_existing_memory, "an existing memory changed"),
        (leave_an_impossible_row, "doctor says"),
        (raise_an_error_of_python, "KeyError"),
    ],
)
def test_the_fuzzer_finds_each_planted_fault(
    fuzz: Fuzz, monkeypatch: pytest.MonkeyPatch, plant: Any, words: str
) -> None:
    monkeypatch.setattr(import_fuzz, "TARGET_IDS", import_fuzz.SHARED_IDS)
    monkeypatch.setattr(fuzz.rng, "random", lambda: 0.0)
    monkeypatch.setattr(Everhold, "load", lambda *_, **__: plant(fuzz))
    fuzz.findings.wrong.clear()
    fuzz.import_bundle(Path("unread"), "planted")
    assert [finding for finding in fuzz.findings.wrong if words in finding], fuzz.findings.wrong


def test_the_fuzzer_finds_a_recall_of_another_users_memory(fuzz: Fuzz, monkeypatch: pytest.MonkeyPatch) -> None:
    def recall_too_much(recall_deps: Any, scope: Scope, request: Any) -> Any:
        return recall(recall_deps, Scope(organization=scope.organization), request)

    monkeypatch.setattr(import_fuzz, "recall", recall_too_much)
    fuzz.findings.wrong.clear()
    fuzz.check_recalls("planted", {})
    assert [finding for finding in fuzz.findings.wrong if "recalled memory" in finding]
