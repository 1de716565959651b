"""`add` stores the turns of a conversation and the facts in them, and a single message can be deleted."""

import asyncio
from typing import Any

import pytest

from everhold import AsyncEverhold, Everhold, Memory, Message, View
from everhold.errors import AlreadyExists, Conflict, InvalidInput, NotFound, UnknownField
from tests.engines import Store, get_records

TURNS: list[Any] = [
    {"role": "user", "content": "Hi! I live in Lisbon.", "id": "m1", "name": "Alice"},
    {"role": "assistant", "content": "I live in a computer.", "id": "m2"},
    {"role": "user", "text": "I'm a nurse.", "id": "m3", "name": "Alice"},
]


@pytest.fixture
def chat(engine: Everhold) -> View:
    return engine.scope(user="alice", session="monday")


def list_memory_texts(view: View) -> set[str]:
    return {memory.text for memory in view.list()}


def list_texts(view: View) -> list[str | None]:
    return [message.text for message in view.messages(oldest_first=True)]


def test_one_call_stores_turns_and_facts(any_store: Store) -> None:
    engine = any_store.open()
    chat = engine.scope(user="alice", agent="bot", session="monday")
    added = chat.add(TURNS)
    assert [message.id for message in added.messages] == ["m1", "m2", "m3"]
    assert [message.role for message in added.messages] == ["user", "assistant", "user"]
    assert list_texts(chat) == ["Hi! I live in Lisbon.", "I live in a computer.", "I'm a nurse."]
    assert {memory.message_id for memory in added.memories} == {"m1", "m3"}
    assert list_memory_texts(chat) == {memory.text for memory in added.memories} >= {"Alice lives in Lisbon."}
    for memory in added.memories:
        assert (memory.user_id, memory.agent_id, memory.session_id, memory.reach) == ("alice", "bot", None, "agent")
    later = engine.scope(user="alice", agent="bot", session="tuesday")
    assert later.recall("Alice lives in Lisbon")[0].memory.text == "Alice lives in Lisbon."
    assert "Alice lives in Lisbon." in later.context("Alice lives in Lisbon").text


def test_adding_again_adds_nothing(engine: Everhold, chat: View) -> None:
    first = chat.add(TURNS)
    before = {memory.id: memory for memory in chat.list()}
    repeated = chat.add(TURNS)
    assert repeated.messages == first.messages
    assert {memory.id for memory in repeated.memories} == before.keys()
    assert {memory.id: memory for memory in chat.list()} == before
    [residence] = [memory for memory in first.memories if memory.message_id == "m1"]
    chat.forget(residence.id, hard=True)
    assert residence.id not in {memory.id for memory in chat.add(TURNS).memories}
    assert residence.text not in list_memory_texts(chat)


def test_a_newer_fact_supersedes_an_older_one_of_another_session(engine: Everhold, chat: View) -> None:
    [old] = chat.add(["I live in Bangkok.", "Hello!"]).memories
    turn = {"content": "I live in Lisbon now.", "name": "Ally Moss"}
    [new] = engine.scope(user="alice", session="tuesday").add([turn]).memories
    assert chat.get(old.id).superseded_by == new.id
    [newest] = chat.add(["I live in Faro."]).memories
    assert chat.get(new.id).superseded_by == newest.id
    turns = [
        "I drive a Ford Fiesta.",
        "We sold the Fiesta and bought a Kona.",
        "I cancelled FitBox and joined PureGym.",
        "I have a parrot called Kiwi.",
        "My parrot Kiwi is green.",
        "How was your day? Mine was long.",
    ]
    memories = engine.scope(user="kim", session="k").add(turns).memories
    assert [memory.text for memory in memories] == [
        "User drives a Ford Fiesta.",
        *turns[1:3],
        "User has a parrot called Kiwi.",
        turns[4],
    ]
    assert memories[0].superseded_by == memories[1].id
    residences = engine.scope(user="bob", session="b").add(["I live in Rome.", "I live in Oslo."]).memories
    assert residences[0].superseded_by == residences[1].id


def test_sessions_without_a_user_keep_their_facts(engine: Everhold) -> None:
    [fact] = engine.scope(session="alone").add(["I live in Lisbon."]).memories
    assert (fact.session_id, fact.reach) == ("alone", "session")
    assert not engine.scope(session="other").list()


