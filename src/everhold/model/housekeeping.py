"""What the engine keeps for itself."""

from typing import Literal

from pydantic import Field

from everhold.model.base import Entity, Row
from everhold.model.fields import Count, Id, Integer, JsonSnapshot, Label, Name, Text, Texts, Time, Word64


class Outbox(Row):
    """One line of the feed that everything derived follows. The store draws `sequence`.

    `image` is the user whose memory changed, or empty. An idempotency key is unique for one image.
    """

    sequence: Integer = 0
    organization_id: Id
    image: Text = ""
    entity: Label
    entity_id: Id
    operation: Literal["put", "delete"]
    generation: Integer = 0
    idempotency_key: Name | None = None
    digest: bytes | None = None


EMBEDDING = "embedding/"
"""How the projection states begin that say which embedding models the chunks are of."""


class ProjectionState(Row):
    """How far a projection has followed the feed."""

    projection: Name
    applied_sequence: Integer = 0
    generation: Integer = 0
    lease_holder: Name | None = None
    lease_until: Time | None = None


class LogHead(Entity):
    """The end of an organization's chain of log lines: how many lines were chained, and the hash of the last one.

    `purged` is how many of them were purged together with the organization, `purged_hash` the hash of the last of
    those. The row outlives the organization, so that a purged log can be told from a removed one.
    """

    length: Count = 0
    hash: bytes | None = None
    purged: Count = 0
    purged_hash: bytes | None = None
    purge_signature: bytes | None = None


LOG_HEAD = "access-log"
"""The id of every organization's log head. Each organization has one."""


class SchemaVersion(Row):
    """One schema change that this store has had."""

    version: Integer
    name: Name
    applied_at: Time


class ApiKey(Entity):
    """A key that signs a program in. Only its SHA-256 is kept."""

    user_id: Id | None = None
    name: Name
    prefix: Word64
    key_hash: bytes = Field(repr=False)
    scopes: Texts = Field(default_factory=list)
    last_used: Time | None = None
    expires_at: Time | None = None


class DataKey(Entity):
    """A wrapped key that encrypts what belongs to one subject. Destroying it erases the subject."""

    subject: Name
    algorithm: Label
    wrapped_key: bytes | None = Field(default=None, repr=False)
    destroyed_at: Time | None = None


class Job(Entity):
    """Long work that survives a restart."""

    kind: Label
    status: Literal["waiting", "running", "done", "failed"] = "waiting"
    parameters: JsonSnapshot = Field(default_factory=dict)
    progress: Count = 0
    total: Count | None = None
    state: JsonSnapshot = Field(default_factory=dict)
    error: Text | None = None
    lease_holder: Name | None = None
    lease_until: Time | None = None
