"""Turn a text or fields that a caller passes into a validated memory."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypedDict

from everhold import clock
from everhold.arguments.checks import MemoryVector
from everhold.errors import InvalidInput, UnknownField, format_value
from everhold.facts.statement import Statement
from everhold.model import Memory, Outbox, Scope, Tag
from everhold.model.memory import KIND_NAMES, REPEATABLE_KINDS, compute_importance
from everhold.model.validation import check_created_at, complete_row, suggest_name, validate_row
from everhold.model.vectors import Vector, read_vector
from everhold.remember.chunks import FIRST_MODEL, NO_VECTORS, CallerVectors
from everhold.schema.codec import encode_json
from everhold.text.terms import normalise

_HASH_BYTES = 16
_PRIORITIES = range(1, 11)
# Fields that a caller may pass and that are not columns of a memory.
_EXTRA_FIELDS = ("priority", "tags", "idempotency_key", "vector")


class MemoryFields(TypedDict, total=False):
    """The fields that a caller may pass with a memory's text. None leaves a field at its default."""

    kind: str | None
    namespace: str | None
    content: Mapping[str, Any] | None
    tags: str | Sequence[str] | None
    priority: int | None
    importance: float | None
    confidence: float | None
    trust: float | None
    level: str | None
    score: float | None
    pinned: bool | None
    occurred_at: datetime | None
    valid_from: datetime | None
    valid_to: datetime | None
    expires_at: datetime | None
    speaker: str | None
    source_agent: str | None
    aliases: Sequence[str] | None
    provenance: Mapping[str, Any] | None
    metadata: Mapping[str, Any] | None
    scope: str | None
    reach: str | None
    id: str | None
    created_at: datetime | None
    key: str | None
    idempotency_key: str | None
    vector: MemoryVector | None


class MemoryInput(MemoryFields, total=False):
    """A memory as `remember_many` takes it: the arguments of `remember` by name."""

    text: str


_CALLER_FIELDS = ("text", *(name for name in MemoryFields.__annotations__ if name not in _EXTRA_FIELDS))


class Draft(NamedTuple):
    """A memory to be stored, with its tags, the caller's idempotency key and the caller's vectors of its text.

    `statement` is what the memory states, or None. `source_id` is the id of the message memory that a fact was read
    from.
    """

    memory: Memory
    tags: tuple[str, ...]
    idempotency_key: str | None
    statement: Statement | None = None
    source_id: str | None = None
    vectors: CallerVectors = NO_VECTORS


def make_draft(
    scope: Scope, item: str | Mapping[str, Any], now: datetime, text_bytes: int, cycle_id: str | None = None
) -> Draft:
    """Return the draft of a memory from a text or from fields by name; raise InvalidInput if one is not valid."""
    if not isinstance(item, str | Mapping):
        raise InvalidInput(f"{format_value(item)} is not a memory", value=item, remedy="pass a text, or fields by name")
    fields: dict[str, Any] = {"text": item} if isinstance(item, str) else dict(item)
    tags = fields.pop("tags", None) or ()
    if isinstance(tags, str):
        tags = (tags,)
    key = _check_idempotency_key(fields.pop("idempotency_key", None))
    vectors = read_vectors(fields.pop("vector")) if "vector" in fields else NO_VECTORS
    if "priority" in fields:
        fields["importance"] = read_importance(fields.pop("priority"), fields)
    content = fields.get("content")
    if fields.get("text") is None:
        fields["text"] = content.get("text", "") if isinstance(content, Mapping) else ""
    kind = fields.get("kind", "observation")
    fields["kind"] = KIND_NAMES.get(kind, kind) if isinstance(kind, str) else kind
    engine_values = _make_engine_values(scope, now, cycle_id)
    caller_values = {name: value for name, value in fields.items() if value is not None}
    _check_names(caller_values)
    if "id" not in caller_values:
        engine_values["id"] = clock.make_id("mem")
    memory = complete_row(Memory, caller_values, engine_values)
    if "created_at" in caller_values:
        _backdate(memory, now, has_caller_id="id" in caller_values)
    # `complete_row` checks each value by itself; only `validate_row` compares the two times with each other.
    if memory.valid_from and memory.valid_to:
        memory = validate_row(Memory, memory.__dict__)
    check_size(memory, text_bytes)
    if memory.kind not in REPEATABLE_KINDS:
        memory.__dict__["hash"] = compute_content_hash(memory)  # no caller has the row before this function returns it
    if vectors and not memory.text.strip():
        raise InvalidInput("there is a vector, but no text that it belongs to", remedy="pass a text, or no vector")
    return Draft(memory, _clean_tags(tags, memory), key, vectors=vectors)


def _make_engine_values(scope: Scope, now: datetime, cycle_id: str | None) -> dict[str, Any]:
    """Return the fields of a memory that its scope and the engine set."""
    return {
        "organization_id": scope.organization,
        "created_at": now,
        "updated_at": now,
        "created_by_id": scope.actor,
        "reach": _find_reach(scope),
        "cycle_id": cycle_id,
        **scope.columns,
    }


