"""Rows for the engine's own state: leases, maintenance runs, API keys, jobs and others."""

from typing import Literal

from pydantic import Field

from everhold.model.base import Entity, Row
from everhold.model.fields import Count, Flag, Id, Integer, JsonSnapshot, Label, Name, Sha256, Text, Texts, Time, Word64


class ProjectionState(Row):
    """One generation of a projection, and how far it has followed the change feed.

    `caught_up_at` is the last time when it had applied all changes.
    """

    projection: Name
    generation: Integer
    status: Literal["building", "serving", "retired"]
    applied_sequence: Integer = 0
    caught_up_at: Time | None = None


class Lease(Row):
    """The right of one process to do a piece of work until a time.

    Taking or extending a lease changes its `version`.
    """

    name: Name
    holder: Name | None = None
    until: Time
    version: Integer = 1


class MaintenanceRun(Row):
    """One run of maintenance. `jobs` has a report on each job, by its name; it is empty if the run was interrupted.

    The journal has the changes that the run made to memories, under the id of the run.
    """

    id: Id
    started_at: Time
    finished_at: Time | None = None
    jobs: JsonSnapshot = Field(default_factory=dict)
    undone_at: Time | None = None


class MoveMark(Row):
    """The progress of an unfinished move with a table, from the store that `source` identifies into this one."""

    table_name: Name
    source: Name
    last_sequence: Integer = 0
    is_complete: Flag = False


class BackupTarget(Row):
    """A folder or an address with backups of this store. It is stored so that erasures can cover those backups.

    `id` is the SHA-256 of the address, and `last_backup` the name of the latest backup there.
    """

    id: Id
    address: Text
    last_backup: Name
    backed_up_at: Time
    version: Integer = 1


class Secret(Row):
    """A random key that the engine generated for its own use. It is written once and never exported or moved."""

    name: Name
    value: bytes = Field(repr=False)


class ArchiveFile(Row):
    """A file of archived messages among this store's blobs.

    The row is written before the file and deleted after it, so that no file is left behind without a row. `whose` is
    the id of the organization, which may have been purged since.
    """

    address: Sha256
    whose: Id
    is_leaving: Flag = False
    """Whether the file is being deleted. No archive may refer to it any more."""
    version: Integer = 1


class LogHead(Entity):
    """The end of an organization's chain of log lines: the number of chained lines, and the hash of the last one.

    `purged` is the number of lines that were purged together with the organization, and `purged_hash` the hash of the
    last purged line. The row outlives the organization, so that a check of the log can distinguish a purge from
    tampering.
    """

    length: Count = 0
    hash: bytes | None = None
    purged: Count = 0
    purged_hash: bytes | None = None
    purge_signature: bytes | None = None


# The id of every organization's log head. Each organization has one.
LOG_HEAD = "access-log"


class SchemaVersion(Row):
    """One schema change that was applied to this store."""

    version: Integer
    name: Name
    applied_at: Time


class ApiKey(Entity):
    """A key with which a program signs in. Only the SHA-256 of the key is stored."""

    user_id: Id | None = None
    name: Name
    prefix: Word64
    key_hash: bytes = Field(repr=False)
    scopes: Texts = Field(default_factory=list)
    last_used: Time | None = None
    expires_at: Time | None = None


class UserErasure(Entity):
    """The erasure of one user. The row outlives the user, so that a restored backup can be erased again.

    `subject` is the HMAC-SHA256 of the user's id with the random `salt`, so that the row recognises the user's id
    without containing it. `key_ids` are the data keys that were destroyed. `digest` is the SHA-256 of the proof, once
    the erasure is complete.
    """

    subject: bytes = Field(repr=False)
    salt: bytes = Field(repr=False)
    key_ids: Texts = Field(default_factory=list)
    completed_at: Time | None = None
    digest: bytes | None = None


class Job(Entity):
    """A long task whose progress is stored, so that it can continue after a restart."""

    kind: Label
    status: Literal["waiting", "running", "done", "failed"] = "waiting"
    parameters: JsonSnapshot = Field(default_factory=dict)
    progress: Count = 0
    total: Count | None = None
    state: JsonSnapshot = Field(default_factory=dict)
    error: Text | None = None
