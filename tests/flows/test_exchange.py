"""Bundles: an export and an import keep every row, add no row twice, and name the line that is damaged."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold, StepProgress
from everhold.errors import AlreadyExists, FileError, InvalidInput, NotFound, UnknownField
from everhold.exchange.loading import ImportResult
from everhold.model import AccessLog, Cycle, Job, Outbox, Snapshot
from everhold.schema.catalog import TABLES
from everhold.schema.operations import Put
from everhold.testing.records_rows import make_family
from tests.engines import Store, get_records, make_store, ranking, read_all_rows, texts

NOT_IN_BUNDLES = (AccessLog, Job, Outbox)


def fill(engine: Everhold, organization: str = "acme") -> None:
    engine.create_user("alice", organization=organization, email="a@x.org", password="long enough", profile={"a": [1]})
    engine.create_project("p", organization=organization, user="alice", description="ด้วย")
    alice = engine.scope(organization=organization, user="alice", project="p", agent="bot", session="s1")
    memories = alice.remember_many(
        {
            "text": f'Note {number} กาแฟ \u2028 \x85 "quoted" {"long " * (number * 40)}',
            "tags": [f"t{number % 3}", "ภาษา"],
            "content": {"n": number, "nested": [None, 1.5, {"x": "\u2029"}]},
            "priority": number % 10 + 1,
            "aliases": ["alias"],
            "key": f"k{number}",
        }
        for number in range(30)
    )
    alice.relate(memories[0].id, memories[1].id, "reference", metadata={"why": "test"})
    alice.revise(memories[2].id, text="Revised", reason="because")
    alice.supersede(memories[3].id, "Heir")
    alice.forget(memories[4].id)
    alice.tag(memories[5].id, "extra")
    engine.scope(organization=organization).remember("Shared by all")
    engine.scope(organization="elsewhere").remember("Must not be in the bundle")


@pytest.fixture
def target(request: pytest.FixtureRequest, store: Store, tmp_path: Path) -> Any:
    """An empty store to import into: in memory if the bundle comes from SQLite, and otherwise on SQLite."""
    folder = tmp_path / "target"
    folder.mkdir()
    target_store = make_store("in_memory" if store.name == "sqlite" else "sqlite", request, folder)
    yield target_store
    target_store.close()


def read_rows(engine: Everhold, organization: str) -> dict[str, Any]:
    """Return every row of an organization that a bundle contains, without the id of the organization."""
    content: dict[str, Any] = {}
    for name, rows in read_all_rows(engine, without=NOT_IN_BUNDLES).items():
        rows_of_table: dict[Any, Any] = {}
        for row in rows.values():
            values = dict(row.__dict__)
            # The row of the organization itself has the organization's id in `id`.
            owner = values.pop("id" if name == "organizations" else "organization_id", None)
            if owner == organization:
                rows_of_table[json.dumps(values, default=str, sort_keys=True)] = values
        content[name] = rows_of_table
    return content


def test_an_export_and_import_into_an_empty_store_keep_every_row(
    engine: Everhold, target: Store, tmp_path: Path
) -> None:
    fill(engine)
    reports: list[StepProgress] = []
    count = engine.export(tmp_path / "out.jsonl", organization="acme", progress=reports.append)
    lines = (tmp_path / "out.jsonl").read_text("utf-8").split("\n")
    assert reports[0] == ("exporting", 0, count)
    assert reports[-1] == ("exporting", count, count)
    assert count == len(lines) - 3
    assert "Must not be" not in "\n".join(lines)
    target_engine = target.open()
    loaded = target_engine.load(tmp_path / "out.jsonl")
    assert (loaded.added + loaded.log_lines, loaded.existing) == (count, 0)
    assert loaded.count > 100
    assert read_rows(target_engine, "acme") == read_rows(engine, "acme")
    alice = engine.scope(organization="acme", user="alice")
    imported = target_engine.scope(organization="acme", user="alice")
    assert ranking(imported.recall("กาแฟ note", k=40, minimum=0)) == ranking(alice.recall("กาแฟ note", k=40, minimum=0))
    assert imported.tags() == alice.tags()
    assert target_engine.sign_in("a@x.org", "long enough", organization="acme").id == "alice"
    assert imported.undo().kind == "forget"
    assert target_engine.doctor().problems == []


def test_a_bundle_can_be_loaded_into_another_organization(engine: Everhold, tmp_path: Path) -> None:
    fill(engine)
    engine.export(tmp_path / "out.jsonl", organization="acme")
    before = read_rows(engine, "acme")
    engine.scope(organization="bolt", user="alice").recall("what is there now is nothing")
    engine.load(tmp_path / "out.jsonl", organization="bolt")
    assert read_rows(engine, "bolt") == read_rows(engine, "acme") == before
    assert texts(engine.scope(organization="bolt", user="alice").recall("heir", k=1, minimum=0)) == ["Heir"]


def test_loading_a_bundle_twice_adds_nothing(engine: Everhold, tmp_path: Path) -> None:
    fill(engine)
    engine.export(tmp_path / "out.jsonl", organization="acme")
    before = read_all_rows(engine, without=NOT_IN_BUNDLES)
    engine.load(tmp_path / "out.jsonl", organization="acme")
    assert read_all_rows(engine, without=NOT_IN_BUNDLES) == before
    first_import = engine.load(tmp_path / "out.jsonl", organization="bolt")
    rows_before = read_all_rows(engine, without=NOT_IN_BUNDLES)
    second_import = engine.load(tmp_path / "out.jsonl", organization="bolt")
    assert first_import.added > 0
    assert first_import.log_lines > 0
    assert second_import == ImportResult(added=0, existing=first_import.added, log_lines=first_import.log_lines)
    assert read_all_rows(engine, without=NOT_IN_BUNDLES) == rows_before
    assert len(engine.scope(organization="acme", user="alice").recall("note", k=100, minimum=0)) == len(
        engine.scope(organization="bolt", user="alice").recall("note", k=100, minimum=0)
    )


def test_the_log_is_exported_and_not_imported(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open()
    fill(engine)
    engine.export(tmp_path / "out.jsonl", organization="acme")
    tables = [json.loads(line).get("table") for line in (tmp_path / "out.jsonl").read_text("utf-8").split("\n") if line]
    assert "memory_access_logs" in tables
    assert not {name for name, table in TABLES.items() if table.internal} & set(tables)
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
    before = read_all_rows(engine, without=NOT_IN_BUNDLES)
    with pytest.raises((InvalidInput, UnknownField)) as caught:
        engine.load(tmp_path / "bad.jsonl", organization="bolt")
    assert words in str(caught.value)
    assert read_all_rows(engine, without=NOT_IN_BUNDLES) == before


def test_files_that_cannot_be_loaded_are_refused(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open()
    (tmp_path / "newer.jsonl").write_text('{"everhold": 99, "organization": "x"}\n')
    with pytest.raises(InvalidInput, match="the bundle has version 99, and this program reads 2; upgrade Everhold"):
        engine.load(tmp_path / "newer.jsonl")
    with pytest.raises(InvalidInput, match=r"no file '.*nothing' to import"):
        engine.load(tmp_path / "nothing")
    (tmp_path / "image.png").write_bytes(b"\x89PNG")
    with pytest.raises(InvalidInput, match="neither a bundle nor a file of a known kind"):
        engine.load(tmp_path / "image.png")
    with pytest.raises(NotFound, match="no organization 'nobody'; nothing was exported"):
        engine.export(tmp_path / "out.jsonl", organization="nobody")


def test_a_bundle_with_a_text_that_is_stored_already_is_refused(sqlite_store: Store, tmp_path: Path) -> None:
    """A memory with the same text under another id is refused with its line, and nothing is written."""
    engine = sqlite_store.open()
    engine.scope(organization="acme").remember("Known")
    engine.scope(organization="bolt").remember("Known")
    engine.export(tmp_path / "out.jsonl", organization="acme")
    before = read_all_rows(engine, without=NOT_IN_BUNDLES)
    with pytest.raises(AlreadyExists, match="lines 2 to"):
        engine.load(tmp_path / "out.jsonl", organization="bolt")
    assert read_all_rows(engine, without=NOT_IN_BUNDLES) == before


def export_lines(engine: Everhold, tmp_path: Path) -> list[bytes]:
    """Fill acme and return the lines of its bundle. The last one is empty, because a bundle ends with a line break."""
    fill(engine)
    engine.export(tmp_path / "out.jsonl", organization="acme")
    return (tmp_path / "out.jsonl").read_bytes().split(b"\n")


def test_a_bundle_is_loaded_into_the_organization_that_it_names(
    sqlite_store: Store, target: Store, tmp_path: Path
) -> None:
    fill(engine := sqlite_store.open())
    engine.export(tmp_path / "out.jsonl", organization="acme")
    target_engine = target.open()
    target_engine.load(tmp_path / "out.jsonl")
    assert target_engine.has_organization("acme")
    assert not target_engine.has_organization("default")
    assert [line.operation for line in target_engine.scope(organization="acme").log()] == ["import"]
    with pytest.raises(InvalidInput, match=r"out.jsonl is a bundle and says whose each row is; leave out user"):
        target_engine.load(tmp_path / "out.jsonl", user="u")


def test_a_bundle_that_was_cut_short_is_refused_before_anything_is_written(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open()
    lines = export_lines(engine, tmp_path)
    before = read_all_rows(engine, without=NOT_IN_BUNDLES)
    for end in (1, 2, 40, len(lines) - 2):
        (tmp_path / "cut.jsonl").write_bytes(b"\n".join(lines[:end]) + b"\n")
        with pytest.raises(InvalidInput, match=f"cut short: it ends at line {end}, without"):
            engine.load(tmp_path / "cut.jsonl", organization="bolt")
    assert read_all_rows(engine, without=NOT_IN_BUNDLES) == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines[:39] + lines[40:], r"has \d+ rows, and its end in line \d+ says \d+; export it again"),
        (
            lambda lines: [*lines[:39], lines[39].replace(b'"is_deleted": false', b'"is_deleted": true'), *lines[40:]],
            "not as they were exported",
        ),
        (lambda lines: [*lines[:39], lines[40], lines[39], *lines[41:]], "lines 2 to .* are not as they were exported"),
        (lambda lines: [*lines, lines[1]], r"line \d+ comes after the end of the bundle"),
        (lambda lines: [*lines[:-2], b'{"end": 5}'], r"line \d+ is not the end of a bundle"),
    ],
    ids=["removed", "changed", "swapped", "added", "another end"],
)
def test_a_bundle_that_is_not_as_it_was_exported_is_refused(
    sqlite_store: Store, tmp_path: Path, change: Any, words: str
) -> None:
    engine = sqlite_store.open()
    lines = export_lines(engine, tmp_path)
    before = read_all_rows(engine, without=NOT_IN_BUNDLES)
    (tmp_path / "other.jsonl").write_bytes(b"\n".join(change(lines)))
    with pytest.raises(InvalidInput, match=words):
        engine.load(tmp_path / "other.jsonl", organization="bolt")
    assert read_all_rows(engine, without=NOT_IN_BUNDLES) == before


def test_other_line_ends_and_blank_lines_at_the_end_do_not_matter(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open()
    lines = export_lines(engine, tmp_path)
    (tmp_path / "typed.jsonl").write_bytes(b"\r\n".join(lines) + b"\r\n\n")
    assert engine.load(tmp_path / "typed.jsonl", organization="bolt").added > 100
    (tmp_path / "bare.jsonl").write_bytes(b"\n".join(lines[:-1]))
    assert engine.load(tmp_path / "bare.jsonl", organization="bolt").added == 0


def test_a_bundle_of_version_1_is_loaded_without_an_end_line(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open()
    lines = export_lines(engine, tmp_path)
    first = lines[0].replace(b'"everhold": 2', b'"everhold": 1')
    (tmp_path / "old.jsonl").write_bytes(b"\n".join([first, *lines[1:-2]]) + b"\n\n")
    assert engine.load(tmp_path / "old.jsonl", organization="bolt").added > 100
    (tmp_path / "old.jsonl").write_bytes(first + b"\n")
    with pytest.raises(InvalidInput, match="the bundle ends at line 1 and has no rows"):
        engine.load(tmp_path / "old.jsonl", organization="bolt")


def test_an_empty_file_is_refused(sqlite_store: Store, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InvalidInput, match=r"empty.jsonl is empty; there is nothing to import"):
        sqlite_store.open().load(tmp_path / "empty.jsonl")


def test_rows_that_refer_to_their_own_table_are_imported(engine: Everhold, target: Store, tmp_path: Path) -> None:
    """Sorted by id, as a scan returns them, each row would come before the row that it refers to."""
    rows = make_family("acme", "one")
    rows["chunks"] = rows["chunks"].model_copy(update={"user_id": "one", "span_end": 1})
    records = get_records(engine)
    records.commit([Put(row) for name, row in rows.items() if TABLES[name].tenant])
    for entity, unique_column in ((Cycle, "cycle_index"), (Snapshot, None)):
        parent = records.scan(entity, "acme")[0]
        for number in range(9, 0, -1):  # so that each row has a smaller id than its parent
            changes: dict[str, Any] = {"id": f"0{number}", "parent_id": parent.id}
            if unique_column:
                changes[unique_column] = 90 + number
            parent = parent.model_copy(update=changes)
            records.commit([Put(parent)])
    engine.export(tmp_path / "out.jsonl", organization="acme")
    target_engine = target.open()
    target_engine.load(tmp_path / "out.jsonl")
    for entity in (Cycle, Snapshot):
        assert get_records(target_engine).scan(entity, "acme") == records.scan(entity, "acme")


# the file of an export


def test_an_export_that_fails_leaves_an_existing_file_unchanged(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open()
    engine.scope().remember("Prefers tea")
    folder = tmp_path / "out"
    folder.mkdir()
    file = folder / "mine.jsonl"
    file.write_text("precious", "utf-8")
    with pytest.raises(InvalidInput, match=r"mine.jsonl exists already; name another file, or pass overwrite=True"):
        engine.export(file)
    with pytest.raises(NotFound):
        engine.export(file, organization="nobody", overwrite=True)

    def fail_for_lack_of_space(_: StepProgress) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        engine.export(file, overwrite=True, progress=fail_for_lack_of_space)
    assert [(path.name, path.read_text("utf-8")) for path in folder.iterdir()] == [("mine.jsonl", "precious")]
    count = engine.export(file, overwrite=True)
    assert len(file.read_text("utf-8").splitlines()) == count + 2
    assert [path.name for path in folder.iterdir()] == ["mine.jsonl"]
    with pytest.raises(InvalidInput, match=r"there is no folder .*nowhere to write mine.jsonl into; create it first"):
        engine.export(folder / "nowhere/mine.jsonl")
    with pytest.raises(InvalidInput, match=r"out is a folder; name a file"):
        engine.export(folder)


def test_an_export_follows_no_link_and_replaces_no_pipe(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open()
    engine.scope().remember("Prefers tea")
    link, pipe = tmp_path / "link.jsonl", tmp_path / "pipe"
    (tmp_path / "there.jsonl").write_text("precious", "utf-8")
    link.symlink_to(tmp_path / "there.jsonl")
    with pytest.raises(InvalidInput, match="exists already"):
        engine.export(link)
    count = engine.export(link, overwrite=True)
    assert not link.is_symlink()
    assert (tmp_path / "there.jsonl").read_text("utf-8") == "precious"
    os.mkfifo(pipe)
    lines_read: list[str] = []
    reader = threading.Thread(target=lambda: lines_read.extend(pipe.read_text("utf-8").splitlines()))
    reader.start()
    engine.export(pipe)
    reader.join(100)
    assert pipe.is_fifo()
    assert len(lines_read) >= count + 2
    engine.export("/dev/null")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(FileError, match=r"/dev/full cannot be written \(No space left on device\)"):
        engine.export("/dev/full")
