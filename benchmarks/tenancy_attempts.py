"""Attempts to read and change what is not one's own, through every verb on memories."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.tenancy_world import ORGANIZATIONS, World, require, require_own, require_refusal
from everhold import View
from everhold.errors import Conflict, NotFound
from everhold.model import AccessLog

REACHES = ("user", "agent", "session", "project", "organization")
Attempt = Callable[[World, View], int]
"""Tries something through a view and returns how many own rows it read. Leak if it reaches anything foreign."""


def get_by_id(world: World, view: View) -> int:
    require_refusal(lambda: view.get(world.foreign(view)))
    return 0


def get_own(world: World, view: View) -> int:
    one = world.own(view)
    return 0 if one is None else require_own(view, [view.get(one)])


def get_by_key(world: World, view: View) -> int:
    try:
        return require_own(view, [view.get(world.chance.choice(world.keys))])
    except NotFound:
        return 0


def read_around(world: World, view: View) -> int:
    one = world.foreign(view)
    require_refusal(lambda: view.history(one))
    require_refusal(lambda: view.relations(one, depth=3))
    tagged = view.tags_of([one, *world.chance.sample(world.ids, 5)]).keys()
    require(tagged <= {memory.id for memory in world.live if view.scope.can_read(memory)}, (view.scope, tagged))
    return 0


def walk(world: World, view: View) -> int:
    one = world.own(view)
    if one is None:
        return 0
    found = view.relations(one, depth=world.chance.randint(1, 4))
    for related in found:
        ends = (related.relationship.source_memory_id, related.relationship.target_memory_id)
        require(all(view.scope.can_read(world.by_id[view.scope.organization, end]) for end in ends), view.scope)
    for revision in view.history(one):
        require((revision.organization_id, revision.owner_id) == (view.scope.organization, one), view.scope)
    return require_own(view, [related.memory for related in found])


def choose_filter(world: World) -> dict[str, Any]:
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
            {"reach": chance.choice(REACHES)},
            {"is_deleted": True},
            {"tags": [f"only-{chance.choice(ORGANIZATIONS)}"]},
        ]
    )


def list_by_filter(world: World, view: View) -> int:
    return require_own(view, view.list(where=choose_filter(world), limit=20).memories)


def list_from_cursor(world: World, view: View) -> int:
    cursor = world.chance.choice(world.cursors[: len(world.cursors) // 2])
    return require_own(view, view.list(cursor=cursor, limit=10, oldest_first=world.chance.random() < 0.5).memories)


def recall(world: World, view: View) -> int:
    chance = world.chance
    include = chance.sample(REACHES, chance.randint(0, 3))
    arguments: dict[str, Any] = {"include": include, "k": chance.randint(1, 20), "minimum": 0}
    if chance.random() < 0.3:
        arguments["where"] = choose_filter(world)
    if chance.random() < 0.2:
        arguments["as_of"] = world.began
    if chance.random() < 0.3:
        arguments["tags"] = f"only-{chance.choice(ORGANIZATIONS)}"
    if chance.random() < 0.3:
        arguments["cursor"] = chance.choice(world.cursors[len(world.cursors) // 2 :])
    hits = view.recall(
        f"secret tea of {chance.choice(ORGANIZATIONS)} {chance.choice(['alice', 'bob', 'p1'])}", **arguments
    )
    return require_own(view, [hit.memory for hit in hits], include)


def build_context(world: World, view: View) -> int:
    include = world.chance.sample(REACHES, world.chance.randint(0, 2))
    question = f"secret tea of {world.chance.choice(ORGANIZATIONS)} bob"
    context = view.context(question, budget=world.chance.randint(100, 600), k=10, minimum=0, include=include)
    return require_own(view, context.memories, include)


def ask_why_not(world: World, view: View) -> int:
    require_refusal(lambda: view.why_not(world.foreign(view), "secret tea"))
    one = world.own(view)
    if one is None:
        return 0
    found = view.why_not(one, "secret tea of bolt", k=3)
    for reason in found.reasons:
        require("secret" not in reason, view.scope)
    return require_own(view, [found.memory])


def merge(world: World, view: View) -> int:
    """Every scope has one memory with the same words; memories of different scopes are never merged."""
    found = view.merge_duplicates(preview=world.chance.random() < 0.5)
    require(found.count == 0, view.scope)
    return 0


def count_tags(world: World, view: View) -> int:
    expected = Counter(
        tag
        for organization, memory_id, tag in world.tags
        if organization == view.scope.organization and view.scope.can_read(world.by_id[organization, memory_id])
    )
    require(view.tags() == dict(expected), view.scope)
    return 0


def read_log(world: World, view: View) -> int:
    lines: Sequence[AccessLog] = view.log(limit=30, memory_id=world.chance.choice([None, world.foreign(view)]))
    scope = view.scope
    for line in lines:
        require(line.organization_id == scope.organization, view.scope)
        require(scope.user in (None, line.user_id), view.scope)
        require(scope.agent in (None, line.agent_id), view.scope)
        require(scope.session in (None, line.session_id), view.scope)
        require(scope.project in (None, line.request.get("project")), view.scope)
    return len(lines)


def change(world: World, view: View) -> int:
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
    require_refusal(chance.choice(acts))
    if chance.random() < 0.2:
        require(view.forget_where(where={"id": [one]}, hard=chance.random() < 0.5).count == 0, view.scope)
    return 0


def take_name(world: World, view: View) -> int:
    """Use an id of another scope, and the user's own key with other words.

    Both must be refused, and neither refusal may reveal what is stored.
    """
    name = world.foreign(view)
    memory = world.by_id.get((view.scope.organization, name))
    if memory is None:
        return 0
    message = require_refusal(lambda: view.remember("mine", id=name), Conflict)
    require("secret" not in message, message)
    if memory.user_id == view.scope.user and memory.key:  # those with a key of their own were given an idempotency key
        message = require_refusal(lambda: view.remember("mine", idempotency_key=f"once-{name}"), Conflict)
        require("secret" not in message, message)
    return 0
