"""Check that backups are complete: every file has the right checksum, and the manifests form a chain."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from everhold.backups.history import History, StoredManifest
from everhold.backups.manifest import Manifest
from everhold.backups.objects import Objects
from everhold.errors import NotFound, StoreDamaged
from everhold.ports.row_packing import RowShape
from everhold.ports.store_snapshot import StoreSnapshot
from everhold.progress import StepCounter
from everhold.schema.catalog import ENTITIES, TABLES


@dataclass(frozen=True)
class BackupVerification:
    """The result of checking one backup. `problems` is empty if it is complete.

    `objects` and `bytes` count what was read. `rows` is the number of rows that were restored into a temporary store
    with the values that they had at the backup. `erased_rows` counts rows that can no longer be read, because the keys
    of their users were destroyed.
    """

    id: str
    objects: int = 0
    bytes: int = 0
    rows: int = 0
    erased_rows: int = 0
    problems: tuple[str, ...] = field(default=())

    @property
    def intact(self) -> bool:
        return not self.problems


def check_chain(stored: Sequence[StoredManifest]) -> dict[str, str]:
    """Return the problems of manifests by backup: a manifest is unreadable, or its previous manifest was replaced."""
    problems: dict[str, str] = {}
    checksums = {entry.backup_id: entry.sha256 for entry in stored}
    for entry in stored:
        if entry.manifest is None:
            problems[entry.backup_id] = str(entry.problem)
            continue
        previous = entry.manifest.previous
        # A missing previous backup was deleted by the retention rule.
        if previous in checksums and checksums[previous] != entry.manifest.previous_sha256:
            problems[entry.backup_id] = f"the manifest of the previous backup {previous} was changed"
    return problems


def check_objects(manifest: Manifest, objects: Objects, counter: StepCounter, *, is_latest: bool) -> list[str]:
    """Read every object of a backup and return the problems. Only the latest backup has indexes."""
    problems: list[str] = []
    for entry in manifest.list_objects(with_indexes=is_latest).values():
        try:
            objects.get(entry)
        except (StoreDamaged, NotFound) as error:
            problems.append(str(error))
        counter.add(1)
    return problems


def compare_with_store(
    manifest: Manifest, snapshot: StoreSnapshot, objects: Objects, skipped_tables: set[str]
) -> list[str]:
    """Return the tables of a restored store whose rows differ from the backup.

    Tables in `skipped_tables` are not compared.
    """
    problems: list[str] = []
    for name, entry in manifest.tables.items():
        if name not in TABLES or name in skipped_tables:
            continue
        packer = objects.packing.make_packer(RowShape.of(TABLES[name]))
        row_count, hash_sum = 0, 0
        for batch in snapshot.read(ENTITIES[name], packer.add):
            row_count += batch.size
            hash_sum += int(packer.take().hashes.sum())
        if (row_count, hash_sum % 2**64) != (entry.rows, entry.hash):
            problems.append(
                f"{name}: {row_count:,} rows were restored, with another hash than the {entry.rows:,} of the backup"
            )
    return problems


def find_manifest(history: History, backup_id: str | None) -> StoredManifest:
    """Return a backup by its id, or the latest one. Raise NotFound if there is none."""
    if backup_id is not None:
        return history.read(backup_id)
    ids = history.list_ids()
    if not ids:
        raise NotFound(
            f"no backups at {history.place.address}",
            value=history.place.address,
            remedy="name a folder or an address that `everhold backup` has written to",
        )
    return history.read(ids[-1])
