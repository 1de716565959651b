"""Encrypted fields: what is stored, what is read, and what happens without the right key."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everhold import Agent, Everhold, InvalidInput, InvalidSettings
from everhold.errors import DataKeyMissing, EncryptionError, EnvelopeDamaged, MasterKeyMissing, MasterKeyWrong
from everhold.model import ActionResult, Chunk, Connection, DataKey, Memory, Organization, Project
from everhold.model.encrypted_values import ENCRYPTED, PLAIN, is_encrypted
from everhold.schema.operations import Delete, Op, Patch, Put, Where
from everhold.testing.records_rows import make_row
from tests.encrypted_engines import CANARY, find_tables_with, get_stored_records, make_key, open_encrypted
from tests.engines import Store, get_records, make_store

LOOKALIKES = (f"{ENCRYPTED}:", f"{ENCRYPTED}:AAAA", f"{PLAIN}:x", f"{PLAIN}:{ENCRYPTED}:AAAA")


def write_secrets(engine: Everhold) -> str:
    """Store a secret in every field that is encrypted by default; return the id of the memory."""
    scope = engine.scope(user="alice", agent="bot")
    engine.scope(agent="guard").create_agent(system=f"Never say {CANARY}")
    memory = scope.remember(
        f"The PIN is {CANARY}", kind="vault", tags=["bank"], aliases=["bank card"], content={"pin": CANARY},
        idempotency_key="once",
    )  # fmt: skip
    scope.revise(memory.id, text=f"The PIN was {CANARY}")
    run = scope.run("log in")
    run.propose("login", {})
    run.complete({"token": CANARY})
    get_records(engine).commit(
        [
            Put(make_row(Project, "default", "p")),
            Put(make_row(Connection, "default", "c", project_id="p", dsn=CANARY.encode())),
        ]
    )
    return memory.id


def test_secrets_are_stored_encrypted_and_read_plain(any_store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(any_store, tmp_path)
    memory_id = write_secrets(engine)
    assert find_tables_with(get_stored_records(engine)) == set()
    records, scope = get_records(engine), engine.scope(user="alice", agent="bot")
    memory = scope.get(memory_id)
    assert (memory.text, memory.content) == (f"The PIN was {CANARY}", {"pin": CANARY})
    assert [revision.value["text"] for revision in scope.history(memory_id)] == [f"The PIN is {CANARY}"]
    assert records.get(Agent, "default", ["guard"])["guard"].system == f"Never say {CANARY}"
    assert [result.output for result in records.scan(ActionResult, "default")] == [{"token": CANARY}]
    assert [row.dsn for row in records.scan(Connection, "default")] == [CANARY.encode()]
    assert engine.doctor().problems == []
    assert "AES-256-GCM" in engine.doctor().parts["encryption"]


def test_a_secret_is_found_by_its_names_and_tags_and_not_by_its_words(any_store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(any_store, tmp_path)
    alice = engine.scope(user="alice")
    secret = alice.remember(f"The PIN is {CANARY}", kind="vault", tags=["bank"], aliases=["bank card"], key="my-pin")
    alice.remember("Alice drinks tea")
    assert [hit.id for hit in alice.recall("the bank card")] == [secret.id]
    assert secret.id not in {hit.id for hit in alice.recall(CANARY)}
    for page in (alice.list(tags="bank"), alice.list(kind="vault"), alice.list(where={"key": "my-pin"})):
        assert [memory.text for memory in page] == [f"The PIN is {CANARY}"]
    [chunk] = get_stored_records(engine).scan(Chunk, "default", [Where("owner_id", Op.EQ, secret.id)])
    assert (chunk.vector, CANARY in chunk.terms) == (None, False)


def test_duplicates_and_retries_are_recognised(store: Store, tmp_path: Path) -> None:
    alice = open_encrypted(store, tmp_path).scope(user="alice")
    first = alice.remember("The PIN is 4711", kind="vault", idempotency_key="k")
    assert alice.remember("the pin is 4711", kind="vault").id == first.id
    assert alice.remember("The PIN is 4711", kind="vault", idempotency_key="k").id == first.id
    batch = alice.remember_many([{"text": "The PIN is 4711", "kind": "vault"}, {"text": "Other", "kind": "vault"}])
    assert (batch[0].id, alice.count()) == (first.id, 2)


def test_a_value_that_looks_encrypted_round_trips(store: Store, tmp_path: Path) -> None:
    alice = open_encrypted(store, tmp_path, fields=["memories.text"]).scope(user="alice")
    for number, text in enumerate(LOOKALIKES):
        content = {ENCRYPTED: text} if number % 2 else {PLAIN: {ENCRYPTED: text}}
        for kind in ("vault", "fact"):
            memory = alice.remember(text, kind=kind, content=content)
            assert (alice.get(memory.id).text, alice.get(memory.id).content) == (text, content)


def test_a_plain_value_that_looks_encrypted_round_trips(store: Store, tmp_path: Path) -> None:
    alice = open_encrypted(store, tmp_path).scope(user="alice")
    for text in LOOKALIKES:
        memory = alice.remember(text, content={ENCRYPTED: text})
        assert (alice.get(memory.id).text, alice.get(memory.id).content) == (text, {ENCRYPTED: text})


def test_named_fields_are_encrypted_with_their_copies(store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(store, tmp_path, fields=["messages.text"])
    chat = engine.scope(user="alice", session="s")
    chat.add([{"role": "user", "content": f"I am allergic to {CANARY}"}, {"role": "user", "content": "I like tea"}])
    chat.end_session()
    engine.maintain(["episodes"])
    assert find_tables_with(get_stored_records(engine)) == set()
    assert f"I am allergic to {CANARY}" in {message.text for message in chat.messages()}
    assert any(CANARY in memory.text for memory in engine.scope(user="alice").list())
    chat.archive_session()
    engine.maintain(["archive"])
    assert find_tables_with(get_stored_records(engine)) == set()
    assert f"I am allergic to {CANARY}" in {message.text for message in chat.messages()}


def test_the_name_of_an_encrypted_episode_is_not_stored(store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(store, tmp_path, fields=["messages.text"])
    chat = engine.scope(user="alice", session="s")
    # An episode is named after words that its summary does not quote, so each message has a word of its own.
    for number in range(8):
        chat.say(f"The kettle {CANARY}{number} stood beside the green door of the old lighthouse all winter long")
    engine.maintain(["episodes"])
    assert chat.episodes().episodes
    assert find_tables_with(get_stored_records(engine)) == set()


def test_conditions_on_encrypted_fields_are_evaluated(store: Store, tmp_path: Path) -> None:
    alice = open_encrypted(store, tmp_path, fields=["memories.text"]).scope(user="alice")
    for number in range(7):
        alice.remember(f"Number {number}", content={"number": number})
    assert [memory.text for memory in alice.list(where={"text": {"contains": "number 3"}})] == ["Number 3"]
    assert {memory.text for memory in alice.list(where={"content.number": {">=": 5}})} == {"Number 5", "Number 6"}
    assert alice.count(where={"content.number": {"<": 2}}) == 2


def test_a_memory_that_becomes_a_secret_leaves_no_plain_text(store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(store, tmp_path)
    alice = engine.scope(user="alice")
    memory = alice.remember(f"Alice likes {CANARY}")
    alice.revise(memory.id, kind="vault")
    assert find_tables_with(get_stored_records(engine)) == set()
    assert alice.get(memory.id).text == f"Alice likes {CANARY}"
    alice.revise(memory.id, kind="fact")
    assert find_tables_with(get_stored_records(engine)) == {"memories", "chunks"}
    assert [hit.id for hit in alice.recall(CANARY)] == [memory.id]


# wrong keys and changed rows


def list_reads(engine: Everhold, memory_id: str) -> list[Callable[[], object]]:
    alice = engine.scope(user="alice")
    return [lambda: alice.get(memory_id), alice.list, lambda: alice.remember("New", kind="vault")]


@pytest.mark.parametrize("case", ["lost", "wrong"])
def test_without_the_master_key_nothing_is_shown_or_changed(any_store: Store, tmp_path: Path, case: str) -> None:
    engine = open_encrypted(any_store, tmp_path)
    secret = engine.scope(user="alice").remember(f"The PIN is {CANARY}", kind="vault")
    plain = engine.scope(user="alice").remember("Alice drinks tea")
    before = [
        (row.text, row.content, row.hash, row.version) for row in get_stored_records(engine).scan(Memory, "default")
    ]
    engine.close()
    if case == "lost":
        reopened, error = any_store.open(), MasterKeyMissing
    else:
        reopened, error = any_store.open(encryption={"master_key": make_key(tmp_path, "other.key")}), MasterKeyWrong
    for read in list_reads(reopened, secret.id):
        with pytest.raises(error) as caught:
            read()
        assert CANARY not in str(caught.value)
    assert reopened.scope(user="alice").get(plain.id).text == "Alice drinks tea"
    for scope in (reopened.scope(user="bob"), reopened.scope(organization="new", user="bob")):
        with pytest.raises(error):  # also where no key exists that the wrong one could not unwrap
            scope.remember("Bob's secret", kind="vault")
    assert reopened.doctor().problems
    after = [
        (row.text, row.content, row.hash, row.version) for row in get_stored_records(reopened).scan(Memory, "default")
    ]
    assert after == before
    reopened.close()
    engine = open_encrypted(any_store, tmp_path)
    assert engine.scope(user="alice").get(secret.id).text == f"The PIN is {CANARY}"
    assert engine.scope(user="bob").remember("Bob's secret", kind="vault").text == "Bob's secret"


def test_a_swapped_or_changed_value_is_not_decrypted(any_store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(any_store, tmp_path)
    alice, stored = engine.scope(user="alice"), get_stored_records(engine)
    first, second = (alice.remember(text, kind="vault", content={"pin": text}) for text in ("One", "Two"))
    rows = stored.get(Memory, "default", [first.id, second.id])
    text, content = rows[second.id].text, rows[first.id].content
    swaps: list[dict[str, Any]] = [
        {"text": text},  # another row's
        {"text": f"{ENCRYPTED}:{content[ENCRYPTED]}"},  # another column's
        {"text": text[:-8] + ("A" if text[-8] != "A" else "B") + text[-7:]},  # changed
        {"text": f"{ENCRYPTED}:not base 64!"},
        {"text": f"{ENCRYPTED}:AAAA"},
    ]
    for changes in swaps:
        stored.commit([Patch(Memory, ("default", first.id), changes)])
        with pytest.raises(EnvelopeDamaged) as caught:
            alice.get(first.id)
        assert first.id in str(caught.value)
    stored.commit([Patch(Memory, ("default", first.id), {"text": rows[first.id].text})])
    assert (alice.get(first.id).text, alice.get(second.id).text) == ("One", "Two")


def test_a_value_of_another_organization_is_not_decrypted(store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(store, tmp_path, per_user=False)
    stored = get_stored_records(engine)
    for organization in ("acme", "other"):
        engine.scope(organization=organization).remember(f"PIN of {organization}", kind="vault", id="m")
    rows = {name: stored.get(Memory, name, ["m"])["m"] for name in ("acme", "other")}
    stored.commit([Patch(Memory, ("other", "m"), {"text": rows["acme"].text})])
    with pytest.raises(DataKeyMissing):
        engine.scope(organization="other").get("m")
    key = next(row for row in stored.scan(DataKey, "acme") if row.purpose == "content")
    stored.commit([Put(key.model_copy(update={"organization_id": "other", "subject": "copied"}))])
    with pytest.raises(EncryptionError):
        engine.scope(organization="other").get("m")


# settings


@pytest.mark.parametrize("field", ["memories.txt", "nothing.text", "memories.user_id", "users.name", "blocks.value"])
def test_a_field_that_cannot_be_encrypted_is_refused(tmp_path: Path, field: str) -> None:
    with pytest.raises(InvalidSettings, match=field):
        Everhold.open("memory://", encryption={"master_key": make_key(tmp_path), "fields": [field]})


def test_an_export_is_plain_only_if_asked_for(store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(store, tmp_path)
    memory = engine.scope(user="alice").remember(f"The PIN is {CANARY}", kind="vault")
    with pytest.raises(InvalidInput, match="decrypt=True"):
        engine.export(tmp_path / "bundle.jsonl")
    assert not (tmp_path / "bundle.jsonl").exists()
    engine.export(tmp_path / "bundle.jsonl", decrypt=True)
    assert CANARY in (tmp_path / "bundle.jsonl").read_text()
    engine.load(tmp_path / "bundle.jsonl", organization="copy")
    assert engine.scope(organization="copy", user="alice").get(memory.id).text == f"The PIN is {CANARY}"
    assert engine.scope(organization="copy", user="alice").remember(memory.text, kind="vault").id == memory.id
    assert find_tables_with(get_stored_records(engine)) == set()


# several processes


def test_two_engines_that_create_a_key_at_once_use_the_same(store: Store, tmp_path: Path) -> None:
    engines = [open_encrypted(store, tmp_path) for _ in range(4)]
    engines[0].create_organization("default")
    begin = threading.Barrier(len(engines))

    def write(number: int) -> None:
        begin.wait()
        engines[number].scope(user="alice").remember(f"Secret {number}", kind="vault")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(len(engines))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys = [key for key in get_stored_records(engines[0]).scan(DataKey, "default") if key.purpose == "content"]
    assert [(key.subject, key.generation) for key in keys] == [("alice", 1)]
    for engine in engines:
        assert {memory.text for memory in engine.scope(user="alice").list()} == {f"Secret {n}" for n in range(4)}


def test_a_write_never_uses_a_destroyed_key(store: Store, tmp_path: Path) -> None:
    writer, other_engine = open_encrypted(store, tmp_path), open_encrypted(store, tmp_path)
    alice = writer.scope(user="alice")
    alice.remember("Before", kind="vault")  # the writer now holds the key in memory
    other_engine.erase("alice")
    other_engine.create_user("alice")  # otherwise the missing user would refuse the write
    memory = alice.remember("After", kind="vault")
    assert is_encrypted(get_stored_records(writer).get(Memory, "default", [memory.id])[memory.id].text)
    assert [row.text for row in other_engine.scope(user="alice").list()] == ["After"]


def test_a_purged_organization_takes_its_keys_along(store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(store, tmp_path)
    engine.scope(organization="acme", user="alice").remember("Secret", kind="vault")
    assert get_stored_records(engine).count(DataKey, "acme", deleted=True) == 2
    engine.delete_organization("acme", hard=True)
    assert get_stored_records(engine).count(DataKey, "acme", deleted=True) == 0
    assert get_stored_records(engine).count(Organization, "acme", deleted=True) == 0


def test_a_moved_store_is_read_with_the_same_master_key(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    source = make_store("sqlite", request, tmp_path)
    engine = open_encrypted(source, tmp_path)
    memory = engine.scope(user="alice").remember(f"The PIN is {CANARY}", kind="vault")
    engine.close()
    Everhold.move(source.storage, f"duckdb:///{tmp_path}/copy.duckdb")
    copy = Store("duckdb", f"duckdb:///{tmp_path}/copy.duckdb")
    with copy.open() as engine_without_key, pytest.raises(MasterKeyMissing):
        engine_without_key.scope(user="alice").get(memory.id)
    assert open_encrypted(copy, tmp_path).scope(user="alice").get(memory.id).text == f"The PIN is {CANARY}"
    copy.close()


def test_a_lost_data_key_is_named(store: Store, tmp_path: Path) -> None:
    engine = open_encrypted(store, tmp_path)
    memory = engine.scope(user="alice").remember("Secret", kind="vault")
    [key] = [key for key in get_stored_records(engine).scan(DataKey, "default") if key.subject == "alice"]
    engine.close()
    engine = open_encrypted(store, tmp_path)
    get_stored_records(engine).commit([Delete(DataKey, ("default", key.id))])
    with pytest.raises(DataKeyMissing, match=key.id):
        engine.scope(user="alice").get(memory.id)
