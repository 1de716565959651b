"""The dependencies of the verbs on uploaded data."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from everhold.ask.sources.cache import TableCache
from everhold.ask.sources.files import SourceFiles
from everhold.model import Chunk, Connection, Scope
from everhold.model.access import LoggedOperation, make_access_line
from everhold.model.base import Entity
from everhold.ports.data_files import DataFileReader
from everhold.ports.databases import DatabaseTables
from everhold.ports.records import Records
from everhold.ports.synonyms import SynonymSource
from everhold.progress import ReportProgress
from everhold.schema.operations import Operation, Put


class FetchedFile(NamedTuple):
    """The name, size and hash of a fetched copy of a file."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class DataDeps:
    """The store, the files and the functions that the verbs on uploaded data use."""

    records: Records
    files: SourceFiles
    make_missing_rows: Callable[[Scope, datetime], list[Operation]]
    """Returns the operations that add the rows which a scope names and which do not exist yet."""
    invalidate_rows: Callable[[], None]
    """Clears the cache of rows that scopes name, so that they are read again."""
    make_chunks: Callable[[Sequence[Entity]], list[list[Chunk]]]
    """Returns the search chunks of each row. All rows must be of the same kind."""
    reader: DataFileReader
    fetch: Callable[[str, Path, ReportProgress], FetchedFile]
    """Copies the file at a path or an address to a local one."""
    make_folder: Callable[[], AbstractContextManager[Path]]
    """Makes a private folder that is deleted at the end of a `with` block."""
    open_database: Callable[[Connection], DatabaseTables]
    """Returns the address, the schema and the allowed hosts of a connection."""
    cache: TableCache = field(default_factory=TableCache)
    interface: str = "library"
    synonyms: Sequence[SynonymSource] = ()
    """Sources in which unknown words of a question are looked up."""

    def make_line(
        self, scope: Scope, operation: LoggedOperation, source_id: str, now: datetime, **request: object
    ) -> Operation:
        """Return the operation that adds a change of a source to the access log."""
        line = make_access_line(scope, operation, now, {"source": source_id, **request}, interface=self.interface)
        return Put(line)
