"""Make one backup.

    hold the lease → read the history → open a snapshot → store files → store rows → write the manifest → prune

The backup shows the store at a single moment, which is identified by a number of its change feed.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from everhold import clock
from everhold.backups.comparing import TableBackup, WaitForTable
from everhold.backups.deps import BackupDeps
from everhold.backups.files import FilesMissing, store_files
from everhold.backups.history import History, StoredManifest, merge_erasures
from everhold.backups.leases import hold_backup_lease
from everhold.backups.manifest import BackedUpFile, Manifest, TableEntry
from everhold.backups.objects import list_objects
from everhold.backups.owners import RowOwners
from everhold.backups.retention import KeepRule, prune
from everhold.backups.writing import ObjectWriter, write_objects
from everhold.errors import InvalidInput, NotFound, StaleVersion, StoreBusy, StoreDamaged, StoreReadOnly
from everhold.model import BackupTarget, DataKey
from everhold.model.base import Row
from everhold.ports.backup_place import BackupPlace
from everhold.ports.leases import HeldLease
from everhold.ports.records import Records
from everhold.ports.store_snapshot import StoreSnapshot
from everhold.progress import ReportProgress, StepCounter, ignore_progress
from everhold.schema.catalog import get_table
from everhold.schema.changes import CURRENT
from everhold.schema.operations import Delete, Ensure, Op, Patch, Where
from everhold.schema.snapshots import list_snapshot_entities

logger = logging.getLogger(__name__)

_ATTEMPTS = 3
# Keys are stored in the state file instead, because an erasure must be able to remove them.
_EXCLUDED_ENTITIES: tuple[type[Row], ...] = (DataKey,)


@dataclass(frozen=True)
class BackupResult:
    """The result of a backup. `is_full` says that it uses no earlier backup.

    `changed_rows` is the number of stored rows, `deleted_rows` the number of rows deleted since the previous backup,
    and `bytes` the size of the added objects. `removed` are the backups that the retention rule has deleted.
    `missing_files` are files that rows name but the store does not have.
    """

    id: str
    target: str
    at: datetime
    sequence: int
    rows: int
    changed_rows: int
    deleted_rows: int
    files: int
    bytes: int
    is_full: bool
    is_encrypted: bool
    removed: tuple[str, ...] = ()
    missing_files: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Earlier:
    """The backup that the new one extends. `mark` is empty if the store cannot list the changes since then."""

    stored: StoredManifest
    manifest: Manifest
    mark: str


def back_up(
    deps: BackupDeps,
    place: BackupPlace,
    rule: KeepRule,
    report: ReportProgress = ignore_progress,
    *,
    replace_state: bool = False,
) -> BackupResult:
    """Store a backup of a store in use, and delete the old backups that the rule does not keep.

    With `replace_state`, keys and erasures at the place that cannot be read are replaced by those of the store.

    Raise InvalidInput if the place has backups of another store, StoreBusy while another backup of this store runs,
    and StoreDamaged if the keys and erasures at the place cannot be read.
    """
    history = deps.open_history(place)
    try:
        with hold_backup_lease(deps.records) as lease:
            return _back_up(deps, history, rule, report, lease, replace_state=replace_state)
    except StoreReadOnly:
        return _back_up(deps, history, rule, report, None, replace_state=replace_state)


def _back_up(
    deps: BackupDeps,
    history: History,
    rule: KeepRule,
    report: ReportProgress,
    lease: HeldLease | None,
    *,
    replace_state: bool,
) -> BackupResult:
    place, earlier = history.place, _find_earlier(deps, history)
    if replace_state:
        history.delete_damaged_state()
    history.read_state()  # raises StoreDamaged before all rows are stored, not after
    existing = set(list_objects(place))
    manifest, missing = _store_everything(deps, history, earlier, existing, report, lease)
    history.write_state(deps.records.scan(DataKey, None), merge_erasures(deps.records, history.read_state()))
    if lease is not None:
        _require_lease(lease)
    stored = history.write(manifest)
    if lease is not None:
        _remember_target(deps, place, manifest, lease)
    removed = prune(history, rule, [stored] if earlier is None else [earlier.stored, stored])
    return _summarize(place, manifest, earlier, existing, missing, removed)


def _require_lease(lease: HeldLease) -> None:
    """Raise StoreBusy if another process has taken the lease, because it may have deleted objects of this backup."""
    try:
        lease.commit()
    except StaleVersion:
        raise StoreBusy("another process has begun a backup of this store", remedy="try again") from None


def _find_earlier(deps: BackupDeps, history: History) -> _Earlier | None:
    """Return the latest backup of this store at the place that can be read."""
    stored = map(history.read, reversed(history.list_ids()))
    latest = next((entry for entry in stored if entry.manifest is not None), None)
    if latest is None or latest.manifest is None:
        return None
    manifest = latest.manifest
    targets = deps.records.scan(BackupTarget, None, [Where("id", Op.EQ, _make_target_id(history.place))])
    if manifest.store != deps.store and not targets:
        raise InvalidInput(
            f"{history.place.address} has backups of another store",
            value=history.place.address,
            remedy="name another folder or address",
        )
    # A store that was restored to an earlier state refers to an earlier backup. It cannot list the changes since the
    # latest one.
    is_same_history = bool(targets) and targets[0].last_backup == manifest.id
    return _Earlier(latest, manifest, manifest.mark if is_same_history else "")


def _store_everything(
    deps: BackupDeps,
    history: History,
    earlier: _Earlier | None,
    existing: set[str],
    report: ReportProgress,
    lease: HeldLease | None,
) -> tuple[Manifest, tuple[str, ...]]:
    """Store files and tables of one snapshot; return the manifest and the names of missing files.

    If a file disappears meanwhile, this begins again with a new snapshot. `existing` has the SHA-256 of the objects at
    the place.
    """
    objects = deps.open_objects(history.place)
    earlier_manifest = earlier.manifest if earlier is not None else None
    missing: tuple[str, ...] = ()
    for attempt in range(_ATTEMPTS):
        with deps.records.read_snapshot() as snapshot, write_objects(objects) as writer:
            at = clock.now()
            try:
                files = store_files(deps.files, snapshot, objects, earlier_manifest, existing, missing)
            except FilesMissing as error:
                # The file may be gone because its messages were just put back from an archive. The next snapshot then
                # does not name it.
                logger.info("files are missing in attempt %d of a backup", attempt + 1)
                missing = error.names
                continue
            tables = _store_tables(deps, snapshot, writer, earlier, existing, report, lease)
            return _make_manifest(deps, snapshot, earlier, at, tables, files), missing
    raise StoreBusy("files of the store kept disappearing during the backup", remedy="try again")


def _store_tables(
    deps: BackupDeps,
    snapshot: StoreSnapshot,
    writer: ObjectWriter,
    earlier: _Earlier | None,
    existing: set[str],
    report: ReportProgress,
    lease: HeldLease | None,
) -> dict[str, TableEntry]:
    """Store the rows of all tables, and return the entry of each table for the manifest.

    Tables that have not changed since the earlier backup refer to the objects of that backup.
    """
    entities = [entity for entity in list_snapshot_entities() if entity not in _EXCLUDED_ENTITIES]
    total = sum(map(snapshot.count, entities)) if earlier is None and report is not ignore_progress else None
    counter = StepCounter(report, "storing rows", total)
    owners = RowOwners.read(deps.records) if deps.sealing.is_encrypted else None

    def count_rows(rows: int) -> None:
        counter.add(rows)
        if lease is not None:
            lease.extend_if_due()

    pending_tables: dict[str, WaitForTable] = {}
    for entity in entities:
        name = get_table(entity).name
        find_owner = None if owners is None else owners.make_lookup(entity)
        backup = TableBackup(snapshot, entity, writer, find_owner, count_rows)
        pending_tables[name] = _store_table(
            backup, _get_reusable_table(earlier, name, existing), earlier.mark if earlier else ""
        )
    return {name: wait_for_table() for name, wait_for_table in pending_tables.items()}


def _store_table(backup: TableBackup, previous: TableEntry | None, mark: str) -> WaitForTable:
    try:
        return backup.store(previous, mark)
    except (StoreDamaged, NotFound) as error:
        if previous is None:
            raise
        logger.warning("an earlier backup cannot be used (%s); storing all rows", error)
        return backup.store(None, "")


def _get_reusable_table(earlier: _Earlier | None, name: str, existing: set[str]) -> TableEntry | None:
    """Return the table of the earlier backup if `existing` has all of its objects; otherwise None."""
    entry = earlier.manifest.tables.get(name) if earlier is not None else None
    if entry is None:
        return None
    needed = [part.sha256 for layer in entry.layers for part in (*layer.rows, *layer.deleted)]
    return entry if existing.issuperset(needed) else None


def _make_manifest(
    deps: BackupDeps,
    snapshot: StoreSnapshot,
    earlier: _Earlier | None,
    at: datetime,
    tables: dict[str, TableEntry],
    files: Sequence[BackedUpFile],
) -> Manifest:
    return Manifest(
        id=clock.make_id("bak"),
        store=deps.store,
        kind=deps.records.traits.name,
        at=at,
        sequence=snapshot.sequence,
        mark=snapshot.mark,
        schema_version=CURRENT,
        is_encrypted=deps.sealing.is_encrypted,
        has_user_keys=deps.has_user_keys,
        previous=earlier.manifest.id if earlier else None,
        previous_sha256=earlier.stored.sha256 if earlier else None,
        tables=tables,
        files=tuple(files),
    )


def _make_target_id(place: BackupPlace) -> str:
    return hashlib.sha256(place.address.encode()).hexdigest()


def _remember_target(deps: BackupDeps, place: BackupPlace, manifest: Manifest, lease: HeldLease) -> None:
    target_id, now = _make_target_id(place), clock.now()
    row = BackupTarget(id=target_id, address=place.address, last_backup=manifest.id, backed_up_at=now)
    changes = {"last_backup": manifest.id, "backed_up_at": now}
    lease.commit([Ensure(row), Patch(BackupTarget, (target_id,), changes)])


def forget_target(records: Records, place: BackupPlace) -> None:
    """Forget a place, so that erasures no longer try to reach it. Raise NotFound if the store does not know it."""
    addresses = {row.id: row.address for row in records.scan(BackupTarget, None)}
    target_id = _make_target_id(place)
    if target_id not in addresses:
        known_addresses = ", ".join(sorted(addresses.values())) or "none"
        raise NotFound(
            f"this store has made no backups at {place.address}",
            value=place.address,
            remedy=f"name one of its targets: {known_addresses}",
        )
    records.commit([Delete(BackupTarget, (target_id,))])


def _summarize(
    place: BackupPlace,
    manifest: Manifest,
    earlier: _Earlier | None,
    existing: set[str],
    missing: tuple[str, ...],
    removed: Sequence[str],
) -> BackupResult:
    added = [entry for name, entry in manifest.list_objects(with_indexes=True).items() if name not in existing]
    earlier_tables = earlier.manifest.tables if earlier else {}
    layers = [
        layer
        for name, table in manifest.tables.items()
        for layer in table.layers
        if name not in earlier_tables or layer not in earlier_tables[name].layers
    ]
    return BackupResult(
        id=manifest.id,
        target=place.address,
        at=manifest.at,
        sequence=manifest.sequence,
        rows=manifest.rows,
        changed_rows=sum(entry.count for layer in layers for entry in layer.rows),
        deleted_rows=sum(entry.count for layer in layers for entry in layer.deleted),
        files=len(manifest.files),
        bytes=sum(entry.size for entry in added),
        is_full=earlier is None,
        is_encrypted=manifest.is_encrypted,
        removed=tuple(removed),
        missing_files=missing,
    )
