"""Memories, and what hangs on them: tags, relations, chunks, revisions, changes and the access log."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter
from pydantic_core import PydanticCustomError

from everhold.model.base import Entity, Owned, Row, RowRule, make_field_adapter
from everhold.model.fields import (
    MOST_DIMENSIONS,
    Count,
    Digest,
    Flag,
    HalfVector,
    Id,
    Integer,
    JsonObject,
    JsonSnapshot,
    Label,
    Name,
    Number,
    Share,
    Text,
    Texts,
    Time,
    Word32,
    Word64,
    check_half_vector,
)
from everhold.model.journalling import find_undo_fault

KINDS = (
    # what an agent saw, thought and did
    "observation", "reflection", "plan", "result",
    # what was said and what it was about
    "conversation", "context", "preference", "agent_state", "entity", "interaction", "fact",
    # what sort of knowledge it is
    "episodic", "semantic", "procedural", "resource", "core", "working", "vault",
)  # fmt: skip
KIND_NAMES = {"user_preference": "preference", "user_fact": "fact"}
REPEATABLE_KINDS = frozenset({"conversation", "interaction"})
RELATIONSHIP_TYPES = (
    "reply_to", "reference", "follow_up", "related_to", "derived_from", "contradicts", "supersedes",
)  # fmt: skip
Reach = Literal["user", "agent", "session", "project", "organization"]
OwnerKind = Literal["memory", "message", "episode", "block", "source", "table", "field", "pattern"]
"""What a chunk may belong to. `SEARCHABLE` in `model/searchable.py` says how each kind is searched."""

LONG_TERM = "long-term"
"""The namespace of whatever names no other."""

DEFAULT_PRIORITY = 5


def importance_of(priority: int) -> float:
    """Priority 1–10 as importance 0–1. The round trip of all ten is exact."""
    return (priority - 1) / 9


def priority_of(importance: float) -> int:
    return round(importance * 9) + 1


def _check_validity(values: Mapping[str, Any]) -> None:
    start, end = values["valid_from"], values["valid_to"]
    if start is not None and end is not None and end < start:
        raise PydanticCustomError(
            "validity", f"valid_to ({end.isoformat()}) is before valid_from ({start.isoformat()})"
        )


class Memory(Entity):
    """Something to be remembered, with where it came from, how much it matters and how long it holds."""

    rules: ClassVar[tuple[RowRule, ...]] = (RowRule(("valid_from", "valid_to"), _check_validity),)

    project_id: Id | None = None
    user_id: Id | None = None
    agent_id: Id | None = None
    session_id: Id | None = None
    cycle_id: Id | None = None
    key: Name | None = None
    source_agent: Word64 | None = None
    speaker: Name | None = None
    kind: Label = "observation"
    namespace: Label = LONG_TERM
    content: JsonObject = Field(default_factory=dict)
    text: Text
    attribute: Name | None = None
    """What the text states and about whom, where it states one thing: "alice/lives_in"."""
    hash: Digest | None = None
    reach: Reach = "organization"
    """What it is shared with. Wider scopes see it only if it reaches that far and they ask for that reach."""
    scope: Label | None = None
    level: Label | None = None
    """Labels of the caller's own. They say nothing about who may see the memory."""
    importance: Share = importance_of(DEFAULT_PRIORITY)
    confidence: Share = 1.0
    score: Number | None = None
    access_count: Count = 0
    last_accessed: Time | None = None
    expires_at: Time | None = None
    occurred_at: Time | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None
    superseded_by: Id | None = None
    superseded_at: Time | None = None
    pinned: Flag = False
    aliases: Texts = Field(default_factory=list)
    trust: Share = 1.0
    provenance: JsonObject = Field(default_factory=dict)
    revision: Count = 0

    @property
    def priority(self) -> int:
        return priority_of(self.importance)

    @property
    def source_id(self) -> str | None:
        """The memory that this one was drawn from. Callers may write anything into a provenance."""
        named = self.provenance.get("memory")
        return named if isinstance(named, str) else None

    @property
    def message_id(self) -> str | None:
        """The message of a session that this memory was read from."""
        message = self.provenance.get("message")
        return message if isinstance(message, str) else None

    @property
    def message_ids(self) -> tuple[str, ...]:
        """All messages of sessions that tell this memory: the one that it was read from, and those that repeat it."""
        others = self.provenance.get("messages")
        names = (self.message_id, *(others if isinstance(others, list) else ()))
        return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))

    def holds_at(self, moment: datetime) -> bool:
        """Whether it is valid, not superseded and not expired at a time."""
        ends = (self.superseded_at, self.expires_at, self.valid_to)
        begun = self.valid_from is None or self.valid_from <= moment
        return begun and all(end is None or end > moment for end in ends)


class Tag(Owned):
    """A word on a memory."""

    memory_id: Id
    tag: Word64


class Relationship(Entity):
    """A directed, typed link between two memories."""

    source_memory_id: Id
    target_memory_id: Id
    relationship_type: Word32


