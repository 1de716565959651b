"""Rows that are deleted with their owner, and the users who may write into a session."""

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from everhold import Everhold, Run, View, clock
from everhold.errors import AlreadyExists, Conflict, NotFound
from everhold.model import Cycle, Execution, Memory, Message, Project, Session
from everhold.model.base import Row
from everhold.schema.catalog import CATALOG
from everhold.schema.operations import Put
from tests.engines import Store, get_records, make_store, read_all_rows

USERS = ("alice", "bob", "carol")
HARD = pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])


def get_refusal(verb: Callable[[], object]) -> str:
    """Call a verb that must raise NotFound and return the message."""
    with pytest.raises(NotFound) as caught:
        verb()
    return str(caught.value)


def test_the_labels_scope_and_level_never_widen_access(engine: Everhold) -> None:
    for name in ("session", "agent", "user", "project", "organization"):
        engine.scope(user="alice").remember(f"The code is {name}", scope=name, level=name)
    bob = engine.scope(user="bob")
    assert not bob.recall("what is the code?", minimum=0, include=["project", "organization"])
    [memory] = engine.scope(user="alice").list(where={"scope": "organization", "level": "organization"})
    assert (memory.scope, memory.reach) == ("organization", "user")
    engine.scope().remember("The code is 4711", scope="user", level="session")
    assert [hit.memory.scope for hit in bob.recall("what is the code?", minimum=0, include="organization")] == ["user"]


# shared containers


@HARD
def test_a_project_outlives_the_user_who_mentioned_it_first(any_store: Store, hard: bool) -> None:
    engine = any_store.open()
    engine.scope(user="bob", project="apollo").remember("Bob drew the plan")
    engine.create_user("dora")
    engine.create_project("gemini", user="dora")
    memories = [
        engine.scope(user="alice", project=name).remember(f"Alice built {name}") for name in ("apollo", "gemini")
    ]
    for name in ("bob", "dora"):
        engine.delete_user(name, hard=hard)
    for memory, project in zip(memories, ("apollo", "gemini"), strict=True):
        alice = engine.scope(user="alice", project=project)
        assert alice.get(memory.id) == memory
        assert alice.recall("what did Alice build?", minimum=0)
        assert alice.remember("Alice goes on")
    projects = get_records(engine).get(Project, "default", ["apollo", "gemini"])
    assert {name: project.user_id for name, project in projects.items()} == {
        "apollo": None,
        "gemini": None if hard else "dora",
    }


def test_a_memory_outlives_the_cycle_that_it_mentions(any_store: Store) -> None:
    """A message of one user started the run. A memory of another user refers to a cycle of that run."""
    engine = any_store.open()
    message = engine.scope(user="bob", session="s1", agent="bot").say("Do it")
    alice = engine.scope(user="alice", agent="bot")
    memory = alice.remember("The bot did it")
    now = clock.now()
    common: dict[str, Any] = {"organization_id": "default", "created_at": now, "updated_at": now}
    execution = Execution(id="run", message_id=message.id, agent_id="bot", task="it", started_at=now, **common)
    cycle = Cycle(id="cycle", agent_id="bot", execution_id="run", cycle_index=0, **common)
    mentioning_memory = memory.evolve(id="second", hash=None, text="The bot did it twice", cycle_id="cycle")
    get_records(engine).commit([Put(execution), Put(cycle), Put(mentioning_memory)])
    engine.delete_user("bob", hard=True)
    assert alice.get("second") == mentioning_memory.evolve(cycle_id=None)
    assert get_records(engine).get(Execution, "default", ["run"], deleted=True) == {}


# sessions


def make_writing_verbs(view: View) -> dict[str, Callable[[], object]]:
    return {
        "remember": lambda: view.remember("Mine"),
        "remember a turn": lambda: view.remember("I live in Rome", kind="conversation", id="own"),
        "remember_many": lambda: view.remember_many(["Mine", "Mine too"]),
        "say": lambda: view.say("Mine"),
        "update_session": lambda: view.update_session(topic="Mine"),
        "end_session": view.end_session,
    }


