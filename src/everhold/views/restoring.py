"""Restore and verify backups."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from everhold import clock, settings
from everhold.backups.between import PlainContents, RowsBetween
from everhold.backups.files import get_file, read_file
from everhold.backups.history import History, TargetState
from everhold.backups.manifest import BackedUpFile, Manifest
from everhold.backups.objects import Objects
from everhold.backups.reading import BackupReader
from everhold.backups.selecting import Erasures, SelectedRows
from everhold.backups.verification import (
    BackupVerification,
    check_chain,
    check_objects,
    compare_with_store,
    find_manifest,
)
from everhold.errors import EverholdError, InvalidInput, MasterKeyWrong, NotFound, StoreDamaged
from everhold.exchange.restoring import RestoredRows, restore_rows
from everhold.model import Memory, UserErasure
from everhold.ports.feed_start import begin_feed
from everhold.ports.records import Records
from everhold.ports.stored_files import StoredFiles
from everhold.progress import ReportProgress, StepCounter
from everhold.remember.draft import compute_content_hash
from everhold.schema.operations import Ensure
from everhold.settings import Settings
from everhold.stores import open_store
from everhold.tenancy.erasure import is_subject
from everhold.views.backup_deps import DecryptedContents, make_backup_encryption, open_history, open_objects
from everhold.views.backup_files import EngineFiles
from everhold.views.data_deps import make_private_folder


@dataclass(frozen=True)
class RestoreRequest:
    """The options of a restore: which backup, by its id or by a time, and which part of it."""

    backup: str | None = None
    as_of: datetime | None = None
    organization: str | None = None
    user: str | None = None
    add: bool = False

    def __post_init__(self) -> None:
        if self.backup is not None and self.as_of is not None:
            raise InvalidInput("both a backup and a time are given", remedy="pass `backup` or `as_of`, not both")


@dataclass(frozen=True)
class Restored:
    """The result of a restore.

    `reached` is the time of the restored state, and `sequence` the number of its last line of the change feed. `rows`
    counts the rows that were added, by table, `existing_rows` the rows that were in the store already, and
    `erased_rows` the rows that were left out because their users were erased later. For a time between two backups,
    `exact_rows` counts the rows that are exactly as they were then, and `approximate_rows` the other rows, by table;
    `notes` explain both in words.
    """

    backup: str
    reached: datetime
    sequence: int
    rows: dict[str, int]
    files: int = 0
    existing_rows: int = 0
    erased_rows: int = 0
    is_encrypted: bool = False
    exact_rows: int | None = None
    approximate_rows: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = field(default=())

    @property
    def row_count(self) -> int:
        return sum(self.rows.values())


def restore(target: str | Path, into: Settings, request: RestoreRequest, report: ReportProgress) -> Restored:
    """Restore a backup into the store that settings name."""
    history = open_history(target)
    manifest, later_manifest = _choose_manifests(history, request)
    state = history.read_state()
    objects = open_objects(history, manifest, state, into)
    reader: BackupReader | RowsBetween = BackupReader(manifest, objects)
    if later_manifest is not None and request.as_of is not None:
        after = BackupReader(later_manifest, open_objects(history, later_manifest, state, into))
        encryption = make_backup_encryption(state, into, later_manifest)
        contents = PlainContents() if encryption is None else DecryptedContents(encryption.cipher)
        reader = RowsBetween(BackupReader(manifest, objects), after, request.as_of, _hash_memory, contents)
    with ExitStack() as stack:
        records = _open_records(into, stack)
        # The backups may be an old copy that lacks an erasure which the store knows.
        known_erasures = (*state.erasures, *records.scan(UserErasure, None, deleted=True))
        erasures = Erasures(known_erasures, is_subject, manifest.at)
        selected_rows = SelectedRows(reader, erasures, request.organization, request.user)
        selected_rows.require_organization()
        restored_rows = restore_rows(records, selected_rows, add=request.add, report=report)
        if not request.add:
            _add_keys(records, state, request)
            begin_feed(records)
        files = _restore_files(EngineFiles(into, records), objects, selected_rows.select_files(), report)
    unreadable_rows = sum(reader.unreadable.values())
    restored = _summarize(manifest, restored_rows, files, selected_rows.left_out + unreadable_rows)
    if isinstance(reader, RowsBetween):
        return replace(
            restored,
            reached=reader.at,
            exact_rows=reader.taken.exact,
            approximate_rows=reader.approximate,
            notes=_explain_time(reader),
        )
    return restored


def _explain_time(reader: RowsBetween) -> tuple[str, ...]:
    """Return notes on how exactly the state at a time between two backups was restored."""
    earlier, later, counts = reader.earlier.manifest, reader.later.manifest, reader.taken
    notes = [f"{counts.exact:,} rows are exactly as they were at {reader.at.isoformat()}"]
    if counts.read_later:
        notes.append(f"{counts.read_later:,} more are, except for how often they were read, and when last")
    if counts.later:
        notes.append(
            f"{counts.later:,} rows are approximate: as of {later.at.isoformat()}, without what is known since"
        )
    if counts.earlier:
        notes.append(f"{counts.earlier:,} rows are approximate: as of {earlier.at.isoformat()}")
    notes.append(f"the change feed ends at {earlier.at.isoformat()}")
    return tuple(notes)


def _hash_memory(values: Mapping[str, Any]) -> bytes:
    return compute_content_hash(Memory.build_unchecked(dict(values)))


def _summarize(manifest: Manifest, restored_rows: RestoredRows, files: int, erased: int) -> Restored:
    return Restored(
        backup=manifest.id,
        reached=manifest.at,
        sequence=manifest.sequence,
        rows=restored_rows.added,
        files=files,
        existing_rows=restored_rows.existing,
        erased_rows=erased,
        is_encrypted=manifest.is_encrypted,
    )


def _choose_manifests(history: History, request: RestoreRequest) -> tuple[Manifest, Manifest | None]:
    """Return the backup to restore, and for a time also the next backup after that time, if there is one.

    For a time, the backup to restore is the latest one up to that time.
    """
    if request.as_of is None:
        return history.require(find_manifest(history, request.backup).backup_id), None
    manifests = [stored.manifest for stored in history.read_all() if stored.manifest is not None]
    earlier = [manifest for manifest in manifests if manifest.at <= request.as_of]
    if earlier:
        return earlier[-1], manifests[len(earlier)] if len(earlier) < len(manifests) else None
    raise NotFound(
        f"no backup at {history.place.address} is as old as {request.as_of.isoformat()}",
        value=request.as_of,
        remedy="`everhold backups` lists them",
    )


def _open_records(store_settings: Settings, stack: ExitStack) -> Records:
    """Open a store without an engine, and delete index files of an earlier store there. `stack` closes the store."""
    records, candidates = open_store(store_settings)
    stack.callback(records.close)
    stack.callback(candidates.close)
    candidates.drop_files()
    return records


def _add_keys(records: Records, state: TargetState, request: RestoreRequest) -> None:
    """Add the data keys, and the erasures that were made after the backup."""
    erasures = state.erasures
    if not request.add:
        # The store was empty and the users are left out, so nothing remains of the erasures that were not complete.
        completion = {"completed_at": clock.now()}
        erasures = tuple(row if row.completed_at else row.model_copy(update=completion) for row in erasures)
    rows = [
        row
        for row in (*state.keys, *erasures)
        if request.organization is None or row.organization_id == request.organization
    ]
    if rows:
        records.commit([Ensure(row) for row in rows])


def _restore_files(files: StoredFiles, objects: Objects, entries: list[BackedUpFile], report: ReportProgress) -> int:
    counter = StepCounter(report, "restoring files", len(entries))
    count = 0
    for entry in entries:
        with suppress(_KeyDestroyed):
            files.write(get_file(entry), _read_parts(entry, objects))
            count += 1
        counter.add(1)
    return count


class _KeyDestroyed(Exception):
    """The key of a file's owner was destroyed."""


