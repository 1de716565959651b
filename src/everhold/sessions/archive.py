"""Put archived messages back into their table.

    read the content → commit the rows and delete the archive

Code that needs an archived message puts it back first, so all other code reads only the table. Only an export and
`doctor` read archives directly.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from everhold import clock
from everhold.errors import (
    AlreadyExists,
    BrokenReference,
    EverholdError,
    InvalidSettings,
    NotFound,
    StaleVersion,
    StoreBusy,
)
from everhold.model import (
    Agent,
    Chunk,
    Conversation,
    EmbeddingModel,
    Message,
    Project,
    Scope,
    Session,
    SessionArchive,
    User,
)
from everhold.model.announcement import is_announced, make_announcement
from everhold.model.base import Entity, Row
from everhold.ports.records import Records
from everhold.ports.session_cache import SessionKey
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.schema.operations import Condition, Delete, Op, Operation, Patch, Put, Where
from everhold.sessions.archive_content import unpack_rows
from everhold.sessions.deps import SessionDeps, require_session

_OWNERS: dict[str, type[Entity]] = {
    "user_id": User,
    "agent_id": Agent,
    "project_id": Project,
    "conversation_id": Conversation,
}
_DIGEST_BYTES = 16  # ids have 32 hexadecimal digits
_DELETION_FIELDS = ("is_deleted", "deleted_at", "deletion_id")


def require_readable_session(deps: SessionDeps, scope: Scope) -> Session:
    """Return the scope's session, as `require_session` does, after putting its archived messages back."""
    session = require_session(deps.records, scope)
    if not session.archived_messages:
        return session
    put_back_messages(deps, session.organization_id, session.id)
    return require_session(deps.records, scope)


def put_back_scope_session(deps: SessionDeps, scope: Scope) -> bool:
    """Put back the archived messages of the session that the scope names; return whether there were any."""
    if scope.session is None:
        return False
    session = deps.records.get(Session, scope.organization, [scope.session]).get(scope.session)
    if session is None or not session.archived_messages or not session.is_open_to(scope):
        return False
    return put_back_messages(deps, session.organization_id, session.id) > 0


def put_back_sessions_with_messages(deps: SessionDeps, scope: Scope, message_ids: Iterable[str]) -> bool:
    """Put back the sessions with these messages that the scope may use; return whether any was archived."""
    was_archived = False
    for message_id in message_ids:
        where = [Where("message_ids", Op.CONTAINS, message_id)]
        for (session_id,) in list(deps.records.columns(SessionArchive, scope.organization, ("session_id",), where)):
            session = deps.records.get(Session, scope.organization, [session_id]).get(session_id)
            if session is not None and session.is_open_to(scope):
                was_archived = put_back_messages(deps, scope.organization, session_id) > 0 or was_archived
    return was_archived


def put_back_messages(deps: SessionDeps, organization: str, session_id: str) -> int:
    """Put all archived messages of a session back into their table, also of a deleted session; return how many."""
    where = [Where("session_id", Op.EQ, session_id)]
    return put_back_archives(deps, organization, where)


def put_back_sessions_with_user(deps: SessionDeps, organization: str, user_id: str) -> None:
    """Put back messages of sessions that are not this user's but have messages of the user.

    Call this before the user is deleted: only messages in their table are deleted with the user.
    """
    where = [Where("user_ids", Op.CONTAINS, user_id)]
    rows = deps.records.columns(SessionArchive, organization, ("session_id",), where, deleted=True)
    session_ids = sorted({session_id for (session_id,) in rows})
    sessions = deps.records.get(Session, organization, session_ids, deleted=True) if session_ids else {}
    for session in sessions.values():
        if session.user_id != user_id:
            put_back_messages(deps, organization, session.id)


def put_back_sessions_without_agent(deps: SessionDeps, organization: str) -> None:
    """Put back the archived messages of all sessions without an agent.

    Call this before an agent is deleted: it may have messages in them, and archives do not list agents.
    """
    where = [Where("agent_id", Op.EQ, None), Where("archived_messages", Op.GT, 0)]
    for (session_id,) in list(deps.records.columns(Session, organization, ("id",), where, deleted=True)):
        put_back_messages(deps, organization, session_id)


