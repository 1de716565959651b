"""Random use of an engine and of a reference beside it, step by step, without a difference."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from everhold.engine import Everhold
from everhold.errors import EverholdError
from everhold.model import Memory, Message
from everhold.recall.hit import Hits

WORDS = ("tea", "rain", "river", "stone", "garden", "winter", "letter", "bridge", "music", "bread", "กาแฟ", "café")
TAGS = ("red", "green", "blue")
USERS = ("alice", "bob")
SESSIONS = ("s1", "s2")
NAMESPACES = ("long-term", "long-term", "short-term", "the caller's own")
MEMORIES = tuple(f"mem_{number}" for number in range(40))
"""Few on purpose, so that verbs meet each other: one forgets what another revises."""

Step = Callable[[Everhold], Any]


def walk(
    engines: Sequence[Everhold], reference: Everhold, organization: str, *, steps: int, seed: int = 4
) -> int:  # fmt: skip
    """Takes so many steps, each by one of the engines and by the reference; how many they were."""
    chance = random.Random(seed)
    for number in range(steps):
        name = chance.choices(list(VERBS), [weight for weight, _ in VERBS.values()])[0]
        step = VERBS[name][1](chance, organization)
        mine, expected = (outcome(step, one) for one in (chance.choice(engines), reference))
        assert mine == expected, f"step {number}, {name}: the engine says {mine}, the reference {expected}"
    return steps


def outcome(step: Step, engine: Everhold) -> Any:
    try:
        return shown(step(engine))
    except EverholdError as error:
        return type(error).__name__


def shown(value: Any) -> Any:
    """What of an answer is alike on every store: ids and times that an engine draws are not."""
    match value:
        case Memory():
            return value.id, value.text, value.revision, value.kind, value.priority
        case Message():
            return value.role, value.text, value.position
        case Hits():
            return [(hit.id, hit.score, sorted(hit.why.matched), hit.tags) for hit in value]
        case Mapping():
            return dict(value)
        case list() | tuple():
            return [shown(one) for one in value]
    return value


# the verbs, each made by chance

Made = Callable[[random.Random, str], Step]


def sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(3, 8)))


def whose(chance: random.Random, organization: str) -> dict[str, Any]:
    return {"organization": organization, "user": chance.choice([*USERS, None])}


def remember(chance: random.Random, organization: str) -> Step:
    scope = whose(chance, organization)
    fields: dict[str, Any] = {
        "text": sentence(chance),
        "id": chance.choice(MEMORIES),
        "kind": chance.choice(["fact", "plan"]),
        "namespace": chance.choice(NAMESPACES),
    }
    fields |= {"tags": chance.sample(TAGS, chance.randint(0, 2)), "priority": chance.randint(1, 10)}
    return lambda engine: engine.scope(**scope).remember(**fields)


def remember_many(chance: random.Random, organization: str) -> Step:
    scope = whose(chance, organization)
    items = [{"text": sentence(chance), "id": one} for one in chance.sample(MEMORIES, 3)]
    return lambda engine: engine.scope(**scope).remember_many(items)


def revise(chance: random.Random, organization: str) -> Step:
    scope, one = whose(chance, organization), chance.choice(MEMORIES)
    changes: dict[str, Any] = {"text": sentence(chance)}
    if chance.random() < 0.3:
        changes = {"namespace": chance.choice(NAMESPACES)}
    return lambda engine: engine.scope(**scope).revise(one, **changes)


def supersede(chance: random.Random, organization: str) -> Step:
    scope, (old, new), text = whose(chance, organization), chance.sample(MEMORIES, 2), sentence(chance)
    return lambda engine: engine.scope(**scope).supersede(old, text, id=new)


def forget(chance: random.Random, organization: str) -> Step:
    scope, one, hard = whose(chance, organization), chance.choice(MEMORIES), chance.random() < 0.3
    return lambda engine: engine.scope(**scope).forget(one, hard=hard)


def forget_where(chance: random.Random, organization: str) -> Step:
    scope, tag, word = whose(chance, organization), chance.choice(TAGS), chance.choice(WORDS)
    where = {"text": {"contains": word}}
    return lambda engine: engine.scope(**scope).forget_where(tags=tag, where=where).count


def undo(chance: random.Random, organization: str) -> Step:
    scope, one = whose(chance, organization), chance.choice(MEMORIES)
    return lambda engine: engine.scope(**scope).undo(one).kind


def tag(chance: random.Random, organization: str) -> Step:
    scope, one, name = whose(chance, organization), chance.choice(MEMORIES), chance.choice(TAGS)
    if chance.random() < 0.5:
        return lambda engine: engine.scope(**scope).tag(one, name)
    return lambda engine: engine.scope(**scope).untag(one, name)


def relate(chance: random.Random, organization: str) -> Step:
    scope, (one, other) = whose(chance, organization), chance.sample(MEMORIES, 2)
    return lambda engine: engine.scope(**scope).relate(one, other).relationship_type


def relations(chance: random.Random, organization: str) -> Step:
    scope, one = whose(chance, organization), chance.choice(MEMORIES)
    return lambda engine: sorted(found.memory.id for found in engine.scope(**scope).relations(one, depth=2))


def recall(chance: random.Random, organization: str) -> Step:
    scope, question = whose(chance, organization), sentence(chance)
    given: dict[str, Any] = {"k": chance.choice([1, 5, 25]), "minimum": chance.choice([0, None])}
    given |= chance.choice([{}, {"tags": chance.choice(TAGS)}, {"kind": "plan"}])
    given |= chance.choice([{}, {"namespace": NAMESPACES[2:]}])
    return lambda engine: engine.scope(**scope).recall(question, **given)


def recall_messages(chance: random.Random, organization: str) -> Step:
    scope: dict[str, Any] = {"organization": organization, "session": chance.choice([*SESSIONS, None])}
    question, among = sentence(chance), chance.choice([["message"], ["memory", "message"]])

    def step(engine: Everhold) -> Any:
        hits = engine.scope(**scope).recall(question, k=100, minimum=0, among=among)
        return sorted((hit.kind, hit.score, hit.text, sorted(hit.why.matched)) for hit in hits)

    return step


def listing(chance: random.Random, organization: str) -> Step:
    scope = whose(chance, organization)
    return lambda engine: sorted(shown(engine.scope(**scope).list(limit=100).memories))


def history(chance: random.Random, organization: str) -> Step:
    scope, one = whose(chance, organization), chance.choice(MEMORIES)
    return lambda engine: [found.value["text"] for found in engine.scope(**scope).history(one)]


def say(chance: random.Random, organization: str) -> Step:
    scope = {"organization": organization, "session": chance.choice(SESSIONS)}
    text, role = sentence(chance), chance.choice(["user", "assistant"])
    return lambda engine: engine.scope(**scope).say(text, role=role)


def messages(chance: random.Random, organization: str) -> Step:
    scope = {"organization": organization, "session": chance.choice(SESSIONS)}
    limit = chance.choice([1, 3, 50])
    return lambda engine: engine.scope(**scope).messages(limit=limit).messages


def working(chance: random.Random, organization: str) -> Step:
    scope = {"organization": organization, "session": chance.choice(SESSIONS)}

    def step(engine: Everhold) -> Any:
        found = engine.scope(**scope).session()
        return found.topic, shown(found.history)

    return step


def update_session(chance: random.Random, organization: str) -> Step:
    scope, topic = {"organization": organization, "session": chance.choice(SESSIONS)}, chance.choice(WORDS)
    return lambda engine: engine.scope(**scope).update_session(topic=topic).topic


def delete(chance: random.Random, organization: str) -> Step:
    kind, name = chance.choice([("user", chance.choice(USERS)), ("session", chance.choice(SESSIONS))])
    if kind == "user":
        return lambda engine: engine.delete_user(name, organization=organization)
    return lambda engine: engine.delete_session(name, organization=organization)


def restore(chance: random.Random, organization: str) -> Step:
    kind, name = chance.choice([("user", chance.choice(USERS)), ("session", chance.choice(SESSIONS))])
    return lambda engine: engine.restore(kind, name, organization=organization)


VERBS: dict[str, tuple[int, Made]] = {
    "remember": (12, remember),
    "remember_many": (4, remember_many),
    "revise": (8, revise),
    "supersede": (3, supersede),
    "forget": (5, forget),
    "forget_where": (1, forget_where),
    "undo": (5, undo),
    "tag": (5, tag),
    "relate": (3, relate),
    "relations": (2, relations),
    "recall": (18, recall),
    "recall_messages": (8, recall_messages),
    "list": (4, listing),
    "history": (2, history),
    "say": (8, say),
    "messages": (6, messages),
    "working": (4, working),
    "update_session": (2, update_session),
    "delete": (1, delete),
    "restore": (2, restore),
}
