"""Change a memory and keep its earlier values: revise it, or supersede it with another memory."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from everhold import clock
from everhold.errors import InvalidInput, UnknownField
from everhold.model import AccessLog, Chunk, Memory, Revision, Scope
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.history import DERIVED, REVISABLE
from everhold.model.memory import KIND_NAMES, REPEATABLE_KINDS
from everhold.model.validation import suggest_name, validate_row
from everhold.remember.chunks import NO_VECTORS, CallerVectors, assign_to_models, make_chunks, rewrite_chunks
from everhold.remember.deps import WriteDeps
from everhold.remember.draft import Draft, check_size, compute_content_hash, make_draft, read_importance, read_vectors
from everhold.remember.duplicates import find_duplicates, release_hashes
from everhold.remember.journal import make_change
from everhold.remember.lookup import require_memory
from everhold.remember.pipeline import make_additions
from everhold.remember.reading import find_attribute
from everhold.remember.supersession import make_supersession
from everhold.remember.versions import report_current_version, require_version
from everhold.schema.catalog import get_key
from everhold.schema.operations import Op, Operation, Patch, Put, Where

# Fields that chunks are made from: if one changes, the memory needs new chunks.
_SEARCHED = ("text", "aliases", "namespace")

# Fields that a memory's statement is read from: if one changes, its attribute may change.
_STATEMENT_FIELDS = ("text", "kind", "speaker", "occurred_at")

_CHANGEABLE = (*REVISABLE, "priority")


def revise(
    deps: WriteDeps,
    scope: Scope,
    name: str,
    changes: Mapping[str, Any],
    reason: str | None,
    expected_version: int | None = None,
) -> Memory:
    """Change a memory and return it; the earlier values are kept as a revision.

    Raise StaleVersion if it is not at the expected version, or if another caller changes it at the same time.
    """
    if not changes:
        raise InvalidInput("revise has nothing to change", remedy=f"pass at least one of {', '.join(_CHANGEABLE)}")
    memory = require_memory(deps.records, scope, name)
    require_version(memory, expected_version)
    vectors = assign_to_models(read_vectors(changes.get("vector")), deps.chunking)
    changed_values = _read_changes({name: value for name, value in changes.items() if name != "vector"})
    now = clock.make_later_time(memory.updated_at)
    revised = validate_row(
        Memory, {**memory.__dict__, **changed_values, "updated_at": now, "revision": memory.revision + 1}
    )
    check_size(revised, deps.text_bytes)
    changed_fields = {
        key: revised.__dict__[key] for key in changed_values if revised.__dict__[key] != memory.__dict__[key]
    }
    if vectors and not revised.text.strip():
        raise InvalidInput("there is a vector, but no text that it belongs to", remedy="pass a text, or no vector")
    if not changed_fields and not vectors:
        return memory
    if memory.kind not in REPEATABLE_KINDS or revised.kind not in REPEATABLE_KINDS:
        content_hash = None if revised.kind in REPEATABLE_KINDS else compute_content_hash(revised)
        revised = validate_row(Memory, {**revised.__dict__, "hash": content_hash})
    stamps = {"version": memory.version + 1, "last_updated_by_id": scope.actor}
    revised = validate_row(Memory, {**revised.__dict__, **stamps})
    if any(name in changed_fields for name in _STATEMENT_FIELDS):
        attribute = find_attribute(revised, deps.reading.zone)
        revised = validate_row(Memory, {**revised.__dict__, "attribute": attribute})
    before, after = {"revision": memory.revision}, {"revision": revised.revision}
    entry = make_change(scope, "revise", [memory.id], now, reason, before=before, after=after, run_id=deps.run_id)
    line = _make_line(deps, scope, memory, now, {"fields": sorted([*changed_fields, *(["vector"] if vectors else [])])})
    operations = make_revision_operations(deps, memory, revised, now, reason, vectors=vectors)
    commit_revision(deps, memory, [*operations, Put(entry), Put(line), Put(make_announcement(revised))])
    return revised


def commit_revision(deps: WriteDeps, memory: Memory, operations: Sequence[Operation]) -> None:
    """Commit a change to a memory; raise StaleVersion if another caller has changed it since it was read."""
    with report_current_version(deps.records, memory):
        deps.records.commit(operations)


def make_revision_operations(
    deps: WriteDeps,
    memory: Memory,
    revised: Memory,
    now: datetime,
    reason: str | None,
    *,
    vectors: CallerVectors = NO_VECTORS,
    earlier_chunks: Sequence[Chunk] = (),
) -> list[Operation]:
    """Return the operations that store the old values as a revision and the new values in the memory.

    They also replace the chunks if a searched field has changed. `earlier_chunks` are the chunks of an earlier revision
    with the same text as the revised memory, whose vectors can be used again.
    """
    revision = Revision.model_validate(
        {
            "id": clock.make_id("rev"),
            "organization_id": memory.organization_id,
            "created_at": now,
            "updated_at": now,
            "last_updated_by_id": memory.last_updated_by_id,
            "owner_kind": "memory",
            "owner_id": memory.id,
            "revision": memory.revision,
            "value": take_snapshot(memory),
            "known_from": _find_known_from(deps, memory),
            "known_to": now,
            "reason": reason,
        }
    )
    fields = (*REVISABLE, *DERIVED, "hash", "updated_at", "revision", "last_updated_by_id")
    changed = {name: revised.__dict__[name] for name in fields if revised.__dict__[name] != memory.__dict__[name]}
    patch = Patch(Memory, (memory.organization_id, memory.id), changed, version=memory.version)
    operations: list[Operation] = [patch, Put(revision)]
    changes_encryption = _changes_encryption(deps, memory, revised)
    if vectors or earlier_chunks or changes_encryption or any(name in changed for name in _SEARCHED):
        current_chunks = read_current_chunks(deps, memory)
        if not earlier_chunks and not changes_encryption and "text" not in changed:
            earlier_chunks = current_chunks
        # The chunks are closed and not deleted, so that a recall of the past finds the memory by its text at that time.
        operations += [Patch(Chunk, get_key(chunk), {"known_to": now}) for chunk in current_chunks]
        operations += map(Put, rewrite_chunks(revised, earlier_chunks, deps.chunking, vectors))
    return operations


def _changes_encryption(deps: WriteDeps, memory: Memory, revised: Memory) -> bool:
    """Return whether a revision encrypts or decrypts the text, which then needs other chunks."""
    return deps.chunking.hides_text(memory) != deps.chunking.hides_text(revised)


def _find_known_from(deps: WriteDeps, memory: Memory) -> datetime:
    """Return the time since which a memory has had its current values."""
    # `updated_at` is not enough: superseding and reinforcing change it without a revision.
    where = [
        Where("owner_kind", Op.EQ, "memory"),
        Where("owner_id", Op.EQ, memory.id),
        Where("revision", Op.EQ, memory.revision - 1),
    ]
    previous = deps.records.scan(Revision, memory.organization_id, where, limit=1) if memory.revision else []
    return previous[0].known_to if previous else memory.created_at


def supersede(
    deps: WriteDeps, scope: Scope, name: str, fields: Mapping[str, Any], expected_version: int | None = None
) -> Memory:
    """Store a memory that supersedes another and return it. The old memory stays, and its validity ends now."""
    old = require_memory(deps.records, scope, name)
    draft, now = _draft_successor(deps, scope, old, fields)
    duplicate_ids, ended_ids, retried_ids = find_duplicates(deps.records, scope, [draft], now)
    duplicate_id = duplicate_ids.get(draft.memory.id)
    if duplicate_id == old.id:
        raise InvalidInput(f"memory {old.id} already says that", remedy="revise it to change anything else about it")
    successor = (
        draft.memory
        if duplicate_id is None
        else require_memory(deps.records, scope, duplicate_id, deleted=draft.memory.id in retried_ids)
    )
    if old.superseded_by == successor.id or successor.is_deleted:
        return successor  # a retry, even if the successor has been changed or forgotten since
    # Checked only now: the first call has changed the version, and a retry of it must still succeed.
    require_version(old, expected_version)
    operations = [*release_hashes(scope, ended_ids), *deps.scope_rows.make_missing_rows(scope, now)]
    if duplicate_id is None:
        vectors = {successor.id: assign_to_models(draft.vectors, deps.chunking)}
        operations += make_additions(deps, scope, draft, make_chunks([successor], deps.chunking, vectors)[0], now)
    operations += make_supersession(
        scope,
        [old],
        successor,
        now,
        begins=now,
        successor_is_new=duplicate_id is None,
        interface=deps.interface,
        run_id=deps.run_id,
    )
    with report_current_version(deps.records, old):
        deps.records.commit(operations)
    return successor


def _draft_successor(deps: WriteDeps, scope: Scope, old: Memory, fields: Mapping[str, Any]) -> tuple[Draft, datetime]:
    """Return the draft of a memory that supersedes another, and the time of the change."""
    now = clock.make_later_time(old.updated_at)
    successor_fields = {"kind": old.kind, "namespace": old.namespace, **fields}
    draft = make_draft(scope, successor_fields, now, deps.text_bytes)
    draft.memory.__dict__.update({column: old.__dict__[column] for column in _OWNER_COLUMNS})
    if draft.memory.hash is not None:
        # The hash is computed again, because the successor has the owner of the old memory.
        draft.memory.__dict__["hash"] = compute_content_hash(draft.memory)
    draft.memory.__dict__["attribute"] = find_attribute(draft.memory, deps.reading.zone)
    return draft, now


_OWNER_COLUMNS = ("project_id", "user_id", "agent_id", "session_id", "reach")


def read_current_chunks(deps: WriteDeps, memory: Memory) -> list[Chunk]:
    """Return the current chunks of a memory, of every model."""
    where = [
        Where("owner_id", Op.EQ, memory.id),
        Where("owner_kind", Op.EQ, "memory"),
        Where("known_to", Op.EQ, None),
    ]
    return deps.records.scan(Chunk, memory.organization_id, where)


def read_chunks_at(deps: WriteDeps, memory: Memory, revision: Revision) -> list[Chunk]:
    """Return the closed chunks that a memory had when an earlier revision ended; none if these are still current."""
    # A revision that changes no searched field keeps the chunks, so the chunks may be older than the revision.
    where = [
        Where("owner_id", Op.EQ, memory.id),
        Where("owner_kind", Op.EQ, "memory"),
        Where("revision", Op.LE, revision.revision),
        Where("known_to", Op.GE, revision.known_to),
    ]
    return deps.records.scan(Chunk, memory.organization_id, where)


def take_snapshot(memory: Memory) -> dict[str, Any]:
    """Return the revisable and derived values of a memory as JSON, from which they can be restored."""
    return memory.model_dump(mode="json", include={*REVISABLE, *DERIVED})


def _read_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    changed_values = dict(changes)
    if "priority" in changed_values:
        changed_values["importance"] = read_importance(changed_values.pop("priority"), changed_values)
    if "kind" in changed_values:
        changed_values["kind"] = KIND_NAMES.get(changed_values["kind"], changed_values["kind"])
    for name in changed_values:
        if name not in REVISABLE:
            raise UnknownField(
                f"a memory's {name!r} cannot be revised",
                value=name,
                remedy=suggest_name(name, _CHANGEABLE),
            )
    return changed_values


def _make_line(deps: WriteDeps, scope: Scope, memory: Memory, now: datetime, request: dict[str, Any]) -> AccessLog:
    request = {"memory": memory.id, **request}
    return make_access_line(scope, "update", now, request, memory_id=memory.id, interface=deps.interface)