@pytest.mark.parametrize(
    ("items", "error"),
    [
        (["I live in Rome.", 7], InvalidInput),
        (["I live in Rome.", {"text": "x", "position": 3}], UnknownField),
        (["I live in Rome.", {"role": "user"}], InvalidInput),
        (["I live in Rome.", {"text": "x", "content": "y"}], InvalidInput),
        (["I live in Rome.", {"text": "x", "role": 7}], InvalidInput),
        ("I live in Rome.", InvalidInput),
        ({"text": "I live in Rome."}, InvalidInput),
    ],
)
def test_one_invalid_message_refuses_the_whole_call(
    engine: Everhold, chat: View, items: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        chat.add(items)
    assert engine.scope(user="alice").sessions() == []
    with pytest.raises(InvalidInput, match="names no session"):
        engine.scope(user="alice").add(["hello"])


def test_invalid_messages_are_refused(engine: Everhold, chat: View) -> None:
    assert chat.add([]).messages == ()
    chat.add(TURNS, conversation="about Lisbon")
    assert {message.conversation_id for message in chat.messages()} == {"about Lisbon"}
    with pytest.raises(AlreadyExists):
        chat.add([{"text": "something else", "id": "m1"}])
    chat.end_session()
    with pytest.raises(Conflict):
        chat.add(["one more"])
    with pytest.raises(NotFound):
        engine.scope(user="bob", session="monday").add(["mine"])


def test_without_extraction_there_are_no_facts(sqlite_store: Store) -> None:
    chat = sqlite_store.open(remember={"extract": False}).scope(user="alice", session="monday")
    assert (len(chat.add(TURNS).messages), chat.count()) == (3, 0)


# deleting a message


def test_a_message_is_hidden_and_restored(any_store: Store) -> None:
    engine = any_store.open()
    chat = engine.scope(user="alice", session="monday")
    chat.add(TURNS)
    assert chat.delete_message("m1").text == "Hi! I live in Lisbon."
    for _ in range(2):  # from the cache, too
        assert list_texts(chat) == ["I live in a computer.", "I'm a nurse."]
        assert [message.id for message in chat.session().history] == ["m3", "m2"]
    assert "Hi!" not in chat.context("Lisbon").text
    assert "m1" not in {hit.id for hit in chat.recall("Lisbon", among="message", minimum=0)}
    assert "Alice lives in Lisbon." in list_memory_texts(chat)
    with pytest.raises(NotFound):
        chat.delete_message("m1")
    assert chat.say("Goodbye").position == 3
    assert chat.restore_message("m1").id == "m1"
    assert list_texts(chat)[0] == "Hi! I live in Lisbon."
    assert "m1" in {hit.id for hit in chat.recall("Lisbon", among="message", minimum=0)}
    with pytest.raises(NotFound, match="is not deleted"):
        chat.restore_message("m1")
    assert {"delete", "update"} <= {line.operation for line in chat.log() if line.request.get("message") == "m1"}


def test_a_purged_message_takes_its_facts_with_it(any_store: Store) -> None:
    engine = any_store.open()
    chat = engine.scope(user="alice", session="monday")
    chat.add([*TURNS, {"text": "I live in Lisbon.", "name": "Alice", "id": "m4"}])
    chat.delete_message("m3", hard=True)
    [residence] = chat.list()
    assert (residence.text, residence.message_ids) == ("Alice lives in Lisbon.", ("m1", "m4"))
    assert get_records(engine).get(Message, "default", ["m3"], deleted=True) == {}
    chat.delete_message("m1")
    chat.delete_message("m1", hard=True)
    assert chat.get(residence.id).message_ids == ("m4",), "another message states it too"
    chat.delete_message("m4", hard=True)
    assert list_memory_texts(chat) == set()
    assert engine.doctor().problems == []


def test_purging_a_session_purges_a_fact_that_it_states_twice(engine: Everhold, chat: View) -> None:
    chat.add([*TURNS, {"text": "I live in Lisbon.", "name": "Alice"}])
    engine.scope(user="alice", session="tuesday").add([{"text": "I'm a nurse.", "name": "Alice"}])
    chat.remember("Alice prefers tea.", kind="fact")
    engine.delete_session("monday")
    assert list_memory_texts(engine.scope(user="alice")) == {"Alice lives in Lisbon.", "Alice works as a nurse."}
    engine.delete_session("monday", hard=True)
    assert list_memory_texts(engine.scope(user="alice")) == {"Alice works as a nurse."}


def test_a_fact_that_was_also_remembered_directly_stays(engine: Everhold, chat: View) -> None:
    [fact] = chat.add([{"text": "I live in Lisbon.", "id": "m1"}]).memories
    assert engine.scope(user="alice").remember(fact.text, kind=fact.kind).id == fact.id
    chat.delete_message("m1", hard=True)
    assert chat.get(fact.id).provenance == {"span": fact.provenance["span"], "restated": True}


def test_restoring_a_message_does_not_restore_its_deleted_owner(engine: Everhold, chat: View) -> None:
    engine.scope(session="group").say("Welcome")
    shared = engine.scope(user="alice", session="group").say("Hello all")
    chat.add(TURNS)
    engine.delete_session("monday")
    with pytest.raises(NotFound, match="deleted with its session; restore the session"):
        engine.scope(user="alice").restore_message("m1")
    engine.delete_user("alice")
    with pytest.raises(NotFound, match="deleted with its user; restore the user"):
        engine.scope(session="group").restore_message(shared.id)


def test_only_scopes_that_read_a_message_can_delete_it(engine: Everhold, chat: View) -> None:
    chat.add(TURNS)
    engine.scope(user="alice", project="p", session="of-p").say("In a project", id="m9")
    strangers = [
        engine.scope(user="bob", session="monday"),
        engine.scope(user="bob"),
        engine.scope(session="tuesday"),
        engine.scope(project="p"),
        engine.scope(agent="bot", session="monday"),
        engine.scope(organization="other", user="alice", session="monday"),
    ]
    for view in strangers:
        for verb in (view.delete_message, view.restore_message):
            with pytest.raises(NotFound):
                verb("m1")
    with pytest.raises(NotFound):
        engine.scope(project="q", session="of-p").delete_message("m9")
    owners = (engine.scope(user="alice", session="tuesday"), engine.scope(session="monday"), engine.scope())
    for view, name in zip(owners, ("m1", "m2", "m3"), strict=True):
        assert view.delete_message(name).id == name


def test_forgetting_a_fact_names_the_message_that_states_it(engine: Everhold, chat: View) -> None:
    memories = {memory.message_id: memory for memory in chat.add(TURNS).memories}
    preview = chat.forget_where(where={"id": memories["m1"].id}, preview=True)
    assert [message.id for message in preview.messages] == ["m1"]
    assert chat.forget(memories["m1"].id).message_id == "m1"
    assert len(list_texts(chat)) == 3
    chat.undo()
    chat.forget(memories["m1"].id, with_messages=True)
    assert list_texts(chat) == ["I live in a computer.", "I'm a nurse."]
    chat.forget(memories["m3"].id, hard=True, with_messages=True)
    assert list_texts(chat) == ["I live in a computer."]
    note = chat.remember("A note of my own")
    assert chat.forget(note.id, with_messages=True).message_id is None
    forged = chat.remember("Forged", provenance={"message": engine.scope(user="bob", session="b").say("Bob's").id})
    assert chat.forget_where(where={"id": forged.id}).messages == ()
    chat.undo()
    chat.forget(forged.id, with_messages=True)
    assert list_texts(engine.scope(user="bob", session="b")) == ["Bob's"]


def test_the_verbs_can_be_awaited(store: Store) -> None:
    engine = store.open()

    async def use() -> tuple[list[str], list[Memory]]:
        chat = AsyncEverhold(engine).scope(user="alice", session="monday")
        added = await chat.add(TURNS)
        await chat.delete_message("m1")
        await chat.restore_message("m1")
        await chat.delete_message("m2")
        assert (await chat.recall("Lisbon", minimum=0, only="session")).hits == ()
        page = await chat.messages(oldest_first=True)
        return [message.id for message in page.messages], list(added.memories)

    ids, memories = asyncio.run(use())
    assert (ids, len(memories)) == (["m1", "m3"], 2)
