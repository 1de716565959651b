"""Two organizations with the same ids, and what each scope in them may read."""

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from everhold import Everhold, MemoryInput, View
from everhold.errors import EverholdError, NotFound
from everhold.model import Chunk, Episode, Memory, Message, Scope, Tag
from everhold.model.base import Row
from everhold.schema.catalog import CATALOG, get_key

ORGANIZATIONS = ("acme", "bolt")
NAMES: dict[str, tuple[str | None, ...]] = {
    "user": (None, "alice", "bob"),
    "project": (None, "p1", "p2"),
    "agent": (None, "bot"),
    "session": (None, "s1"),
}
OWNED_SESSIONS: dict[str, dict[str, str]] = {
    "of-alice": {"user": "alice"},
    "of-bob": {"user": "bob"},
    "of-p1": {"project": "p1"},
    "of-bob-and-bot": {"user": "bob", "agent": "bot"},
    "deleted-of-bob": {"user": "bob"},
}
SHARED_TEXT = "secret tea that all users drink"
DIMENSIONS = {"user": "user_id", "project": "project_id", "agent": "agent_id", "session": "session_id"}
# Reading adds rows to this table. The engine's internal tables change as well.
LOG_TABLE = "memory_access_logs"


class Leak(Exception):
    """A record of another scope was read, changed or revealed."""


def require(condition: bool, detail: object) -> None:
    if not condition:
        raise Leak(str(detail))


class TenancyWorld:
    """The memories of many scopes, their ids, keys, tags and messages, and a view of each scope."""

    def __init__(self, engine: Everhold, rng: random.Random) -> None:
        self.engine, self.rng = engine, rng
        combinations = [dict(zip(NAMES, values, strict=True)) for values in itertools.product(*NAMES.values())]
        self.views: list[View] = []
        self.run_ids: set[str] = set()
        numbers = itertools.count()
        for organization in ORGANIZATIONS:
            for names in combinations:
                dimensions = {name: value for name, value in names.items() if value is not None}
                view = engine.scope(organization=organization, **dimensions)
                self.views.append(view)
                view.remember_many(self._make_items(organization, dimensions, numbers))
                self._add_run(view, dimensions)
                if view.scope.session:
                    view.say(f"secret words of {' '.join([organization, *dimensions.values()])}")
            self._open_sessions(organization)
            self._create_blocks(organization)
        self.began = datetime.now(UTC)
        for organization in ORGANIZATIONS:
            self._mix(engine.scope(organization=organization))
        self.read_truth()

    def _add_run(self, view: View, dimensions: dict[str, str]) -> None:
        """Begin a run with one complete and one open cycle; its id is the same in both organizations."""
        run = view.run(f"secret task of {view.scope.organization}", id=" ".join(["run", *dimensions.values()]))
        self.run_ids.add(run.id)
        run.propose("secret tool")
        run.complete(f"secret output of {view.scope.organization}")
        run.propose("secret tool")

    def _open_sessions(self, organization: str) -> None:
        """Begin sessions that have an owner, and delete one of them."""
        for session, names in OWNED_SESSIONS.items():
            view = self.engine.scope(organization=organization, session=session, **names)
            view.say(f"secret words of {session} in {organization}")
            view.update_session(topic=f"secret topic of {session}", summary=f"secret summary of {session}")
            view.remember(f"secret tea of {session} in {organization}", metadata={"owner": session})
        self.engine.delete_session("deleted-of-bob", organization=organization)

    def _create_blocks(self, organization: str) -> None:
        """Create a block for each user and agent, with the same ids in both organizations, and change it."""
        for user, agent in itertools.product(NAMES["user"], NAMES["agent"]):
            view = self.engine.scope(organization=organization, user=user, agent=agent)
            view.create_block("human", f"private core of {organization} {user} {agent}", id=f"block-{user}-{agent}")
            view.append_block(f"block-{user}-{agent}", "and its private end")

    def _make_items(self, organization: str, dimensions: dict[str, str], numbers: Iterable[int]) -> list[MemoryInput]:
        owner = " ".join([organization, *dimensions.values()])
        items: list[MemoryInput] = []
        for _, number in zip(range(6), numbers, strict=False):
            # An organization gets 216 numbers, so most names are the same in both; every sixth is its own.
            name = f"m{number % 216}" if number % 6 else f"{organization}-{number % 216}"
            items.append(
                {
                    "text": f"secret tea of {owner} number {number}" if number % 6 else SHARED_TEXT,
                    "id": name,
                    "key": f"key-{number % 5}-{number}",
                    "kind": ("fact", "plan")[number % 2],
                    "tags": [f"tag{number % 3}", f"only-{organization}"],
                    "metadata": {"owner": owner},
                    "idempotency_key": f"once-{name}",
                }
            )
        return items

    def _mix(self, wide: View) -> None:
        """Relate memories across scopes, revise some and forget some, through a scope that covers everything."""
        ids = sorted(memory.id for memory in wide.list(limit=1000))
        for _ in range(150):
            wide.relate(*self.rng.sample(ids, 2))
        for memory_id in ids[::9]:
            wide.revise(memory_id, text=f"secret tea revised {memory_id} {wide.scope.organization}")
        for memory_id in ids[5::31]:
            wide.forget(memory_id)

    def read_truth(self) -> None:
        self.engine.flush()
        records = self.engine._parts.records
        self.memories: list[Memory] = [
            memory for organization in ORGANIZATIONS for memory in records.scan(Memory, organization, deleted=True)
        ]
        self.ids = sorted({memory.id for memory in self.memories})
        self.idempotency_keys = {
            (memory.organization_id, memory.user_id, f"once-{memory.id}") for memory in self.memories if memory.key
        }
        self.keys = sorted({memory.key for memory in self.memories if memory.key})
        self.live = [memory for memory in self.memories if not memory.is_deleted]
        self.by_id = {(memory.organization_id, memory.id): memory for memory in self.memories}
        self.tags = {
            (organization, memory_id, tag)
            for organization in ORGANIZATIONS
            for memory_id, tag in records.columns(Tag, organization, ("memory_id", "tag"))
        }
        self.messages = [
            message for organization in ORGANIZATIONS for message in records.scan(Message, organization, deleted=True)
        ]
        self.cursors = [view.list(limit=2).cursor for view in self.views]
        self.cursors += [view.recall("secret tea", k=2, minimum=0).cursor for view in self.views]
        self.cursors = [cursor for cursor in self.cursors if cursor]

    def choose_foreign_id(self, view: View) -> str:
        """Return an id under which this scope has no live memory."""
        while True:
            memory_id = self.rng.choice(self.ids)
            memory = self.by_id.get((view.scope.organization, memory_id))
            if memory is None or not view.scope.can_read(memory):
                return memory_id

    def choose_own_id(self, view: View) -> str | None:
        own_ids = [memory.id for memory in self.rng.sample(self.live, 40) if view.scope.can_read(memory)]
        return own_ids[0] if own_ids else None


