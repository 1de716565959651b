"""Remove a user from all backups at a place.

If each user's rows are encrypted with the user's own key, it is enough to remove the key from the file of keys. Other
backups are written again: first the objects without the user's rows, then the manifests that name them, oldest first.
Then the old objects are deleted. Calling it again completes an interrupted erasure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np

from everhold.backups.comparing import DELETED, INDEX, load_index
from everhold.backups.deps import BackupDeps
from everhold.backups.history import History, StoredManifest, merge_erasures
from everhold.backups.manifest import Layer, Manifest, ObjectEntry, TableEntry
from everhold.backups.objects import Frame, Objects
from everhold.backups.owners import RowOwners
from everhold.backups.retention import sweep
from everhold.backups.sealing import EVERYONE
from everhold.errors import NotFound, StoreDamaged
from everhold.ports.row_packing import RowShape
from everhold.schema.catalog import TABLES
from everhold.schema.table import Table

_LOG = "memory_access_logs"


@dataclass(frozen=True)
class _RewrittenObject:
    """The object that replaces one with rows of a user, or None if it had only those.

    `removed` are the digests of the user's rows by the digests of their keys.
    """

    entry: ObjectEntry | None
    removed: Mapping[int, int] = field(default_factory=dict)


def erase_from(deps: BackupDeps, history: History, organization: str, user_id: str, key_ids: Sequence[str]) -> int:
    """Remove a user from all backups at a place; return the number of files that were written again or deleted.

    Raise StoreDamaged if a backup cannot be read, because it may contain rows of the user.
    """
    _update_state(deps, history, key_ids)
    stored = history.read_all()
    unreadable_ids = [entry.backup_id for entry in stored if entry.manifest is None]
    eraser = _Eraser(deps.open_objects(history.place), organization, user_id)
    manifests = [entry.manifest for entry in stored if entry.manifest is not None]
    eraser.rewrite_objects([manifest for manifest in manifests if not manifest.has_user_keys])
    written_files = 1 + eraser.written + _rewrite_manifests(history, stored, eraser)  # the first is the state file
    if unreadable_ids:
        raise StoreDamaged(
            f"backup {unreadable_ids[0]} cannot be read and may hold rows of the user", remedy="delete its manifest"
        )
    return written_files + sweep(history, history.read_all())


def _update_state(deps: BackupDeps, history: History, key_ids: Sequence[str]) -> None:
    state = history.read_state()
    history.write_state([key for key in state.keys if key.id not in key_ids], merge_erasures(deps.records, state))


def _rewrite_manifests(history: History, stored: Sequence[StoredManifest], eraser: "_Eraser") -> int:
    """Write the readable manifests that change, oldest first, and return their number."""
    checksums: dict[str, str] = {}
    written = 0
    for entry in stored:
        if entry.manifest is None:
            continue
        manifest = eraser.rewrite_manifest(entry.manifest)
        previous_sha256 = checksums.get(manifest.previous or "", manifest.previous_sha256)
        manifest = manifest.model_copy(update={"previous_sha256": previous_sha256})
        if manifest == entry.manifest:
            checksums[manifest.id] = entry.sha256
            continue
        checksums[manifest.id] = history.write(manifest).sha256
        written += 1
    return written


class _Eraser:
    """Removes the rows of one user from objects, and rewrites the manifests that name these objects."""

    def __init__(self, objects: Objects, organization: str, user_id: str) -> None:
        self._objects, self._organization, self._user_id = objects, organization, user_id
        self._owners = RowOwners()
        self._rewritten: dict[str, _RewrittenObject] = {}
        self.written = 0

    def rewrite_objects(self, manifests: Sequence[Manifest]) -> None:
        """Write the objects with rows of the user again without these rows, table by table, parents first."""
        for name, table in TABLES.items():
            if table.tenant is None or name == _LOG:
                continue
            for manifest in manifests:
                if name in manifest.tables:
                    self._rewrite_layers(manifest.tables[name], table)

    def _rewrite_layers(self, entry: TableEntry, table: Table) -> None:
        for layer in entry.layers:
            for part in layer.rows:
                if part.sha256 not in self._rewritten:
                    self._rewritten[part.sha256] = self._rewrite_object(part, table, entry.columns)

    def _rewrite_object(self, part: ObjectEntry, table: Table, columns: tuple[str, ...]) -> _RewrittenObject:
        kept_frames: list[Frame] = []
        removed_digests: dict[int, int] = {}
        packer = self._objects.packing.make_packer(RowShape.of_columns(table, columns))
        for frame in self._objects.read_pack(part, table.name):
            if frame.content is None:
                continue
            keep_flags: list[bool] = []
            for row in self._objects.packing.unpack(frame.content, frame.size):
                keep_flags.append(not self._belongs_to_user(table, dict(zip(columns, row, strict=True))))
                packer.add(row)
            packed = packer.take()
            digests = zip(keep_flags, packed.keys.tolist(), packed.hashes.tolist(), strict=True)
            removed_digests |= {key: digest for keep, key, digest in digests if not keep}
            items = [*compress(packed.items, keep_flags)]
            if items:
                kept_frames.append(Frame(frame.owner, items))
        if not removed_digests:
            return _RewrittenObject(part)
        self.written += 1
        return _RewrittenObject(
            self._objects.put_pack(kept_frames, table.name) if kept_frames else None, removed_digests
        )

    def _belongs_to_user(self, table: Table, values: dict[str, Any]) -> bool:
        owner = self._owners.note(table, values)
        return owner == self._user_id and values[str(table.tenant)] == self._organization

    def rewrite_manifest(self, manifest: Manifest) -> Manifest:
        """Return a manifest that names the objects without the user's rows."""
        tables = {name: self._rewrite_table(entry) for name, entry in manifest.tables.items()}
        owner = (self._organization, self._user_id)
        files = tuple(file for file in manifest.files if (file.organization, file.user_id) != owner)
        return manifest.model_copy(update={"tables": tables, "files": files})

    def _rewrite_table(self, entry: TableEntry) -> TableEntry:
        removed = self._find_removed(entry)
        layers = tuple(Layer(rows=tuple(self._replace(layer.rows)), deleted=layer.deleted) for layer in entry.layers)
        if layers == entry.layers:
            return entry
        changes: dict[str, Any] = {"layers": layers, "rows": entry.rows - len(removed)}
        changes["hash"] = (entry.hash - sum(removed.values())) % 2**64
        changes["index"], changes["index_changes"] = self._rewrite_index(entry, removed), None
        return entry.model_copy(update=changes)

    def _replace(self, parts: Sequence[ObjectEntry]) -> Iterator[ObjectEntry]:
        for part in parts:
            rewritten = self._rewritten.get(part.sha256, _RewrittenObject(part))
            if rewritten.entry is not None:
                yield rewritten.entry

    def _find_removed(self, entry: TableEntry) -> dict[int, int]:
        """Return the user's current rows in a table, which are the rows that no later layer replaces or deletes."""
        current_rows: dict[int, int] = {}
        replaced_keys: set[int] = set()
        for layer in reversed(entry.layers):
            layer_rows: dict[int, int] = {}
            for part in layer.rows:
                layer_rows.update(self._rewritten.get(part.sha256, _RewrittenObject(part)).removed)
            current_rows.update({key: digest for key, digest in layer_rows.items() if key not in replaced_keys})
            replaced_keys.update(layer_rows)
            for part in layer.deleted:
                content = self._objects.get_bytes(part, EVERYONE, DELETED) or b""
                replaced_keys.update(np.frombuffer(content, "<u8").tolist())
        return current_rows

    def _rewrite_index(self, entry: TableEntry, removed: Mapping[int, int]) -> ObjectEntry | None:
        try:
            index = load_index(entry, self._objects)
        except NotFound:
            return None  # only the latest backup has an index
        if index is None:
            return None
        old_rows = index.merge()
        remaining_rows = old_rows.select(~np.isin(old_rows.keys, np.array(list(removed), np.uint64)))
        return self._objects.put_bytes(remaining_rows.encode(), EVERYONE, INDEX, len(remaining_rows))
