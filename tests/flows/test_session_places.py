"""A session is where something is written; it does not hide the rest of what its user may see."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from everhold import Everhold, View
from everhold.errors import InvalidInput, NotFound
from everhold.recall.recipe import HYBRID
from tests.engines import EVERY_STORE, Store, make_store, ranking, texts

CODE = "The garage code is 4711"


def open_readers(store: Store, engine: Everhold) -> Iterator[Everhold]:
    """Yield an engine with images, then one that uses the store's indexes; on DuckDB, only the first."""
    yield engine
    engine.close()
    yield store.open(images={"max_memories": 0})


def recall_texts(view: View, question: str = "garage code", **options: Any) -> list[str]:
    return texts(view.recall(question, minimum=0, **options))


def test_a_session_reads_what_its_user_wrote_anywhere(any_store: Store) -> None:
    """Through an image, and through the store's own indexes."""
    engine = any_store.open()
    engine.scope(user="alice", session="monday").remember(CODE)
    engine.scope(user="alice").remember("The garage is green")
    engine.scope(user="bob", session="friday").remember("The garage code of Bob is 9")
    engine.scope(session="alone").remember("The garage code of the workshop is 8")
    for reader in open_readers(any_store, engine):
        tuesday = reader.scope(user="alice", session="tuesday")
        assert recall_texts(tuesday) == [CODE, "The garage is green"]
        assert recall_texts(tuesday) == recall_texts(reader.scope(user="alice"))
        assert recall_texts(tuesday, only="session") == []
        assert recall_texts(reader.scope(user="alice", session="monday"), only="session") == [CODE]
        assert recall_texts(reader.scope(session="monday")) == [CODE]
        assert recall_texts(reader.scope(session="tuesday")) == []
        assert recall_texts(reader.scope(session="alone")) == ["The garage code of the workshop is 8"]
        assert recall_texts(reader.scope(user="carol", session="monday")) == []
        assert CODE in tuesday.context("garage code").text
        assert CODE not in tuesday.context("garage code", only="session").text


def test_memories_of_the_asking_session_come_first(store: Store) -> None:
    """Of hits that fit equally well, the one of the asking session comes first, and `why` shows it."""
    engine = store.open()
    for day in ("monday", "tuesday"):
        # At the same time, because a newer memory may be an update, which comes first whatever its session.
        view = engine.scope(user="alice", session=day)
        view.remember(f"The soup recipe is on the {day} page", occurred_at=datetime(2026, 5, 4, tzinfo=UTC))
    for reader in open_readers(store, engine):
        for day in ("monday", "tuesday"):
            hits = reader.scope(user="alice", session=day).recall("soup recipe page", minimum=0)
            assert [hit.memory.session_id == day for hit in hits] == [True, False]
            assert [hit.why.contributions.get("session") for hit in hits] == [HYBRID.weights["session"], None]
            in_session = reader.scope(user="alice", session=day).recall("soup recipe page", minimum=0, only="session")
            assert "session" not in in_session[0].why.contributions


def test_a_session_scores_like_its_user(engine: Everhold) -> None:
    engine.scope(user="alice", session="monday").remember_many([CODE, "The garage is green", "Tea is at five"])
    elsewhere = engine.scope(user="alice", session="tuesday").recall("garage code", minimum=0)
    assert ranking(elsewhere) == ranking(engine.scope(user="alice").recall("garage code", minimum=0))


def test_memories_written_in_a_session_belong_to_the_user(engine: Everhold) -> None:
    memory = engine.scope(user="alice", session="monday").remember(CODE)
    assert (memory.user_id, memory.session_id, memory.reach) == ("alice", "monday", "user")
    tuesday = engine.scope(user="alice", session="tuesday")
    assert tuesday.get(memory.id).text == CODE
    assert tuesday.revise(memory.id, text="The garage code is 1174").session_id == "monday"
    assert tuesday.tag(memory.id, "code") == ("code",)
    assert tuesday.tags() == {"code": 1}
    tuesday.forget(memory.id)
    assert tuesday.undo().memory_ids == [memory.id]
    for stranger in (engine.scope(user="bob", session="monday"), engine.scope(session="tuesday")):
        for verb in (stranger.get, stranger.forget, stranger.undo, stranger.history):
            with pytest.raises(NotFound):
                verb(memory.id)


def test_short_term_notes_belong_to_their_session(any_store: Store) -> None:
    engine = any_store.open()
    note = engine.scope(user="alice", session="monday").remember("Ask for the garage code", namespace="short-term")
    for reader in open_readers(any_store, engine):
        monday, tuesday = (reader.scope(user="alice", session=day) for day in ("monday", "tuesday"))
        for namespace in ("short-term", ["short-term", "long-term"]):
            assert recall_texts(monday, namespace=namespace) == [note.text]
            assert recall_texts(tuesday, namespace=namespace) == []
        assert recall_texts(reader.scope(user="alice"), namespace="short-term") == [note.text]
        assert [monday.count(), tuesday.count(), reader.scope(user="alice").count()] == [1, 0, 1]
        assert tuesday.list().memories == ()
        with pytest.raises(NotFound):
            tuesday.get(note.id)


