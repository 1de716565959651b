"""Store the records of an import with the functions that also store the engine's own data, so all rules apply."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold import clock
from everhold.agents.files import read_agent_file
from everhold.agents.states import find_state, set_state
from everhold.errors import AlreadyExists, Conflict, EverholdError, InvalidInput, NotFound
from everhold.importers.files import find_member
from everhold.importers.pipeline import ADDED, EXISTING, Outcome
from everhold.importers.records import Record
from everhold.importers.source import RecordKind
from everhold.model import Agent, AgentState, Memory, Message, Scope, Session
from everhold.model.agent import make_state_id
from everhold.model.validation import validate_row
from everhold.ports.time_partitions import find_month
from everhold.remember.chunks import make_chunks_or_words
from everhold.remember.draft import Draft, make_draft
from everhold.remember.duplicates import find_duplicates
from everhold.remember.link import make_relationship
from everhold.remember.lookup import find_by_key
from everhold.remember.pipeline import remember
from everhold.remember.relate import relate
from everhold.sessions.bulk import append_messages, draft_session, import_session
from everhold.sessions.deps import find_session
from everhold.sessions.pipeline import change_session, draft_message
from everhold.stores import add_partitions
from everhold.views.agent_files import AgentFileVerbs
from everhold.views.agents import make_agent_deps
from everhold.views.import_links import LinkedMemories
from everhold.views.import_vectors import VectorChoice
from everhold.views.imported_users import draft_user, import_user
from everhold.views.session_starts import SessionStarts

if TYPE_CHECKING:
    from everhold.parts import Parts

_SESSION_FIELDS = ("title", "summary", "topic", "context", "metadata", "session_type", "created_at")
_MESSAGE_FIELDS = (
    "id", "role", "text", "content", "name", "model", "tool_calls", "tool_call_id", "tool_returns", "sender_id",
    "group_id", "references", "metadata", "created_at", "conversation",
)  # fmt: skip
_MEMORY_FIELDS = (
    "id", "key", "text", "content", "kind", "tags", "importance", "priority", "confidence", "created_at", "occurred_at",
    "expires_at", "metadata", "source_agent", "speaker", "aliases", "pinned", "namespace", "level",
)  # fmt: skip
# Errors that refuse a single record. Any other error is one of the store or the model and ends the import.
_REFUSALS = (InvalidInput, NotFound, Conflict)


class ImportWriter:
    """Stores the records of one import in one organization, or for one user of it."""

    def __init__(self, parts: "Parts", scope: Scope, path: Path) -> None:
        self._parts, self._scope, self._path = parts, scope, path
        self._vectors, self._starts = VectorChoice(parts.write_deps.chunking), SessionStarts()
        self._owners: dict[str, str | None] = {}
        """Maps sessions to their users. The messages and memories of a session belong to the session's user."""
        self._months: set[datetime] = set()
        """The months in which the checked memories were created."""
        self._endings_by_session: dict[str, dict[str, Any]] = {}
        self._links = LinkedMemories(parts.records)

    @property
    def vectors_kept(self) -> int:
        return self._vectors.kept

    @property
    def vectors_replaced(self) -> int:
        return self._vectors.replaced

    @property
    def has_late_sessions(self) -> bool:
        return self._starts.has_late_sessions

    def restart(self) -> None:
        self._vectors, self._starts = VectorChoice(self._parts.write_deps.chunking), SessionStarts()
        self._months.clear()
        self._links.restart()

    def find_fault(self, record: Record) -> str | None:
        try:
            _DRAFTS[record.kind](self, record)
            self._starts.note(record)
        except _REFUSALS as error:
            return str(error)
        return None

    def prepare(self) -> None:
        """Create partitions for the months of the memories, if the store is in partitions."""
        add_partitions(self._parts.settings, self._months)

    def write(self, records: Sequence[Record]) -> Sequence[Outcome]:
        outcomes: list[Outcome] = []
        for kind, group in groupby(records, lambda record: record.kind):
            for scope, group_records in self._group_by_scope(list(group)):
                if isinstance(scope, str):
                    outcomes += [Outcome("quarantined", scope)] * len(group_records)
                else:
                    if kind in ("message", "memory"):
                        self._starts.begin_session(self._parts.session_deps, scope)
                    outcomes += _WRITES[kind](self, scope, group_records)
        return outcomes

    def finish(self) -> None:
        """End the sessions that had ended in the other system, after all of their messages have been added."""
        for session_id, values in self._endings_by_session.items():
            scope = self._scope.narrow(session=session_id, user=self._owners.get(session_id))
            session = find_session(self._parts.records, scope)
            if session is not None and session.ended_at is None and not session.is_archived:
                change_session(self._parts.session_deps, scope, values)

    def _group_by_scope(self, records: Sequence[Record]) -> Iterator[tuple[Scope | str, list[Record]]]:
        """Yield groups of consecutive records with the same scope, or with the same reason why they have no scope."""

        def find_scope_or_reason(record: Record) -> Scope | str:
            try:
                return self._find_scope(record)
            except _REFUSALS as error:
                return str(error)

        for scope, group in groupby(records, find_scope_or_reason):
            yield scope, list(group)

    def _find_scope(self, record: Record) -> Scope:
        """Return the scope that a record belongs to; raise InvalidInput if it is outside of the scope of the import."""
        values = record.values
        session = values["id"] if record.kind == "session" else values.get("session")
        user = values["id"] if record.kind == "user" else values.get("user")
        if user is None and session is not None and record.kind != "session":
            user = self._find_owner(session)
        if self._scope.user is not None and user not in (None, self._scope.user):
            raise InvalidInput(
                f"it belongs to user {user!r}, and the import is for user {self._scope.user!r}",
                value=user,
                remedy=f"rename that user with {user}={self._scope.user}, or import for all users",
            )
        if record.kind == "session":
            self._owners[values["id"]] = user or self._scope.user
        return self._scope.narrow(user=user, session=session, agent=values.get("agent"))

    def _find_owner(self, session_id: str) -> str | None:
        """Return the user of a session of this import, or of a session in the store."""
        if session_id not in self._owners:
            stored_session = self._parts.records.get(Session, self._scope.organization, [session_id]).get(session_id)
            self._owners[session_id] = None if stored_session is None else stored_session.user_id
        return self._owners[session_id]

    # drafts: check records without writing

    def _draft_user(self, record: Record) -> None:
        draft_user(self._find_scope(record), record.values, self._parts.settings.timezone)

    def _draft_session(self, record: Record) -> None:
        draft_session(self._find_scope(record), _choose_session_values(record))

    def _draft_message(self, record: Record) -> Message:
        return draft_message(self._parts.session_deps, self._find_scope(record), _choose(record, _MESSAGE_FIELDS))

    def _draft_memory(self, record: Record) -> Draft:
        self._vectors.count(record)
        item = _choose(record, _MEMORY_FIELDS)
        draft = make_draft(self._find_scope(record), item, clock.now(), self._parts.write_deps.text_bytes)
        self._months.add(find_month(draft.memory.created_at))
        self._links.note_checked(draft.memory)
        return draft

    def _draft_relationship(self, record: Record) -> None:
        values = record.values
        make_relationship(self._scope, values["source"], values["target"], values["type"], clock.now())
        for name in (values["source"], values["target"]):
            self._links.require(self._scope, name)

    def _draft_state(self, record: Record) -> None:
        scope, values, now = self._find_scope(record), record.values, clock.now()
        expires_at = values.get("expires_at")
        if expires_at is not None and expires_at <= now:
            fact = f"the state has expired at {expires_at.isoformat()}"
            raise InvalidInput(fact, value=expires_at, remedy="it is not needed")
        identity = {"id": make_state_id(values["agent"], scope.session), "agent_id": values["agent"]}
        stamps = {"organization_id": scope.organization, "created_at": now, "updated_at": now}
        validate_row(AgentState, {"state": values["state"], **identity, **stamps, "metadata": values["metadata"]})

    def _draft_agent(self, record: Record) -> None:
        read_agent_file(find_member(self._path, record.values.get("file")), record.values.get("choice"))

    # writes

    def _write_each(
        self, store: Callable[[Scope, Mapping[str, Any]], bool], scope: Scope, records: Sequence[Record]
    ) -> list[Outcome]:
        """Store records one by one with `store`, which returns whether it has added anything."""
        outcomes = []
        for record in records:
            try:
                outcomes.append(ADDED if store(scope, record.values) else EXISTING)
            except _REFUSALS as error:
                outcomes.append(Outcome("quarantined", str(error)))
        return outcomes

    def _write_users(self, scope: Scope, records: Sequence[Record]) -> list[Outcome]:
        return self._write_each(lambda user_scope, values: import_user(self._parts, user_scope, values), scope, records)

    def _write_sessions(self, scope: Scope, records: Sequence[Record]) -> list[Outcome]:
        outcomes = []
        for record in records:
            values = self._starts.complete(_choose_session_values(record), record.values["id"])
            try:
                is_added = import_session(self._parts.session_deps, scope, values)
            except _REFUSALS as error:
                outcomes.append(Outcome("quarantined", str(error)))
                continue
            ending = {name: record.values[name] for name in ("ended_at", "is_archived") if record.values.get(name)}
            if ending:
                self._endings_by_session[record.values["id"]] = ending
            outcomes.append(ADDED if is_added else EXISTING)
        return outcomes

    def _write_messages(self, scope: Scope, records: Sequence[Record]) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        checked: dict[int, Record] = {}
        for number, record in enumerate(records):
            reason = self.find_fault(record)
            if reason is None:
                checked[number] = record
            else:
                outcomes[number] = Outcome("quarantined", reason)
        items = [_choose(record, _MESSAGE_FIELDS) for record in checked.values()]
        try:
            reasons = append_messages(self._parts.session_deps, scope, items, self._make_chunks) if items else {}
        except _REFUSALS as error:
            reasons = dict.fromkeys((item["id"] for item in items), str(error))
        for number, record in checked.items():
            message_id = record.values["id"]
            outcomes[number] = ADDED if message_id in reasons else EXISTING
            if reason := reasons.get(message_id):
                outcomes[number] = Outcome("quarantined", reason)
        return [outcomes[number] for number in range(len(records))]

    def _make_chunks(self, messages: Sequence[Message]) -> Sequence[Sequence[Any]]:
        if not self._parts.settings.index_messages:
            return [[] for _ in messages]
        return make_chunks_or_words(messages, self._parts.write_deps.chunking)

    def _write_memories(self, scope: Scope, records: Sequence[Record]) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        drafts: dict[int, Draft] = {}
        for number, record in enumerate(records):
            try:
                item = _choose(record, _MEMORY_FIELDS)
                drafts[number] = make_draft(scope, item, clock.now(), self._parts.write_deps.text_bytes)
            except _REFUSALS as error:
                outcomes[number] = Outcome("quarantined", str(error))
        outcomes |= self._find_stored(scope, drafts)
        items = {number: self._make_item(records[number]) for number in drafts if number not in outcomes}
        outcomes |= self._remember(scope, items)
        return [outcomes[number] for number in range(len(records))]

    def _make_item(self, record: Record) -> dict[str, Any]:
        item = _choose(record, _MEMORY_FIELDS)
        vector = self._vectors.choose(record)
        return {**item, "vector": vector} if vector else item

    def _find_stored(self, scope: Scope, drafts: Mapping[int, Draft]) -> dict[int, Outcome]:
        """Return the outcomes of the memories that the store already has, found by their id or by their text."""
        records, organization = self._parts.records, scope.organization
        memories = [draft.memory for draft in drafts.values()]
        ids = dict.fromkeys(name for memory in memories for name in (memory.id, memory.original_id))
        stored_memories = records.get(Memory, organization, list(ids), deleted=True) if ids else {}
        outcomes, unmatched, seen_ids = {}, {}, set()
        for number, draft in drafts.items():
            stored_memory = stored_memories.get(draft.memory.id) or stored_memories.get(draft.memory.original_id)
            if stored_memory is not None and not _is_same_memory(stored_memory, draft.memory):
                outcomes[number] = _refuse_taken(draft.memory)
            elif stored_memory is not None or draft.memory.original_id in seen_ids:
                outcomes[number] = EXISTING
            else:
                unmatched[number] = draft
            if stored_memory is not None:
                self._links.note_stored(draft.memory, stored_memory.id)
            seen_ids.add(draft.memory.original_id)
        if not unmatched:
            return outcomes
        stored_ids = find_duplicates(records, scope, list(unmatched.values()), clock.now()).duplicate_ids
        for draft in unmatched.values():
            self._links.note_stored(draft.memory, stored_ids.get(draft.memory.id, draft.memory.id))
        return outcomes | {number: EXISTING for number, draft in unmatched.items() if draft.memory.id in stored_ids}

    def _remember(self, scope: Scope, items: Mapping[int, dict[str, Any]]) -> dict[int, Outcome]:
        """Store memories in one commit. If it is refused, store them one by one to find out which memory is refused."""
        if not items:
            return {}
        try:
            remember(self._parts.write_deps, scope, list(items.values()))
        except _REFUSALS as error:
            if len(items) == 1:
                return {number: self._explain_refusal(scope, item, error) for number, item in items.items()}
            outcomes: dict[int, Outcome] = {}
            for number, item in items.items():
                outcomes |= self._remember(scope, {number: item})
            return outcomes
        return dict.fromkeys(items, ADDED)

    def _explain_refusal(self, scope: Scope, item: dict[str, Any], error: EverholdError) -> Outcome:
        """Return the outcome of a memory that was refused.

        If the memory was imported earlier with another time zone, its id has changed and only its key is the same. Then
        it exists already.
        """
        if not isinstance(error, AlreadyExists) or error.rule != "own_key":
            return Outcome("quarantined", str(error))
        imported = make_draft(scope, item, clock.now(), self._parts.write_deps.text_bytes).memory
        stored_memory = find_by_key(self._parts.records, scope, item["key"])
        if stored_memory is None or not _is_same_memory(stored_memory, imported):
            return _refuse_taken(imported)
        self._links.note_stored(imported, stored_memory.id)
        return EXISTING

    def _write_relationships(self, scope: Scope, records: Sequence[Record]) -> list[Outcome]:
        return self._write_each(self._relate, scope, records)

    def _relate(self, scope: Scope, values: Mapping[str, Any]) -> bool:
        source, target = (self._links.find_id(values[name]) for name in ("source", "target"))
        if source == target:
            return False  # the store has one memory for both
        memories = self._parts.records.get(Memory, scope.organization, [source, target])
        users = {memory.user_id for memory in memories.values()} - {None}
        if len(users) > 1:
            raise InvalidInput("it relates memories of two users", remedy="relate memories of one user")
        started_at = clock.now()
        link = relate(self._parts.write_deps, scope, source, target, values["type"], values.get("metadata", {}))
        return link.created_at >= started_at

    def _write_states(self, scope: Scope, records: Sequence[Record]) -> list[Outcome]:
        return self._write_each(self._set_state, scope, records)

    def _set_state(self, scope: Scope, values: Mapping[str, Any]) -> bool:
        if find_state(self._parts.records, scope) is not None:
            return False
        deps, expires_at, metadata = make_agent_deps(self._parts), values.get("expires_at"), values["metadata"]
        set_state(
            deps, scope, values["state"], expires_at=expires_at, ttl=None, metadata=metadata, expected_version=None
        )
        return True

    def _write_agents(self, scope: Scope, records: Sequence[Record]) -> list[Outcome]:
        return self._write_each(self._import_agent, scope, records)

    def _import_agent(self, scope: Scope, values: Mapping[str, Any]) -> bool:
        stored_agent = self._parts.records.get(Agent, scope.organization, [values["agent"]]).get(values["agent"])
        if stored_agent is not None and not stored_agent.is_implicit:
            return False
        AgentFileVerbs(self._parts, scope).import_agent(
            find_member(self._path, values.get("file")), source=values.get("choice")
        )
        return True


