"""Make random calls on an engine and on a reference, and compare their results after every step."""

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest

from everhold import clock
from everhold.engine import Everhold
from everhold.errors import EverholdError
from everhold.model import Memory, Message
from everhold.recall.hit import Hits
from everhold.remember.draft import MemoryInput

WORDS = ("tea", "rain", "river", "stone", "garden", "winter", "letter", "bridge", "music", "bread", "กาแฟ", "café")
TAGS = ("red", "green", "blue")
USERS = ("alice", "bob")
SESSIONS = ("s1", "s2")
NAMESPACES = ("long-term", "long-term", "short-term", "the caller's own")
# Only a few, so that calls often concern the same memory: one call forgets a memory that another call revises.
MEMORY_IDS = tuple(f"mem_{number}" for number in range(40))

Step = Callable[[Everhold], Any]


def walk(
    engines: Sequence[Everhold], reference: Everhold, organization: str, *, steps: int, seed: int = 4
) -> int:  # fmt: skip
    """Take `steps` steps, each on one of the engines and on the reference; return their number.

    The clock stands still during a step, so that both write the same times. Scores depend on times.
    """
    rng = random.Random(seed)
    for number in range(steps):
        name = rng.choices(list(VERBS), [weight for weight, _ in VERBS.values()])[0]
        step = VERBS[name][1](rng, organization)
        with hold_clock():
            result, expected = (run_step(step, engine) for engine in (rng.choice(engines), reference))
        assert result == expected, f"step {number}, {name}: the engine says {result}, the reference {expected}"
    return steps


@contextmanager
def hold_clock() -> Iterator[None]:
    """Let this thread read the same time again and again. Other threads, which renew leases, read the real time."""
    read_time, held_time, thread = clock.now, clock.now(), threading.get_ident()

    def now() -> datetime:
        return held_time if threading.get_ident() == thread else read_time()

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(clock, "now", now)
        yield


def run_step(step: Step, engine: Everhold) -> Any:
    try:
        return extract_comparable(step(engine))
    except EverholdError as error:
        return type(error).__name__


def extract_comparable(value: Any) -> Any:
    """Return the part of an answer that is equal on every store, without generated ids and times."""
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
            return [extract_comparable(item) for item in value]
    return value


# random calls, one function per verb

StepMaker = Callable[[random.Random, str], Step]


def make_sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(3, 8)))


def choose_scope(rng: random.Random, organization: str) -> dict[str, Any]:
    return {"organization": organization, "user": rng.choice([*USERS, None])}


def remember(rng: random.Random, organization: str) -> Step:
    scope = choose_scope(rng, organization)
    fields: dict[str, Any] = {
        "text": make_sentence(rng),
        "id": rng.choice(MEMORY_IDS),
        "kind": rng.choice(["fact", "plan"]),
        "namespace": rng.choice(NAMESPACES),
    }
    fields |= {"tags": rng.sample(TAGS, rng.randint(0, 2)), "priority": rng.randint(1, 10)}
    return lambda engine: engine.scope(**scope).remember(**fields)


def remember_many(rng: random.Random, organization: str) -> Step:
    scope = choose_scope(rng, organization)
    items: list[MemoryInput] = [
        {"text": make_sentence(rng), "id": memory_id} for memory_id in rng.sample(MEMORY_IDS, 3)
    ]
    return lambda engine: engine.scope(**scope).remember_many(items)


def revise(rng: random.Random, organization: str) -> Step:
    scope, memory_id = choose_scope(rng, organization), rng.choice(MEMORY_IDS)
    changes: dict[str, Any] = {"text": make_sentence(rng)}
    if rng.random() < 0.3:
        changes = {"namespace": rng.choice(NAMESPACES)}
    return lambda engine: engine.scope(**scope).revise(memory_id, **changes)


def supersede(rng: random.Random, organization: str) -> Step:
    scope, (old, new), text = choose_scope(rng, organization), rng.sample(MEMORY_IDS, 2), make_sentence(rng)
    return lambda engine: engine.scope(**scope).supersede(old, text, id=new)


def forget(rng: random.Random, organization: str) -> Step:
    scope, memory_id, hard = choose_scope(rng, organization), rng.choice(MEMORY_IDS), rng.random() < 0.3
    return lambda engine: engine.scope(**scope).forget(memory_id, hard=hard)


def forget_where(rng: random.Random, organization: str) -> Step:
    scope, tag, word = choose_scope(rng, organization), rng.choice(TAGS), rng.choice(WORDS)
    where = {"text": {"contains": word}}
    return lambda engine: engine.scope(**scope).forget_where(tags=tag, where=where).count


def undo(rng: random.Random, organization: str) -> Step:
    scope, memory_id = choose_scope(rng, organization), rng.choice(MEMORY_IDS)
    return lambda engine: engine.scope(**scope).undo(memory_id).kind