def _check_vector(values: Mapping[str, Any]) -> None:
    """Refuse vectors that no model returns."""
    vector, dimensions = values["vector"], values["dimensions"]
    if dimensions > MOST_DIMENSIONS:
        raise PydanticCustomError("dimensions", f"dimensions is {dimensions}; vectors have at most {MOST_DIMENSIONS}")
    if vector is not None:
        check_half_vector(vector, dimensions)


MODEL_NAME_LENGTH = 64


class Chunk(Row):
    """A stretch of its owner's text as search sees it: span, terms and vector.

    `terms` are our own tokens in their order, separated by spaces, repeated as often as they occur. `vector` holds
    little-endian half-precision numbers, normalised. A chunk is searched from `known_from` until `known_to`: revising
    a memory closes its chunks and adds others, so that the past can still be asked.
    """

    rules: ClassVar[tuple[RowRule, ...]] = (RowRule(("dimensions", "vector"), _check_vector),)

    organization_id: Id
    user_id: Text = ""
    """The owner's user; empty, not absent, for an owner without one, so that one list names both."""
    owner_id: Id
    owner_kind: OwnerKind = "memory"
    namespace: Label = LONG_TERM
    model: Annotated[str, Field(max_length=MODEL_NAME_LENGTH)] = ""
    revision: Count = 0
    chunk_index: Count = 0
    span_start: Count
    span_end: Count
    terms: Text
    dimensions: Count = 0
    vector: HalfVector | None = Field(default=None, repr=False)
    score: Number | None = None
    known_from: Time
    known_to: Time | None = None


class AccessLog(Row):
    """Who did what to which memory, when, and whether it worked. Lines are only ever added.

    `digest` covers every field that describes the act. `signature` is set when the engine has a key. `sealed` is the
    line's place in its organization's chain. The ids of memories and sessions stay after those are purged.
    """

    sequence: Integer = 0
    organization_id: Id
    memory_id: Id | None = None
    session_id: Id | None = None
    agent_id: Id | None = None
    user_id: Id | None = None
    operation: Annotated[str, Field(max_length=16)]
    timestamp: Time
    request: JsonObject = Field(default_factory=dict)
    success: Flag = True
    error_message: Text | None = None
    ip_address: Annotated[str, Field(max_length=45)] | None = None
    interface: Label | None = None
    digest: bytes
    signature: bytes | None = None
    sealed: Integer | None = None
    previous_hash: bytes | None = None
    hash: bytes | None = None


def _check_revised_value(values: Mapping[str, Any]) -> None:
    """Refuse a value that a memory cannot have had."""
    if values["owner_kind"] == "memory":
        check_memory_value(values["value"])


class Revision(Entity):
    """What a memory or a block was before it was changed, who changed it and why."""

    rules: ClassVar[tuple[RowRule, ...]] = (RowRule(("owner_kind", "value"), _check_revised_value),)

    owner_kind: Literal["memory", "block"]
    owner_id: Id
    revision: Count
    value: JsonSnapshot
    known_from: Time
    known_to: Time
    reason: Text | None = None


REVISABLE = (
    "text", "content", "kind", "importance", "confidence", "expires_at", "occurred_at", "valid_from", "valid_to",
    "pinned", "aliases", "trust", "provenance", "metadata", "speaker", "source_agent", "scope", "level", "score",
    "key", "namespace",
)  # fmt: skip
DERIVED = ("attribute",)
_SEARCHED = ("text", "aliases")


def check_memory_value(value: Mapping[str, Any]) -> None:
    """Refuse a revision's value with fields that a memory does not have, or with values that it cannot have."""
    absent = [name for name in _SEARCHED if name not in value]
    if absent:
        raise PydanticCustomError("revision_value", f"the revision's value has no {absent[0]!r}")
    for name, field_value in value.items():
        if name not in REVISABLE and name not in DERIVED:
            raise PydanticCustomError("revision_value", f"a memory's {name[:60]!r} cannot be revised")
        _find_field_adapter(name).validate_python(field_value)


@cache
def _find_field_adapter(name: str) -> TypeAdapter[Any]:
    return make_field_adapter(Memory.model_fields[name])


_UNDO_FIELDS = ("kind", "memory_ids", "before", "after")


def _check_undo(values: Mapping[str, Any]) -> None:
    """Refuse an entry that lacks what undoing it needs."""
    fault = find_undo_fault(*(values[name] for name in _UNDO_FIELDS))
    if fault is not None:
        raise PydanticCustomError("undo", f"a change of kind {values['kind']!r} cannot be undone: {fault}")


class Change(Entity):
    """A journalled act on memories, with enough to undo it."""

    rules: ClassVar[tuple[RowRule, ...]] = (RowRule(_UNDO_FIELDS, _check_undo),)

    user_id: Id | None = None
    kind: Label
    memory_ids: Texts = Field(default_factory=list)
    before: JsonSnapshot = Field(default_factory=dict)
    after: JsonSnapshot = Field(default_factory=dict)
    reason: Text | None = None
    undone_at: Time | None = None
