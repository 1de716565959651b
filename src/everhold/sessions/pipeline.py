"""Append a message to a session.

    find the session → take the position after its last message → commit message and session → update the cache

The session's row stores the position and the time of its last message, so no message is read. Several callers may
write to one session at the same time. Each commit requires the session version that the caller read, so one of them
succeeds and the others read the session again and retry.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from everhold import clock
from everhold.errors import (
    AlreadyExists,
    BrokenReference,
    Conflict,
    InvalidInput,
    Remedy,
    StaleVersion,
    StoreBusy,
    StoreError,
    Verb,
)
from everhold.model import Chunk, Message, Scope, Session
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.validation import check_created_at, validate_row
from everhold.ports.records import Records
from everhold.ports.session_cache import SessionKey, Step
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.schema.catalog import get_table
from everhold.schema.operations import Op, Operation, Patch, Put, Where
from everhold.sessions.archive import put_back_messages, put_back_sessions_with_messages
from everhold.sessions.content import read_content
from everhold.sessions.conversations import make_missing_conversation
from everhold.sessions.deps import SessionDeps, find_session, is_message_of, make_row_key, make_session_key
from everhold.sessions.working import NEWEST, compute_row_stamp, compute_stamp, fill

# The fields of a message that the caller sets. A retry must repeat all of them.
_CALLER_FIELDS = (
    "role", "text", "content", "conversation_id", "model", "name", "tool_calls", "tool_call_id", "tool_returns",
    "step_id", "otid", "group_id", "sender_id", "references", "metadata", "id",
)  # fmt: skip
_CONTENT_FIELDS = ("text", "content", "tool_calls", "tool_returns")
_MESSAGES = get_table(Message).name
_TIME_RESOLUTION = timedelta(seconds=1)  # imported times may be rounded to the second


class LastMessage(NamedTuple):
    """The position and the time of a session's last message."""

    position: int
    said_at: datetime


def say(deps: SessionDeps, scope: Scope, values: Mapping[str, Any]) -> Message:
    """Store a message as the last one of its session, and update the session's row in the same commit.

    A message with the id and the content of a stored one is a retry: the stored message is returned.
    """
    session_key = make_session_key(scope)
    draft = draft_message(deps, scope, values)
    is_import = values.get("created_at") is not None
    # The session may meanwhile have messages later than the retried import, so appending it again would be refused.
    retried = _find_retried(deps.records, scope, draft) if is_import else None
    if retried is not None:
        return retried
    # Chunks do not depend on the position, so they are embedded once and not at every attempt.
    chunks = deps.make_chunks(draft)
    tried_versions: set[int] = set()
    return retry(
        "append a message to a session",
        lambda _: _append(deps, scope, draft, chunks, is_import, tried_versions),
        CONFLICTS,
        give_up=lambda _: make_busy_error(session_key, "something was said in it"),
    )


def _append(
    deps: SessionDeps,
    scope: Scope,
    draft: Message,
    chunks: Sequence[Chunk],
    is_import: bool,
    tried_versions: set[int],
) -> Message:
    """Commit the message after the last one of its session; raise TryAgain if another caller changed the session."""
    session_key = make_session_key(scope)
    session = find_session(deps.records, scope)
    if session is not None and session.ended_at is not None:
        return _require_retry(deps, scope, session, draft)
    now = clock.now()
    rows = deps.scope_rows.make_missing_rows(scope, now)
    before = session or find_added_session(rows)
    if before is None:
        deps.scope_rows.invalidate()
        raise TryAgain("the session's row is missing")
    # If a commit failed at this same version, a message has a position that the session's row does not show.
    last = find_last(deps.records, before, is_import=is_import, by_position=before.version in tried_versions)
    tried_versions.add(before.version)
    message = place_message(draft, before, last, draft.created_at if is_import else None, now)
    rows += make_missing_conversation(deps.records, message)
    after = _update_session(session, before, message, now)
    try:
        deps.records.commit([*rows, *_make_operations(deps, scope, before, after, message, chunks)])
    except AlreadyExists as error:
        if error.table != _MESSAGES or error.rule == "position":
            raise TryAgain("another caller took this position, or began the session or the conversation") from error
        return _require_repeated(deps.records, scope, message, error)
    except (StaleVersion, BrokenReference) as error:
        deps.scope_rows.invalidate()
        raise TryAgain("another writer changed the session") from error
    deps.scope_rows.confirm(scope)
    _update_cache(deps, session_key, before, after, message)
    return message


