"""Read the changes between two backups from the later one: from its journal, revisions, access log and change feed."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from itertools import chain
from typing import Any

from pydantic import TypeAdapter, ValidationError

from everhold.backups.reading import BackupReader
from everhold.backups.steps import ANYTHING, LIVE, RowStep
from everhold.model import AccessLog, Block, Change, Counter, Memory, Message, Outbox, Revision
from everhold.model.base import Row, make_field_adapter
from everhold.model.encrypted_values import is_encrypted
from everhold.ports.feed_start import FEED_TRIMMED
from everhold.schema.table import TENANT

_Owner = tuple[str, str]  # the organization and the id of a row
_Values = dict[str, Any]
Decrypt = Callable[[type[Row], _Values], _Values]
_READ_COLUMNS = frozenset({"access_count", "last_accessed"})
_OWNER_ENTITIES: Mapping[str, type[Row]] = {"memory": Memory, "block": Block}


@dataclass
class Journal:
    """The changes since the earlier backup, by the rows that they changed."""

    since: datetime
    changes: dict[_Owner, list[_Values]] = field(default_factory=lambda: defaultdict(list))
    revisions: dict[_Owner, list[_Values]] = field(default_factory=lambda: defaultdict(list))
    messages: dict[_Owner, list[_Values]] = field(default_factory=lambda: defaultdict(list))
    """The positions and times of the messages of a session."""
    tag_times: dict[_Owner, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    """The times when tags of a memory were added or removed."""
    purge_times: dict[_Owner, datetime] = field(default_factory=dict)
    unlink_times: dict[_Owner, datetime] = field(default_factory=dict)
    """The time when a relationship was removed because the change that had added it was undone.

    Its key has the id of the relationship, or both memory ids and its type.
    """
    restored_organizations: set[str] = field(default_factory=set)
    """The organizations in which deleted rows were restored at an unknown time."""
    is_feed_complete: bool = True

    def list_memory_steps(self, values: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> list[RowStep]:
        """Return the known changes of a memory."""
        owner = (values[TENANT], values["id"])
        revisions = [_make_revision_step(row) for row in self.revisions.get(owner, ())]
        unrevised = None if revisions else earlier
        changes = (_list_change_steps(row, values, unrevised) for row in self.changes.get(owner, ()))
        return self._keep_recent([*revisions, *chain.from_iterable(changes), *self.list_deletion_steps(values, owner)])

    def list_block_steps(self, values: Mapping[str, Any]) -> list[RowStep]:
        """Return the known changes of a block."""
        return [_make_revision_step(row) for row in self.revisions.get((values[TENANT], values["id"]), ())]

    def list_session_steps(self, values: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> list[RowStep]:
        """Return the changes of a session's row that its messages caused."""
        messages = self.messages.get((values[TENANT], values["id"]), ())
        position = earlier["last_position"] if earlier else None
        last_active = earlier["last_active"] if earlier else values["created_at"]
        steps = []
        for message in sorted(messages, key=lambda row: (row["updated_at"], row["position"] or 0)):
            steps.append(RowStep(message["updated_at"], {"last_position": position, "last_active": last_active}))
            # The row of a session that begins with a message has the time of the message, which is a little earlier.
            is_first = earlier is None and position is None
            last_active = message["created_at"] if is_first else max(last_active, message["created_at"])
            position = message["position"]
        return steps

    def list_deletion_steps(self, values: Mapping[str, Any], *owners: _Owner) -> list[RowStep]:
        """Return the deletions of memories that were undone later.

        They also hid the rows that belong to the memories.
        """
        deletions = [row for owner in owners for row in self.changes.get(owner, ()) if _has_hidden(row, owner[1])]
        steps: list[RowStep] = []
        hidden_until = values["created_at"]
        for row in sorted(deletions, key=lambda row: row["created_at"]):
            at, undone_at = row["created_at"], row["undone_at"]
            was_hidden = at < hidden_until or (values["is_deleted"] and values["deleted_at"] <= at)
            if undone_at is None or was_hidden:
                continue
            hidden_until = undone_at
            hidden = {"is_deleted": True, "deleted_at": at, "deletion_id": row["before"].get("deletion_id")}
            steps += [RowStep(at, LIVE, is_update=False), RowStep(undone_at, hidden, is_update=False)]
        return self._keep_recent(steps)

    def _keep_recent(self, steps: list[RowStep]) -> list[RowStep]:
        return [step for step in steps if step.at > self.since]

    def was_hidden(self, *owners: _Owner) -> bool:
        """Return whether one of these memories was deleted later, or may have been."""
        rows = ((row, owner) for owner in owners for row in self.changes.get(owner, ()))
        is_known = any(owner in self.purge_times for owner in owners) or any(
            _has_hidden(row, owner[1]) for row, owner in rows
        )
        return is_known or any(self.may_have_restored(organization) for organization, _ in owners)

    def may_have_restored(self, organization: str) -> bool:
        """Return whether rows of an organization may have been restored at an unknown time."""
        return not self.is_feed_complete or organization in self.restored_organizations


def list_change_steps(values: Mapping[str, Any]) -> list[RowStep]:
    """Return the only change that an entry of the journal can have: that it was undone."""
    return [] if values["undone_at"] is None else [RowStep(values["undone_at"], {"undone_at": None})]


