"""Attempts to reach other scopes through sessions, runs, jobs and imports."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from benchmarks.tenancy_world import (
    DIMENSIONS,
    ORGANIZATIONS,
    OWNED_SESSIONS,
    TenancyWorld,
    read_steady_rows,
    require,
    require_own,
    require_refusal,
)
from everhold import Everhold, View, clock
from everhold.errors import AlreadyExists, EverholdError, InvalidInput, NotFound
from everhold.model import Execution, Job, Memory, Message, Scope
from everhold.ports.records import Records
from everhold.remember import forget
from everhold.schema.operations import Delete, Operation, Put

_NUMBERS = itertools.count()


class Interruption(Exception):
    """Stands for the end of the process."""


class StoppingRecords:
    """A store whose process ends after one commit: the job is stored, but no work is done."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._has_committed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    def commit(self, operations: Sequence[Operation]) -> None:
        if self._has_committed:
            raise Interruption
        self._records.commit(operations)
        self._has_committed = True


# sessions


def use_session(world: TenancyWorld, view: View) -> int:
    """Use a session. A session of another scope must be refused as if it did not exist.

    In any other session, only messages that the scope may read are returned.
    """
    name = world.rng.choice(["s1", *OWNED_SESSIONS])
    session_view = make_session_view(world, view, name)
    is_open = can_use(session_view.scope, OWNED_SESSIONS.get(name, {}))
    if is_open and not name.startswith("deleted"):
        return read_session(session_view)
    if is_open:
        require("has been deleted" in require_refusal(session_view.messages), session_view.scope)
        return 0
    verb = world.rng.choice(list_session_verbs(session_view))
    unknown_session_view = make_session_view(world, view, "no-such-session")
    expected = require_refusal(unknown_session_view.messages).replace("no-such-session", name)
    message_text = require_refusal(verb)
    require(message_text == expected, (session_view.scope, message_text))
    require_own(session_view, session_view.list(limit=20))
    require("secret" not in session_view.context("secret tea", budget=200, only="session").text, session_view.scope)
    contexts = [each_view.context("secret tea", budget=200).text for each_view in (session_view, unknown_session_view)]
    require(contexts[0] == contexts[1], session_view.scope)
    return 0


# runs


def use_run(world: TenancyWorld, view: View) -> int:
    """Read a run. A run of another scope must be refused as if it did not exist, and must not be listed."""
    run_id = world.rng.choice(sorted(world.run_ids))
    records = world.engine._parts.records
    execution = records.get(Execution, view.scope.organization, [run_id], deleted=True).get(run_id)
    own_runs = view.runs(limit=100)
    for row in own_runs:
        require(view.scope.can_read(row), (view.scope, row))
    if execution is not None and view.scope.can_read(execution):
        if execution.is_deleted:  # with its session: the scope may purge it
            return 0
        steps = view.get_run(run_id).steps()
        require({step.output for step in steps} <= {None, f"secret output of {view.scope.organization}"}, steps)
        return len(steps)
    verb = world.rng.choice(list_run_verbs(view, run_id, own_runs[0].id))
    require(
        require_refusal(verb) == f"no run {run_id!r} in this scope; list the runs of the scope", (view.scope, run_id)
    )
    visible = {row.id for row in own_runs}
    for item in view.recall_with_results("secret output", results=20):
        require(item.step is None or item.step.cycle.execution_id in visible, (view.scope, item))
    return 0


def list_run_verbs(view: View, run_id: str, own_id: str) -> list[Callable[[], object]]:
    return [
        lambda: view.get_run(run_id),
        lambda: view.resume(run_id),
        lambda: view.delete_run(run_id),
        lambda: view.delete_run(run_id, hard=True),
        lambda: view.delete_run(run_id, preview=True),
        lambda: view.restore_run(run_id),
        lambda: view.get_run(own_id).compare(run_id),
    ]


def can_use(scope: Scope, owner: Mapping[str, str]) -> bool:
    """Return whether a scope may use a session with this owner: it names no other user, project or agent."""
    return all(getattr(scope, dimension) in (None, name) for dimension, name in owner.items())


def make_session_view(world: TenancyWorld, view: View, session: str) -> View:
    scope = view.scope
    dimensions = {"project": scope.project, "user": scope.user, "agent": scope.agent}
    return world.engine.scope(organization=scope.organization, session=session, **dimensions)


def list_session_verbs(view: View) -> list[Callable[[], object]]:
    return [
        lambda: view.say("mine"),
        lambda: view.say("mine", id="m-own"),
        lambda: view.add(["mine", "I live in Rome"]),
        lambda: view.remember("mine"),
        lambda: view.remember("I live in Rome", kind="conversation"),
        lambda: view.remember_many(["mine", "mine too"]),
        lambda: view.update_session(topic="mine"),
        lambda: view.open_session(topic="mine"),
        lambda: view.end_session(summary="mine"),
        view.reopen_session,
        view.archive_session,
        view.delete_session,
        lambda: view.delete_session(hard=True),
        lambda: view.delete_session(preview=True),
        view.restore_session,
        lambda: view.messages(around="m1"),
        view.session,
        view.messages,
        lambda: view.messages(oldest_first=True, limit=3),
        lambda: view.window("secret tea", budget=300),
    ]


def read_session(view: View) -> int:
    window = view.window("secret tea", budget=2000, minimum=0)
    require_own(view, window.memories)
    spoken_messages = [*view.messages(limit=100).messages, *view.session().history, *window.messages]
    for message in spoken_messages:
        require(was_said_in(view.scope, message), (view.scope, message))
    searched = view.search_messages("secret words", k=50, minimum=0, neighbours=3)
    messages = [*view.recent_messages(n=50), *(turn for hit in searched for turn in hit.turns)]
    for message in messages:
        require(view.scope.can_read(message), (view.scope, message))
    for session in view.sessions():
        require(can_use(view.scope, OWNED_SESSIONS.get(session.id, {})), (view.scope, session))
    return len(spoken_messages) + len(messages)


