"""Store sessions and messages of another system with the ids and times that they had there, many in one commit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from everhold import clock
from everhold.errors import AlreadyExists, BrokenReference, Conflict, InvalidInput, StaleVersion
from everhold.model import Chunk, Message, Scope, Session
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.validation import check_created_at, validate_row
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.schema.operations import Operation, Patch, Put
from everhold.sessions.archive import put_back_messages
from everhold.sessions.conversations import make_missing_conversation
from everhold.sessions.deps import SessionDeps, find_session, is_message_of, make_session_key
from everhold.sessions.pipeline import (
    LastMessage,
    draft_message,
    find_added_session,
    find_last,
    make_busy_error,
    place_message,
)

# Returns the chunks of each message.
MakeMessageChunks = Callable[[Sequence[Message]], Sequence[Sequence[Chunk]]]


# Maps the id of each message to None if this call stored it, or to the reason why it was refused. Messages that were
# stored before are absent.
AppendedMessages = dict[str, str | None]


def draft_session(scope: Scope, values: Mapping[str, Any]) -> Session:
    """Return the validated row of an imported session."""
    now = clock.now()
    created_at = values.get("created_at") or values.get("last_active") or now
    last_active = values.get("last_active") or created_at
    check_created_at(max(created_at, last_active), now)
    ids = {"id": make_session_key(scope).session, "organization_id": scope.organization, "created_by_id": scope.actor}
    owners = {"project_id": scope.project, "user_id": scope.user, "agent_id": scope.agent}
    stamps = {"created_at": created_at, "updated_at": max(last_active, created_at), "last_active": last_active}
    return validate_row(Session, {**values, **ids, **owners, **stamps})


def import_session(deps: SessionDeps, scope: Scope, values: Mapping[str, Any]) -> bool:
    """Store a session with the times that it had in another system, unless it exists; return whether it was stored.

    Raise NotFound if the session belongs to another user, project or agent.
    """
    if find_session(deps.records, scope) is not None:
        return False
    session, now = draft_session(scope, values), clock.now()
    operations = [
        Put(session) if isinstance(operation, Put) and isinstance(operation.row, Session) else operation
        for operation in deps.scope_rows.make_missing_rows(scope, now)
    ]
    line = make_access_line(scope, "create", now, {"session": session.id}, interface=deps.interface)
    deps.records.commit([*operations, Put(line)])
    deps.scope_rows.confirm(scope)
    return True


def append_messages(
    deps: SessionDeps, scope: Scope, items: Sequence[Mapping[str, Any]], make_chunks: MakeMessageChunks
) -> AppendedMessages:
    """Store those messages that the session does not have yet, oldest first, in one commit.

    Each item must have an id and a time. A message is refused if it is older than the last one of the session, or if
    another message has its id.
    """
    drafts = sorted((draft_message(deps, scope, item) for item in items), key=lambda draft: draft.created_at)
    chunks: dict[str, Sequence[Chunk]] = {}
    session_key = make_session_key(scope)
    return retry(
        "import messages",
        lambda _: _append(deps, scope, drafts, chunks, make_chunks),
        CONFLICTS,
        give_up=lambda _: make_busy_error(session_key, "messages were imported"),
    )


def _append(
    deps: SessionDeps,
    scope: Scope,
    drafts: Sequence[Message],
    chunks: dict[str, Sequence[Chunk]],
    make_chunks: MakeMessageChunks,
) -> AppendedMessages:
    outcome, missing_messages = _split_stored(deps, scope, drafts)
    if not missing_messages:
        return outcome
    session, now = find_session(deps.records, scope), clock.now()
    rows = deps.scope_rows.make_missing_rows(scope, now)
    before = session or find_added_session(rows)
    if before is None or before.archived_messages:
        if before is not None:
            put_back_messages(deps, before.organization_id, before.id)
        deps.scope_rows.invalidate()
        raise TryAgain("the session's row is missing, or its messages were archived")
    if before.ended_at is not None:
        raise Conflict(f"session {before.id!r} has ended", value=before.id, remedy="reopen it and import again")
    last = find_last(deps.records, before, is_import=True, by_position=False)
    accepted_messages: list[Message] = []
    for draft in missing_messages:
        try:
            message = place_message(draft, before, last, draft.created_at, now)
        except InvalidInput as error:
            outcome[draft.id] = str(error)
            continue
        last = LastMessage(message.position or 0, message.created_at)
        accepted_messages.append(message)
        outcome[message.id] = None
    if accepted_messages:
        without_chunks = [message for message in accepted_messages if message.id not in chunks]
        chunks.update(zip((message.id for message in without_chunks), make_chunks(without_chunks), strict=True))
        _commit(deps, scope, [*rows, *_make_operations(deps, scope, before, accepted_messages, chunks)])
    return outcome


def _split_stored(deps: SessionDeps, scope: Scope, drafts: Sequence[Message]) -> tuple[AppendedMessages, list[Message]]:
    """Return why messages whose id is taken are refused, by message id, and the messages that are not stored yet."""
    outcome: AppendedMessages = {}
    stored = deps.records.get(Message, scope.organization, [draft.id for draft in drafts], deleted=True)
    missing_messages: dict[str, Message] = {}
    for draft in drafts:
        message_with_id = stored.get(draft.id) or missing_messages.get(draft.id)
        if message_with_id is None:
            missing_messages[draft.id] = draft
        elif not is_message_of(scope, message_with_id) or not _is_same_message(message_with_id, draft):
            outcome[draft.id] = f"message id {draft.id!r} is taken by another message; choose another"
    return outcome, list(missing_messages.values())


def _is_same_message(stored: Message, draft: Message) -> bool:
    # An imported message keeps its `imported` metadata even if its text was changed later.
    return stored.text == draft.text or stored.metadata.get("imported") == draft.metadata.get("imported")


def _make_operations(
    deps: SessionDeps, scope: Scope, before: Session, messages: Sequence[Message], chunks: Mapping[str, Sequence[Chunk]]
) -> list[Operation]:
    """Return the operations that store messages with their chunks and update their session."""
    last, now = messages[-1], clock.now()
    changes = {
        "last_active": max(before.last_active, last.created_at),
        "last_position": last.position,
        "updated_at": max(before.updated_at, last.created_at),
    }
    operations: list[Operation] = [Patch(Session, (before.organization_id, before.id), changes, before.version)]
    first_messages = {message.conversation_id: message for message in reversed(messages)}
    for message in first_messages.values():
        operations += make_missing_conversation(deps.records, message)
    for message in messages:
        request = {"message": message.id, "role": message.role, "imported": True}
        operations += [
            Put(message),
            Put(make_access_line(scope, "create", now, request, interface=deps.interface)),
            *[Put(Chunk.build_unchecked({**c.__dict__, "known_from": message.created_at})) for c in chunks[message.id]],
            Put(make_announcement(message)),
        ]
    return operations


def _commit(deps: SessionDeps, scope: Scope, operations: Sequence[Operation]) -> None:
    try:
        deps.records.commit(operations)
    except (AlreadyExists, StaleVersion, BrokenReference) as error:
        deps.scope_rows.invalidate()
        raise TryAgain("another writer changed the session") from error
    deps.scope_rows.confirm(scope)
    deps.cache.drop([make_session_key(scope)])
