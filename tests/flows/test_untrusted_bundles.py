"""Rows of a forged bundle reach neither another organization nor memories of another user."""

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bundles import Rows, encode_base64, read_rows, tamper, write_lines, write_rows
from everhold import Everhold, parts, settings, stores
from everhold.errors import AlreadyExists, InvalidInput, StoreDamaged
from everhold.exchange.loading import ImportResult
from everhold.model import Change, Chunk, Job, Memory, Outbox
from everhold.schema.operations import Op, Patch, Put, Where
from everhold.testing.fake_embedder import FakeEmbedder
from tests.damage import damage
from tests.engines import CALM, STORES, Store, get_records, make_store, read_all_rows, texts
from tests.servers.dynamodb import CREDENTIALS, DynamoServer
from tests.servers.postgres import PostgresServer

EVERY_STORE = (*STORES, "duckdb", "dynamodb")
TIME = "2026-01-01T00:00:00+00:00"
FOREIGN_ORGANIZATION = "bolt"


@pytest.fixture(params=EVERY_STORE)
def engine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Everhold]:
    """An engine on every store, with memories of two users in one organization and of one user in another."""
    if request.param == "dynamodb":
        server: DynamoServer = request.getfixturevalue("dynamodb_server")
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name.upper(), value)
        options: dict[str, Any] = {"dynamodb": {"endpoint": server.url}, "blobs": str(tmp_path / "blobs")}
        store = Store("dynamodb", f"dynamodb://eu-north-1/{tmp_path.name}")
    else:
        options = {}
        store = make_store(request.param, request, tmp_path)
    opened = store.open(**options)
    fill(opened)
    yield opened
    store.close()


@pytest.fixture
def sqlite_engine(sqlite_store: Store) -> Everhold:
    opened = sqlite_store.open()
    fill(opened)
    return opened


def fill(engine: Everhold) -> None:
    alice = engine.scope(organization="acme", user="alice")
    note = alice.remember("Alice keeps her key under the mat", id="note-1", tags=["key"])
    alice.revise(note.id, text="Alice keeps her key under the stone")
    old = alice.remember("Alice drinks tea", id="old")
    alice.supersede(old.id, "Alice drinks coffee")
    alice.forget(alice.remember("Alice will forget this").id)
    engine.scope(organization="acme", user="bob").remember("Bob hides his money in the oven", id="bobs")
    engine.scope(organization=FOREIGN_ORGANIZATION, user="carol").remember("Carol wins the lottery", id="carols")


def export(engine: Everhold, folder: Path) -> Path:
    engine.export(folder / "out.jsonl", organization="acme")
    return folder / "out.jsonl"


def read_steady_rows(engine: Everhold) -> dict[str, Any]:
    """Return every row except those of tables that the engine itself keeps changing."""
    engine.flush()
    changing_tables = (
        "memory_access_logs",
        "log_heads",
        "outbox",
        "counters",
        "leases",
        "outbox_marks",
        "jobs",
        "maintenance_runs",
    )
    return {name: rows for name, rows in read_all_rows(engine).items() if name not in changing_tables}


def make_job_row(**values: Any) -> dict[str, Any]:
    row = {"id": "job-1", "organization_id": "acme", "created_at": TIME, "updated_at": TIME, "kind": "forget", **values}
    return {"table": "jobs", "row": row}


OUTBOX_ROW = {
    "table": "outbox",
    "row": {
        "organization_id": "acme", "user_id": "alice", "entity": "memories", "entity_id": "bobs", "operation": "put",
    },
}  # fmt: skip
COUNTER_ROW = {"table": "counters", "row": {"name": "access log sealed through", "value": 10**9}}
VERSION_ROW = {"table": "schema_versions", "row": {"version": 99, "name": "later", "applied_at": TIME}}


def make_forget_job(organization: str, ids: list[str]) -> dict[str, Any]:
    parameters = {"hard": True, "scope": {"organization": organization}}
    return make_job_row(status="running", parameters=parameters, state={"ids": ids}, total=len(ids))


