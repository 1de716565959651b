"""Bundles and other files: everything out, everything in, nothing twice, and damage named by its line."""

import json
from pathlib import Path
from typing import Any

import pytest

from recollect import Recollect
from recollect.errors import AlreadyExists, InvalidInput, NotFound, UnknownField
from recollect.model import AccessLog, Job, Outbox, ProjectionState
from tests.engines import Store, all_rows, make_store, ranking, texts

NOT_CARRIED = (AccessLog, Job, Outbox, ProjectionState)


def fill(engine: Recollect, organization: str = "acme") -> None:
    engine.create_user("alice", organization=organization, email="a@x.org", password="long enough", profile={"a": [1]})
    engine.create_project("p", organization=organization, user="alice", description="ด้วย")
    alice = engine.scope(organization=organization, user="alice", project="p", agent="bot", session="s1")
    kept = alice.remember_many(
        {
            "text": f'Note {n} กาแฟ \u2028 \x85 "quoted" {"long " * (n * 40)}',
            "tags": [f"t{n % 3}", "ภาษา"],
            "content": {"n": n, "nested": [None, 1.5, {"x": "\u2029"}]},
            "priority": n % 10 + 1,
            "aliases": ["alias"],
            "key": f"k{n}",
        }
        for n in range(30)
    )
    alice.relate(kept[0].id, kept[1].id, "reference", why="test")
    alice.revise(kept[2].id, text="Revised", reason="because")
    alice.supersede(kept[3].id, "Heir")
    alice.forget(kept[4].id)
    alice.tag(kept[5].id, "extra")
    engine.scope(organization=organization).remember("Shared by all")
    engine.scope(organization="elsewhere").remember("Must not be in the bundle")


@pytest.fixture
def target(request: pytest.FixtureRequest, store: Store, tmp_path: Path) -> Any:
    """An empty store to import into: SQLite for what comes from elsewhere, memory for what comes from SQLite."""
    folder = tmp_path / "target"
    folder.mkdir()
    made = make_store("in_memory" if store.name == "sqlite" else "sqlite", request, folder)
    yield made
    made.close()


def rows_of(engine: Recollect, organization: str) -> dict[str, Any]:
    """Every row of an organization that a bundle carries, without whose it is."""
    found: dict[str, Any] = {}
    for name, rows in all_rows(engine, without=NOT_CARRIED).items():
        own: dict[Any, Any] = {}
        for row in rows.values():
            values = dict(row.__dict__)
            owner = values.pop("organization_id", values.get("id") if name == "organizations" else None)
            if name == "organizations":
                values.pop("id")
            if owner == organization:
                own[json.dumps(values, default=str, sort_keys=True)] = values
        found[name] = own
    return found


def test_a_round_trip_into_an_empty_store(engine: Recollect, target: Store, tmp_path: Path) -> None:
    fill(engine)
    seen: list[int] = []
    count = engine.export(tmp_path / "out.jsonl", organization="acme", progress=seen.append)
    lines = (tmp_path / "out.jsonl").read_text("utf-8").split("\n")
    assert count == sum(seen) == len(lines) - 2
    assert "Must not be" not in "\n".join(lines)
    other = target.open()
    assert other.load(tmp_path / "out.jsonl", organization="acme") > 100
    assert rows_of(other, "acme") == rows_of(engine, "acme")
    here = engine.scope(organization="acme", user="alice")
    there = other.scope(organization="acme", user="alice")
    assert ranking(there.recall("กาแฟ note", k=40, minimum=0)) == ranking(here.recall("กาแฟ note", k=40, minimum=0))
    assert there.tags() == here.tags()
    assert other.sign_in("a@x.org", "long enough", organization="acme").id == "alice"
    assert there.undo().kind == "forget"
    assert other.doctor().problems == []


