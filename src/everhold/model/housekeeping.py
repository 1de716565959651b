"""What the engine keeps for itself."""

from typing import Literal

from pydantic import Field

from everhold.model.base import Entity, Row
from everhold.model.fields import Count, Flag, Id, Integer, JsonSnapshot, Label, Name, Text, Texts, Time, Word64


class Outbox(Row):
    """One line of the feed that everything derived follows. The store draws `sequence`.

    `user_id` is the user whose record changed, or empty if it has none. An idempotency key is unique per user.
    """

    sequence: Integer = 0
    organization_id: Id
    user_id: Text = ""
    entity: Label
    entity_id: Id
    operation: Literal["put", "delete"]
    generation: Integer = 0
    idempotency_key: Name | None = None
    digest: bytes | None = None


class OutboxMark(Row):
    """The last line that the outbox had on a day, written as `2026-11-16`. Lines carry no time of their own."""

    day: Label
    last_sequence: Integer


class ProjectionState(Row):
    """One generation of a projection: how far it has followed the change feed, and when it last reached its end."""

    projection: Name
    generation: Integer
    status: Literal["building", "serving", "retired"]
    applied_sequence: Integer = 0
    caught_up_at: Time | None = None


class EmbeddingModel(Row):
    """An embedding model that the store's chunks may be of.

    One model serves, and others may be kept beside it. A model that is building gets chunks but answers no query yet;
    the chunks of one that is leaving are being deleted. `generation` counts the models that have served; it is 0 before
    a model serves.
    """

    name: Name
    dimensions: Count
    status: Literal["building", "serving", "beside", "leaving"]
    generation: Count = 0
    version: Integer = 1


class Lease(Row):
    """Which process does a piece of work, and until when. `version` changes whenever it is taken or extended."""

    name: Name
    holder: Name | None = None
    until: Time
    version: Integer = 1


class MaintenanceRun(Row):
    """When a maintenance job last ran, and what became of it."""

    job: Name
    finished_at: Time
    outcome: Label
    error: Text | None = None


class MoveMark(Row):
    """How far an unfinished move has copied a table into this store. `source` identifies the store it copies."""

    table_name: Name
    source: Name
    last_sequence: Integer = 0
    is_complete: Flag = False


class Counter(Row):
    """A number that the engine keeps under a name."""

    name: Name
    value: Integer = 0


class Secret(Row):
    """A random key that the engine made for itself. It is written once, and neither exported nor moved."""

    name: Name
    value: bytes = Field(repr=False)


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