class TestInternalTables:
    def test_no_forged_row_is_imported(self, engine: Everhold, tmp_path: Path) -> None:
        source = export(engine, tmp_path)
        engine.maintain()  # creates the secret from which the name of the folder for blobs is derived
        before = read_steady_rows(engine)
        planted = [
            make_forget_job(FOREIGN_ORGANIZATION, ["carols"]),
            make_job_row(id="access-log", kind="seal"),
            OUTBOX_ROW,
            COUNTER_ROW,
            VERSION_ROW,
        ]
        for row in planted:
            bundle = tamper(source, tmp_path / "bad.jsonl", "acme", lambda rows, row=row: [*rows, row])  # type: ignore[misc]
            words = rf"line \d+ is a row of table '{row['table']}', which holds the engine's own state"
            with pytest.raises(InvalidInput, match=words):
                engine.load(bundle)
        engine.maintain()
        assert read_steady_rows(engine) == before
        assert engine.verify_log("acme").intact
        assert engine.doctor().problems == []


class TestJobs:
    """Forged jobs that are already in the store."""

    def test_a_job_acts_in_its_own_organization_only(self, engine: Everhold) -> None:
        plant_job(engine, make_forget_job(FOREIGN_ORGANIZATION, ["carols"]), "job-foreign")
        plant_job(engine, make_forget_job("acme", ["carols"]), "job-own")
        engine.maintain()
        assert engine.scope(organization=FOREIGN_ORGANIZATION).get("carols").text == "Carol wins the lottery"
        states = {job.id: job for job in get_records(engine).scan(Job, "acme", [Where("kind", Op.EQ, "forget")])}
        assert (states["job-foreign"].status, states["job-own"].status) == ("failed", "done")
        assert "organization" in str(states["job-foreign"].error)
        problems = engine.doctor().problems
        assert [problem for problem in problems if "job-foreign" in problem and "acme" in problem], problems

    @pytest.mark.parametrize(
        ("parameters", "state"),
        [
            ({}, {"ids": ["note-1"]}),
            ({"hard": True, "scope": "acme"}, {"ids": ["note-1"]}),
            ({"hard": True, "scope": {"organization": "acme", "planet": "x"}}, {"ids": ["note-1"]}),
            ({"hard": "no", "scope": {"organization": "acme"}}, {"ids": ["note-1"]}),
            ({"hard": True, "scope": {"organization": "acme"}}, {}),
            ({"hard": True, "scope": {"organization": "acme"}}, {"ids": "note-1"}),
            ({"hard": True, "scope": {"organization": "acme"}}, {"ids": ["note-1", 5]}),
            ({"hard": True, "scope": {"organization": ["acme"]}}, {"ids": ["note-1"]}),
        ],
    )
    def test_an_invalid_job_fails_and_the_others_run(
        self, sqlite_engine: Everhold, parameters: dict[str, Any], state: dict[str, Any]
    ) -> None:
        plant_job(sqlite_engine, make_job_row(status="running", parameters=parameters, state=state), "a-bad")
        plant_job(sqlite_engine, make_forget_job("acme", ["bobs"]), "b-good")
        assert [problem for problem in sqlite_engine.doctor().problems if "a-bad" in problem]
        sqlite_engine.maintain()
        jobs = {
            job.id: job.status for job in get_records(sqlite_engine).scan(Job, "acme", [Where("kind", Op.EQ, "forget")])
        }
        assert jobs == {"a-bad": "failed", "b-good": "done"}
        assert sqlite_engine.scope(organization="acme").get("note-1").user_id == "alice"

    def test_a_job_acts_in_its_own_organization_under_row_level_security(
        self, postgres_server: PostgresServer, postgres_url: str
    ) -> None:
        postgres_server.create_role("application")
        secured = {"row_security": True, "owner_url": postgres_url}
        chosen = settings.load(postgres_url.replace("postgres@", "application@"), **CALM, postgres=secured)
        embedder = FakeEmbedder()
        with Everhold(parts.assemble(chosen, *stores.open_store(chosen), embedder, embedder)) as engine:
            fill(engine)
            plant_job(engine, make_forget_job(FOREIGN_ORGANIZATION, ["carols"]), "job-foreign")
            engine.maintain()
            assert engine.scope(organization=FOREIGN_ORGANIZATION).get("carols").user_id == "carol"


def plant_job(engine: Everhold, row: dict[str, Any], job_id: str) -> None:
    get_records(engine).commit([Put(Job.model_validate_json(json.dumps({**row["row"], "id": job_id})))])