def was_said_in(scope: Scope, message: Message) -> bool:
    dimensions = [dimension for dimension in ("user", "agent", "session") if getattr(scope, dimension) is not None]
    columns = message.__dict__
    return message.organization_id == scope.organization and all(
        columns[DIMENSIONS[dimension]] == getattr(scope, dimension) for dimension in dimensions
    )


def take_message(world: TenancyWorld, view: View) -> int:
    """Try to use another scope's message as a cursor, to store a message under its id, and to delete it."""
    if view.scope.session is None:
        return 0
    message = world.rng.choice(world.messages)
    if was_said_in(view.scope, message):
        return 0
    require_refusal(lambda: view.messages(cursor=message.id), InvalidInput)
    require_refusal(lambda: view.messages(around=message.id))
    is_users_own = view.scope.user is not None and message.user_id == view.scope.user
    # A user may delete and restore their own messages in any session.
    if message.organization_id != view.scope.organization or not is_users_own:
        require_refusal(lambda: view.delete_message(message.id))
        require_refusal(lambda: view.restore_message(message.id))
    if message.organization_id == view.scope.organization:
        message_text = require_refusal(lambda: view.say(message.text or "", id=message.id), AlreadyExists)
        require("secret" not in message_text, message_text)
    return 0


# jobs


def resume_job(world: TenancyWorld, view: View) -> int:
    """Let maintenance finish a forget job that also names other scopes' memories; it must not purge those."""
    number = next(_NUMBERS)
    own_memory = view.remember(f"temporary note {number}")
    foreign_ids = [world.choose_foreign_id(view) for _ in range(5)]
    write_deps = world.engine._parts.write_deps
    stopping_deps = replace(write_deps, records=cast(Records, StoppingRecords(write_deps.records)))
    with suppress(Interruption):
        forget.forget_all(stopping_deps, view.scope, [*foreign_ids, own_memory.id], hard=True)
    world.engine.maintain()
    stored = world.engine._parts.records.get(Memory, view.scope.organization, [own_memory.id], deleted=True)
    require(not stored, (view.scope, "maintenance did not finish the job"))
    return 0


def forge_job(world: TenancyWorld, view: View) -> int:
    """Store a job that names another organization's scope. It must change nothing there, and must fail."""
    records = world.engine._parts.records
    organization = view.scope.organization
    victim = world.rng.choice([name for name in ORGANIZATIONS if name != organization])
    ids = [memory_id for (memory_id,) in records.columns(Memory, victim, ["id"])][:20]
    now = clock.now()
    job = Job(
        id=clock.make_id("job"),
        organization_id=organization,
        created_at=now,
        updated_at=now,
        kind=forget.JOB,
        status="running",
        parameters={"hard": True, "scope": {"organization": victim}},
        state={"ids": ids},
    )
    records.commit([Put(job)])
    world.engine.maintain()
    require(len(records.get(Memory, victim, ids)) == len(ids), (view.scope, "a job reached another organization"))
    require(records.get(Job, organization, [job.id])[job.id].status == "failed", (view.scope, "a forged job was run"))
    records.commit([Delete(Job, (organization, job.id))])
    return 0


def share_key(world: TenancyWorld, view: View) -> int:
    """Use an idempotency key of another user: it must be free, and must not reveal the other user's memory."""
    key = f"once-m{world.rng.randrange(216)}"
    words = f"temporary note {next(_NUMBERS)}"
    owner = (view.scope.organization, view.scope.user, key)
    if owner in world.idempotency_keys:
        require("secret" not in require_refusal(lambda: view.remember(words, idempotency_key=key), EverholdError), key)
        return 0
    world.idempotency_keys.add(owner)
    stored = view.remember(words, idempotency_key=key)
    require(stored.text == words and view.scope.can_read(stored), (view.scope, stored))
    view.forget(stored.id, hard=True)
    return 0


# import


def import_elsewhere(engine: Everhold) -> int:
    """Load the export of one organization into a new organization and into the other one. Return the imported rows.

    Raise Leak if this changes an existing row, or if a user can then read memories of another user.
    """
    before = read_steady_rows(engine)
    with TemporaryDirectory(prefix="everhold-tenancy-") as folder:
        path = Path(folder) / "acme.jsonl"
        engine.export(path, organization="acme")
        loaded = engine.load(path, organization="copy").count
        require(read_steady_rows(engine) == before, "importing into a new organization changed another")
        require_users_apart(engine, "copy")
        with suppress(EverholdError):  # ids that collide may be refused as a whole
            loaded += engine.load(path, organization="bolt").count
    after = read_steady_rows(engine)
    for table, rows in before.items():
        for key, row in rows.items():
            require(after[table].get(key) == row, f"importing changed {table} {key}")
    for organization in (*ORGANIZATIONS, "copy"):
        require_users_apart(engine, organization)
    return loaded


def require_users_apart(engine: Everhold, organization: str) -> None:
    """Require that every user of an organization reads only their own memories."""
    for user in ("alice", "bob"):
        view = engine.scope(organization=organization, user=user)
        hits = view.recall(f"secret tea of {user} in acme and bolt", k=50, minimum=0)
        require(bool(hits), (organization, user))
        require_own(view, [hit.memory for hit in hits])
        require_own(view, view.list(limit=1000))
        for session in OWNED_SESSIONS:
            session_view = engine.scope(organization=organization, user=user, session=session)
            try:
                read_session(session_view)
            except NotFound as error:
                require("secret" not in str(error), error)
