"""List the backups at a place."""

from dataclasses import dataclass
from datetime import datetime

from everhold.backups.history import History, StoredManifest


@dataclass(frozen=True)
class BackupSummary:
    """One backup. `bytes` is the size of all objects that it needs, most of which it shares with other backups.

    If its manifest cannot be read, `problem` says why, and the other fields are empty.
    """

    id: str
    at: datetime | None = None
    sequence: int = 0
    kind: str = ""
    rows: int = 0
    files: int = 0
    bytes: int = 0
    layers: int = 0
    is_encrypted: bool = False
    problem: str = ""


def list_backups(history: History) -> list[BackupSummary]:
    """Return the backups at a place, oldest first."""
    return [_summarize(stored) for stored in history.read_all()]


def _summarize(stored: StoredManifest) -> BackupSummary:
    manifest = stored.manifest
    if manifest is None:
        return BackupSummary(stored.backup_id, problem=str(stored.problem))
    return BackupSummary(
        id=manifest.id,
        at=manifest.at,
        sequence=manifest.sequence,
        kind=manifest.kind,
        rows=manifest.rows,
        files=len(manifest.files),
        bytes=sum(entry.size for entry in manifest.list_objects(with_indexes=False).values()),
        layers=max((len(table.layers) for table in manifest.tables.values()), default=0),
        is_encrypted=manifest.is_encrypted,
    )
