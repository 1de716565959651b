"""Attempts to read and change memories of other scopes, with every verb on memories."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.tenancy_world import ORGANIZATIONS, TenancyWorld, require, require_own, require_refusal
from everhold import View
from everhold.errors import Conflict, NotFound
from everhold.model import AccessLog

REACHES = ("user", "agent", "session", "project", "organization")
# Tries something through a view and returns how many rows of the view's scope it read. It raises Leak if it reaches a
# row of another scope.
Attempt = Callable[[TenancyWorld, View], int]


def get_by_id(world: TenancyWorld, view: View) -> int:
    require_refusal(lambda: view.get(world.choose_foreign_id(view)))
    return 0


def get_own(world: TenancyWorld, view: View) -> int:
    memory_id = world.choose_own_id(view)
    return 0 if memory_id is None else require_own(view, [view.get(memory_id)])


def get_by_key(world: TenancyWorld, view: View) -> int:
    try:
        return require_own(view, [view.get(world.rng.choice(world.keys))])
    except NotFound:
        return 0


def read_around(world: TenancyWorld, view: View) -> int:
    memory_id = world.choose_foreign_id(view)
    require_refusal(lambda: view.history(memory_id))
    require_refusal(lambda: view.relations(memory_id, depth=3))
    tagged = view.tags_of([memory_id, *world.rng.sample(world.ids, 5)]).keys()
    require(tagged <= {memory.id for memory in world.live if view.scope.can_read(memory)}, (view.scope, tagged))
    return 0


def walk(world: TenancyWorld, view: View) -> int:
    memory_id = world.choose_own_id(view)
    if memory_id is None:
        return 0
    result = view.relations(memory_id, depth=world.rng.randint(1, 4))
    for related in result:
        ends = (related.relationship.source_memory_id, related.relationship.target_memory_id)
        require(all(view.scope.can_read(world.by_id[view.scope.organization, end]) for end in ends), view.scope)
    for revision in view.history(memory_id):
        require((revision.organization_id, revision.owner_id) == (view.scope.organization, memory_id), view.scope)
    return require_own(view, [related.memory for related in result])


def choose_filter(world: TenancyWorld) -> dict[str, Any]:
    rng = world.rng
    return rng.choice(
        [
            {"id": rng.sample(world.ids, 5)},
            {"id": {">": ""}},
            {"organization_id": rng.choice(ORGANIZATIONS)},
            {"user_id": rng.choice(["alice", "bob", None])},
            {"project_id": {"!=": "p1"}},
            {"session_id": ["s1", None]},
            {"text": {"contains": rng.choice(ORGANIZATIONS)}},
            {"metadata.owner": {"contains": "bob"}},
            {"reach": rng.choice(REACHES)},
            {"is_deleted": True},
            {"tags": [f"only-{rng.choice(ORGANIZATIONS)}"]},
        ]
    )


def list_by_filter(world: TenancyWorld, view: View) -> int:
    return require_own(view, view.list(where=choose_filter(world), limit=20))


def list_from_cursor(world: TenancyWorld, view: View) -> int:
    cursor = world.rng.choice(world.cursors[: len(world.cursors) // 2])
    return require_own(view, view.list(cursor=cursor, limit=10, oldest_first=world.rng.random() < 0.5))


def recall(world: TenancyWorld, view: View) -> int:
    rng = world.rng
    include = rng.sample(REACHES, rng.randint(0, 3))
    arguments: dict[str, Any] = {"include": include, "k": rng.randint(1, 20), "minimum": 0}
    if rng.random() < 0.3:
        arguments["where"] = choose_filter(world)
    if rng.random() < 0.2:
        arguments["as_of"] = world.began
    if rng.random() < 0.3:
        arguments["tags"] = f"only-{rng.choice(ORGANIZATIONS)}"
    if rng.random() < 0.3:
        arguments["cursor"] = rng.choice(world.cursors[len(world.cursors) // 2 :])
    hits = view.recall(f"secret tea of {rng.choice(ORGANIZATIONS)} {rng.choice(['alice', 'bob', 'p1'])}", **arguments)
    return require_own(view, [hit.memory for hit in hits], include)


def build_context(world: TenancyWorld, view: View) -> int:
    include = world.rng.sample(REACHES, world.rng.randint(0, 2))
    question = f"secret tea of {world.rng.choice(ORGANIZATIONS)} bob"
    context = view.context(question, budget=world.rng.randint(100, 600), k=10, minimum=0, include=include)
    return require_own(view, context.memories, include)


def ask_why_not(world: TenancyWorld, view: View) -> int:
    require_refusal(lambda: view.why_not(world.choose_foreign_id(view), "secret tea"))
    memory_id = world.choose_own_id(view)
    if memory_id is None:
        return 0
    result = view.why_not(memory_id, "secret tea of bolt", k=3)
    for reason in result.reasons:
        require("secret" not in reason, view.scope)
    return require_own(view, [result.memory])


def merge(world: TenancyWorld, view: View) -> int:
    """Merge duplicates. Every scope has one memory with the same text; these must not be merged with each other."""
    result = view.merge_duplicates(preview=world.rng.random() < 0.5)
    require(result.count == 0, view.scope)
    return 0


def count_tags(world: TenancyWorld, view: View) -> int:
    expected = Counter(
        tag
        for organization, memory_id, tag in world.tags
        if organization == view.scope.organization and view.scope.can_read(world.by_id[organization, memory_id])
    )
    require(view.tags() == dict(expected), view.scope)
    return 0


def read_log(world: TenancyWorld, view: View) -> int:
    lines: Sequence[AccessLog] = view.log(limit=30, memory_id=world.rng.choice([None, world.choose_foreign_id(view)]))
    scope = view.scope
    for line in lines:
        require(line.organization_id == scope.organization, view.scope)
        require(scope.user in (None, line.user_id), view.scope)
        require(scope.agent in (None, line.agent_id), view.scope)
        require(scope.session in (None, line.session_id), view.scope)
        require(scope.project in (None, line.request.get("project")), view.scope)
    return len(lines)


def change(world: TenancyWorld, view: View) -> int:
    memory_id, own_id = world.choose_foreign_id(view), world.choose_own_id(view)
    rng = world.rng
    calls: list[Callable[[], object]] = [
        lambda: view.revise(memory_id, text="mine now"),
        lambda: view.supersede(memory_id, "mine now"),
        lambda: view.forget(memory_id),
        lambda: view.forget(memory_id, hard=True),
        lambda: view.undo(memory_id),
        lambda: view.tag(memory_id, "mine"),
        lambda: view.untag(memory_id, "tag0", "tag1", "tag2"),
    ]
    if own_id is not None:
        calls += [lambda: view.relate(memory_id, own_id), lambda: view.relate(own_id, memory_id)]
    require_refusal(rng.choice(calls))
    if rng.random() < 0.2:
        require(view.forget_where(where={"id": [memory_id]}, hard=rng.random() < 0.5).count == 0, view.scope)
    return 0


def take_name(world: TenancyWorld, view: View) -> int:
    """Store a memory under an id of another scope, and another text under an idempotency key of the same user.

    Both must be refused, and the messages must not reveal stored texts.
    """
    name = world.choose_foreign_id(view)
    memory = world.by_id.get((view.scope.organization, name))
    if memory is None:
        return 0
    message = require_refusal(lambda: view.remember("mine", id=name), Conflict)
    require("secret" not in message, message)
    if memory.user_id == view.scope.user and memory.key:  # memories with a key were stored with an idempotency key
        message = require_refusal(lambda: view.remember("mine", idempotency_key=f"once-{name}"), Conflict)
        require("secret" not in message, message)
    return 0