def test_into_another_organization(engine: Recollect, tmp_path: Path) -> None:
    fill(engine)
    engine.export(tmp_path / "out.jsonl", organization="acme")
    before = rows_of(engine, "acme")
    engine.scope(organization="bolt", user="alice").recall("what is there now is nothing")
    engine.load(tmp_path / "out.jsonl", organization="bolt")
    assert rows_of(engine, "bolt") == rows_of(engine, "acme") == before
    assert texts(engine.scope(organization="bolt", user="alice").recall("heir", k=1, minimum=0)) == ["Heir"]


def test_twice_adds_nothing(engine: Recollect, tmp_path: Path) -> None:
    fill(engine)
    engine.export(tmp_path / "out.jsonl", organization="acme")
    before = all_rows(engine, without=NOT_CARRIED)
    engine.load(tmp_path / "out.jsonl", organization="acme")
    assert all_rows(engine, without=NOT_CARRIED) == before
    engine.load(tmp_path / "out.jsonl", organization="bolt")
    once = all_rows(engine, without=NOT_CARRIED)
    engine.load(tmp_path / "out.jsonl", organization="bolt")
    assert all_rows(engine, without=NOT_CARRIED) == once
    assert len(engine.scope(organization="acme", user="alice").recall("note", k=100, minimum=0)) == len(
        engine.scope(organization="bolt", user="alice").recall("note", k=100, minimum=0)
    )


def test_the_log_goes_out_and_is_not_taken_in(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open()
    fill(engine)
    engine.export(tmp_path / "out.jsonl", organization="acme")
    tables = [json.loads(line).get("table") for line in (tmp_path / "out.jsonl").read_text("utf-8").split("\n") if line]
    assert "memory_access_logs" in tables
    assert not {"outbox", "jobs", "projection_states", "schema_versions"} & set(tables)
    engine.load(tmp_path / "out.jsonl", organization="bolt")
    assert [line.operation for line in engine.scope(organization="bolt").log()] == ["import"]
    assert engine.verify_log("bolt").intact


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (b"not json", "line 40 is not a row of a bundle: 'not json"),
        (b"{}", "line 40 is not a row of a bundle"),
        (b"[]", "line 40 is not a row of a bundle"),
        (b'"text"', "line 40 is not a row of a bundle"),
        (b'{"table": "nothing", "row": {}}', "line 40 is not a row of a bundle"),
        (b'{"table": "memories", "row": 5}', "line 40 is not a row of a bundle"),
        (b'{"table": "memories"}', "line 40 is not a row of a bundle"),
        (b'{"table": "memories", "row": {}}', "id is missing"),
        (b'{"table": "memories", "row": {"id": "x", "nonsense": 1}}', "line 40"),
        (b'{"table": "memories", "row": {"id": "a b"}}', "line 40"),
        (b'{"table": "memories", "row": {"id": "caf\xe9"}}', "line 40"),
        (b"\x80\x81", "line 40 is not a row of a bundle"),
        (b"", "line 40 is not a row of a bundle"),
    ],
)
def test_a_damaged_line_is_named(sqlite_store: Store, tmp_path: Path, damage: bytes, words: str) -> None:
    engine = sqlite_store.open()
    fill(engine)
    engine.export(tmp_path / "out.jsonl", organization="acme")
    lines = (tmp_path / "out.jsonl").read_bytes().split(b"\n")
    lines[39] = damage
    (tmp_path / "bad.jsonl").write_bytes(b"\n".join(lines))
    before = all_rows(engine, without=NOT_CARRIED)
    with pytest.raises((InvalidInput, UnknownField)) as caught:
        engine.load(tmp_path / "bad.jsonl", organization="bolt")
    assert words in str(caught.value)
    assert all_rows(engine, without=NOT_CARRIED) == before