def require_own(view: View, memories: Iterable[Memory], include: Sequence[str] = ()) -> int:
    """Return the number of memories. Raise Leak if one of them belongs to another scope or is deleted."""
    count = 0
    for memory in memories:
        count += 1
        require(memory.organization_id == view.scope.organization, (view.scope, memory))
        if not is_own(view.scope, memory):
            is_wider = all(
                getattr(memory, column) in (None, getattr(view.scope, name))
                for name, column in DIMENSIONS.items()
                if getattr(view.scope, name) is not None
                and not (name == "session" and memory.user_id and memory.user_id == view.scope.user)
            )
            require(is_wider, (view.scope, memory))
            require(memory.reach in include, (view.scope, memory))
        require(not memory.is_deleted, (view.scope, memory))
    return count


def is_own(scope: Scope, memory: Memory) -> bool:
    """Return whether a memory has the scope's dimensions. The session counts only for a scope without a user."""
    return all(
        getattr(memory, column) == getattr(scope, name)
        for name, column in DIMENSIONS.items()
        if getattr(scope, name) is not None and not (name == "session" and scope.user is not None)
    )


def require_refusal(verb: Callable[[], object], kind: type[EverholdError] = NotFound) -> str:
    """Call a verb that must be refused, and return the error message. Raise Leak if the verb succeeds."""
    try:
        verb()
    except kind as error:
        return str(error)
    raise Leak("a verb succeeded that should have been refused")


def read_steady_rows(engine: Everhold, organizations: Sequence[str] = ORGANIZATIONS) -> dict[str, Any]:
    """Return all rows of these organizations that reading must not change, without read counts.

    The access log and internal tables are left out, and so are episodes, because reading a window or a summary builds
    the episodes of its session.
    """
    engine.flush()
    records = engine._parts.records
    rows_by_table: dict[str, Any] = {}
    for entity, table in CATALOG.items():
        if table.name == LOG_TABLE or table.internal or table.tenant is None:
            continue
        rows = [row for organization in organizations for row in records.scan(entity, organization, deleted=True)]
        rows = [row for row in rows if not _is_of_episode(row)]
        rows_by_table[table.name] = {get_key(row): _drop_counts(row) for row in rows}
    return rows_by_table


def _is_of_episode(row: Row) -> bool:
    return isinstance(row, Episode) or (isinstance(row, Chunk) and row.owner_kind == "episode")


def _drop_counts(row: Row) -> Row:
    return row.model_copy(update={"access_count": 0, "last_accessed": None}) if isinstance(row, Memory) else row
