"""What writing memories needs. Reading needs none of the modules that write, so this one imports none of them."""

from collections.abc import Callable
from dataclasses import field
from datetime import UTC, tzinfo

from everhold.ports.records import Records
from everhold.remember.chunks import Chunking
from everhold.remember.scope_rows import ScopeRows
from everhold.values import Value, value_class


@value_class
class ReadingOptions(Value):
    """How texts are read.

    `resolve`: a newer statement replaces an older one. `extract`: facts are read from messages. `zone`: the time zone
    of the times in texts.
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
    """Drops what this process has cached of texts, such as their vectors, after a purge."""
    run_id: str | None = None
    """The run of maintenance that writes. All that it changes is journalled, so that `undo_run` can undo it."""