def read_vectors(value: Any) -> CallerVectors:
    """Return a caller's vectors by model name; a single vector belongs to the engine's first model."""
    if value is None:
        return NO_VECTORS
    if not isinstance(value, Mapping):
        return {FIRST_MODEL: read_vector(value, "vector")}
    vectors: dict[str, Vector] = {}
    for model, numbers in value.items():
        if not isinstance(model, str) or not model:
            raise InvalidInput(
                f"vector is for model {format_value(model)}",
                value=model,
                remedy="pass vectors by the names of their models",
            )
        vectors[model] = read_vector(numbers, f"vector of model {format_value(model)}")
    return vectors


def _backdate(memory: Memory, now: datetime, *, has_caller_id: bool) -> None:
    """Validate the creation time of an imported memory, and make a generated id sort by that time."""
    check_created_at(memory.created_at, now)
    if not has_caller_id:  # no caller has the row before `make_draft` returns it
        memory.__dict__["id"] = clock.make_id("mem", memory.created_at)


def _check_idempotency_key(key: Any) -> str | None:
    return None if key is None else complete_row(Outbox, {"idempotency_key": key}, {}).idempotency_key


def _check_names(names: Iterable[str]) -> None:
    """Raise UnknownField for a name that is not a field, or is a field that the scope or the engine sets."""
    for name in names:
        if name in _CALLER_FIELDS:
            continue
        if name in Memory.model_fields:
            raise UnknownField(
                f"a memory's {name!r} cannot be given", value=name, remedy="the scope and the engine set it"
            )
        raise UnknownField(
            f"memory has no field {name!r}", value=name, remedy=suggest_name(name, [*_CALLER_FIELDS, *_EXTRA_FIELDS])
        )


def compute_content_hash(memory: Memory) -> bytes:
    """Return the hash of a memory's owner, namespace, kind, and text or content, which is the same for duplicates."""
    body = normalise(memory.text) or encode_json(memory.content)
    owner = (memory.user_id, memory.project_id, memory.agent_id, memory.session_id)
    # The unit separator keeps neighbouring parts apart, so that different parts do not join to the same string.
    parts = (*owner, memory.namespace, memory.kind, body)
    return hashlib.blake2b("\x1f".join(part or "" for part in parts).encode(), digest_size=_HASH_BYTES).digest()


def make_tag(memory: Memory, tag: str, now: datetime) -> Tag:
    """Return the row of a tag on a memory; raise InvalidInput if the tag is not valid."""
    return validate_row(
        Tag,
        {
            "organization_id": memory.organization_id,
            "memory_id": memory.id,
            "tag": tag,
            "created_at": now,
            "updated_at": now,
        },
    )


def _clean_tags(tags: Any, memory: Memory) -> tuple[str, ...]:
    if tags == ():
        return ()
    if not isinstance(tags, list | tuple | set | frozenset) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidInput(f"tags is {format_value(tags)}", value=tags, remedy="pass a list of words")
    stripped_tags = tuple(dict.fromkeys(tag.strip() for tag in tags))
    for tag in stripped_tags:  # raise for an invalid tag before anything is written
        make_tag(memory, tag, memory.created_at)
    return stripped_tags


def read_importance(priority: Any, fields: Mapping[str, Any]) -> float | None:
    """Return the importance from a priority from 1 to 10, or from `fields` if the priority is None."""
    if priority is None:
        return fields.get("importance")
    if fields.get("importance") is not None:
        raise InvalidInput("priority and importance are both set", remedy="pass one of them")
    if isinstance(priority, bool) or not isinstance(priority, int) or priority not in _PRIORITIES:
        raise InvalidInput(
            f"priority {format_value(priority)} is out of range",
            value=priority,
            remedy="use a whole number from 1 to 10, or importance 0 to 1",
        )
    return compute_importance(priority)


def _find_reach(scope: Scope) -> str:
    """Return the narrowest dimension of a scope, which owns its memories; a session counts only if there is no user."""
    names = ("agent", "user", "project") if scope.user is not None else ("session", "agent", "project")
    for name in names:
        if getattr(scope, name) is not None:
            return name
    return "organization"


def check_size(memory: Memory, text_bytes: int) -> None:
    """Raise InvalidInput if a memory is empty, or if its text has more than `text_bytes` bytes in UTF-8."""
    if not memory.text.strip() and not memory.content:
        raise InvalidInput(
            "there is nothing to remember: the text is blank and there is no content", remedy="pass one of them"
        )
    size = len(memory.text) if memory.text.isascii() else len(memory.text.encode())
    if size > text_bytes:
        raise InvalidInput(
            f"the text has {size:,} bytes, over the limit of {text_bytes:,}",
            value=size,
            remedy="save it as a file and use "
            "`everhold import FILE`, which keeps it as many memories, or raise the setting text_bytes",
        )
