"""The small universe of the state machine: two organizations, three ids, few values of each field."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from everhold.model import (
    AccessLog,
    Agent,
    AgentState,
    Block,
    BlockAgent,
    Chunk,
    Memory,
    Message,
    Organization,
    Outbox,
    Relationship,
    Session,
    Tag,
    User,
)  # fmt: skip
from everhold.model.base import Row
from everhold.schema.catalog import get_table
from everhold.schema.operations import (
    AllOf,
    AnyOf,
    Condition,
    Delete,
    Ensure,
    Hide,
    Increment,
    Not,
    Op,
    Operation,
    Patch,
    Put,
    Require,
    Unhide,
    Where,
)
from everhold.schema.table import TENANT, Kind, Table
from everhold.testing.records_rows import NOON, add_minutes_to_noon, make_row

ORGANIZATIONS = ("o", "ö")
Values = st.SearchStrategy[Any]

ids: Values = st.sampled_from(["a", "a", "b", "b", "ก"])
names: Values = st.sampled_from(["a", "b", "ก", "d", "e", "f", "g", "h"])
optional_ids: Values = st.none() | ids | ids
texts: Values = st.sampled_from(["", "a", "A b", "ก", "😀", "%_'\"\\"])
words: Values = st.sampled_from(["a", "B", "ก"])
optional_texts: Values = st.none() | texts
counts: Values = st.integers(0, 3)
shares: Values = st.sampled_from([0.0, 0.1 + 0.2, 1.0])
times: Values = st.sampled_from([NOON, NOON + timedelta(microseconds=1), add_minutes_to_noon(1)])
optional_times: Values = st.none() | times
digests: Values = st.none() | st.sampled_from([b"\x00" * 16, b"\xff" * 16])
json_values: Values = st.sampled_from([{}, {"x": 1}, {"x": [1, "ก", None]}, {"y": {"z": 1.5}}])
labels: Values = st.sampled_from(["human", "persona"])
owner_kinds: Values = st.sampled_from(["memory", "message", "block"])

FIELDS: Mapping[type[Row], Mapping[str, Values]] = {
    Organization: {"name": texts, "metadata": json_values},
    User: {"name": texts, "email": st.none() | st.sampled_from(["a@x", "b@x"]), "status": words},
    Agent: {
        "name": optional_texts, "status": st.sampled_from(["active", "paused"]),
        "message_ids": st.lists(texts, max_size=2),
    },
    Block: {"label": labels, "value": texts, "user_id": optional_ids, "limit": st.sampled_from([10, 20])},
    BlockAgent: {"block_id": ids, "block_label": labels, "agent_id": ids, "metadata": json_values},
    Session: {"user_id": optional_ids, "agent_id": optional_ids, "title": optional_texts, "last_active": times},
    AgentState: {
        "agent_id": ids, "session_id": optional_ids, "state": json_values | texts, "expires_at": optional_times,
    },
    Message: {
        "session_id": optional_ids, "user_id": optional_ids, "position": st.none() | counts, "role": words,
        "text": optional_texts,
    },
    Memory: {
        "user_id": optional_ids, "agent_id": optional_ids, "session_id": optional_ids, "key": st.none() | words,
        "hash": digests,
        "text": texts, "importance": shares, "revision": counts, "pinned": st.booleans(), "expires_at": optional_times,
        "access_count": counts, "metadata": json_values, "created_at": times, "kind": words,
    },
    Tag: {"memory_id": ids, "tag": words, "metadata": json_values},
    Relationship: {"source_memory_id": ids, "target_memory_id": ids, "relationship_type": words},
    Chunk: {
        "owner_id": ids, "owner_kind": owner_kinds, "chunk_index": st.integers(0, 1), "terms": words,
        "span_start": counts, "span_end": counts, "known_to": optional_times,
    },
    AccessLog: {
        "memory_id": optional_ids, "session_id": optional_ids, "operation": words, "timestamp": times,
        "sealed": st.none() | counts, "success": st.booleans(), "digest": st.just(b"d"),
    },
    Outbox: {
        "entity": words, "entity_id": ids, "operation": st.sampled_from(["put", "delete"]),
        "user_id": st.sampled_from(["", "alice"]), "idempotency_key": st.none() | words, "generation": counts,
    },
}  # fmt: skip
ENTITIES = tuple(FIELDS)
INCREMENTED_FIELDS: Mapping[type[Row], tuple[str, ...]] = {
    Memory: ("access_count", "revision"),
    AccessLog: ("sealed",),
    Message: ("position",),
}
REFUSED_CHANGES: Mapping[type[Row], list[dict[str, Any]]] = {
    Memory: [{"importance": 2.0}, {"text": None}, {"reach": "unknown"}, {"revision": -1}, {"kind": "k" * 51}],
    Agent: [{"status": "asleep"}, {"name": "n" * 256}],
    Block: [{"limit": -1}, {"label": None}],
    Outbox: [{"operation": "shout"}],
}


def make_first_rows() -> list[Row]:
    """Return enough rows that most references hold and some unique values are taken."""
    rows: list[Row] = []
    for organization in ORGANIZATIONS:
        rows.append(make_row(Organization, organization, organization))
        for number, name in enumerate("ab"):
            rows.append(make_row(User, organization, name, email=f"{name}@x"))
            rows.append(make_row(Agent, organization, name))
            rows.append(make_row(Session, organization, name, user_id=name))
            rows.append(make_row(Message, organization, name, session_id="a", position=number))
            rows.append(
                make_row(Memory, organization, name, session_id=name, hash=b"\x00\xff"[number : number + 1] * 16)
            )
        rows.append(make_row(Block, organization, "a", label="human", value=""))
        rows.append(make_row(Tag, organization, "t", memory_id="a", tag="a"))
    return rows


@st.composite
def rows(draw: st.DrawFn) -> Row:
    entity = draw(st.sampled_from(ENTITIES))
    organization = draw(st.sampled_from([*ORGANIZATIONS, ORGANIZATIONS[0]]))
    name = organization if entity is Organization else draw(names)
    fields = {field: draw(values) for field, values in FIELDS[entity].items()}
    return make_row(entity, organization, name, **fields)


@st.composite
def keys(draw: st.DrawFn, entity: type[Row]) -> tuple[Any, ...]:
    """Draw a key that may be taken; for a row with a generated number, its rank."""
    table = get_table(entity)
    if table.generated:
        return (draw(st.integers(0, 4)),)
    organization = draw(st.sampled_from(ORGANIZATIONS))
    parts: dict[str, Any] = {"id": organization if entity is Organization else draw(ids), TENANT: organization}
    chunk_fields = make_row(
        Chunk, "o", "c", owner_id="a", owner_kind="memory", span_start=0, span_end=0, terms=""
    ).__dict__
    parts |= {name: draw(FIELDS[entity][name]) for name in table.key if name in FIELDS[entity] and name not in parts}
    values = {**chunk_fields, **parts}
    return tuple(values[name] for name in table.key)


@st.composite
def changes(draw: st.DrawFn, entity: type[Row]) -> dict[str, Any]:
    if entity in REFUSED_CHANGES and draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(REFUSED_CHANGES[entity]))
    fields = {name: values for name, values in FIELDS[entity].items() if name not in get_table(entity).key}
    names = draw(st.lists(st.sampled_from(sorted(fields) or ["version"]), min_size=1, max_size=3, unique=True))
    return {name: draw(fields[name]) for name in names if name in fields}


@st.composite
def operations(draw: st.DrawFn) -> Operation:
    puts, patches = [_draw_put] * 3, [_draw_patch] * 2
    single_draws = [_draw_increment, _draw_hide, _draw_unhide, _draw_delete, _draw_require]
    draw_operation: Callable[[st.DrawFn], Operation] = draw(
        st.sampled_from([*puts, _draw_ensure, *patches, *single_draws])
    )
    return draw_operation(draw)


def _draw_put(draw: st.DrawFn) -> Operation:
    return Put(draw(rows()))


def _draw_ensure(draw: st.DrawFn) -> Operation:
    return Ensure(draw(rows()))


def _draw_patch(draw: st.DrawFn) -> Operation:
    entity = draw(st.sampled_from(ENTITIES))
    version = draw(st.sampled_from([None, None, 1, 2])) if get_table(entity).versioned else None
    return Patch(entity, draw(keys(entity)), draw(changes(entity)), version)


def _draw_increment(draw: st.DrawFn) -> Operation:
    entity = draw(st.sampled_from(list(INCREMENTED_FIELDS)))
    amounts = {name: draw(st.integers(-2, 3)) for name in INCREMENTED_FIELDS[entity]}
    extra = draw(changes(entity)) if draw(st.booleans()) else {}
    return Increment(
        entity, draw(keys(entity)), amounts, {name: value for name, value in extra.items() if name not in amounts}
    )


def _draw_hide(draw: st.DrawFn) -> Operation:
    entity = draw(st.sampled_from([entity for entity in ENTITIES if get_table(entity).soft]))
    if entity is Organization and draw(st.integers(0, 3)):
        entity = User
    return Hide(entity, draw(keys(entity)), draw(_deletions), draw(times))


def _draw_unhide(draw: st.DrawFn) -> Operation:
    return Unhide(draw(st.sampled_from(ORGANIZATIONS)), draw(_deletions))


def _draw_delete(draw: st.DrawFn) -> Operation:
    entity = draw(st.sampled_from(ENTITIES))
    if entity is Organization and draw(st.integers(0, 3)):
        entity = Memory
    return Delete(entity, draw(keys(entity)))


def _draw_require(draw: st.DrawFn) -> Operation:
    entity = draw(st.sampled_from([entity for entity in ENTITIES if "id" in get_table(entity).key]))
    return Require(entity, draw(keys(entity)))


_deletions: Values = st.sampled_from(["del-1", "del-2", "del-3"])


@st.composite
def filters(draw: st.DrawFn, entity: type[Row]) -> list[Condition]:
    """Draw comparisons that must all hold, or a tree of them."""
    comparisons: list[Condition] = draw(st.lists(_draw_comparison(entity), max_size=4))
    shape = draw(st.integers(0, 511))
    return [_combine(comparisons, shape)] if shape % 2 else comparisons


def _combine(parts: list[Condition], shape: int) -> Condition:
    """Return a tree of conditions.

    The bits of one number choose its shape, because a run has few random choices to spend on each step.
    """
    tree: Condition = AllOf(()) if shape & 2 else AnyOf(())
    for index, part in enumerate(parts):
        bits = shape >> (2 * index)
        tree = (AnyOf if bits & 2 else AllOf)((tree, part))
        tree = Not(tree) if bits & 4 else tree
    return tree


@st.composite
def _draw_comparison(draw: st.DrawFn, entity: type[Row]) -> Condition:
    """Draw a condition on a field, with a value of the field's own kind or None."""
    field, values = draw(st.sampled_from(_list_filter_fields(entity)))
    kind = _get_kind(get_table(entity), field)
    op = draw(st.sampled_from([op for op in Op if op is not Op.CONTAINS or kind in (Kind.TEXT, Kind.JSON)]))
    if op is Op.IN:
        return Where(field, op, draw(st.lists(values | st.none(), max_size=3)))
    if op is Op.CONTAINS:
        return Where(field, op, draw(texts))
    return Where(field, op, draw(values | st.none()))


def _list_filter_fields(entity: type[Row]) -> list[tuple[str, Values]]:
    fields_and_values = list(FIELDS[entity].items())
    if get_table(entity).soft:
        fields_and_values += [
            ("version", st.integers(1, 4)),
            ("is_deleted", st.booleans()),
            ("deletion_id", _deletions),
        ]
        fields_and_values += [("metadata.x", st.sampled_from([1, True, "ก", [1, "ก", None]])), ("created_at", times)]
    return fields_and_values


def _get_kind(table: Table, field: str) -> Kind:
    return table.by_name[field].kind if field in table.by_name else Kind.JSON


def orders(entity: type[Row]) -> Values:
    """Return a strategy for a field that rows can be ordered by, or None."""
    table = get_table(entity)
    fields = [name for name, _ in _list_filter_fields(entity) if name in table.by_name]
    orderable = [
        name for name in fields if not table.by_name[name].nullable and _get_kind(table, name) is not Kind.JSON
    ]
    return st.none() | st.sampled_from(orderable) if orderable else st.none()
