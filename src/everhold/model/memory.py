"""Memories, and the rows that refer to them: tags, relationships, chunks and access log lines."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from pydantic_core import PydanticCustomError

from everhold.model.base import Entity, Owned, Row, RowRule, cut_text
from everhold.model.fields import (
    MAX_DIMENSIONS,
    Count,
    Digest,
    Flag,
    HalfVector,
    Id,
    Integer,
    JsonObject,
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
from everhold.model.scope import list_dimensions

KINDS = (
    # the observations, thoughts and actions of an agent
    "observation", "reflection", "plan", "result",
    # the content of conversations
    "conversation", "context", "preference", "agent_state", "entity", "interaction", "fact",
    # kinds of knowledge
    "episodic", "semantic", "procedural", "resource", "core", "working", "vault",
)  # fmt: skip
KIND_NAMES = {"user_preference": "preference", "user_fact": "fact"}
# The kind of memories whose text is secret: nothing is derived from it, and an engine with a master key encrypts it.
VAULT = "vault"
REPEATABLE_KINDS = frozenset({"conversation", "interaction"})
RELATIONSHIP_TYPES = (
    "reply_to", "reference", "follow_up", "related_to", "derived_from", "contradicts", "supersedes", "shared_name",
)  # fmt: skip
# The relationship of two memories that name the same person or thing. Maintenance finds it.
SHARED_NAME = "shared_name"
Reach = Literal["user", "agent", "session", "project", "organization"]
# The kinds of rows that have chunks. `SEARCHABLE` in `model/searchable.py` says how each is searched.
OwnerKind = Literal["memory", "message", "episode", "block", "source", "table", "field", "pattern"]

# The default namespace.
LONG_TERM = "long-term"
# The namespace of the reflections that maintenance writes. They quote memories, so in the default namespace a quote
# could displace the quoted memory from the results.
REFLECTIONS = "reflections"

DEFAULT_PRIORITY = 5


def compute_importance(priority: int) -> float:
    """Convert a priority from 1 to 10 into an importance from 0 to 1. `compute_priority` inverts it exactly."""
    return (priority - 1) / 9


def compute_priority(importance: float) -> int:
    """Convert an importance from 0 to 1 into a priority from 1 to 10."""
    return round(importance * 9) + 1


def _check_validity(values: Mapping[str, Any]) -> None:
    start, end = values["valid_from"], values["valid_to"]
    if start is not None and end is not None and end < start:
        raise PydanticCustomError(
            "validity", f"valid_to ({end.isoformat()}) is before valid_from ({start.isoformat()})"
        )


class Memory(Entity):
    """A text to remember, with its source, its importance and the time in which it is valid."""

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
    """The subject and the attribute that the text states, if it states exactly one: "alice/lives_in"."""
    hash: Digest | None = None
    reach: Reach = "organization"
    """How far the memory is shared. A scope that does not cover the memory reads it only if `include` names it."""
    scope: Label | None = None
    level: Label | None = None
    """`scope` and `level` are labels of the caller. They do not affect who may see the memory."""
    importance: Share = compute_importance(DEFAULT_PRIORITY)
    strength: Share = 1.0
    """The share of the importance that counts for ranking. Maintenance lowers it while the memory is not used."""
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

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        scope = list_dimensions(self.__dict__, "_id")
        return [(None, cut_text(self.text)), ("kind", self.kind), *scope, ("id", self.id)]

    @property
    def priority(self) -> int:
        return compute_priority(self.importance)

    @property
    def weight(self) -> float:
        """The importance that counts for ranking: importance × strength."""
        return self.importance * self.strength

    @property
    def source_id(self) -> str | None:
        """The id of the memory that this memory was derived from, if any."""
        source = self.provenance.get("memory")
        return source if isinstance(source, str) else None  # callers may write anything into a provenance

    @property
    def message_id(self) -> str | None:
        """The id of the message that this memory was derived from, if any."""
        message = self.provenance.get("message")
        return message if isinstance(message, str) else None

    @property
    def message_ids(self) -> tuple[str, ...]:
        """The ids of all messages that state this memory: the message it was derived from, and messages that repeat
        it."""
        repeating_ids = self.provenance.get("messages")
        ids = (self.message_id, *(repeating_ids if isinstance(repeating_ids, list) else ()))
        return tuple(dict.fromkeys(message_id for message_id in ids if isinstance(message_id, str)))

    @property
    def original_id(self) -> str:
        """The id that the memory had in the system that it was imported from; its own id if it was not imported."""
        return self.key if self.key is not None and self._has_imported_key() else self.id

    @property
    def has_own_key(self) -> bool:
        """Whether a caller chose a key for the memory. The key of an imported memory is its original id."""
        return self.key is not None and not self._has_imported_key()

    def _has_imported_key(self) -> bool:
        return self.id.startswith("mem_") and self.id.endswith(f":{self.key}")

    @property
    def pattern(self) -> str | None:
        """The pattern that a reflection of maintenance is about; None for every other memory."""
        pattern = self.provenance.get("pattern")
        return pattern if self.kind == "reflection" and isinstance(pattern, str) else None

    def is_current_at(self, moment: datetime) -> bool:
        """Return whether the memory is valid, not superseded and not expired at a moment."""
        ends = (self.superseded_at, self.expires_at, self.valid_to)
        has_begun = self.valid_from is None or self.valid_from <= moment
        return has_begun and all(end is None or end > moment for end in ends)


class Tag(Owned):
    """A word that a caller attached to a memory."""

    memory_id: Id
    tag: Word64


class Relationship(Entity):
    """A directed, typed link between two memories."""

    source_memory_id: Id
    target_memory_id: Id
    relationship_type: Word32


def _check_vector(values: Mapping[str, Any]) -> None:
    """Raise PydanticCustomError if the vector or its number of dimensions is invalid."""
    vector, dimensions = values["vector"], values["dimensions"]
    if dimensions > MAX_DIMENSIONS:
        raise PydanticCustomError("dimensions", f"dimensions is {dimensions}; vectors have at most {MAX_DIMENSIONS}")
    if vector is not None:
        check_half_vector(vector, dimensions)


MODEL_NAME_LENGTH = 64


class Chunk(Row):
    """A part of its owner's text, as it is indexed for search: its span, terms and vector.

    `terms` are the terms of the text in their order, separated by spaces, each as often as it occurs. `vector` has the
    numbers of the normalised vector in half precision, little-endian. A chunk is valid from `known_from` until
    `known_to`: revising a memory ends the validity of its chunks and adds new ones, so that recall can answer as of a
    past time.
    """

    rules: ClassVar[tuple[RowRule, ...]] = (RowRule(("dimensions", "vector"), _check_vector),)

    organization_id: Id
    user_id: Text = ""
    """The owner's user, or empty if there is none: an IN condition can list empty text but not NULL."""
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
    """One line of the access log: which user did what, when, to which memory, and whether it succeeded.

    `digest` covers every field that describes what was done. `signature` is set if the engine has a key. `sealed` is
    the line's position in its organization's chain. The ids of memories and sessions stay after those are purged.
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