def test_a_session_shows_only_its_own_turns(engine: Everhold) -> None:
    monday, tuesday = (engine.scope(user="alice", session=day) for day in ("monday", "tuesday"))
    monday.say("Is the garage open?")
    monday.remember("Yes, the garage is open", kind="conversation")
    tuesday.say("Good morning")
    assert [message.text for message in tuesday.messages()] == ["Good morning"]
    assert [message.text for message in tuesday.session().history] == ["Good morning"]
    window = tuesday.context("garage", budget=500).text.partition("Recalled")[0]
    assert "Good morning" in window
    assert "garage" not in window
    assert [line.session_id for line in tuesday.log()] == ["tuesday"] * len(tuesday.log())


def test_every_verb_can_be_limited_to_the_session(engine: Everhold) -> None:
    monday, tuesday = (engine.scope(user="alice", session=day) for day in ("monday", "tuesday"))
    code, pinned = monday.remember(CODE), monday.remember("The garage is green", pinned=True)
    locked = tuesday.remember("The garage is locked")
    assert [tuesday.count(), tuesday.count(only="session"), tuesday.count(only="session", kind="fact")] == [3, 1, 0]
    assert [memory.id for memory in tuesday.list(only="session")] == [locked.id]
    assert tuesday.recall("garage").pinned == (pinned,)
    assert tuesday.recall("garage", only="session").pinned == ()
    assert tuesday.why_not(code.id, "garage code").returned
    explanation = tuesday.why_not(code.id, "garage code", only="session")
    assert explanation.reasons == ("it was not written in session 'tuesday', which alone was searched",)
    for view in (engine.scope(user="alice"), engine.scope()):
        for call in (view.count, view.list, partial(view.recall, "garage"), partial(view.context, "garage")):
            with pytest.raises(InvalidInput, match="only='session' needs a session"):
                call(only="session")
    with pytest.raises(InvalidInput, match="only is 'user'; pass 'session'"):
        tuesday.count(only="user")  # type: ignore[arg-type]


def test_forgetting_everything_stays_in_the_session(engine: Everhold) -> None:
    monday, tuesday = (engine.scope(user="alice", session=day) for day in ("monday", "tuesday"))
    monday.remember_many([{"text": CODE, "tags": ["code"]}, "The garage is green"])
    tuesday.remember("The garage is locked")
    assert tuesday.forget_where(everything=True, preview=True).count == 1
    assert tuesday.forget_where(everything=True).count == 1
    assert tuesday.forget_where(tags="code", only="session").count == 0
    assert tuesday.forget_where(tags="code").count == 1
    assert [memory.text for memory in monday.list()] == ["The garage is green"]


def test_a_key_used_in_several_sessions_means_that_of_the_asking_session(engine: Everhold) -> None:
    monday, tuesday, friday = (engine.scope(user="alice", session=day) for day in ("monday", "tuesday", "friday"))
    monday.remember("Monday's plan", key="plan")
    assert friday.get("plan").text == "Monday's plan"
    tuesday.remember("Tuesday's plan", key="plan")
    assert [monday.get("plan").text, tuesday.get("plan").text] == ["Monday's plan", "Tuesday's plan"]
    monday.revise("plan", text="Monday's other plan")
    assert monday.undo("plan").kind == "revise"
    with pytest.raises(NotFound):
        friday.get("plan")


def test_included_memories_do_not_come_from_other_sessions(any_store: Store) -> None:
    """A memory without a user belongs to its session, with any reach; a memory with a user belongs to that user."""
    engine = any_store.open()
    engine.scope(session="tuesday").remember("The garage code here is 1")
    engine.scope(session="monday").remember("The garage code there is 2")
    engine.scope(session="monday").remember("The garage code there is 3", reach="organization")
    engine.scope(user="alice", session="monday").remember("The garage code of Alice is 4")
    engine.scope(user="alice", agent="bot", session="monday").remember("The garage code of the bot is 5")
    engine.scope(user="bob", session="monday-of-bob").remember("The garage code of Bob is 6", reach="organization")
    every_reach = ["session", "user", "agent", "project", "organization"]
    for reader in open_readers(any_store, engine):
        tuesday = reader.scope(user="alice", session="tuesday")
        assert sorted(text[-1] for text in recall_texts(tuesday)) == ["4", "5"]
        assert sorted(text[-1] for text in recall_texts(tuesday, include=every_reach)) == ["1", "4", "5"]
        assert sorted(text[-1] for text in recall_texts(tuesday, include=every_reach, only="session")) == ["1"]
        helper = reader.scope(user="alice", agent="bot", session="tuesday")
        assert sorted(text[-1] for text in recall_texts(helper)) == ["5"]
        assert sorted(text[-1] for text in recall_texts(helper, include="user")) == ["4", "5"]
        assert sorted(text[-1] for text in recall_texts(reader.scope(session="tuesday"), include=every_reach)) == ["1"]


