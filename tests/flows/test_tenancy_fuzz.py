"""20,000 random attempts to reach what is not one's own: nothing foreign is read, nothing foreign is changed.

Two organizations call their users, projects, agents, sessions and even their memories by the same names. Every
attempt is made through a random scope, mostly with names, cursors and filters of others.
"""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recollect import Recollect, View
from recollect.errors import Conflict, NotFound
from recollect.model import AccessLog, Memory, Tag
from tests.engines import LASTING, all_rows, make_store, records_of

ATTEMPTS = 20_000
ORGANIZATIONS = ("acme", "bolt")
NAMES: dict[str, tuple[str | None, ...]] = {
    "user": (None, "alice", "bob"),
    "project": (None, "p1", "p2"),
    "agent": (None, "bot"),
    "session": (None, "s1"),
}
REACHES = ("user", "agent", "session", "project", "organization")
EVERYBODYS = "secret tea that everybody drinks"
DIMENSIONS = {"user": "user_id", "project": "project_id", "agent": "agent_id", "session": "session_id"}


class World:
    """Memories of many scopes, what is true of them, and a view of each scope."""

    def __init__(self, engine: Recollect, chance: random.Random) -> None:
        self.engine, self.chance = engine, chance
        combinations = [dict(zip(NAMES, values, strict=True)) for values in itertools.product(*NAMES.values())]
        self.views: list[View] = []
        number = itertools.count()
        for organization in ORGANIZATIONS:
            for names in combinations:
                given = {name: value for name, value in names.items() if value is not None}
                view = engine.scope(organization=organization, **given)
                self.views.append(view)
                view.remember_many(self._items(organization, given, number))
        self.began = datetime.now(UTC)
        for organization in ORGANIZATIONS:
            self._mix(engine.scope(organization=organization))
        self.learn()

    def _items(self, organization: str, given: dict[str, str], number: Iterable[int]) -> list[dict[str, Any]]:
        whose = " ".join([organization, *given.values()])
        kept = []
        for _, n in zip(range(6), number, strict=False):
            # mostly the same names in both organizations
            name = f"m{n % 216}" if n % 6 else f"{organization}-{n % 216}"
            kept.append(
                {
                    "text": f"secret tea of {whose} number {n}" if n % 6 else EVERYBODYS,
                    "id": name,
                    "key": f"key-{n % 5}-{n}",
                    "kind": ("fact", "plan")[n % 2],
                    "tags": [f"tag{n % 3}", f"only-{organization}"],
                    "metadata": {"owner": whose},
                    "idempotency_key": f"once-{name}",
                }
            )
        return kept

    def _mix(self, wide: View) -> None:
        """Relations across scopes, revisions, supersessions and forgotten ones, made by who sees everything."""
        ids = sorted(memory.id for memory in wide.list(limit=1000).memories)
        for _ in range(150):
            wide.relate(*self.chance.sample(ids, 2))
        for one in ids[::9]:
            wide.revise(one, text=f"secret tea revised {one} {wide.scope.organization}")
        for one in ids[5::31]:
            wide.forget(one)

    def learn(self) -> None:
        self.engine.flush()
        records = records_of(self.engine)
        self.memories: list[Memory] = [
            memory for organization in ORGANIZATIONS for memory in records.scan(Memory, organization, deleted=True)
        ]
        self.ids = sorted({memory.id for memory in self.memories})
        self.keys = sorted({memory.key for memory in self.memories if memory.key})
        self.live = [memory for memory in self.memories if not memory.is_deleted]
        self.by_id = {(memory.organization_id, memory.id): memory for memory in self.memories}
        self.tags = {
            (organization, memory_id, tag)
            for organization in ORGANIZATIONS
            for memory_id, tag in records.columns(Tag, organization, ("memory_id", "tag"))
        }
        self.cursors = [view.list(limit=2).cursor for view in self.views]
        self.cursors += [view.recall("secret tea", k=2, minimum=0).cursor for view in self.views]
        self.cursors = [cursor for cursor in self.cursors if cursor]

    def foreign(self, view: View) -> str:
        """An id that this scope has nothing live under."""
        while True:
            one = self.chance.choice(self.ids)
            memory = self.by_id.get((view.scope.organization, one))
            if memory is None or not view.scope.covers(memory):
                return one

    def own(self, view: View) -> str | None:
        mine = [memory.id for memory in self.chance.sample(self.live, 40) if view.scope.covers(memory)]
        return mine[0] if mine else None