def put_back_archives(deps: SessionDeps, organization: str, where: Sequence[Condition] = ()) -> int:
    """Put back the messages of the organization's archives that meet the conditions; return how many messages."""
    rows = deps.records.columns(SessionArchive, organization, ("id",), where, deleted=True)
    count = 0
    for (archive_id,) in sorted(rows):
        count += retry(
            "put archived messages back",
            partial(_put_back, deps, organization, archive_id),
            CONFLICTS,
            give_up=lambda _: StoreBusy("a session kept changing while it was read", remedy="try again"),
        )
    return count


def _put_back(deps: SessionDeps, organization: str, archive_id: str, _: int) -> int:
    """Put the messages of one archive back into its session, and return their number.

    Return 0 if the archive no longer exists. Raise TryAgain if another process has changed the session or the archive.
    """
    archive = deps.records.get(SessionArchive, organization, [archive_id], deleted=True).get(archive_id)
    if archive is None:  # another process has put it back
        return 0
    session = deps.records.get(Session, organization, [archive.session_id], deleted=True).get(archive.session_id)
    if session is None:
        raise TryAgain("the session was purged, and its archive with it")
    try:
        rows = read_archive(deps, archive)
    except NotFound as error:
        if not deps.records.get(SessionArchive, organization, [archive_id], deleted=True):
            raise TryAgain("another process put the messages back") from error
        raise
    now = max(clock.now(), session.updated_at)
    changes = {
        "archived_messages": max(0, session.archived_messages - len(archive.message_ids)),
        "archived_at": None,
        "unarchived_at": now,
        "updated_at": now,
    }
    files = deps.find_archive_files() if archive.address is not None else None
    operations: list[Operation] = [
        # Delete does not check the version. The patch before it fails if another process has changed the archive.
        Patch(SessionArchive, (organization, archive.id), {"updated_at": now}, archive.version),
        Delete(SessionArchive, (organization, archive.id)),
        Patch(Session, (organization, session.id), changes, session.version),
        *([files.release(archive.address)] if files is not None and archive.address is not None else []),
        *map(Put, rows),
        *[Put(make_announcement(row, "reindex")) for row in rows if is_announced(row)],
        Put(make_announcement(session)),
    ]
    try:
        deps.records.commit(operations)
    except (StaleVersion, AlreadyExists, BrokenReference) as error:
        raise TryAgain("another writer changed the session or its archive") from error
    deps.cache.drop([SessionKey(organization, session.id)])
    if files is not None and archive.address is not None:
        files.delete(organization, archive.address)
    return len(archive.message_ids)


def read_archive(deps: SessionDeps, archive: SessionArchive) -> list[Row]:
    """Return the rows of an archive, updated to the present state of the store: messages, then their chunks.

    Messages whose user, agent, project or conversation has been purged are left out; messages whose owner is deleted
    are marked as deleted. Chunks are made again if the archive lacks chunks of an embedding model that the store uses
    now.
    """
    rows = unpack_rows(_read_content(deps, archive))
    messages = [row for row in rows if isinstance(row, Message)]
    remaining_messages = list(_apply_deletions(deps.records, archive, messages))
    messages_by_archived_id = _rename_duplicates(deps.records, archive.organization_id, remaining_messages)
    chunks = [row for row in rows if isinstance(row, Chunk) and row.owner_id in messages_by_archived_id]
    model_names = _find_models(deps.records)
    if not model_names <= set(archive.models):
        chunks = [
            Chunk.build_unchecked({**chunk.__dict__, "known_from": message.created_at})
            for message in messages_by_archived_id.values()
            if message.text
            for chunk in deps.make_chunks(message)
        ]
        return [*messages_by_archived_id.values(), *chunks]
    current_chunks = [chunk for chunk in chunks if chunk.model in model_names]
    return [
        *messages_by_archived_id.values(),
        *(
            Chunk.build_unchecked({**chunk.__dict__, "owner_id": messages_by_archived_id[chunk.owner_id].id})
            for chunk in current_chunks
        ),
    ]


def _read_content(deps: SessionDeps, archive: SessionArchive) -> bytes:
    if archive.address is None:
        return archive.content or b""
    files = deps.find_archive_files()
    if files is None:
        raise InvalidSettings(
            f"the messages of session {archive.session_id!r} are archived in a file, and the settings name no `blobs`",
            value=archive.session_id,
            remedy="set `blobs` to the location of the archived files",
        )
    return files.get(archive.organization_id, archive.address)