class TestTheFeed:
    def test_a_feed_line_adds_no_memory_of_another_user_to_an_image(self, engine: Everhold) -> None:
        alice = engine.scope(organization="acme", user="alice")
        assert texts(alice.recall("money in the oven", k=10, minimum=0))
        get_records(engine).commit([Put(Outbox.model_validate(OUTBOX_ROW["row"]))])
        assert "Bob hides his money in the oven" not in texts(alice.recall("money in the oven", k=50, minimum=0))

    def test_a_chunk_in_the_image_of_another_user_is_not_a_hit(self, engine: Everhold, tmp_path: Path) -> None:
        """Recall checks every memory that it returns, even if a wrong row is in the image."""
        records = get_records(engine)
        [chunk] = records.scan(Chunk, "acme", [Where("owner_id", Op.EQ, "bobs")])
        planted = chunk.model_copy(update={"user_id": "alice", "chunk_index": 7})
        records.commit([Put(planted), Put(Outbox.model_validate(OUTBOX_ROW["row"]))])
        for max_memories in (0, 10_000):
            engine._parts.recall_deps.images.max_memories = max_memories
            engine._parts.recall_deps.images.clear()
            alice = engine.scope(organization="acme", user="alice")
            recalled = texts(alice.recall("money in the oven", k=50, minimum=0, include=["organization"]))
            assert recalled
            assert "Bob hides his money in the oven" not in recalled
        problems = engine.doctor().problems
        assert [problem for problem in problems if "1 chunk" in problem and "another user" in problem]


class TestCollisions:
    def test_a_bundle_with_the_id_of_another_users_memory_is_refused(self, engine: Everhold, tmp_path: Path) -> None:
        source = export(engine, tmp_path)
        bob = engine.scope(organization="other", user="bob")
        bob.remember("Bob has a secret garden", id="note-1")
        before = read_steady_rows(engine)
        with pytest.raises(AlreadyExists) as caught:
            engine.load(source, organization="other")
        assert "1 row" in str(caught.value)
        assert "memories 'note-1'" in str(caught.value)
        assert "import into an organization of its own" in str(caught.value)
        assert read_steady_rows(engine) == before
        alice = engine.scope(organization="other", user="alice")
        assert texts(alice.recall("secret garden key stone", k=50, minimum=0)) == []

    def test_an_existing_memory_keeps_its_own_version_and_rows(self, engine: Everhold, tmp_path: Path) -> None:
        source = export(engine, tmp_path)
        first = engine.load(source, organization="other")
        alice = engine.scope(organization="other", user="alice")
        alice.revise("note-1", text="Alice keeps her key in the boot")
        before = read_steady_rows(engine)
        second = engine.load(source, organization="other")
        assert read_steady_rows(engine) == before
        rows_of_note = [row for row in read_rows(source) if "note-1" in json.dumps(row) and "logs" not in row["table"]]
        assert second == ImportResult(
            added=0, existing=first.added - len(rows_of_note), skipped=len(rows_of_note), log_lines=first.log_lines
        )
        assert texts(alice.recall("where is the key?", k=1, minimum=0)) == ["Alice keeps her key in the boot"]

    def test_an_interrupted_import_is_completed(self, engine: Everhold, tmp_path: Path) -> None:
        """After an interrupted import, the memory is stored but its chunks are missing."""
        source = export(engine, tmp_path)
        rows = read_rows(source)
        part = [row for row in rows if row["table"] not in ("chunks", "memory_tags", "revisions")]
        first = engine.load(write_rows(tmp_path / "part.jsonl", part, "acme"), organization="other")
        engine.scope(organization="other", user="alice").get("note-1")
        second = engine.load(source, organization="other")
        assert (second.added, second.existing, second.skipped) == (len(rows) - len(part), first.added, 0)
        assert texts(engine.scope(organization="other", user="alice").recall("key", k=1, minimum=0))

    def test_a_bundle_that_names_purged_memories_is_imported(self, engine: Everhold, tmp_path: Path) -> None:
        """The bundle has a superseded memory whose successor was purged, and journal entries about both."""
        alice = engine.scope(organization="acme", user="alice")
        alice.forget(str(alice.get("old").superseded_by), hard=True)
        loaded = engine.load(export(engine, tmp_path), organization="other")
        assert loaded.skipped == 0
        assert engine.scope(organization="other", user="alice").get("old").text == "Alice drinks tea"
        assert engine.doctor().problems == []

    def test_scopes_that_were_first_mentioned_at_another_time_are_the_same(
        self, sqlite_engine: Everhold, tmp_path: Path
    ) -> None:
        source = export(sqlite_engine, tmp_path)
        alice = sqlite_engine.scope(organization="other", user="alice")
        alice.remember("Alice came here by herself")
        loaded = sqlite_engine.load(source, organization="other")
        assert loaded.skipped == 2  # the organization and the user, as they are here
        assert {"Alice came here by herself", "Alice keeps her key under the stone"} <= set(
            texts(alice.recall("Alice", k=50, minimum=0))
        )

    def test_a_chunk_without_its_memory_is_refused(self, sqlite_engine: Everhold, tmp_path: Path) -> None:
        source = export(sqlite_engine, tmp_path)
        bundle = tamper(
            source,
            tmp_path / "bad.jsonl",
            "acme",
            lambda rows: [row for row in rows if row["table"] != "memories" or row["row"]["id"] != "bobs"],
        )
        with pytest.raises(InvalidInput, match=r"line \d+: .*'bobs'.* is not in the bundle"):
            sqlite_engine.load(bundle)


