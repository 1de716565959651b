"""Open DuckDB files and translate the errors of the driver into Everhold errors."""

import logging
import re
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb

from everhold.errors import (
    EverholdError,
    InvalidInput,
    InvalidSettings,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)  # fmt: skip
from everhold.files import sync_folder

_SQLITE_MAGIC = b"SQLite format 3\0"
_COPY_NAME = "copy without deleted rows"
logger = logging.getLogger(__name__)

_open_paths: set[Path] = set()
_open_paths_lock = threading.Lock()


@dataclass(frozen=True)
class DuckdbOptions:
    """Options for opening a file. Without `threads`, a query may use every core."""

    path: Path
    read_only: bool = False
    memory_megabytes: int = 1024
    threads: int | None = None


class Database:
    """A file that this process has opened.

    Every call to the driver runs inside `with database`, which counts the running calls, so that closing can wait for
    them, and translates their errors. After closing, it raises StoreUnavailable. The main thread must enter it in an
    uninterrupted section: an interrupt would leave the count wrong. DuckDB rejects two calls at once on one connection,
    so each thread needs its own cursor.
    """

    def __init__(self, options: DuckdbOptions) -> None:
        self.options = options
        self._changed = threading.Condition()
        self._running_calls = 0
        self._streams = 0
        self._is_swapping = False
        self._closed = False
        self.generation = 0
        """The number of times the file has been replaced. Cursors of an earlier generation are closed."""
        _claim_file(options)
        try:
            self._connection = _connect(options)
            _remove_leftovers(options)
        except BaseException as error:
            _release_file(options)
            _translate(error, options)
            raise

    def __enter__(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_swapping)
            self.require_open()
            self._running_calls += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        with self._changed:
            self._running_calls -= 1
            self._changed.notify_all()
        _translate(error, self.options)

    def require_open(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"{self.options.path} has been closed", remedy="open it again")

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a new connection to the same file; it is closed with the file."""
        with self._changed:
            return self._connection.cursor()

    def begin_stream(self) -> duckdb.DuckDBPyConnection:
        """Return a cursor for a result that is read in parts; the file is not replaced until `end_stream`."""
        with self._changed:
            self._streams += 1
            return self._connection.cursor()

    def end_stream(self) -> None:
        with self._changed:
            self._streams -= 1

    def checkpoint(self) -> bool:
        """Write the write-ahead log into the file; return False if a reader's transaction prevents it."""
        with self, self.cursor() as cursor:
            try:
                cursor.execute("CHECKPOINT")
            except duckdb.TransactionException:
                return False
            return True

    def rewrite(self) -> bool:
        """Replace the file by a copy without the blocks of deleted rows. Return False if a result is being streamed.

        DuckDB never clears a freed block. The caller blocks writers; readers wait only while the files are swapped.
        """
        copy_path = _make_copy_path(self.options)
        _remove_leftovers(self.options)  # this also removes a link that another program created under this name
        try:
            with self, self.cursor() as cursor:
                _copy_live_rows(cursor, copy_path)
            return self._swap(copy_path)
        finally:
            _remove_leftovers(self.options)

    def _swap(self, copy_path: Path) -> bool:
        with self._changed:
            self.require_open()
            self._is_swapping = True  # blocks new calls; otherwise the wait for running calls might never end
            try:
                self._changed.wait_for(lambda: not self._running_calls)
                if self._streams:
                    return False
                self._replace_file(copy_path)
                return True
            finally:
                self._is_swapping = False
                self._changed.notify_all()

    def _replace_file(self, copy_path: Path) -> None:
        try:
            # The old file stays locked until its name belongs to the new one, so no process writes to it in between.
            self._connection.execute("PRAGMA disable_checkpoint_on_shutdown")
            copy_path.replace(self.options.path)
            sync_folder(self.options.path.parent)
            self._connection.close()
            self._connection = _connect(self.options)
        except BaseException as error:
            self._closed = True
            _release_file(self.options)
            _translate(error, self.options)
            raise
        self.generation += 1

    def close(self) -> None:
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.wait_for(lambda: not self._running_calls)
            try:
                self._connection.close()
            except duckdb.Error as error:
                raise _classify_error(error, self.options) from error
            finally:
                _release_file(self.options)


def _connect(options: DuckdbOptions) -> duckdb.DuckDBPyConnection:
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "memory_limit": f"{options.memory_megabytes}MB",
    }
    if options.threads is not None:
        config["threads"] = options.threads
    if not options.read_only:
        _make_folder(options.path)
    _refuse_sqlite(options.path)
    connection = duckdb.connect(str(options.path), read_only=options.read_only, config=config)
    keep_private(options)
    return connection


def _make_copy_path(options: DuckdbOptions) -> Path:
    return options.path.with_name(f"{options.path.name}.rewrite")