def _find_models(records: Records) -> set[str]:
    """Return the names of the embedding models that the store's chunks must have."""
    return {model.name for model in records.scan(EmbeddingModel, None) if model.status != "leaving"}


def _apply_deletions(records: Records, archive: SessionArchive, messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages whose owners exist, marked as deleted if the archive or an owner is deleted."""
    all_messages = list(messages)
    owners: dict[str, dict[str, Entity]] = {}
    for column, entity in _OWNERS.items():
        ids = sorted({message.__dict__[column] for message in all_messages if message.__dict__[column] is not None})
        owners[column] = dict(records.get(entity, archive.organization_id, ids, deleted=True)) if ids else {}
    for message in all_messages:
        keys = [(column, message.__dict__[column]) for column in _OWNERS if message.__dict__[column] is not None]
        if any(owner_id not in owners[column] for column, owner_id in keys):
            continue
        rows = (archive, *(owners[column][owner_id] for column, owner_id in keys))
        deleted = [row for row in rows if row.is_deleted]
        yield message.evolve(**{name: deleted[0].__dict__[name] for name in _DELETION_FIELDS}) if deleted else message


def _rename_duplicates(records: Records, organization: str, messages: Sequence[Message]) -> dict[str, Message]:
    """Map the archived ids to the messages. A message whose id now belongs to another message gets a new id."""
    existing_messages = (
        records.get(Message, organization, [message.id for message in messages], deleted=True) if messages else {}
    )
    return {
        message.id: message.evolve(id=_make_other_id(message), metadata={**message.metadata, "archived_id": message.id})
        if message.id in existing_messages
        else message
        for message in messages
    }


def _make_other_id(message: Message) -> str:
    """Derive an id from the message. It must be the same at every call, because an export reads an archive twice."""
    identity = f"{message.session_id}\x1f{message.id}".encode()
    return f"msg_{hashlib.blake2b(identity, digest_size=_DIGEST_BYTES).hexdigest()}"


def read_archived_rows(deps: SessionDeps, organization: str) -> Iterator[list[Row]]:
    """Yield the rows of each archive of an organization, for an export, without putting them back."""
    ids = sorted(deps.records.columns(SessionArchive, organization, ("id",), deleted=True))
    for (archive_id,) in ids:
        archive = deps.records.get(SessionArchive, organization, [archive_id], deleted=True).get(archive_id)
        if archive is not None:
            yield read_archive(deps, archive)


def find_archive_problems(deps: SessionDeps) -> Iterator[str]:
    """Yield a sentence if archives cannot be read because their files or their contents are missing or damaged."""
    count, first_problem = 0, ""
    names = ("organization_id", "session_id", "id")
    for organization, session_id, archive_id in sorted(deps.records.columns(SessionArchive, None, names, deleted=True)):
        try:
            archive = deps.records.get(SessionArchive, organization, [archive_id], deleted=True).get(archive_id)
            if archive is not None:
                unpack_rows(_read_content(deps, archive))
        except EverholdError as error:
            # Another process may have put the messages back and deleted the file since.
            if deps.records.get(SessionArchive, organization, [archive_id], deleted=True):
                count += 1
                first_problem = first_problem or f"session {session_id!r} of organization {organization!r}: {error}"
    if count:
        yield f"{count} {'archive' if count == 1 else 'archives'} of messages cannot be read; {first_problem}"


def put_back_archives_with_deleted_users(deps: SessionDeps) -> int:
    """Put back the archives with messages of users who were deleted while the messages were being archived.

    Other archives have no messages of deleted users: before a user is deleted, the user's archived messages in the
    sessions of others are put back.
    """
    count = 0
    names = ("organization_id", "id", "user_ids")
    archives = list(deps.records.columns(SessionArchive, None, names))
    for organization in sorted({name for name, _, _ in archives}):
        user_ids_by_archive = {archive_id: user_ids for name, archive_id, user_ids in archives if name == organization}
        all_user_ids = sorted({user_id for user_ids in user_ids_by_archive.values() for user_id in user_ids})
        live_users = deps.records.get(User, organization, all_user_ids) if all_user_ids else {}
        stale_ids = [
            archive_id for archive_id, user_ids in user_ids_by_archive.items() if not set(user_ids) <= live_users.keys()
        ]
        count += put_back_archives(deps, organization, [Where("id", Op.IN, stale_ids)]) if stale_ids else 0
    return count
