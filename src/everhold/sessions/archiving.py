"""Move the messages of ended sessions to cold storage.

    read messages and chunks → compress → commit the archive and delete the rows, batch by batch

Each batch is one commit, so a message is always either in its table or in an archive. A session whose archiving was
interrupted can be read, and archived again, like any other. An archive has only messages that are not deleted: deleted
messages stay in their table until they are purged.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from everhold import clock
from everhold.errors import StoreDamaged
from everhold.model import Chunk, Execution, Message, Scope, Session, SessionArchive
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.ports.records import Records
from everhold.ports.session_cache import SessionKey
from everhold.schema.operations import AllOf, AnyOf, Condition, Delete, Op, Operation, Page, Patch, Put, Where
from everhold.sessions.archive_content import pack_rows, unpack_rows
from everhold.sessions.deps import SessionDeps

Commit = Callable[[Sequence[Operation]], None]

# Limits of one archive: its messages, and the characters of their JSON. An archive is read and written as a whole.
_MAX_MESSAGES = 250
_MAX_CHARACTERS = 2_000_000

# After its archived messages were put back for reading, a session stays in the tables for at least this long.
_READ_RECENTLY = timedelta(days=1)

_OLDEST_FIRST = "created_at"


def make_archivable_conditions(now: datetime, days: float | None) -> list[Condition]:
    """Return the conditions of sessions to archive: ended, and marked as archived or ended at least `days` ago."""
    alternatives: list[Condition] = [_make_due_condition("is_archived", Op.EQ, True, now - _READ_RECENTLY)]
    if days is not None:
        before = now - timedelta(days=days)
        alternatives.append(_make_due_condition("ended_at", Op.LE, before, before))
    return [Where("ended_at", Op.NE, None), Where("archived_at", Op.EQ, None), AnyOf(tuple(alternatives))]


def _make_due_condition(column: str, op: Op, value: Any, read_before: datetime) -> Condition:
    read_long_ago = AnyOf((Where("unarchived_at", Op.EQ, None), Where("unarchived_at", Op.LE, read_before)))
    return AllOf((Where(column, op, value), read_long_ago))


def archive_messages(deps: SessionDeps, session: Session, commit: Commit) -> Iterator[int]:
    """Move a session's messages to cold storage; yield the number of messages of each commit.

    Raise StaleVersion if another writer changes the session; batches that were committed before stay archived.
    """
    for batch in _read_batches(deps.records, session):
        now = max(clock.now(), session.updated_at)
        count = session.archived_messages + len(batch.messages)
        commit(_make_archive_operations(deps, session, batch, now))
        session = session.evolve(archived_messages=count, is_archived=True, version=session.version + 1)
        yield len(batch.messages)
    now = max(clock.now(), session.updated_at)
    changes = {"archived_at": now, "is_archived": True, "updated_at": now}
    patch = Patch(Session, (session.organization_id, session.id), changes, session.version)
    commit([patch, Put(make_announcement(session))])
    deps.cache.drop([SessionKey(session.organization_id, session.id)])


class _Batch(NamedTuple):
    messages: list[Message]
    chunks: list[Chunk]


def _read_batches(records: Records, session: Session) -> Iterator[_Batch]:
    after: Page | None = None
    where = [Where("session_id", Op.EQ, session.id)]
    while page := records.scan(
        Message, session.organization_id, where, order=_OLDEST_FIRST, after=after, limit=_MAX_MESSAGES
    ):
        page = page[: _count_fitting(page)]
        after = Page(page[-1].created_at, (session.organization_id, page[-1].id))
        ids = [message.id for message in page]
        # Deleting a message deletes the agent's run that belongs to it, so messages with a run stay in their table.
        runs = records.columns(
            Execution, session.organization_id, ("message_id",), [Where("message_id", Op.IN, ids)], deleted=True
        )
        ids_with_run = {message_id for (message_id,) in runs}
        messages = [message for message in page if message.id not in ids_with_run]
        if messages:
            owned_by_messages = [
                Where("owner_kind", Op.EQ, "message"),
                Where("owner_id", Op.IN, [message.id for message in messages]),
            ]
            yield _Batch(messages, records.scan(Chunk, session.organization_id, owned_by_messages))


def _count_fitting(messages: Sequence[Message]) -> int:
    """Return how many of the first messages fit one archive; at least one."""
    characters = 0
    for number, message in enumerate(messages):
        characters += len(message.model_dump_json())
        if characters > _MAX_CHARACTERS:
            return max(number, 1)
    return len(messages)


def _make_archive_operations(deps: SessionDeps, session: Session, batch: _Batch, now: datetime) -> list[Operation]:
    organization = session.organization_id
    archive, file_operations = _make_archive(deps, session, batch, now)
    changes = {
        "archived_messages": session.archived_messages + len(batch.messages),
        "is_archived": True,
        "updated_at": now,
    }
    request = {"archived": len(batch.messages)}
    return [
        *file_operations,
        # The version fails the commit if a message was added, deleted or restored since the messages were read.
        Patch(Session, (organization, session.id), changes, session.version),
        Put(archive),
        *[Delete(Message, (organization, message.id)) for message in batch.messages],
        # "reindex", not "delete": the messages still exist, but search no longer finds them.
        *[Put(make_announcement(message, "reindex")) for message in batch.messages],
        Put(make_announcement(session)),
        Put(make_access_line(_make_scope(session), "update", now, request, interface=deps.interface)),
    ]


def _make_archive(
    deps: SessionDeps, session: Session, batch: _Batch, now: datetime
) -> tuple[SessionArchive, list[Operation]]:
    """Return the archive of a batch, and the operation that confirms its file if it has one."""
    rows = [*batch.messages, *batch.chunks]
    content = pack_rows(rows)
    if unpack_rows(content) != rows:
        raise StoreDamaged(
            f"messages of session {session.id!r} would not be the same after archiving",
            value=session.id,
            remedy="run `everhold doctor` to find the damage",
        )
    files = deps.find_archive_files()
    user_ids = sorted({message.user_id for message in batch.messages if message.user_id is not None})
    file_operations: list[Operation] = []
    content_fields: dict[str, Any] = {"content": content}
    if files is not None:
        address, confirm = files.put(session.organization_id, content, user_ids)
        file_operations, content_fields = [confirm], {"address": address}
    archive = SessionArchive(
        id=clock.make_id("arc"),
        organization_id=session.organization_id,
        created_at=now,
        updated_at=now,
        session_id=session.id,
        user_ids=user_ids,
        message_ids=[message.id for message in batch.messages],
        models=sorted({chunk.model for chunk in batch.chunks}),
        size=len(content),
        **content_fields,
    )
    return archive, file_operations


def _make_scope(session: Session) -> Scope:
    return Scope(organization=session.organization_id, user=session.user_id, session=session.id)