def tag(rng: random.Random, organization: str) -> Step:
    scope, memory_id, name = choose_scope(rng, organization), rng.choice(MEMORY_IDS), rng.choice(TAGS)
    if rng.random() < 0.5:
        return lambda engine: engine.scope(**scope).tag(memory_id, name)
    return lambda engine: engine.scope(**scope).untag(memory_id, name)


def relate(rng: random.Random, organization: str) -> Step:
    scope, (source_id, target_id) = choose_scope(rng, organization), rng.sample(MEMORY_IDS, 2)
    return lambda engine: engine.scope(**scope).relate(source_id, target_id).relationship_type


def read_relations(rng: random.Random, organization: str) -> Step:
    scope, memory_id = choose_scope(rng, organization), rng.choice(MEMORY_IDS)
    return lambda engine: sorted(related.memory.id for related in engine.scope(**scope).relations(memory_id, depth=2))


def recall(rng: random.Random, organization: str) -> Step:
    scope, question = choose_scope(rng, organization), make_sentence(rng)
    arguments: dict[str, Any] = {"k": rng.choice([1, 5, 25]), "minimum": rng.choice([0, None])}
    arguments |= rng.choice([{}, {"tags": rng.choice(TAGS)}, {"kind": "plan"}])
    arguments |= rng.choice([{}, {"namespace": NAMESPACES[2:]}])
    return lambda engine: engine.scope(**scope).recall(question, **arguments)


def recall_messages(rng: random.Random, organization: str) -> Step:
    scope: dict[str, Any] = {"organization": organization, "session": rng.choice([*SESSIONS, None])}
    question, among = make_sentence(rng), rng.choice([["message"], ["memory", "message"]])

    def step(engine: Everhold) -> Any:
        hits = engine.scope(**scope).recall(question, k=100, minimum=0, among=among)
        return sorted((hit.kind, hit.score, hit.text, sorted(hit.why.matched)) for hit in hits)

    return step


def list_memories(rng: random.Random, organization: str) -> Step:
    scope = choose_scope(rng, organization)
    return lambda engine: sorted(extract_comparable(engine.scope(**scope).list(limit=100).memories))


def read_history(rng: random.Random, organization: str) -> Step:
    scope, memory_id = choose_scope(rng, organization), rng.choice(MEMORY_IDS)
    return lambda engine: [revision.value["text"] for revision in engine.scope(**scope).history(memory_id)]


def say(rng: random.Random, organization: str) -> Step:
    scope = {"organization": organization, "session": rng.choice(SESSIONS)}
    text, role = make_sentence(rng), rng.choice(["user", "assistant"])
    return lambda engine: engine.scope(**scope).say(text, role=role)


def read_messages(rng: random.Random, organization: str) -> Step:
    scope = {"organization": organization, "session": rng.choice(SESSIONS)}
    limit = rng.choice([1, 3, 50])
    return lambda engine: engine.scope(**scope).messages(limit=limit).messages


def read_session(rng: random.Random, organization: str) -> Step:
    scope = {"organization": organization, "session": rng.choice(SESSIONS)}

    def step(engine: Everhold) -> Any:
        working_memory = engine.scope(**scope).session()
        return working_memory.topic, extract_comparable(working_memory.history)

    return step


def update_session(rng: random.Random, organization: str) -> Step:
    scope, topic = {"organization": organization, "session": rng.choice(SESSIONS)}, rng.choice(WORDS)
    return lambda engine: engine.scope(**scope).update_session(topic=topic).topic


def delete(rng: random.Random, organization: str) -> Step:
    kind, name = rng.choice([("user", rng.choice(USERS)), ("session", rng.choice(SESSIONS))])
    if kind == "user":
        return lambda engine: engine.delete_user(name, organization=organization)
    return lambda engine: engine.delete_session(name, organization=organization)


def restore(rng: random.Random, organization: str) -> Step:
    kind, name = rng.choice([("user", rng.choice(USERS)), ("session", rng.choice(SESSIONS))])
    return lambda engine: engine.restore(kind, name, organization=organization)


# How often each verb is chosen, relative to the others, and the function that makes its step.
VERBS: dict[str, tuple[int, StepMaker]] = {
    "remember": (12, remember),
    "remember_many": (4, remember_many),
    "revise": (8, revise),
    "supersede": (3, supersede),
    "forget": (5, forget),
    "forget_where": (1, forget_where),
    "undo": (5, undo),
    "tag": (5, tag),
    "relate": (3, relate),
    "relations": (2, read_relations),
    "recall": (18, recall),
    "recall_messages": (8, recall_messages),
    "list": (4, list_memories),
    "history": (2, read_history),
    "say": (8, say),
    "messages": (6, read_messages),
    "session": (4, read_session),
    "update_session": (2, update_session),
    "delete": (1, delete),
    "restore": (2, restore),
}