def test_a_foreign_session_answers_like_one_that_does_not_exist(engine: Everhold) -> None:
    engine.scope(user="alice", session="monday").remember(CODE)
    engine.scope(user="alice", session="monday").say("Is the garage open?")
    engine.scope(user="bob").remember("Bob has no garage")
    foreign, unknown = (engine.scope(user="bob", session=name) for name in ("monday", "no-such-session"))
    for options in ({}, {"only": "session"}, {"include": ["session", "user"]}, {"among": "message"}):
        hits = [ranking(view.recall("garage", minimum=0, **options)) for view in (foreign, unknown)]  # type: ignore[arg-type]
        assert hits[0] == hits[1]
    assert foreign.context("garage").text == unknown.context("garage").text
    for verb in (foreign.messages, foreign.session, lambda: foreign.remember("mine"), lambda: foreign.say("mine")):
        with pytest.raises(NotFound, match="no session 'monday'"):
            verb()


# contradictions


def test_a_contradiction_is_resolved_across_sessions(any_store: Store) -> None:
    engine = any_store.open()
    monday, tuesday = (engine.scope(user="alice", session=day) for day in ("monday", "tuesday"))
    old = [monday.remember("I live in Bangkok"), engine.scope(user="alice").remember("I live in Bangkok")]
    others = [
        engine.scope(user="bob", session="friday").remember("I live in Bangkok"),
        engine.scope(session="friday-without-user").remember("I live in Bangkok"),
        engine.scope(user="alice", agent="bot", session="monday").remember("I live in Bangkok"),
        monday.remember("I live in Bangkok", namespace="short-term"),
    ]
    new = tuesday.remember("I live in Lisbon")
    everything = engine.scope()
    assert [everything.get(memory.id).superseded_by for memory in old] == [new.id, new.id]
    assert [everything.get(memory.id).superseded_by for memory in others] == [None] * 4
    assert recall_texts(monday, "where do I live") == ["I live in Lisbon", "I live in Bangkok"]  # the memory of the bot
    assert tuesday.undo().kind == "supersede"
    assert everything.get(old[0].id).superseded_by is None


def test_sessions_without_a_user_do_not_contradict_each_other(engine: Everhold) -> None:
    memories = [engine.scope(session=day).remember(f"I live in {city}") for day, city in (("a", "Rome"), ("b", "Oslo"))]
    assert [engine.scope().get(memory.id).superseded_by for memory in memories] == [None, None]
    engine.scope(session="a").remember("I live in Lima")
    assert engine.scope().get(memories[0].id).superseded_by is not None


# deletion


def test_a_deleted_session_takes_its_memories_and_leaves_the_facts(store: Store) -> None:
    engine = store.open()
    monday, tuesday = (engine.scope(user="alice", session=day) for day in ("monday", "tuesday"))
    monday.remember("The garage is green")
    monday.remember("I live in Lisbon", kind="conversation", speaker="Alice")
    [fact] = tuesday.list(where={"attribute": {"!=": None}})
    assert fact.session_id is None
    engine.delete_session("monday")
    assert [memory.id for memory in tuesday.list()] == [fact.id]
    engine.restore("session", "monday")
    assert tuesday.count() == 3
    engine.delete_session("monday", hard=True)
    assert tuesday.count() == 0


@pytest.mark.parametrize("name", EVERY_STORE)
def test_every_store_counts_and_lists_the_same_memories(
    name: str, request: pytest.FixtureRequest, tmp_path: Any
) -> None:
    store = make_store(name, request, tmp_path)
    try:
        engine = store.open()
        for user in ("alice", "bob", None):
            for session in ("monday", "tuesday", None):
                scope = {"user": user, "session": session and f"{session}-{user}"}
                for namespace in ("long-term", "short-term"):
                    engine.scope(**scope).remember(f"The garage of {user}", namespace=namespace)
        view = engine.scope(user="alice", session="monday-alice")
        assert view.count() == 4
        assert {(memory.session_id, memory.namespace) for memory in view.list()} == {
            ("monday-alice", "long-term"), ("monday-alice", "short-term"), ("tuesday-alice", "long-term"),
            (None, "long-term"),
        }  # fmt: skip
        assert [view.count(only="session"), engine.scope(session="monday-alice").count()] == [2, 2]
    finally:
        store.close()