def test_what_cannot_be_loaded(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open()
    (tmp_path / "newer.jsonl").write_text('{"recollect": 99, "organization": "x"}\n')
    with pytest.raises(InvalidInput, match="the bundle has version 99, and this program reads 1; upgrade Recollect"):
        engine.load(tmp_path / "newer.jsonl")
    with pytest.raises(InvalidInput, match=r"no file '.*nothing' to import"):
        engine.load(tmp_path / "nothing")
    (tmp_path / "image.png").write_bytes(b"\x89PNG")
    with pytest.raises(InvalidInput, match="neither a bundle nor a file of a known kind"):
        engine.load(tmp_path / "image.png")
    with pytest.raises(NotFound, match="no organization 'nobody'; nothing was exported"):
        engine.export(tmp_path / "out.jsonl", organization="nobody")


def test_where_the_same_is_known_already(sqlite_store: Store, tmp_path: Path) -> None:
    """The same words under another id: refused with its place, and nothing half-written."""
    engine = sqlite_store.open()
    engine.scope(organization="acme").remember("Known")
    engine.scope(organization="bolt").remember("Known")
    engine.export(tmp_path / "out.jsonl", organization="acme")
    before = all_rows(engine, without=NOT_CARRIED)
    with pytest.raises(AlreadyExists, match="lines 2 to"):
        engine.load(tmp_path / "out.jsonl", organization="bolt")
    assert all_rows(engine, without=NOT_CARRIED) == before


# files that are not bundles


def test_lists_of_memories(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open()
    items: list[Any] = ["I recollect a sentence", {"text": "With fields \u2028 inside", "kind": "fact", "tags": ["t"]}]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(item, ensure_ascii=False) for item in items) + "\n\n")
    (tmp_path / "b.json").write_text(json.dumps([{"text": "From an array"}, "Another"]))
    (tmp_path / "c.json").write_text(json.dumps({"text": "Only one"}))
    assert [engine.load(tmp_path / name, user="alice") for name in ("a.jsonl", "b.json", "c.json")] == [2, 2, 1]
    alice = engine.scope(user="alice")
    assert {memory.text for memory in alice.list().memories} == {
        "I recollect a sentence", "With fields \u2028 inside", "From an array", "Another", "Only one",
    }  # fmt: skip
    assert alice.tags() == {"t": 1}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jsonl", b'"fine"\n{"text": \n', "line 2 of"),
        ("a.json", b"[1, ", "is not JSON"),
        ("a.jsonl", b'"caf\xe9"', "is not JSON in UTF-8"),
        ("a.jsonl", b'"fine"\n5\n', "holds 5; write sentences"),
        ("a.jsonl", b'{"text": "x", "organization_id": "other"}', "'organization_id' cannot be given"),
        ("a.jsonl", b'{"txt": "x"}', "no field 'txt'; did you mean 'text'"),
    ],
)
def test_a_bad_list(sqlite_store: Store, tmp_path: Path, name: str, content: bytes, words: str) -> None:
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
    seen: list[int] = []
    count = engine.load(path, user="alice", progress=seen.append)
    alice = engine.scope(user="alice")
    memories = alice.list(limit=1000).memories
    assert count == sum(seen) == len(memories) > 5
    assert {memory.kind for memory in memories} == {"resource"}
    text = path.read_text("utf-8").replace("\x00", "")
    for memory in memories:
        start, end = memory.provenance["span"]
        assert memory.provenance["file"] == path.name
        assert text[start:end].strip() == memory.text
    whole = " ".join(memory.text for memory in sorted(memories, key=lambda one: one.provenance["span"]))
    assert all(sentence in whole for sentence in sentences)
    assert "number 123 " in texts(alice.recall("sentence number 123", k=1, minimum=0))[0]
    assert engine.load(path, user="alice") == count
    assert len(alice.list(limit=1000).memories) == len(memories), "the same file again adds nothing"


def test_a_file_over_the_limit_of_one_memory(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open(text_bytes=5000)
    (tmp_path / "big.txt").write_text("A sentence that is not long. " * 2000)
    assert engine.load(tmp_path / "big.txt") > 10