def _read_parts(entry: BackedUpFile, objects: Objects) -> Iterator[bytes]:
    for part in read_file(entry, objects):
        if part is None:
            raise _KeyDestroyed
        yield part


# verifying


def verify_backup(
    target: str | Path, backup: str | None, store_settings: Settings, report: ReportProgress
) -> BackupVerification:
    """Check every file of a backup, restore it into a temporary store, compare the rows, and return the result."""
    history = open_history(target)
    stored_backup = find_manifest(history, backup)
    stored_backups = history.read_all()
    problems = [text for name, text in check_chain(stored_backups).items() if name == stored_backup.backup_id]
    if stored_backup.manifest is None:
        return BackupVerification(stored_backup.backup_id, problems=tuple(problems))
    manifest = stored_backup.manifest
    is_latest = stored_backups[-1].backup_id == manifest.id
    try:
        state = history.read_state()
    except StoreDamaged as error:
        return BackupVerification(manifest.id, problems=(*problems, str(error)))
    objects = open_objects(history, manifest, state, store_settings)
    needed_objects = manifest.list_objects(with_indexes=is_latest).values()
    problems += check_objects(
        manifest, objects, StepCounter(report, "reading", len(needed_objects)), is_latest=is_latest
    )
    size = sum(entry.size for entry in needed_objects)
    if problems:
        return BackupVerification(manifest.id, len(needed_objects), size, problems=tuple(problems))
    reader = BackupReader(manifest, objects)
    try:
        rows, problems = _restore_into_scratch(reader, report)
    except MasterKeyWrong:
        raise  # the settings are wrong, and the backup may be whole
    except EverholdError as error:
        return BackupVerification(manifest.id, len(needed_objects), size, problems=(error.fact,))
    erased = sum(reader.unreadable.values())
    return BackupVerification(manifest.id, len(needed_objects), size, rows, erased, tuple(problems))


def _restore_into_scratch(reader: BackupReader, report: ReportProgress) -> tuple[int, list[str]]:
    """Restore all rows into a temporary SQLite file. Return the number of rows and the differences from the backup."""
    selected_rows = SelectedRows(reader, Erasures((), is_subject, reader.manifest.at), every_counter=True)
    with make_private_folder() as folder, ExitStack() as stack:
        scratch = settings.load(folder / "scratch.db", sqlite={"synchronous": "NORMAL"})
        records = _open_records(scratch, stack)
        rows = restore_rows(records, selected_rows, report=report).rows
        # Tables with rows that cannot be decrypted are not compared, because those rows are missing in the hash.
        unreadable = {name for name, count in reader.unreadable.items() if count}
        with records.read_snapshot() as snapshot:
            return rows, compare_with_store(reader.manifest, snapshot, reader.objects, unreadable)