def change_session(
    deps: SessionDeps, scope: Scope, values: Mapping[str, Any], *, operation: Literal["create", "update"] = "update"
) -> Session:
    """Set fields of the scope's session and return it; create the session if it does not exist."""
    session_key = make_session_key(scope)

    def commit(_: int) -> Session:
        now = clock.now()
        session = find_session(deps.records, scope)
        rows = deps.scope_rows.make_missing_rows(scope, now)
        before = session or find_added_session(rows)
        if before is None:
            deps.scope_rows.invalidate()
            raise TryAgain("the session's row is missing")
        if "ended_at" in values and before.archived_messages:
            # To choose the next position, the last message must be in its table.
            put_back_messages(deps, before.organization_id, before.id)
            raise TryAgain("the session's messages were archived")
        now = max(now, before.updated_at)
        after = validate_row(Session, {**before.__dict__, **values, "updated_at": now, "version": before.version + 1})
        changes = {name: after.__dict__[name] for name in values}
        line = make_access_line(scope, operation, now, {"fields": sorted(values)}, interface=deps.interface)
        patch = Patch(Session, make_row_key(session_key), {**changes, "updated_at": now}, before.version)
        try:
            deps.records.commit([*rows, patch, Put(line), Put(make_announcement(after))])
        except (AlreadyExists, StaleVersion, BrokenReference) as error:
            deps.scope_rows.invalidate()
            raise TryAgain("another writer changed the session") from error
        deps.scope_rows.confirm(scope)
        _update_cache(deps, session_key, before, after, None)
        return after

    return retry(
        "change a session", commit, CONFLICTS, give_up=lambda _: make_busy_error(session_key, "it was updated")
    )


def make_busy_error(session_key: SessionKey, action: str) -> StoreBusy:
    session_id = session_key.session
    return StoreBusy(f"session {session_id!r} kept changing while {action}", value=session_id, remedy="try again")


def place_message(
    draft: Message, session: Session, last: LastMessage | None, created_at: datetime | None, now: datetime
) -> Message:
    """Return the message with its position and time, and with the project of its session if that has one."""
    values = {
        **draft.__dict__,
        "position": 0 if last is None else last.position + 1,
        "created_at": _choose_time(created_at, last, now),
        "updated_at": now,
    }
    if session.project_id is not None:
        values["project_id"] = session.project_id
    return Message.build_complete(values)


def _update_session(stored: Session | None, before: Session, message: Message, now: datetime) -> Session:
    """Return the session's row after a message; `stored` is None if the same commit creates the row `before`.

    `last_active` becomes the time of the message, which is in the past for an imported one.
    """
    said_at = message.created_at
    changes = {
        "last_active": said_at if stored is None else max(stored.last_active, said_at),
        "last_position": message.position,
        "updated_at": max(now, before.updated_at),
        "version": before.version + 1,
    }
    return Session.build_complete({**before.__dict__, **changes})


def draft_message(deps: SessionDeps, scope: Scope, values: Mapping[str, Any]) -> Message:
    """Return the validated message, without its position in the session."""
    values = read_content(values)
    if not any(values.get(name) for name in _CONTENT_FIELDS):
        raise InvalidInput("the message says nothing", remedy="give a text, content, tool_calls or tool_returns")
    scope_columns = {name: value for name, value in scope.columns.items() if name != "project_id"}
    now = clock.now()
    said_at = values.get("created_at") or now
    check_created_at(said_at, now)
    stamps = {"organization_id": scope.organization, "created_at": said_at, "updated_at": now}
    fields = {name: value for name, value in values.items() if name != "conversation"}
    defaults = {"id": clock.make_id("msg", values.get("created_at")), "conversation_id": values.get("conversation")}
    # The scope and the times come last, so that a caller's field cannot put a message into another scope.
    message = validate_row(Message, {**defaults, **fields, **scope_columns, **stamps, "created_by_id": scope.actor})
    size = len((message.text or "").encode())
    if size > deps.text_bytes:
        raise InvalidInput(
            f"the text has {size:,} bytes, over the limit of {deps.text_bytes:,}",
            value=size,
            remedy="say it in parts, or raise text_bytes",
        )
    return message


def _require_retry(deps: SessionDeps, scope: Scope, session: Session, draft: Message) -> Message:
    """Return the message if it was stored before the session ended; raise Conflict otherwise."""
    put_back_sessions_with_messages(deps, scope, [draft.id] if session.archived_messages else [])
    retried = _find_retried(deps.records, scope, draft)
    if retried is None:
        raise Conflict(
            f"session {session.id!r} has ended ({session.ended_at:%Y-%m-%d %H:%M})",
            value=session.id,
            remedy=Remedy("call {}, or begin another one", Verb("reopen_session")),
        )
    return retried


