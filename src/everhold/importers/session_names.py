"""Find the users of sessions whose ids contain them: "<user>_<project>", or "<user>_<day>"."""

import re
from collections.abc import Callable, Iterator

_DAY = re.compile(r"_\d{4}-\d{2}-\d{2}\Z")


def find_dated_user(session_id: str) -> str | None:
    """Return the user of a session that is named after a day; None for any other session."""
    day = _DAY.search(session_id)
    return session_id[: day.start()] or None if day else None


def find_session_user(session_id: str, is_known: Callable[[str], bool]) -> str | None:
    """Return the user that the id of a session begins with; None if it names none.

    Names of users and projects may contain underscores. A day is never part of a user's name. If a project follows, the
    longest beginning that is a known user is chosen, or else the part before the first underscore.
    """
    dated = find_dated_user(session_id)
    if dated is not None:
        return dated
    candidates = list(_list_prefixes(session_id))
    return next(filter(is_known, candidates), candidates[-1] if candidates else None)


def _list_prefixes(session_id: str) -> Iterator[str]:
    """Yield the part of a session id before each underscore, the longest first."""
    prefix = session_id
    while (prefix := prefix.rpartition("_")[0]) != "":
        yield prefix