def test_every_verb_refuses_a_foreign_session_as_if_it_did_not_exist(engine: Everhold) -> None:
    owner = engine.scope(user="alice", project="p", agent="bot", session="s1")
    owner.say("Tea?")
    owner.remember("Alice likes tea")
    strangers = [{"user": "bob"}, {"user": "alice", "project": "q"}, {"user": "alice", "agent": "critic"}]
    for is_deleted in (False, True):
        if is_deleted:
            engine.delete_session("s1")
        before = read_foreign_rows(engine)
        for dimensions in strangers:
            view, nowhere = engine.scope(**dimensions, session="s1"), engine.scope(**dimensions, session="s2")
            expected = get_refusal(nowhere.messages).replace("s2", "s1")
            for name, verb in {**make_writing_verbs(view), "messages": view.messages, "session": view.session}.items():
                assert get_refusal(verb) == expected, (name, dimensions, is_deleted)
            assert view.list() == nowhere.list()
            assert view.recall("tea", minimum=0).hits == ()
            assert view.context("tea").text == nowhere.context("tea").text
            assert view.tags() == {}
            assert view.sessions() == []
        assert read_foreign_rows(engine) == before
    engine.restore("session", "s1")
    assert [message.text for message in owner.messages()] == ["Tea?"]


def read_foreign_rows(engine: Everhold) -> dict[str, Any]:
    rows = read_all_rows(engine)
    return {name: rows[name] for name in ("sessions", "messages", "memories", "chunks", "users", "projects")}


def test_strict_scopes_do_not_reveal_foreign_sessions(sqlite_store: Store) -> None:
    sqlite_store.open().scope(user="alice", session="s1").say("Tea?")
    engine = sqlite_store.open(strict_scopes=True)
    engine.create_user("bob")
    view, nowhere = (engine.scope(user="bob", session=name) for name in ("s1", "s2"))
    for name, verb in make_writing_verbs(view).items():
        assert get_refusal(verb) == get_refusal(make_writing_verbs(nowhere)[name]).replace("s2", "s1"), name


def test_a_group_session_is_open_to_every_user(engine: Everhold) -> None:
    engine.scope(session="s1").say("Who wants tea?")
    for name in USERS:
        view = engine.scope(user=name, session="s1")
        view.say(f"{name} does")
        view.remember(f"{name} wants tea")
        assert [message.text for message in view.messages()] == [f"{name} does"]
    engine.delete_user("alice", hard=True)
    assert len(engine.scope(session="s1").messages()) == len(USERS)
    assert len(engine.scope(session="s1").list()) == len(USERS) - 1


def test_rows_written_without_a_user_are_deleted_with_their_session(engine: Everhold) -> None:
    """A scope without a user may write into a user's session. The written rows belong to the session and to no user."""
    engine.scope(user="alice", session="s1").say("Tea?")
    written = engine.scope(session="s1").remember("The kettle is on")
    assert written.user_id is None
    other = engine.scope(user="bob").remember("Bob likes coffee")
    engine.delete_session("s1", hard=True)
    assert get_records(engine).get(Memory, "default", [written.id], deleted=True) == {}
    assert engine.scope(user="bob").get(other.id) == other


def test_a_session_that_another_user_has_just_begun_is_not_joined(any_store: Store) -> None:
    """Both users find no session of that name; only one of them may begin it."""
    engine = any_store.open()
    bob = engine.scope(user="bob", session="s1")
    rows = engine._parts.write_deps.scope_rows.make_missing_rows(bob.scope, clock.now())
    engine.scope(user="alice", session="s1").remember("Alice was first")
    with pytest.raises(AlreadyExists):
        get_records(engine).commit(rows)
    assert "no session 's1'" in get_refusal(lambda: bob.remember("Bob was second"))