def find_added_session(operations: list[Operation]) -> Session | None:
    rows = (operation.row for operation in operations if isinstance(operation, Put))
    return next((row for row in rows if isinstance(row, Session)), None)


def find_last(records: Records, session: Session, *, is_import: bool, by_position: bool) -> LastMessage | None:
    """Return the last message of a session, deleted ones included: a restored message needs its position back.

    `last_active` may be later than the last message, so an import reads the message itself. `by_position` reads every
    position, which is necessary if messages were not added by `say`.
    """
    recorded = None if session.last_position is None else LastMessage(session.last_position, session.last_active)
    if not is_import and not by_position:
        return recorded
    where = [Where("session_id", Op.EQ, session.id), Where("position", Op.GE, 0)]
    organization = session.organization_id
    newest = records.scan(Message, organization, where, order=NEWEST, descending=True, limit=1, deleted=True)
    if not newest:
        return recorded
    highest = max(newest[0].position or 0, session.last_position or 0)
    if by_position:
        positions = records.columns(Message, organization, ["position"], where, deleted=True)
        highest = max(position for (position,) in positions)
    return LastMessage(highest, newest[0].created_at)


def _choose_time(created_at: datetime | None, last: LastMessage | None, now: datetime) -> datetime:
    """Return the time of a message, later than the session's last message: the caller's `created_at`, or now.

    A `created_at` that is less than a second before the last message is changed to just after that message.
    """
    said_at = created_at or now
    if last is None:
        return said_at
    if created_at is not None and created_at <= last.said_at - _TIME_RESOLUTION:
        raise InvalidInput(
            f"created_at {created_at.isoformat()} is before the session's last message",
            value=created_at,
            remedy="import the messages of a session oldest first",
        )
    # Messages are read in the order of their times, so a later position needs a later time.
    return max(said_at, last.said_at + timedelta(microseconds=1))


def _make_operations(
    deps: SessionDeps, scope: Scope, before: Session, after: Session, message: Message, chunks: Sequence[Chunk]
) -> list[Operation]:
    request = {"message": message.id, "role": message.role}
    changes = {name: after.__dict__[name] for name in ("last_active", "last_position", "updated_at")}
    return [
        # The patch comes first, so that concurrent callers fail on the version and not on the position.
        Patch(Session, (before.organization_id, before.id), changes, before.version),
        Put(message),
        Put(make_access_line(scope, "create", after.updated_at, request, interface=deps.interface)),
        *[Put(Chunk.build_unchecked({**chunk.__dict__, "known_from": message.created_at})) for chunk in chunks],
        Put(make_announcement(message)),
    ]


def _find_retried(records: Records, scope: Scope, message: Message) -> Message | None:
    """Return the stored message with the same id, scope and content, if there is one."""
    stored = records.get(Message, scope.organization, [message.id], deleted=True).get(message.id)
    if stored is None or not is_message_of(scope, stored):
        return None
    return stored if all(stored.__dict__[name] == message.__dict__[name] for name in _CALLER_FIELDS) else None


def _require_repeated(records: Records, scope: Scope, message: Message, error: AlreadyExists) -> Message:
    """Return the stored message that `message` repeats; raise AlreadyExists if a different message has its id."""
    retried = _find_retried(records, scope, message)
    if retried is None:
        raise _explain_taken(error, message) from None
    return retried


def _explain_taken(error: AlreadyExists, message: Message) -> AlreadyExists:
    """Return the error for an id that another message has, without revealing whose message that is."""
    fact = f"message id {message.id!r} is taken by another message"
    remedy = "choose another, or leave it out"
    return AlreadyExists(fact, value=message.id, remedy=remedy, table=error.table, rule=error.rule)


def _update_cache(
    deps: SessionDeps, session_key: SessionKey, before: Session, after: Session, message: Message | None
) -> None:
    """Add the committed change to the cached session, or fill the cache from the records."""
    messages = [message] if message else []
    try:
        step = Step(compute_row_stamp(before), compute_stamp(deps.records, after, messages), after, message)
        if not deps.cache.advance(session_key, step):
            fill(deps, session_key, after)
    except StoreError:
        # The commit has succeeded, so the call must not fail. The next read fills a dropped entry again.
        deps.cache.drop([session_key])
