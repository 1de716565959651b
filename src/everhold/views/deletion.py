"""Delete an account or a session with all that belongs to it, in the store and in caches."""

from everhold.access import chain
from everhold.errors import NotFound
from everhold.parts import Parts
from everhold.remember import forget
from everhold.schema.operations import Put
from everhold.sessions.archive import put_back_messages, put_back_of_user
from everhold.sessions.working import find_sessions_under
from everhold.tenancy import deletion


def count_rows(parts: Parts, kind: str, organization: str, name: str, *, hard: bool) -> dict[str, int]:
    """Count the live rows that a deletion would delete, by table; none for a hidden account that is purged."""
    try:
        return deletion.count_rows_under(parts.records, kind, organization, name)
    except NotFound:
        if not hard:  # a hidden account can still be purged
            raise
        return {}


def delete_rows(parts: Parts, kind: str, organization: str, name: str, *, hard: bool, line: Put | None) -> None:
    """Hide or purge an account or a session with all that belongs to it, and drop what is cached of it."""
    parts.access.flush()
    _put_back_messages(parts, kind, organization, name, hard=hard)
    if hard:
        _erase_traces(parts, kind, organization, name)
    session_keys = find_sessions_under(parts.records, kind, organization, name)
    deletion.delete(parts.records, kind, organization, name, hard=hard, line=line)
    parts.write_deps.scope_rows.invalidate()
    parts.clear_images()
    parts.session_deps.cache.drop(session_keys)
    files = parts.session_deps.find_archive_files() if hard else None
    if files is not None:
        files.sweep()


def _put_back_messages(parts: Parts, kind: str, organization: str, name: str, *, hard: bool) -> None:
    """Put archived messages back that are deleted by themselves, or that memories to be erased were read from."""
    if kind == "user":
        put_back_of_user(parts.session_deps, organization, name)
    elif kind == "session" and hard:
        put_back_messages(parts.session_deps, organization, name)


def _erase_traces(parts: Parts, kind: str, organization: str, name: str) -> None:
    chain.seal(parts.records, parts.heads)  # what the purge's record counts
    if kind == "organization":
        forget.erase_keys(parts.write_deps, organization)
    else:
        forget.erase_under(parts.write_deps, kind, organization, name)
