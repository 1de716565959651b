"""Check a bundle's rows against each other: references, owners and order."""

import sys
from typing import NamedTuple

from everhold.errors import InvalidInput
from everhold.model import Change, Chunk, EmbeddingModel, Memory, Message, Revision
from everhold.model.base import Entity, Row
from everhold.model.encrypted_values import is_encrypted
from everhold.model.searchable import SEARCHABLE_BY_CLASS_NAME
from everhold.ports.records import Records
from everhold.schema.catalog import CATALOG, OWNER_TABLES, get_key
from everhold.schema.declarations import DECLARATIONS
from everhold.schema.table import Reference, Table

_REFERRED_TO = frozenset(reference.target for table in DECLARATIONS.values() for reference in table.references)


class _EarlierRow(NamedTuple):
    """The values of a row with which later rows are compared: its user, and the length of its longest text."""

    user_id: str | None = None
    characters: int | None = None


_NO_USER = _EarlierRow()
# The length of a text that is encrypted in a backup: no span can be checked.
_UNKNOWN_LENGTH = sys.maxsize


class _Successor(NamedTuple):
    """The successor of a superseded memory in line `number`. It may come later in the bundle."""

    number: int
    successor_id: str
    user_id: str | None


class BundleChecks:
    """Checks the rows of a bundle: raises InvalidInput, with the line number, for a row that an export never writes."""

    def __init__(self, records: Records, organization: str) -> None:
        self._records, self._organization = records, organization
        self._earlier_rows: dict[str, dict[str, _EarlierRow]] = {name: {} for name in _REFERRED_TO}
        self._successors: list[_Successor] = []
        self._table = ""
        self._finished: set[str] = set()
        self._keys: set[tuple[object, ...]] = set()
        self._dimensions = {model.name: model.dimensions for model in records.scan(EmbeddingModel, None)}

    def check(self, number: int, row: Row) -> None:
        table = CATALOG[type(row)]
        self._check_order(number, table, row)
        for reference in table.references:
            self._check_reference(number, table, reference, row)
        match row:
            case Memory():
                self._check_memory(number, row)
            case Message():
                self._check_session(number, "message", row)
            case Revision():
                self._record_text_length(row)
            case Change():
                self._check_change(number, row)
            case Chunk():
                self._check_chunk(number, row)
        if table.name in self._earlier_rows:
            self._earlier_rows[table.name][row.__dict__["id"]] = _make_earlier_row(row)

    def finish(self) -> None:
        """Check the successors of memories, which is possible only after all rows were read."""
        memories = self._earlier_rows["memories"]
        outside_ids = sorted({successor.successor_id for successor in self._successors} - memories.keys())
        stored = self._records.get(Memory, self._organization, outside_ids, deleted=True) if outside_ids else {}
        user_ids = {memory_id: memory.user_id for memory_id, memory in stored.items()}
        user_ids |= {
            successor.successor_id: memories[successor.successor_id].user_id
            for successor in self._successors
            if successor.successor_id in memories
        }
        for number, successor_id, user_id in self._successors:
            # A successor that neither the bundle nor the store has was purged, which is allowed.
            if user_ids.get(successor_id, user_id) != user_id:
                raise InvalidInput(
                    f"line {number}: the memory was superseded by {successor_id!r}, which belongs to another user",
                    value=successor_id,
                    remedy="export it again",
                )

    def _check_order(self, number: int, table: Table, row: Row) -> None:
        """Check that the rows of a table follow each other, and that no row is repeated."""
        if table.name != self._table:
            if table.name in self._finished:
                raise InvalidInput(f"line {number}: rows of {table.name} are in two places", remedy="export it again")
            self._finished.add(self._table)
            self._table = table.name
            self._keys.clear()  # rows of a table are together, so only the keys of one table are in memory
        key = get_key(row)
        if key in self._keys:
            raise InvalidInput(
                f"line {number}: the bundle has this row of {table.name} twice", remedy="export it again"
            )
        self._keys.add(key)

    def _check_reference(self, number: int, table: Table, reference: Reference, row: Row) -> None:
        values = row.__dict__
        if reference.kind is not None and values[reference.kind[0]] != reference.kind[1]:
            return
        target_id = values[reference.columns[0]]
        if target_id is not None and target_id not in self._earlier_rows[reference.target]:
            raise InvalidInput(
                f"line {number}: {reference.columns[0]} of a row of {table.name} is {target_id!r}, which is not in the "
                f"bundle as a row of {reference.target}",
                value=target_id,
                remedy="export it again",
            )

    def _check_memory(self, number: int, memory: Memory) -> None:
        self._check_session(number, "memory", memory)
        if memory.superseded_by is not None:
            self._successors.append(_Successor(number, memory.superseded_by, memory.user_id))

    def _check_session(self, number: int, noun: str, row: Memory | Message) -> None:
        if row.session_id is None:
            return
        owner = self._earlier_rows["sessions"][row.session_id].user_id
        if not is_allowed_in_session(row.user_id, owner):
            raise InvalidInput(
                f"line {number}: the {noun} belongs to user {row.user_id!r} and its session {row.session_id!r} to "
                f"{owner!r}",
                value=row.user_id,
                remedy="move it to a session of its user",
            )

    def _record_text_length(self, revision: Revision) -> None:
        """Record the length of an earlier text, because the span of an earlier chunk refers to the text of its time."""
        if revision.owner_kind == "memory":
            owners = self._earlier_rows["memories"]
            earlier_row = owners[revision.owner_id]
            length = _UNKNOWN_LENGTH if is_encrypted(revision.value) else len(str(revision.value["text"]))
            owners[revision.owner_id] = earlier_row._replace(characters=max(earlier_row.characters or 0, length))

    def _check_change(self, number: int, change: Change) -> None:
        memories = self._earlier_rows["memories"]
        for memory_id in change.memory_ids if change.user_id is not None else ():
            if memory_id in memories and memories[memory_id].user_id != change.user_id:
                raise InvalidInput(
                    f"line {number}: the change belongs to user {change.user_id!r}, and its memory {memory_id!r} to "
                    "another user",
                    value=change.user_id,
                    remedy="export it again",
                )

    def _check_chunk(self, number: int, chunk: Chunk) -> None:
        """Raise InvalidInput if a chunk contradicts its owner or other chunks of its model."""
        owner = self._earlier_rows[OWNER_TABLES[chunk.owner_kind]][chunk.owner_id]
        if chunk.user_id != (owner.user_id or ""):
            raise InvalidInput(
                f"line {number}: the chunk's user is {chunk.user_id!r}, and its {chunk.owner_kind} {chunk.owner_id!r} "
                f"belongs to user {owner.user_id!r}",
                value=chunk.user_id,
                remedy="export it again",
            )
        if chunk.span_end < chunk.span_start or (owner.characters is not None and chunk.span_end > owner.characters):
            raise InvalidInput(
                f"line {number}: the chunk spans {chunk.span_start} to {chunk.span_end}, and the text of its "
                f"{chunk.owner_kind} {chunk.owner_id!r} has {owner.characters} characters",
                value=chunk.owner_id,
                remedy="export it again",
            )
        if chunk.dimensions and chunk.dimensions != (
            expected := self._dimensions.setdefault(chunk.model, chunk.dimensions)
        ):
            raise InvalidInput(
                f"line {number}: the chunk has {chunk.dimensions} dimensions, and model {chunk.model!r} has {expected}",
                value=chunk.model,
                remedy="export it again",
            )


def is_allowed_in_session(user_id: str | None, session_user_id: str | None) -> bool:
    """Return whether a row of `user_id` may be in a session of `session_user_id`, as `Session.is_open_to` decides.

    A row without a user may be in any session, because a scope without a user may write there.
    """
    return None in (user_id, session_user_id) or user_id == session_user_id


def _make_earlier_row(row: Row) -> _EarlierRow:
    user_id = row.__dict__.get("user_id")
    if isinstance(row, Entity) and type(row).__name__ in SEARCHABLE_BY_CLASS_NAME:
        return _EarlierRow(user_id, len(SEARCHABLE_BY_CLASS_NAME[type(row).__name__].text(row)))
    return _NO_USER if user_id is None else _EarlierRow(user_id)
