"""Files that are not bundles: lists of memories, and texts as many memories."""

import json
from pathlib import Path
from typing import Any

import pytest

from everhold import StepProgress
from everhold.errors import InvalidInput
from everhold.exchange.loading import ImportResult
from tests.engines import Store, texts


def test_lists_of_memories_are_loaded(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open()
    items: list[Any] = ["A sentence alone", {"text": "With fields \u2028 inside", "kind": "fact", "tags": ["t"]}]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(item, ensure_ascii=False) for item in items) + "\n\n")
    (tmp_path / "b.json").write_text(json.dumps([{"text": "From an array"}, "Another"]))
    (tmp_path / "c.json").write_text(json.dumps({"text": "Only one"}))
    assert [engine.load(tmp_path / name, user="alice").count for name in ("a.jsonl", "b.json", "c.json")] == [2, 2, 1]
    alice = engine.scope(user="alice")
    assert {memory.text for memory in alice.list()} == {
        "A sentence alone", "With fields \u2028 inside", "From an array", "Another", "Only one",
    }  # fmt: skip
    assert alice.tags() == {"t": 1}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jsonl", b'"fine"\n{"text": \n', "line 2 of"),
        ("a.json", b'["a", ', "is not JSON"),
        ("a.jsonl", b'"caf\xe9"', "is not text in UTF-8"),
        ("a.jsonl", b'"fine"\n5\n', "holds 5; write sentences"),
        ("a.jsonl", b'{"text": "x", "organization_id": "other"}', "'organization_id' cannot be given"),
        ("a.jsonl", b'{"txt": "x"}', "no field 'txt'; did you mean 'text'"),
    ],
)
def test_an_invalid_list_is_refused(sqlite_store: Store, tmp_path: Path, name: str, content: bytes, words: str) -> None:
    engine = sqlite_store.open()
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput) as caught:
        engine.load(tmp_path / name)
    assert words in str(caught.value)
    assert engine.scope().list().memories == ()


@pytest.mark.parametrize("suffix", [".txt", ".md"])
def test_texts_become_passages(sqlite_store: Store, tmp_path: Path, suffix: str) -> None:
    engine = sqlite_store.open()
    sentences = [f"Sentence number {n} speaks of things like {n * 7}." for n in range(200)]
    path = tmp_path / f"book{suffix}"
    path.write_text("\n\n".join(" ".join(sentences[n : n + 10]) for n in range(0, 200, 10)) + "\x00", "utf-8")
    reports: list[StepProgress] = []
    count = engine.load(path, user="alice", progress=reports.append).added
    alice = engine.scope(user="alice")
    memories = alice.list(limit=1000).memories
    assert count == len(memories) > 5
    assert reports[-1] == ("importing", count, count)
    embedded = [progress for progress in reports if progress.step == "embedding"]
    assert embedded[0].done == 0
    assert embedded[-1].done == embedded[-1].total >= count
    assert {memory.kind for memory in memories} == {"resource"}
    text = path.read_text("utf-8").replace("\x00", "")
    for memory in memories:
        start, end = memory.provenance["span"]
        assert memory.provenance["file"] == path.name
        assert text[start:end].strip() == memory.text
    all_text = " ".join(memory.text for memory in sorted(memories, key=lambda memory: memory.provenance["span"]))
    assert all(sentence in all_text for sentence in sentences)
    assert "number 123 " in texts(alice.recall("sentence number 123", k=1, minimum=0))[0]
    assert engine.load(path, user="alice") == ImportResult(added=0, existing=count)
    assert len(alice.list(limit=1000)) == len(memories), "the same file again adds nothing"


def test_a_file_over_the_limit_becomes_several_memories(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open(text_bytes=5000)
    (tmp_path / "big.txt").write_text("A sentence that is not long. " * 2000)
    assert engine.load(tmp_path / "big.txt").count > 10