_DRAFTS: Mapping[RecordKind, Callable[[ImportWriter, Record], object]] = {
    "user": ImportWriter._draft_user,
    "session": ImportWriter._draft_session,
    "message": ImportWriter._draft_message,
    "memory": ImportWriter._draft_memory,
    "relationship": ImportWriter._draft_relationship,
    "state": ImportWriter._draft_state,
    "agent": ImportWriter._draft_agent,
}
_WRITES: Mapping[RecordKind, Callable[[ImportWriter, Scope, Sequence[Record]], list[Outcome]]] = {
    "user": ImportWriter._write_users,
    "session": ImportWriter._write_sessions,
    "message": ImportWriter._write_messages,
    "memory": ImportWriter._write_memories,
    "relationship": ImportWriter._write_relationships,
    "state": ImportWriter._write_states,
    "agent": ImportWriter._write_agents,
}


def _choose(record: Record, names: Sequence[str]) -> dict[str, Any]:
    return {name: record.values[name] for name in names if record.values.get(name) is not None}


def _choose_session_values(record: Record) -> dict[str, Any]:
    values = _choose(record, _SESSION_FIELDS)
    last_active = record.values.get("updated_at") or record.values.get("ended_at")
    return values if last_active is None else {**values, "last_active": last_active}


def _refuse_taken(imported: Memory) -> Outcome:
    return Outcome("quarantined", f"memory id {imported.original_id!r} is taken by another memory; choose another")


def _is_same_memory(stored: Memory, imported: Memory) -> bool:
    # An imported memory keeps `imported` in its metadata even if its text was revised later.
    is_same = stored.text == imported.text or stored.metadata.get("imported") == imported.metadata.get("imported")
    return is_same and stored.user_id == imported.user_id