def _remove_leftovers(options: DuckdbOptions) -> None:
    """Remove the copy that an unfinished rewrite left behind."""
    if not options.read_only:
        copy_path = _make_copy_path(options)
        for path in (copy_path, copy_path.with_name(f"{copy_path.name}.wal")):
            with suppress(OSError):
                path.unlink()
                logger.info("removed %s, which an unfinished rewrite had left", path.name)


def _copy_live_rows(cursor: duckdb.DuckDBPyConnection, copy_path: Path) -> None:
    [(catalog,)] = cursor.execute("SELECT current_database()").fetchall()
    escaped_path = str(copy_path).replace("'", "''")
    cursor.execute(f"ATTACH '{escaped_path}' AS \"{_COPY_NAME}\"")
    try:
        copy_path.chmod(0o600)
        name = str(catalog).replace('"', '""')
        cursor.execute(f'COPY FROM DATABASE "{name}" TO "{_COPY_NAME}"')
        cursor.execute(f'CHECKPOINT "{_COPY_NAME}"')
    finally:
        cursor.execute(f'DETACH "{_COPY_NAME}"')


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be opened ({error.strerror})",
            remedy="check that it is a file in a folder that you can write",
        ) from error


def _refuse_sqlite(path: Path) -> None:
    """Raise InvalidSettings for a SQLite file. DuckDB would look for an extension to open it."""
    with suppress(OSError), path.open("rb") as file:
        if file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC:
            raise InvalidSettings(f"{path} is a SQLite file", remedy=f"open it as sqlite:///{path}")


def keep_private(options: DuckdbOptions) -> None:
    """Let only the owner read the files. After every checkpoint DuckDB creates a new log that everyone can read."""
    if options.read_only:
        return
    for path in (options.path, options.path.with_name(f"{options.path.name}.wal")):
        with suppress(FileNotFoundError, PermissionError):
            path.chmod(0o600)


def _claim_file(options: DuckdbOptions) -> None:
    """Register the file as open. Raise StoreBusy if this process has it open already.

    DuckDB would open it twice, and both stores would generate the same numbers.
    """
    path = options.path.resolve()
    with _open_paths_lock:
        if path in _open_paths:
            raise StoreBusy(
                f"{options.path} is open in this process already", remedy="share that engine, or close it first"
            )
        _open_paths.add(path)


def _release_file(options: DuckdbOptions) -> None:
    with _open_paths_lock:
        _open_paths.discard(options.path.resolve())


_ERRORS: tuple[tuple[str, type[EverholdError], str, str], ...] = (
    ("Could not set lock", StoreBusy, "{path} is open in another process{owner}", "close it there, then try again"),
    ("not a valid DuckDB", StoreDamaged, "{path} is not a DuckDB database", "choose another file"),
    (
        "Corrupt database|checksum|read enough bytes|replaying WAL|WAL file",
        StoreDamaged,
        "{path} is damaged ({error})",
        "restore it from a backup",
    ),
    (
        "No space left|File too large|quota exceeded|disk is full",
        StoreFull,
        "no space left for {path}",
        "free some disk, then retry",
    ),
    ("database does not exist", StoreUnavailable, "{path} does not exist", "check the address"),
    ("in read-only mode", StoreReadOnly, "{path} was opened read-only", "open it without mode=ro to write"),
    ("already closed|invalidated", StoreUnavailable, "{path} has been closed", "open it again"),
    (
        "Is a directory|Cannot open|Could not read from file",
        StoreUnavailable,
        "{path} cannot be opened",
        "check that it is a file in a folder that you can write",
    ),
    (
        "Out of Memory",
        StoreError,
        "DuckDB needs more than {memory} MB for this",
        "raise duckdb.memory_megabytes or do less at once",
    ),
    (
        "Python Conversion|too large for|Conversion Error|out of range",
        InvalidInput,
        "DuckDB cannot hold a value: {error}",
        "change the value",
    ),
)
_OWNER = re.compile(r"\(PID (\d+)\)")


def _translate(error: BaseException | None, options: DuckdbOptions) -> None:
    """Raise a DuckDB error as an Everhold error; do nothing for other errors."""
    if isinstance(error, duckdb.Error):
        raise _classify_error(error, options) from error
    if isinstance(error, OverflowError | UnicodeEncodeError):
        raise InvalidInput(f"DuckDB cannot hold a value: {error}", remedy="change the value") from error


def _classify_error(error: duckdb.Error, options: DuckdbOptions) -> EverholdError:
    """Return the Everhold error for a DuckDB error. DuckDB's errors have no codes, so their text decides."""
    text = str(error)
    owner = _OWNER.search(text)
    details = {
        "path": options.path,
        "owner": f" (its id is {owner[1]})" if owner else "",
        "memory": options.memory_megabytes,
        "error": text.splitlines()[0],
    }
    for pattern, kind, fact, remedy in _ERRORS:
        if re.search(pattern, text):
            return kind(fact.format(**details), remedy=remedy.format(**details))
    return StoreError(
        f"DuckDB failed on {options.path}: {details['error']}", remedy="check the file with `everhold doctor`"
    )
