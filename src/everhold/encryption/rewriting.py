"""Rewrite stored rows until every field is encrypted as the settings say, with the newest keys.

The work is the same after encryption was turned on, after fields were added or removed, and after keys were rotated.
Progress is not recorded: rows that are already as the settings say are skipped, so an interrupted run continues when it
is called again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from everhold.encryption.deps import Encryption
from everhold.encryption.fields import SEARCHED_COLUMNS
from everhold.encryption.recorded import mark_complete, read_recorded
from everhold.encryption.row_cipher import find_user
from everhold.errors import EncryptionError, StaleVersion
from everhold.model import Chunk, Memory
from everhold.model.announcement import make_announcement
from everhold.model.base import Entity, Row
from everhold.model.encrypted_values import is_encrypted, is_encrypted_hash, unpack_envelope
from everhold.model.searchable import SEARCHABLE_BY_CLASS_NAME
from everhold.ports.erasure import note_purge
from everhold.schema.catalog import ENTITIES, TABLES, get_key, get_table
from everhold.schema.operations import Delete, Increment, Op, Operation, Page, Patch, Put, Where

_BATCH = 200


@dataclass(frozen=True)
class RewritingDeps:
    """The dependencies of rewriting: the encryption, a function that makes the chunks of a row, and a counter of rows.

    Rows are committed to the store below the encryption. No lease is needed, because the version of each row protects
    it.
    """

    encryption: Encryption
    make_chunks: Callable[[Entity], Sequence[Chunk]]
    count: Callable[[int], None]


def is_complete(encryption: Encryption) -> bool:
    """Return whether it is recorded that all rows are encrypted as the settings say."""
    recorded = read_recorded(encryption.stored)
    return recorded.keys() == set(encryption.recorded_fields) and all(recorded.values())


def count_outdated(encryption: Encryption) -> int:
    """Return the number of rows that are not encrypted as the settings say."""
    if encryption.is_missing or is_complete(encryption):
        return 0
    rows = (row for entity in _list_entities(encryption) for row in _read(encryption, entity))
    return sum(not _is_current(encryption, row) for row in rows)


def rewrite_rows(deps: RewritingDeps) -> int:
    """Rewrite every row that is not encrypted as the settings say. Return the number of rows that could not be read."""
    unreadable = 0
    for entity in _list_entities(deps.encryption):
        batch: list[Row] = []
        for row in _read(deps.encryption, entity):
            if _is_current(deps.encryption, row):
                continue
            batch.append(row)
            if len(batch) == _BATCH:
                unreadable += _rewrite_batch(deps, batch)
                batch = []
        unreadable += _rewrite_batch(deps, batch)
    if not unreadable:
        recorded = deps.encryption.recorded_fields
        dropped_names = [name for name in read_recorded(deps.encryption.stored) if name not in recorded]
        mark_complete(deps.encryption.stored, recorded, dropped_names)
    return unreadable


def _list_entities(encryption: Encryption) -> list[type[Row]]:
    return [ENTITIES[name] for name in TABLES if name in encryption.fields.read]


def _read(encryption: Encryption, entity: type[Row]) -> Iterator[Row]:
    """Yield the stored rows of an entity. They are read page by page, because they are changed meanwhile."""
    after: Page | None = None
    while True:
        rows = encryption.stored.scan(entity, None, after=after, limit=_BATCH, deleted=True)
        yield from rows
        if len(rows) < _BATCH:
            return
        after = Page(None, get_key(rows[-1]))


def _is_current(encryption: Encryption, row: Row) -> bool:
    return not _list_outdated(encryption, row)


def _list_outdated(encryption: Encryption, row: Row) -> list[str]:
    """Return the columns of a stored row to rewrite: wrongly plain, wrongly encrypted, or encrypted with old keys."""
    table, values = get_table(type(row)), row.__dict__
    secret = encryption.fields.list_written(table.name, values)
    organization = values[table.tenant or ""]
    outdated = []
    for name in encryption.fields.read[table.name]:
        value = values[name]
        if value is None:
            continue
        if not is_encrypted(value):
            is_right = name not in secret
        else:
            is_right = name in secret and encryption.keys.is_current(
                organization, find_user(values), unpack_envelope(value)
            )
        if not is_right:
            outdated.append(name)
    if isinstance(row, Memory) and row.hash is not None and is_encrypted_hash(row.hash) != ("text" in secret):
        outdated.append("hash")
    return outdated


def _rewrite_batch(deps: RewritingDeps, rows: Sequence[Row]) -> int:
    """Rewrite rows in one commit, or one by one if another writer changed a row; return how many are unreadable."""
    unreadable = 0
    rows_with_operations: list[tuple[Row, list[Operation]]] = []
    for row in rows:
        try:
            rows_with_operations.append((row, _plan_rewrite(deps, row)))
        except EncryptionError:
            unreadable += 1
    if not rows_with_operations:
        return unreadable
    try:
        deps.encryption.stored.commit([operation for _, operations in rows_with_operations for operation in operations])
        deps.count(len(rows_with_operations))
    except StaleVersion:
        for row, operations in rows_with_operations:
            unreadable += _rewrite_alone(deps, row, operations)
    return unreadable


def _rewrite_alone(deps: RewritingDeps, row: Row, operations: Sequence[Operation]) -> int:
    try:
        deps.encryption.stored.commit(operations)
    except StaleVersion:
        # Another writer has changed or removed the row. If its new values must be rewritten, the next run does that.
        current = _read_again(deps.encryption, row)
        if current is None or _is_current(deps.encryption, current):
            return 0
        return _rewrite_batch(deps, [current])
    deps.count(1)
    return 0


def _read_again(encryption: Encryption, row: Row) -> Row | None:
    table = get_table(type(row))
    where = [Where(name, Op.EQ, value) for name, value in zip(table.key, get_key(row), strict=True)]
    rows = encryption.stored.scan(type(row), row.__dict__[table.tenant or ""], where, limit=1, deleted=True)
    return rows[0] if rows else None


def _plan_rewrite(deps: RewritingDeps, row: Row) -> list[Operation]:
    """Return the operations that encrypt the outdated values of a row again."""
    cipher, table = deps.encryption.cipher, get_table(type(row))
    outdated = _list_outdated(deps.encryption, row)
    if table.name == "outbox":
        # A line of the feed has no version that would protect a rewritten value, so its digest is removed instead. The
        # feed is trimmed soon anyway.
        return [Patch(type(row), get_key(row), {"digest": None})]
    content = cipher.decrypt_row(row)
    stored = cipher.encrypt_values(table, content.__dict__, content.__dict__)
    changes: dict[str, Any] = {name: stored.get(name, content.__dict__[name]) for name in outdated}
    if table.name == "episodes" and "name" in stored:
        changes["name"] = stored["name"]  # it is not encrypted, but removed together with the plain summary
    operations: list[Operation] = [
        Patch(type(row), get_key(row), changes, version=row.__dict__["version"]),
        # The content is the same, so a writer who has read the row before may still change it.
        Increment(type(row), get_key(row), {"version": -1}),
    ]
    if _has_changed_search(deps.encryption, row):
        operations += _make_index_changes(deps, content)
    return operations


def _has_changed_search(encryption: Encryption, row: Row) -> bool:
    """Return whether a text that search indexes becomes encrypted, or becomes plain."""
    table, values = get_table(type(row)).name, row.__dict__
    secret = encryption.fields.list_written(table, values)
    searched = [name for name in SEARCHED_COLUMNS.get(table, ()) if name in encryption.fields.read[table]]
    return any(values[name] is not None and is_encrypted(values[name]) != (name in secret) for name in searched)


def _make_index_changes(deps: RewritingDeps, row: Row) -> list[Operation]:
    """Return the operations that replace the chunks of a row, so that no plain word or vector of an encrypted text
    stays."""
    searchable = SEARCHABLE_BY_CLASS_NAME.get(type(row).__name__)
    if searchable is None or not isinstance(row, Entity):
        return []
    where = [Where("owner_id", Op.EQ, row.id), Where("owner_kind", Op.EQ, searchable.kind)]
    chunks = deps.encryption.stored.scan(Chunk, row.organization_id, where)
    return [
        *(Delete(Chunk, get_key(chunk)) for chunk in chunks),
        *([] if row.is_deleted else map(Put, deps.make_chunks(row))),
        Put(make_announcement(row, "reindex")),
        *note_purge(),
    ]
