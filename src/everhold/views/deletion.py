"""Delete and restore an account or a session with everything that belongs to it, in the store and in caches."""

from datetime import timedelta
from functools import partial

from everhold import clock
from everhold.access import chain
from everhold.errors import AlreadyExists, NotFound, StaleVersion
from everhold.model import Connection, Session, Source, Workspace
from everhold.parts import Parts
from everhold.remember import forget
from everhold.retries import CONFLICTS, retry
from everhold.schema.operations import Op, Operation, Put, Where
from everhold.sessions.archive import put_back_messages, put_back_sessions_with_user, put_back_sessions_without_agent
from everhold.sessions.working import find_sessions_under
from everhold.tenancy import deletion


def count_rows(parts: Parts, kind: str, organization: str, name: str, *, hard: bool) -> dict[str, int]:
    """Count the live rows that a deletion would delete, by table; none if a hidden account is to be purged."""
    try:
        return deletion.count_rows_under(parts.records, kind, organization, name)
    except NotFound:
        if not hard:  # a hidden account can still be purged
            raise
        return {}


def delete_rows(parts: Parts, kind: str, organization: str, name: str, *, hard: bool, line: Put | None) -> None:
    """Hide or purge an account or a session and everything that belongs to it, and remove it from the caches."""
    parts.access.flush()
    # Counted before the deletion, because a purge leaves no rows of workspaces.
    has_workspaces = hard and parts.records.count(Workspace, organization, deleted=True) > 0
    _put_back_messages(parts, kind, organization, name, hard=hard)
    if hard:
        _erase_traces(parts, kind, organization, name)
    source_ids = _find_sources(parts, kind, organization, name) if hard else []
    session_keys = find_sessions_under(parts.records, kind, organization, name)
    retell = partial(_retell_episodes, parts, kind, organization, name)
    deletion.delete(parts.records, kind, organization, name, hard=hard, line=line, update_summaries=retell)
    parts.write_deps.scope_rows.invalidate()
    parts.clear_images()
    parts.session_deps.cache.drop(session_keys)
    files = parts.session_deps.find_archive_files() if hard else None
    if files is not None:
        files.sweep()
    if has_workspaces:
        remove_workspace_files(parts, organization)
    if source_ids:
        from everhold.views.data_deps import make_source_files

        make_source_files(parts.settings, parts.records).delete(organization, source_ids)


def remove_workspace_files(parts: Parts, organization: str) -> None:
    """Delete the folders and contents of purged workspaces now instead of at maintenance: they may be personal."""
    from everhold.workspaces.garbage import collect_garbage, remove_purged

    remove_purged(parts.workspace_deps)
    collect_garbage(parts.workspace_deps, organization, min_age=timedelta(0))


def _find_sources(parts: Parts, kind: str, organization: str, name: str) -> list[str]:
    """Return the ids of the uploaded files and connections that are purged with an organization or a project."""
    if kind not in ("organization", "project"):
        return []
    where = [Where("project_id", Op.EQ, name)] if kind == "project" else []
    return [
        str(row[0])
        for entity in (Source, Connection)
        for row in parts.records.columns(entity, organization, ("id",), where, deleted=True)
    ]


def restore_rows(parts: Parts, kind: str, organization: str, name: str, line: Put) -> None:
    """Restore an account or a session and all rows that its deletion hid."""
    deletion.restore(parts.records, kind, organization, name, line)
    parts.write_deps.scope_rows.invalidate()

    def add_to_episodes(_: int) -> None:
        operations = _retell_episodes(parts, kind, organization, name, are_restored=True)
        if operations:
            parts.records.commit(operations)

    retry("add what was restored to episodes", add_to_episodes, CONFLICTS, on=(StaleVersion, AlreadyExists))


def _retell_episodes(
    parts: Parts, kind: str, organization: str, name: str, *, are_restored: bool = False
) -> list[Operation]:
    """Return the operations that update episodes which quote a deleted or restored account or session.

    The account's or session's own episodes are not among them, because they are deleted and restored with it.
    """
    from everhold.episodes import erasure

    deps, now = parts.episode_deps, clock.now()
    if kind in ("user", "agent"):
        messages = erasure.find_shared_messages(deps, organization, f"{kind}_id", name)
        return parts.update_episodes(messages, now, are_restored)
    session = parts.records.get(Session, organization, [name]).get(name) if kind == "session" else None
    if session is None:
        return []
    retell = erasure.restore_session if are_restored else erasure.forget_session
    return retell(deps, session, now)


def _put_back_messages(parts: Parts, kind: str, organization: str, name: str, *, hard: bool) -> None:
    """Put archived messages back into their table, where a deletion finds them.

    It must find the messages that are deleted without their session, and the messages from which erased memories were
    derived.
    """
    if kind == "user":
        put_back_sessions_with_user(parts.session_deps, organization, name)
    elif kind == "agent":
        put_back_sessions_without_agent(parts.session_deps, organization)
    elif kind == "session" and hard:
        put_back_messages(parts.session_deps, organization, name)


def _erase_traces(parts: Parts, kind: str, organization: str, name: str) -> None:
    chain.seal(parts.records, parts.heads)  # the record of a purge counts the sealed lines
    if kind == "organization":
        forget.erase_keys(parts.write_deps, organization)
    else:
        forget.erase_derived_of_owner(parts.write_deps, kind, organization, name)
