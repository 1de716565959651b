"""The dependencies of writing memories.

This module imports none of the modules that write, so that code that only reads can import it cheaply.
"""

from collections.abc import Callable
from dataclasses import field
from datetime import UTC, tzinfo

from everhold.ports.records import Records
from everhold.remember.chunks import Chunking
from everhold.remember.scope_rows import ScopeRows
from everhold.values import Value, value_class


@value_class
class ReadingOptions(Value):
    """Options for reading statements from texts.

    `resolve`: whether a newer statement replaces an older one. `extract`: whether facts are read from messages. `zone`:
    the time zone of the times in texts.
    """

    resolve: bool = True
    extract: bool = True
    zone: tzinfo = UTC


@value_class
class WriteDeps(Value):
    """The objects and settings that writing memories needs."""

    records: Records
    chunking: Chunking
    scope_rows: ScopeRows
    text_bytes: int
    interface: str = "library"
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    drop_cached_texts: Callable[[], None] = lambda: None
    """Clears this process's caches of texts and their vectors, after a purge."""
    run_id: str | None = None
    """The id of the maintenance run that writes, or None. All changes of a run are journalled, so that `undo_run` can
    undo them."""
