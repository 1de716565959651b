"""Workspaces, their files, snapshots of workspaces, and the stored content of files."""

from typing import Literal

from pydantic import Field

from everhold.model.base import Entity
from everhold.model.fields import Count, Flag, Id, JsonObject, Label, Name, Sha256, Text


class Workspace(Entity):
    """A folder that an agent works in."""

    agent_id: Id | None = None
    user_id: Id | None = None
    project_id: Id | None = None
    name: Name
    root: Text


class WorkspaceFile(Entity):
    """One file of a workspace, with the hash of its content."""

    workspace_id: Id
    path: Text
    kind: Literal["document", "artifact", "snapshot"] = "artifact"
    media_type: Name | None = None
    size: Count
    sha256: Sha256
    cycle_id: Id | None = None


class Snapshot(Entity):
    """The content of every path of a workspace at one moment.

    `manifest` has the number of files and the ids of the pages that list the path, hash, size and mode of each file.
    """

    workspace_id: Id
    cycle_id: Id | None = None
    manifest: JsonObject = Field(default_factory=dict)
    parent_id: Id | None = None


class Blob(Entity):
    """The content of files with one hash, stored once for all rows that refer to it. The id is the hash.

    The row describes where this store keeps the bytes. So it is moved together with them and is never exported.
    """

    sha256: Sha256
    size: Count
    compression: Label | None = None
    generation: Count = 0
    """The number of times that the bytes were stored again while they were being deleted."""
    is_leaving: Flag = False
    """Whether the bytes are being deleted. A row must not refer to them any more."""