class TestSessions:
    def test_rows_without_a_user_may_be_in_a_users_session(self, sqlite_engine: Everhold, tmp_path: Path) -> None:
        sqlite_engine.scope(organization="acme", user="alice", session="s").say("Hello")
        anyone = sqlite_engine.scope(organization="acme", session="s")
        anyone.remember("A note by no user")
        anyone.say("A message by no user")
        source = export(sqlite_engine, tmp_path)
        assert sqlite_engine.load(source).added == 0
        assert sqlite_engine.load(source, organization="again").existing == 0
        for table in ("memories", "messages"):
            foreign = change_row(table, lambda row: "by no user" in row["text"], user_id="bob")
            with pytest.raises(InvalidInput, match="move it to a session of its user"):
                sqlite_engine.load(tamper(source, tmp_path / f"{table}.jsonl", "acme", foreign), organization="new")


def change_row(table: str, is_chosen: Callable[[dict[str, Any]], bool], **values: Any) -> Callable[[Rows], Rows]:
    def change(rows: Rows) -> Rows:
        chosen = [row["row"] for row in rows if row["table"] == table and is_chosen(row["row"])]
        assert chosen
        chosen[0].update(values)
        return rows

    return change


def has_id(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda row: name in (row.get("id"), row.get("owner_id"), row.get("memory_id"))


def has_kind(kind: str) -> Callable[[dict[str, Any]], bool]:
    return lambda row: bool(row["kind"] == kind)


ZEROS = encode_base64(bytes(2 * FakeEmbedder().dimensions))
INFINITE = encode_base64(struct.pack("<e", float("inf")) * FakeEmbedder().dimensions)
IMPOSSIBLE_ROWS = {
    "three bytes": change_row("chunks", has_id("bobs"), vector=encode_base64(b"abc")),
    "short vector": change_row("chunks", has_id("bobs"), vector=encode_base64(b"ab")),
    "zero vector": change_row("chunks", has_id("bobs"), vector=ZEROS),
    "infinite vector": change_row("chunks", has_id("bobs"), vector=INFINITE),
    "no dimensions": change_row("chunks", has_id("bobs"), dimensions=0),
    "other dimensions": change_row("chunks", has_id("bobs"), dimensions=2, vector=encode_base64(b"abcd")),
    "too many dimensions": change_row("chunks", has_id("bobs"), dimensions=10**6, vector=encode_base64(b"ab" * 10**6)),
    "span": change_row("chunks", has_id("bobs"), span_end=10**6),
    "backward span": change_row("chunks", has_id("bobs"), span_start=9, span_end=3),
    "another user": change_row("chunks", has_id("bobs"), user_id="alice"),
    "no user": change_row("chunks", has_id("bobs"), user_id=""),
    "empty before": change_row("changes", has_kind("revise"), before={}),
    "odd before": change_row("changes", has_kind("revise"), before={"revision": "first"}),
    "no endings": change_row("changes", has_kind("supersede"), before={}),
    "no deletion": change_row("changes", has_kind("forget"), before={"deletion_id": 5}),
    "foreign journal": change_row("changes", has_kind("revise"), user_id="bob"),
    "foreign successor": change_row("memories", has_id("old"), superseded_by="bobs"),
    "odd revision": change_row("revisions", lambda _: True, value={"user_id": "bob"}),
    "odd text": change_row("revisions", lambda _: True, value={"text": 5}),
    "another organization": change_row("memories", has_id("bobs"), organization_id=FOREIGN_ORGANIZATION),
    "unknown user": change_row("memories", has_id("bobs"), user_id="nobody"),
    "twice": lambda rows: [*rows, next(row for row in reversed(rows) if row["table"] == "chunks")],
}  # fmt: skip


class TestImpossibleRows:
    @pytest.mark.parametrize("change", IMPOSSIBLE_ROWS.values(), ids=IMPOSSIBLE_ROWS)
    def test_an_impossible_row_is_refused_with_its_line(
        self, sqlite_engine: Everhold, tmp_path: Path, change: Callable[[Rows], Rows]
    ) -> None:
        bundle = tamper(export(sqlite_engine, tmp_path), tmp_path / "bad.jsonl", "acme", change)
        before = read_steady_rows(sqlite_engine)
        with pytest.raises(InvalidInput, match=r"line \d+"):
            sqlite_engine.load(bundle, organization="other")
        assert read_steady_rows(sqlite_engine) == before

    @pytest.mark.parametrize("depth", [101, 5_000, 200_000])
    def test_deeply_nested_json_is_refused(self, sqlite_engine: Everhold, tmp_path: Path, depth: int) -> None:
        rows = [json.dumps(row) for row in read_rows(export(sqlite_engine, tmp_path))]
        deep = '{"a":' * depth + "1" + "}" * depth
        index = next(number for number, row in enumerate(rows) if '"table": "memories"' in row)
        rows[index] = rows[index].replace('"metadata": {}', f'"metadata": {deep}', 1)
        bundle = write_lines(tmp_path / "bad.jsonl", rows, "acme")
        with pytest.raises(InvalidInput, match=f"line {index + 2}"):
            sqlite_engine.load(bundle, organization="other")
        (tmp_path / "deep.jsonl").write_text("[" * depth + "\n")
        with pytest.raises(InvalidInput):
            sqlite_engine.load(tmp_path / "deep.jsonl")

    def test_a_damaged_journal_is_named(self, engine: Everhold) -> None:
        records = get_records(engine)
        changes = {change.kind: change for change in records.scan(Change, "acme")}
        damaged_values: dict[str, dict[str, Any]] = {
            "revise": {"revision": 99}, "supersede": {}, "forget": {"deletion_id": [1]}
        }  # fmt: skip
        for kind, before in damaged_values.items():
            change = changes[kind]
            damage(records, Patch(Change, ("acme", change.id), {"before": before}))
            alice = engine.scope(organization="acme", user="alice")
            with pytest.raises(StoreDamaged, match=change.id):
                alice.undo(change.memory_ids[0])
        problems = " ".join(engine.doctor().problems)
        assert "2 rows of changes" in problems
        # The report names the row that the scan met first, and PostgreSQL scans in no fixed order.
        assert changes["supersede"].id in problems or changes["forget"].id in problems

    def test_doctor_finds_a_damaged_chunk_and_recall_still_works(self, engine: Everhold) -> None:
        records = get_records(engine)
        damaged = b"abcd" if records.traits.name == "postgres" else b"abc"  # pgvector holds whole numbers only
        [chunk] = records.scan(Chunk, "acme", [Where("owner_id", Op.EQ, "bobs")])
        damage(records, Put(Chunk.build_unchecked({**chunk.__dict__, "chunk_index": 3, "vector": damaged})))
        problems = engine.doctor().problems
        assert [problem for problem in problems if "chunks" in problem and "vector" in problem]
        bob = engine.scope(organization="acme", user="bob")
        for max_memories in (0, 10_000):
            engine._parts.recall_deps.images.max_memories = max_memories
            engine._parts.recall_deps.images.clear()
            assert texts(bob.recall("money", k=1, minimum=0)) == ["Bob hides his money in the oven"]
        bob.merge_duplicates()

    def test_undo_restores_no_memory_of_another_user(self, engine: Everhold) -> None:
        """The journal entry names the deletion of another user's memory."""
        records = get_records(engine)
        engine.scope(organization="acme", user="bob").forget("bobs")
        [hidden] = records.scan(Memory, "acme", [Where("id", Op.EQ, "bobs")], deleted=True)
        [change] = records.scan(Change, "acme", [Where("kind", Op.EQ, "forget"), Where("user_id", Op.EQ, "alice")])
        before = {"deletion_id": hidden.deletion_id}
        records.commit([Patch(Change, ("acme", change.id), {"before": before})])
        with pytest.raises(StoreDamaged, match=change.id):
            engine.scope(organization="acme", user="alice").undo(change.memory_ids[0])
        assert not records.get(Memory, "acme", ["bobs"])