def must_be_own(view: View, memories: Iterable[Memory], include: Sequence[str] = ()) -> int:
    count = 0
    for memory in memories:
        count += 1
        assert memory.organization_id == view.scope.organization, (view.scope, memory)
        if not view.scope.covers(memory):
            wider = all(
                getattr(memory, column) in (None, getattr(view.scope, name))
                for name, column in DIMENSIONS.items()
                if getattr(view.scope, name) is not None
            )
            assert wider, (view.scope, memory)
            assert memory.scope in include, (view.scope, memory)
        assert not memory.is_deleted
    return count


def refused(act: Callable[[], object]) -> None:
    with pytest.raises(NotFound):
        act()


Attempt = Callable[[World, View], int]


def get_by_id(world: World, view: View) -> int:
    refused(lambda: view.get(world.foreign(view)))
    return 0


def get_own(world: World, view: View) -> int:
    one = world.own(view)
    return 0 if one is None else must_be_own(view, [view.get(one)])


def get_by_key(world: World, view: View) -> int:
    try:
        return must_be_own(view, [view.get(world.chance.choice(world.keys))])
    except NotFound:
        return 0


def read_around(world: World, view: View) -> int:
    one = world.foreign(view)
    refused(lambda: view.history(one))
    refused(lambda: view.relations(one, depth=3))
    assert view.tags_of([one, *world.chance.sample(world.ids, 5)]).keys() <= {
        memory.id for memory in world.live if view.scope.covers(memory)
    }
    return 0


def walk(world: World, view: View) -> int:
    one = world.own(view)
    if one is None:
        return 0
    found = view.relations(one, depth=world.chance.randint(1, 4))
    for related in found:
        ends = (related.relationship.source_memory_id, related.relationship.target_memory_id)
        assert all(view.scope.covers(world.by_id[view.scope.organization, end]) for end in ends)
    for revision in view.history(one):
        assert (revision.organization_id, revision.owner_id) == (view.scope.organization, one)
    return must_be_own(view, [related.memory for related in found])


def any_filter(world: World) -> dict[str, Any]:
    chance = world.chance
    return chance.choice(
        [
            {"id": chance.sample(world.ids, 5)},
            {"id": {">": ""}},
            {"organization_id": chance.choice(ORGANIZATIONS)},
            {"user_id": chance.choice(["alice", "bob", None])},
            {"project_id": {"!=": "p1"}},
            {"session_id": ["s1", None]},
            {"text": {"contains": chance.choice(ORGANIZATIONS)}},
            {"metadata.owner": {"contains": "bob"}},
            {"scope": chance.choice(REACHES)},
            {"is_deleted": True},
            {"tags": [f"only-{chance.choice(ORGANIZATIONS)}"]},
        ]
    )


def listed(world: World, view: View) -> int:
    return must_be_own(view, view.list(where=any_filter(world), limit=20).memories)


