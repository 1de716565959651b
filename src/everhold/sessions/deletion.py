"""Delete a single message, and restore it."""

from collections.abc import Callable, Sequence
from datetime import datetime

from everhold import clock
from everhold.errors import NotFound, StaleVersion, StoreBusy
from everhold.model import Agent, Conversation, Message, Project, Scope, Session, User
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.base import Entity
from everhold.ports.erasure import note_purge
from everhold.ports.records import Records
from everhold.ports.session_cache import SessionKey
from everhold.retries import CONFLICTS, retry
from everhold.schema.operations import Delete, Hide, Operation, Patch, Put, Unhide
from everhold.sessions.archive import put_back_sessions_with_messages
from everhold.sessions.deps import SessionDeps, is_message_of, require_session

# Returns the operations that purge the memories that were derived only from these messages.
Erase = Callable[[Sequence[Message], datetime], list[Operation]]

_OWNERS: dict[str, type[Entity]] = {
    "session_id": Session,
    "conversation_id": Conversation,
    "user_id": User,
    "project_id": Project,
    "agent_id": Agent,
    "message_id": Message,
}


def delete_message(deps: SessionDeps, scope: Scope, message_id: str, erase: Erase, *, hard: bool) -> Message:
    """Hide a message; with `hard`, purge it and the memories that were derived only from this message."""
    message = _require_message(deps, scope, message_id, deleted=hard)
    key = (message.organization_id, message.id)

    def make_operations(now: datetime) -> list[Operation]:
        line = make_access_line(scope, "delete", now, {"message": message.id, "hard": hard}, interface=deps.interface)
        deletions: list[Operation] = [Hide(Message, key, clock.make_id("del"), now)]
        if hard:
            deletions = [*erase([message], now), *note_purge(), Delete(Message, key)]
        summary_changes = deps.update_summaries([message], now, False)
        return [*deletions, *summary_changes, Put(line), Put(make_announcement(message, "delete"))]

    _commit(deps, message, make_operations)
    _remove_from_later_summaries(deps, message)
    return message


def _remove_from_later_summaries(deps: SessionDeps, message: Message) -> None:
    """Remove a deleted message from summaries that were written at the same time as it was deleted."""

    def commit(_: int) -> None:
        operations = deps.update_summaries([message], clock.now(), False)
        if operations:
            deps.records.commit(operations)

    retry("remove a deleted message from summaries", commit, CONFLICTS, on=StaleVersion)


def restore_message(deps: SessionDeps, scope: Scope, message_id: str) -> Message:
    """Restore a message that `delete_message` hid.

    Raise NotFound if the message is not deleted, or was deleted with its owner.
    """
    message = _require_message(deps, scope, message_id, deleted=True)
    deletion_id = message.deletion_id
    if deletion_id is None:
        raise NotFound(f"message {message_id!r} is not deleted", value=message_id, remedy="there is nothing to restore")
    require_own_deletion(deps.records, message, "message")

    def make_operations(now: datetime) -> list[Operation]:
        request = {"message": message.id, "restored": True}
        line = make_access_line(scope, "update", now, request, interface=deps.interface)
        operations = [Unhide(message.organization_id, deletion_id), *deps.update_summaries([message], now, True)]
        return [*operations, Put(line), Put(make_announcement(message, "restore"))]

    _commit(deps, message, make_operations)
    return deps.records.get(Message, message.organization_id, [message.id])[message.id]


def require_own_deletion(records: Records, row: Entity, kind: str) -> None:
    """Raise NotFound if a row was deleted with its owner: restoring it would restore the owner too."""
    for column, entity in _OWNERS.items():
        owner = _find(records, entity, row.organization_id, row.__dict__.get(column))
        if owner is not None and owner.deletion_id == row.deletion_id:
            name = column.removesuffix("_id")
            raise NotFound(f"{kind} {row.id!r} was deleted with its {name}", value=row.id, remedy=f"restore the {name}")


def _commit(deps: SessionDeps, message: Message, make_operations: Callable[[datetime], list[Operation]]) -> None:
    """Commit a change to a message together with a new version of its session."""

    def commit(_: int) -> None:
        now = clock.now()
        session = _find(deps.records, Session, message.organization_id, message.session_id)
        session_patch: list[Operation] = []
        if session is not None:
            # Cached sessions carry the version of the row, so a new version makes every process discard its copy.
            changes = {"updated_at": max(now, session.updated_at)}
            session_patch = [Patch(Session, (session.organization_id, session.id), changes, session.version)]
        deps.records.commit([*make_operations(now), *session_patch])
        if session is not None:
            deps.cache.drop([SessionKey(session.organization_id, session.id)])

    busy = StoreBusy(f"the session of message {message.id!r} keeps changing", value=message.id, remedy="try again")
    retry("change a message and its session", commit, CONFLICTS, on=StaleVersion, give_up=lambda _: busy)


def _require_message(deps: SessionDeps, scope: Scope, message_id: str, *, deleted: bool) -> Message:
    """Return a message that the scope may read; raise NotFound without revealing whether another scope has it."""
    message = deps.records.get(Message, scope.organization, [message_id], deleted=deleted).get(message_id)
    if message is None and put_back_sessions_with_messages(deps, scope, [message_id]):
        message = deps.records.get(Message, scope.organization, [message_id], deleted=deleted).get(message_id)
    if message is None or not _can_read(deps.records, scope, message):
        raise NotFound(
            f"no message {message_id!r} in scope {scope}",
            value=message_id,
            remedy="pass the id of a message that the scope can read",
        )
    return message


def _can_read(records: Records, scope: Scope, message: Message) -> bool:
    """Return whether the scope may read a message.

    A message of the scope's session can be read even if the session has no project and the scope names one.
    """
    if scope.can_read(message):
        return True
    if scope.session is None or not is_message_of(scope, message):
        return False
    require_session(records, scope)
    return True


def _find(records: Records, entity: type[Entity], organization: str, row_id: str | None) -> Entity | None:
    return None if row_id is None else records.get(entity, organization, [row_id], deleted=True).get(row_id)
