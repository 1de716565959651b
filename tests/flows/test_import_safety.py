"""An import never leaves its scope, changes existing rows, loses a row silently, or gives old rows today's date."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold, StepProgress, View, clock
from everhold.errors import AlreadyExists, InvalidInput
from everhold.importers.ids import decode_id, encode_id
from everhold.model.fields import is_id
from tests import import_samples as samples
from tests.engines import Store, make_store


@pytest.fixture
def engine(sqlite_store: Store) -> Everhold:
    return sqlite_store.open()


def write_jarvis_file(path: Path, **users: list[dict[str, Any]]) -> Path:
    return samples.make_json(path, users)


def list_texts(view: View) -> list[str]:
    return sorted(memory.text for memory in view.list().memories)


def test_an_import_for_a_user_does_not_write_for_another(engine: Everhold, tmp_path: Path) -> None:
    rows = [{"timestamp": 1709316060.5, "memory": "Eve parks on level four"}]
    path = write_jarvis_file(
        tmp_path / "j.json", eve=rows, alice=[{"timestamp": 1709316061.5, "memory": "Alice cycles"}]
    )
    loaded = engine.load(path, user="alice")
    assert (loaded.added, loaded.quarantined) == (1, 1)
    assert "it belongs to user 'eve', and the import is for user 'alice'" in loaded.faults[0].reason
    assert list_texts(engine.scope()) == ["Alice cycles"]


def test_users_can_be_renamed(engine: Everhold, tmp_path: Path) -> None:
    rows = [{"timestamp": 1709316060.5, "memory": "The gate is green"}]
    engine.load(write_jarvis_file(tmp_path / "j.json", default=rows), user="alice", users={"default": "alice"})
    assert list_texts(engine.scope(user="alice")) == ["The gate is green"]


def test_a_session_of_another_user_is_not_written_to(engine: Everhold, tmp_path: Path) -> None:
    engine.scope(user="mallory", session="s-kitchen").say("mine")
    loaded = engine.load(samples.session_memory(tmp_path))
    assert loaded.quarantined == 3
    assert {fault.reason.split(";")[0] for fault in loaded.faults} == {"no session 's-kitchen' in this scope"}
    assert [message.text for message in engine.scope(user="mallory", session="s-kitchen").messages()] == ["mine"]


def test_ids_that_are_taken_change_nothing(engine: Everhold, tmp_path: Path) -> None:
    engine.scope(user="mallory").remember("Mine", id="mem-2")
    loaded = engine.load(samples.orchestrator(tmp_path))
    assert {fault.reason for fault in loaded.faults} >= {"memory id 'mem-2' is taken by another memory; choose another"}
    assert engine.scope(user="mallory").get("mem-2").text == "Mine"
    assert engine.scope(user="mallory").relations("mem-2") == []


def test_organizations_are_separate(engine: Everhold, tmp_path: Path) -> None:
    path = samples.orchestrator(tmp_path)
    engine.load(path, organization="acme")
    assert engine.load(path, organization="other").added == 6
    assert list_texts(engine.scope()) == []
    assert engine.scope(organization="acme", user="hugo").get("mem-2").text == "Hugo wants short answers"


def test_memories_of_two_users_are_not_related(engine: Everhold, tmp_path: Path) -> None:
    tables = {
        "memory_entries": [
            {"memory_id": f"m-{user}", "user_id": user, "memory_type": "fact", "content": {"text": f"{user} is tall"}}
            for user in ("alice", "bob")
        ],
        "memory_relationships": [{"source_memory_id": "m-alice", "target_memory_id": "m-bob"}],
    }
    loaded = engine.load(samples.make_json(tmp_path / "dump.json", tables))
    assert [fault.reason for fault in loaded.faults] == [
        "it relates memories of two users; relate memories of one user"
    ]


def test_an_import_of_today_is_not_taken_for_events_of_last_night(engine: Everhold, tmp_path: Path) -> None:
    rows = [{"timestamp": 1709316060.5 + number, "memory": f"Guest {number} came to dinner"} for number in range(300)]
    engine.load(write_jarvis_file(tmp_path / "j.json", alice=rows))
    alice = engine.scope(user="alice")
    noon = clock.now().replace(hour=12, minute=0)  # "last night" is another night if it is asked after midnight
    alice.remember("Nadia came to dinner", occurred_at=noon - timedelta(hours=14))
    hits = alice.recall("who came to dinner last night?", minimum=0, asked_at=noon)
    assert hits[0].memory.text == "Nadia came to dinner"
    memory = next(memory for memory in alice.list(limit=400).memories if memory.text == "Guest 0 came to dinner")
    assert memory.occurred_at == memory.created_at == datetime(2024, 3, 1, 18, 1, 0, 500_000, UTC)


def test_a_row_without_a_time_has_that_of_its_file(engine: Everhold, tmp_path: Path) -> None:
    path = samples.server_memory(tmp_path)
    os.utime(path, (1709316060, 1709316060))
    engine.load(path)
    memory = engine.scope().get("entity/Tess")
    assert (memory.created_at, memory.occurred_at) == (datetime(2024, 3, 1, 18, 1, tzinfo=UTC), None)


def test_bad_rows_can_be_corrected_and_imported(engine: Everhold, tmp_path: Path) -> None:
    rows = [{"timestamp": "last spring", "memory": "The well is deep"}, {"timestamp": 1709316061.5, "memory": "Fine"}]
    path, quarantine = write_jarvis_file(tmp_path / "j.json", eve=rows), tmp_path / "bad.jsonl"
    loaded = engine.load(path, quarantine=quarantine)
    assert (loaded.added, loaded.quarantined, loaded.quarantine) == (1, 1, quarantine)
    assert quarantine.stat().st_mode & 0o777 == 0o600
    [line] = quarantine.read_text().splitlines()
    assert json.loads(line)["reason"] == "'last spring' is not a time"
    with pytest.raises(AlreadyExists):
        engine.load(path, quarantine=quarantine)
    assert engine.load(quarantine).quarantined == 1
    quarantine.write_text(line.replace("last spring", "2024-04-01T00:00:00"))
    assert engine.load(quarantine).added == 1
    assert list_texts(engine.scope(user="eve")) == ["Fine", "The well is deep"]


def test_a_dry_run_shows_what_maps_where(engine: Everhold, tmp_path: Path) -> None:
    loaded = engine.load(samples.orchestrator(tmp_path), dry_run=True)
    assert [(row.origin, row.becomes, row.rows) for row in loaded.mapped] == [
        ("user_profiles", "user", 1),
        ("sessions", "session", 1),
        ("memory_entries", "memory", 2),
        ("agent_states", "state", 1),
        ("memory_relationships", "relationship", 1),
    ]
    assert not engine.has_organization("default")


def test_a_dry_run_finds_relationships_and_vectors_that_cannot_be_imported(engine: Everhold, tmp_path: Path) -> None:
    ids = [f"mem-{number}" for number in range(3)]
    entries = [{"memory_id": name, "memory_type": "fact", "content": {"text": name}, "priority": 5} for name in ids]
    pairs = [("mem-0", "mem-1"), ("mem-1", "mem-9"), ("mem-0", "mem-2")]
    tables = {
        "memory_entries": [*entries[:2], {**entries[2], "priority": 11}],
        "vector_embeddings": [{"memory_id": "mem-0", "embedding": "gASVcos=", "embedding_model": "old"}],
        "memory_relationships": [{"source_memory_id": source, "target_memory_id": target} for source, target in pairs],
    }
    path = samples.make_json(tmp_path / "tables.json", tables)
    for is_dry_run in (True, False):
        loaded = engine.load(path, dry_run=is_dry_run)
        assert (loaded.added, loaded.quarantined, loaded.vectors_replaced) == (3, 3, 0)
        assert [fault.reason.partition(" in ")[0] for fault in loaded.faults[1:]] == [
            "no memory 'mem-9'",
            "no memory 'mem-2'",
        ]
        assert [(row.origin, row.rows) for row in loaded.left_out] == [("vectors of memory_entries", 1)]


def test_progress_has_a_total(engine: Everhold, tmp_path: Path) -> None:
    reports: list[StepProgress] = []
    engine.load(samples.chatgpt(tmp_path), progress=reports.append)
    assert [step for step in reports if step.step == "importing"][-1] == ("importing", 3, 3)


def test_equal_texts_are_one_memory_and_their_relationships_stay(engine: Everhold, tmp_path: Path) -> None:
    def make_entry(name: str, text: str) -> dict[str, Any]:
        return {"memory_id": name, "memory_type": "fact", "content": {"text": text}}

    tables = {
        "memory_entries": [
            make_entry("m1", "The bus is late"),
            make_entry("m2", "The bus is late"),
            make_entry("m3", "So is the tram"),
        ],
        "memory_relationships": [{"source_memory_id": "m2", "target_memory_id": "m3"}],
    }
    path = samples.make_json(tmp_path / "dump.json", tables)
    assert engine.load(path).added == 3
    assert [related.memory.id for related in engine.scope().relations("m1")] == ["m3"]
    assert engine.load(path).added == 0
    assert engine.scope().get("m1").access_count == 0


def test_a_changed_memory_is_not_changed_back(engine: Everhold, tmp_path: Path) -> None:
    path = samples.mem0_export(tmp_path)
    engine.load(path)
    olga = engine.scope(user="olga")
    [memory] = [memory for memory in olga.list().memories if "Thursdays" in memory.text]
    olga.revise(memory.id, text="Olga climbs on Fridays")
    assert engine.load(path).added == 0
    assert olga.get(memory.id).text == "Olga climbs on Fridays"
    olga.forget(memory.id)
    assert engine.load(path).added == 0


@pytest.mark.parametrize(
    "name",
    ["plain", "with space", " leading", "trailing ", "new\nline", "encoded:x", "100%", "\x00", "é\u200b", "a" * 200],
)
def test_ids_are_encoded_reversibly(name: str) -> None:
    encoded = encode_id(name)
    assert encoded is not None
    assert is_id(encoded)
    assert decode_id(encoded) == name
    assert (encoded == name) == (is_id(name) and not name.startswith("encoded:"))


def test_the_id_of_a_memory_begins_with_its_time(engine: Everhold, tmp_path: Path) -> None:
    moment = datetime(2024, 3, 1, 0, 0, 0, 1000, UTC)
    names = ("zebra", "new\nline", "0", "ü")
    rows = [{"id": name, "memory": name, "created_at": moment.isoformat()} for name in names]
    engine.load(samples.make_json(tmp_path / "mem0.json", rows))
    ids = [memory.id for memory in engine.scope().list().memories]
    assert {decode_id(memory_id) for memory_id in ids} == set(names)
    lowest, highest = (clock.make_least_id("mem", moment + timedelta(milliseconds=number)) for number in (0, 1))
    assert all(lowest < memory_id < highest for memory_id in ids)
    assert [engine.scope().get(name).text for name in ("zebra", "encoded:new%0Aline")] == ["zebra", "new\nline"]


def test_a_later_memory_replaces_an_imported_one(engine: Everhold, tmp_path: Path) -> None:
    row = {"id": "m-1", "memory": "Ann lives in Oslo", "user_id": "ann", "created_at": "2024-03-01T08:00:00Z"}
    engine.load(samples.make_json(tmp_path / "mem0.json", [row]))
    ann = engine.scope(user="ann")
    assert (ann.get("m-1").original_id, ann.get("m-1").has_own_key) == ("m-1", False)
    ann.remember("Ann lives in Rome", kind="fact")
    engine.maintain(jobs=["consolidate"])
    assert ann.get("m-1").superseded_by is not None


def test_an_id_that_is_too_long_is_hashed_and_kept(engine: Everhold, tmp_path: Path) -> None:
    name = "ü\n" * 300
    row = {"id": name, "memory": "The kettle is old", "user_id": "ann\n"}
    engine.load(samples.make_json(tmp_path / "mem0.json", [row]))
    [memory] = engine.scope(user="encoded:ann%0A").list().memories
    assert memory.metadata["imported"]["id"] == name


def test_an_option_that_a_bundle_cannot_use_is_refused(engine: Everhold, tmp_path: Path) -> None:
    engine.scope(user="alice").remember("x")
    engine.export(tmp_path / "bundle.jsonl")
    with pytest.raises(InvalidInput, match="dry_run is for data of other systems, and the file is a bundle"):
        engine.load(tmp_path / "bundle.jsonl", dry_run=True)
    with pytest.raises(InvalidInput, match="no source 'slak'; did you mean 'slack'"):
        engine.load(samples.jarvis(tmp_path), source="slak")


def test_a_store_of_everhold_is_not_imported(engine: Everhold, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other_store = make_store("sqlite", request, tmp_path / "other")
    with pytest.raises(InvalidInput, match="is a store of Everhold; copy it with"):
        engine.load(other_store.storage)