def read_journal(later: BackupReader, decrypt: Decrypt, since: datetime, sequence: int) -> Journal:
    """Read the changes after a time, and after the line of the change feed with the number `sequence`."""
    journal = Journal(since)
    for values in _read(later, Change):
        if values["created_at"] > since or (values["undone_at"] is not None and values["undone_at"] > since):
            _note_change(journal, decrypt(Change, values))
    for values in _read(later, Revision):
        if values["known_to"] > since:
            journal.revisions[values[TENANT], values["owner_id"]].append(decrypt(Revision, values))
    for values in _read(later, Message):
        if values["updated_at"] > since and values["session_id"] is not None:
            names = ("position", "created_at", "updated_at")
            journal.messages[values[TENANT], values["session_id"]].append({name: values[name] for name in names})
    for values in _read(later, AccessLog):
        if values["timestamp"] > since and values["success"] and values["memory_id"] is not None:
            _note_line(journal, values)
    for values in _read(later, Outbox):
        if values["sequence"] > sequence and values["operation"] == "restore":
            journal.restored_organizations.add(values[TENANT])
    counters = {values["name"]: values["value"] for values in _read(later, Counter)}
    journal.is_feed_complete = counters.get(FEED_TRIMMED, 0) <= sequence
    return journal


def _read(reader: BackupReader, entity: type[Row]) -> Iterator[_Values]:
    return reader.read_fields(entity) if entity in reader.list_entities() else iter(())


def _note_change(journal: Journal, values: _Values) -> None:
    ids, organization = values["memory_ids"], values[TENANT]
    if is_encrypted(values["before"]) or is_encrypted(values["after"]):
        return  # its key was destroyed
    for memory_id in ids:
        journal.changes[organization, memory_id].append(values)
    if values["undone_at"] is None:
        return
    if values["kind"] == "merge":
        journal.tag_times[organization, ids[0]].append(values["undone_at"])
    if values["kind"] == "relate":
        journal.unlink_times[organization, str(values["after"].get("relationship_id"))] = values["undone_at"]
    if values["kind"] == "supersede":
        for memory_id in ids[:-1]:
            journal.unlink_times[organization, f"{ids[-1]} supersedes {memory_id}"] = values["undone_at"]


def _note_line(journal: Journal, values: _Values) -> None:
    owner, request = (values[TENANT], values["memory_id"]), values["request"]
    if values["operation"] == "update" and "tags" in request:
        journal.tag_times[owner].append(values["timestamp"])
    if values["operation"] == "delete" and request.get("hard"):
        journal.purge_times[owner] = values["timestamp"]


def _has_hidden(row: _Values, memory_id: str) -> bool:
    """Return whether an entry of the journal has hidden a memory."""
    return row["kind"] == "forget" or (row["kind"] == "merge" and memory_id in row["memory_ids"][1:])


def _make_revision_step(row: Mapping[str, Any]) -> RowStep:
    """Return the change of a row that created a revision."""
    fields = None if is_encrypted(row["value"]) else _decode_fields(_OWNER_ENTITIES[row["owner_kind"]], row["value"])
    if fields is None:
        return RowStep(row["known_to"], {}, unknown=ANYTHING)
    revision_number = {"revision": row["revision"]} if row["owner_kind"] == "memory" else {}
    return RowStep(row["known_to"], {**fields, **revision_number, "last_updated_by_id": row["last_updated_by_id"]})


def _list_change_steps(row: _Values, memory: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> Iterator[RowStep]:
    """Yield the changes of one memory in an entry of the journal, except revisions and deletions.

    `earlier` is the memory in the earlier backup; None if it was revised later.
    """
    kind, at, undone_at, before = row["kind"], row["created_at"], row["undone_at"], row["before"]
    is_last = row["memory_ids"][-1] == memory["id"]
    if kind == "supersede" and not is_last:
        if at != memory["created_at"]:  # otherwise the memory was added as superseded
            fields = _decode_fields(Memory, before.get(memory["id"]))
            yield RowStep(at, fields or {}, unknown=frozenset() if fields else ANYTHING)
        if undone_at is not None:
            superseded = {"superseded_by": row["memory_ids"][-1], "superseded_at": at}
            # The journal does not show how long it was valid in between.
            if earlier is not None and earlier["superseded_at"] == at:
                yield RowStep(undone_at, superseded | {"valid_to": earlier["valid_to"]})
            else:
                yield RowStep(undone_at, superseded, unknown=frozenset({"valid_to"}))
    elif kind == "merge" and row["memory_ids"][0] != memory["id"]:
        yield RowStep(at, {})  # the merge has checked the version
    elif kind == "decay":
        yield RowStep(at, _decode_fields(Memory, before) or {}, versions=0, is_update=False)
        if undone_at is not None:
            yield RowStep(undone_at, _decode_fields(Memory, row["after"]) or {}, versions=0, is_update=False)
    elif kind == "reinforce" and before.keys() - _READ_COLUMNS:
        content = {name: value for name, value in before.items() if name not in _READ_COLUMNS}
        yield RowStep(at, _decode_fields(Memory, content) or {}, unknown=ANYTHING if undone_at else frozenset())


def _decode_fields(entity: type[Row], values: Any) -> _Values | None:
    """Convert JSON values to the types of an entity's fields; None if they are invalid."""
    if not isinstance(values, dict) or not values.keys() <= entity.model_fields.keys():
        return None
    try:
        return {name: _make_adapter(entity, name).validate_python(value) for name, value in values.items()}
    except ValidationError:
        return None


@cache
def _make_adapter(entity: type[Row], name: str) -> TypeAdapter[Any]:
    return make_field_adapter(entity.model_fields[name])