def test_only_one_of_several_users_starting_a_session_at_once_owns_it(engine: Everhold) -> None:
    start = threading.Barrier(len(USERS))

    def write(user: str) -> None:
        for number in range(8):
            view = engine.scope(user=user, session=f"s{number}")
            start.wait()
            with suppress(NotFound):
                view.remember(f"of {user}")
            with suppress(NotFound):
                view.say(f"of {user}")

    threads = [threading.Thread(target=write, args=(user,)) for user in USERS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    owners = {session.id: session.user_id for session in get_records(engine).scan(Session, "default")}
    assert len(owners) == 8
    for entity in (Memory, Message):
        rows = get_records(engine).scan(entity, "default")
        assert len(rows) == 8
        assert all(row.user_id == owners[str(row.session_id)] for row in rows)


# deleting a user


class RandomWriter:
    """Makes random writes of several users into shared and private containers, with public verbs."""

    def __init__(self, engine: Everhold, rng: random.Random) -> None:
        self.engine, self.rng = engine, rng
        engine.scope(session="group").say("Welcome")
        engine.create_user("alice")
        engine.create_project("p0", user="alice")

    def write(self) -> None:
        rng = self.rng
        dimensions: dict[str, Any] = {
            "user": rng.choice((*USERS, *USERS, None)),
            "project": rng.choice((None, "p0", "p1")),
            "agent": rng.choice((None, None, "bot")),
            "session": rng.choice((None, "group", "s1", "s2", "s3")),
        }
        view = self.engine.scope(**dimensions)
        with suppress(NotFound, Conflict):  # the session is another user's, or a row does not exist yet
            self._write_through(view)

    def _write_through(self, view: View) -> None:
        rng = self.rng
        text = f"{rng.choice(['likes', 'sells', 'paints'])} {rng.choice(['tea', 'boats', 'maps'])}"
        memories = view.list(limit=50).memories
        ids = [memory.id for memory in memories]
        writes: list[Callable[[], object]] = [
            lambda: view.remember(text, tags=["t"], idempotency_key=rng.choice((None, "k"))),
            lambda: view.remember(f"I live in {rng.choice(['Rome', 'Oslo'])}", kind="conversation"),
            lambda: self._continue_run(view.run(text, id=rng.choice((None, "r1", "r2"))), text),
            lambda: self._continue_run(view.resume(), text),
        ]
        if view.scope.session:
            writes += [lambda: view.say(text), lambda: view.update_session(topic=text)]
        if len(ids) > 1:
            writes += [
                lambda: view.revise(ids[0], text=f"{text} now"),
                lambda: view.supersede(ids[0], f"{text} again {rng.random()}"),
                lambda: view.relate(*ids[:2]),
                lambda: view.tag(ids[0], "u"),
                lambda: view.forget(ids[-1]),
            ]
        rng.choice(writes)()

    def _continue_run(self, run: Run, text: str) -> None:
        if run.pending is None:
            run.propose("think", {"about": text})
        run.complete(text, memories=[f"The run said: {text}"])
        if self.rng.random() < 0.3:
            run.fork(run.steps()[-1].cycle_index)
        if self.rng.random() < 0.3:
            run.finish(text)


COMPARED_TABLES = (
    "organizations", "users", "projects", "agents", "sessions", "messages", "memories", "memory_tags", "chunks",
    "revisions", "changes", "executions", "cycles",
)  # fmt: skip
NOT_COMPARED = [entity for entity, table in CATALOG.items() if table.name not in COMPARED_TABLES]


def find_referenced_ids(row: Row) -> set[str | None]:
    values = row.__dict__
    return {values.get("memory_id"), values.get("owner_id"), values.get("execution_id"), *values.get("memory_ids", ())}


def read_rows_of_others(engine: Everhold, victim: str) -> dict[str, dict[Any, Row]]:
    """Return every row that must stay unchanged when a user is deleted.

    Three kinds of rows are deleted with a user: rows that name the user; rows without a user in a session of the user;
    and rows that refer to one of these, for example the journal of changes to the user's memories.
    """
    rows = read_all_rows(engine, without=NOT_COMPARED)
    own_sessions = {row.id for row in rows["sessions"].values() if row.user_id == victim}

    def is_own(row: Row) -> bool:
        values = row.__dict__
        if isinstance(row, Project):
            return False
        if values.get("user_id"):
            return bool(values["user_id"] == victim)
        return values.get("session_id") in own_sessions or ("email" in values and values["id"] == victim)

    own_ids = {row.id for name in ("memories", "messages", "executions") for row in rows[name].values() if is_own(row)}
    unchanged_rows: dict[str, dict[Any, Row]] = {}
    for name in COMPARED_TABLES:
        unchanged_rows[name] = {
            key: row.model_copy(update={"user_id": None}) if isinstance(row, Project) else row
            for key, row in rows[name].items()
            if not is_own(row) and not find_referenced_ids(row) & own_ids
        }
    return unchanged_rows


# Slow stores get fewer rounds, with fewer writes in each.
ROUNDS = {"in_memory": 4, "sqlite": 3, "postgres": 1, "duckdb": 1, "dynamodb": 1}
WRITES = {"dynamodb": 20, "duckdb": 40}


@pytest.mark.parametrize("name", ROUNDS)
def test_deleting_a_user_changes_no_row_of_other_users(
    name: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for seed in range(ROUNDS[name]):
        store = make_store(name, request, tmp_path_factory.mktemp(f"round{seed}"))
        engine = store.open()
        writer = RandomWriter(engine, random.Random(seed))
        for _ in range(WRITES.get(name, 120)):
            writer.write()
        victims = USERS[:1] if name == "dynamodb" else USERS[:2]
        for victim in victims:
            before = read_rows_of_others(engine, victim)
            memory_count = get_records(engine).count(Memory, None, deleted=True)
            assert before["memories"], "other users must have rows"
            engine.delete_user(victim)
            assert read_rows_of_others(engine, victim) == before, (seed, victim, "soft")
            engine.delete_user(victim, hard=True)
            assert read_rows_of_others(engine, victim) == before, (seed, victim, "hard")
            assert get_records(engine).count(Memory, None, deleted=True) < memory_count, "the deleted user had rows"
        store.close()