def listed_on(world: World, view: View) -> int:
    cursor = world.chance.choice(world.cursors[: len(world.cursors) // 2])
    return must_be_own(view, view.list(cursor=cursor, limit=10, oldest_first=world.chance.random() < 0.5).memories)


def recalled(world: World, view: View) -> int:
    chance = world.chance
    include = chance.sample(REACHES, chance.randint(0, 3))
    given: dict[str, Any] = {"include": include, "k": chance.randint(1, 20), "minimum": 0}
    if chance.random() < 0.3:
        given["where"] = any_filter(world)
    if chance.random() < 0.2:
        given["as_of"] = world.began
    if chance.random() < 0.3:
        given["tags"] = f"only-{chance.choice(ORGANIZATIONS)}"
    if chance.random() < 0.3:
        given["cursor"] = chance.choice(world.cursors[len(world.cursors) // 2 :])
    hits = view.recall(f"secret tea of {chance.choice(ORGANIZATIONS)} {chance.choice(['alice', 'bob', 'p1'])}", **given)
    return must_be_own(view, [hit.memory for hit in hits], include)


def put_in_a_prompt(world: World, view: View) -> int:
    include = world.chance.sample(REACHES, world.chance.randint(0, 2))
    question = f"secret tea of {world.chance.choice(ORGANIZATIONS)} bob"
    made = view.context(question, budget=world.chance.randint(100, 600), k=10, minimum=0, include=include)
    return must_be_own(view, made.memories, include)


def asked_why_not(world: World, view: View) -> int:
    refused(lambda: view.why_not(world.foreign(view), "secret tea"))
    one = world.own(view)
    if one is None:
        return 0
    found = view.why_not(one, "secret tea of bolt", k=3)
    for reason in found.reasons:
        assert "secret" not in reason
    return must_be_own(view, [found.memory])


def merged(world: World, view: View) -> int:
    """Every scope has one memory in the same words; what is of different scopes is never made one."""
    found = view.merge_duplicates(preview=world.chance.random() < 0.5)
    assert found.count == 0
    return 0


def counted(world: World, view: View) -> int:
    expected = Counter(
        tag
        for organization, memory_id, tag in world.tags
        if organization == view.scope.organization and view.scope.covers(world.by_id[organization, memory_id])
    )
    assert view.tags() == dict(expected)
    return 0


def logged(world: World, view: View) -> int:
    lines: Sequence[AccessLog] = view.log(limit=30, memory_id=world.chance.choice([None, world.foreign(view)]))
    scope = view.scope
    for line in lines:
        assert line.organization_id == scope.organization
        assert scope.user in (None, line.user_id)
        assert scope.agent in (None, line.agent_id)
        assert scope.session in (None, line.session_id)
        assert scope.project in (None, line.request.get("project"))
    return len(lines)


def changed(world: World, view: View) -> int:
    one, other = world.foreign(view), world.own(view)
    chance = world.chance
    acts: list[Callable[[], object]] = [
        lambda: view.revise(one, text="mine now"),
        lambda: view.supersede(one, "mine now"),
        lambda: view.forget(one),
        lambda: view.forget(one, hard=True),
        lambda: view.undo(one),
        lambda: view.tag(one, "mine"),
        lambda: view.untag(one, "tag0", "tag1", "tag2"),
    ]
    if other is not None:
        acts += [lambda: view.relate(one, other), lambda: view.relate(other, one)]
    refused(chance.choice(acts))
    if chance.random() < 0.2:
        assert view.forget_where(where={"id": [one]}, hard=chance.random() < 0.5).count == 0
    return 0


def taken(world: World, view: View) -> int:
    """A name that somebody else of the organization has taken is refused, and nothing is told about what it names."""
    one = world.foreign(view)
    if (view.scope.organization, one) in world.by_id:
        with pytest.raises(Conflict) as caught:
            view.remember("mine", id=one)
        assert "secret" not in str(caught.value)
        with pytest.raises(Conflict) as caught:
            view.remember("mine", idempotency_key=f"once-{one}")
        assert "secret" not in str(caught.value)
    return 0


ATTEMPT_WEIGHTS: dict[Attempt, float] = {
    get_by_id: 22, get_own: 4, get_by_key: 10, read_around: 8, walk: 4, listed: 8, listed_on: 6, recalled: 10,
    counted: 0.5, logged: 0.4, changed: 24, taken: 2, put_in_a_prompt: 1, asked_why_not: 2, merged: 0.3,
}  # fmt: skip
CALLS: dict[Attempt, int] = {read_around: 3, taken: 2, walk: 2, asked_why_not: 2}
"""How many verbs an attempt calls, where it is not one."""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", LASTING)
def test_nothing_foreign_is_read_or_changed(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> None:
    store = make_store(name, request, tmp_path)
    try:
        world = World(store.open(), random.Random(20_000))
        before = steady_rows(world.engine)
        tried: Counter[str] = Counter()
        read = 0
        kinds, weights = list(ATTEMPT_WEIGHTS), list(ATTEMPT_WEIGHTS.values())
        while tried.total() < ATTEMPTS:
            [attempt] = world.chance.choices(kinds, weights)
            read += attempt(world, world.chance.choice(world.views))
            tried[attempt.__name__] += CALLS.get(attempt, 1)
        assert min(tried.values()) > 40
        assert read > 20_000, "the attempts must also find what is their own, or they prove nothing"
        assert steady_rows(world.engine) == before
        for organization in ORGANIZATIONS:
            assert world.engine.verify_log(organization).intact
    finally:
        store.close()


def steady_rows(engine: Recollect) -> dict[str, Any]:
    """All rows but the log and its chain, without the counts of who read what."""
    rows: dict[str, Any] = all_rows(engine)
    for name in ("memory_access_logs", "jobs", "projection_states"):
        rows.pop(name)
    rows["memories"] = {
        key: row.model_copy(update={"access_count": 0, "last_accessed": None}) for key, row in rows["memories"].items()
    }
    return rows
