"""Make the parts of the session verbs. Their modules are imported at first use, because most processes use none."""

import threading
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everhold.encryption.deps import Encryption
    from everhold.ports.records import Records
    from everhold.remember.scope_rows import ScopeRows
    from everhold.sessions.deps import SessionDeps
    from everhold.settings import Settings


class SessionParts:
    """Makes the dependencies of the session verbs when the first session verb is called. Thread-safe."""

    def __init__(self, make: "Callable[[], SessionDeps]") -> None:
        self._make = make
        self._deps: SessionDeps | None = None
        self._lock = threading.Lock()

    def get(self) -> "SessionDeps":
        """Return the dependencies of the session verbs."""
        if self._deps is None:
            with self._lock:
                if self._deps is None:
                    self._deps = self._make()
        return self._deps

    def close(self) -> None:
        """Close the session cache, if it was made."""
        if self._deps is not None:
            self._deps.cache.close()


def make_session_deps(
    settings: "Settings", records: "Records", scope_rows: "ScopeRows", encryption: "Encryption | None"
) -> "SessionDeps":
    """Return the dependencies of the session verbs. The caller adds the functions for messages and episodes."""
    from everhold.blob_places import make_archive_files
    from everhold.optional_parts import make_session_cache
    from everhold.sessions.deps import SessionDeps

    sessions = make_session_cache(settings, records, encryption)
    find_files = cache(partial(make_archive_files, settings, records, None if encryption is None else encryption.keys))
    limit, interface = settings.text_bytes, settings.interface
    return SessionDeps(records, scope_rows, sessions, limit, interface, find_archive_files=find_files)
