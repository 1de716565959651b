"""The dependencies of the verbs on workspaces, and the limits of a workspace."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from everhold.errors import InvalidInput
from everhold.model import Scope, Workspace
from everhold.ports.records import Records
from everhold.schema.operations import Operation
from everhold.workspaces.contents import Contents
from everhold.workspaces.folder import LocalFolder

_LIMITS = "limits"


class MissingScopeRows(Protocol):
    """Makes the rows that a scope names and that do not exist yet."""

    def make_missing_rows(self, scope: Scope, now: datetime) -> list[Operation]: ...

    def confirm(self, scope: Scope) -> None: ...

    def invalidate(self) -> None: ...


@dataclass(frozen=True)
class WorkspaceLimits:
    """The limits of a workspace: of its number of files, its size, and the size of one file."""

    max_bytes: int
    max_file_bytes: int
    max_files: int

    def narrow(self, workspace: Workspace) -> "WorkspaceLimits":
        """Return the limits of a workspace: of each limit, the lower one of this value and the workspace's own."""
        own_limits = workspace.metadata.get(_LIMITS)
        own_limits = own_limits if isinstance(own_limits, dict) else {}
        return WorkspaceLimits(
            **{name: min(value, _read_limit(own_limits.get(name), value)) for name, value in self.__dict__.items()}
        )

    def check(self, files: int, size: int) -> None:
        """Raise InvalidInput if a workspace with so many files and bytes would exceed the limits."""
        if files > self.max_files:
            raise InvalidInput(
                f"the workspace would have {files:,} files; its limit is {self.max_files:,}",
                value=files,
                remedy="delete some, or raise max_files",
            )
        if size > self.max_bytes:
            raise InvalidInput(
                f"the workspace would have {size:,} bytes; its limit is {self.max_bytes:,}",
                value=size,
                remedy="delete some files, or raise max_bytes",
            )

    def check_file(self, path: str, size: int) -> None:
        """Raise InvalidInput if a file exceeds the limit of one file."""
        if size > self.max_file_bytes:
            raise InvalidInput(
                f"{path[:80]!r} has {size:,} bytes; the limit of one file is {self.max_file_bytes:,}",
                value=size,
                remedy="split it, or raise max_file_bytes",
            )


def make_limits_metadata(limits: Mapping[str, int | None]) -> dict[str, Any]:
    """Return the metadata in which a workspace stores its own limits."""
    own_limits = {name: value for name, value in limits.items() if value is not None}
    return {_LIMITS: own_limits} if own_limits else {}


def _read_limit(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


@dataclass(frozen=True)
class WorkspaceDeps:
    """The stores and settings that the verbs on workspaces use."""

    records: Records
    scope_rows: MissingScopeRows
    contents: Contents
    base: Path
    limits: WorkspaceLimits
    interface: str = "library"

    def find_folder(self, workspace: Workspace) -> LocalFolder:
        """Return the folder of a workspace on this machine. The `root` of its row is never used."""
        return LocalFolder(self.base, workspace.organization_id, workspace.id)
