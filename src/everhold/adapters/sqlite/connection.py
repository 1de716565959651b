"""Open SQLite files and translate the errors of the `sqlite3` driver, which no other module handles."""

import errno
import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from everhold.errors import (
    AlreadyExists,
    BrokenReference,
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
from everhold.retries import RetryPolicy, retry
from everhold.schema.catalog import TABLES
from everhold.schema.sql import name_index
from everhold.values import Value, value_class

T = TypeVar("T")
C = TypeVar("C", bound=sqlite3.Connection)

_PRIMARY_CODE = 0xFF  # the lowest byte of an extended result code is the primary code
_DUCKDB, _DUCKDB_OFFSET = b"DUCK", 8  # the bytes that identify a DuckDB file, and their offset
# Seconds between attempts to open a file that another process has locked.
_FIRST_PAUSE = 0.005
_MAX_PAUSE = 0.05


@value_class
class SqliteOptions(Value):
    """Options for opening a file. A writer that waits for others longer than `busy_seconds` gets StoreBusy.

    `immutable` tells SQLite that no process writes the file; it then needs no other files in the folder.
    """

    path: Path
    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    busy_seconds: float = 30.0
    read_only: bool = False
    immutable: bool = False
    cache_megabytes: int = 64
    mmap_megabytes: int = 64
    maximum_pages: int | None = None


def connect(options: SqliteOptions, kind: type[C]) -> C:
    """Return a connection of class `kind` with the settings that all connections to the file use."""
    mode = "ro" if options.read_only else "rw"
    address = f"{options.path.absolute().as_uri()}?mode={mode}{'&immutable=1' if options.immutable else ''}"
    connection = sqlite3.connect(
        address,
        uri=True,
        timeout=options.busy_seconds,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=512,
        factory=kind,
    )
    assert isinstance(connection, kind)
    connection.execute(f"PRAGMA synchronous = {options.synchronous}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA cache_size = {-1000 * options.cache_megabytes}")
    connection.execute(f"PRAGMA mmap_size = {options.mmap_megabytes * 1024 * 1024}")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA secure_delete = ON")  # deleted content is overwritten with zeros
    if options.maximum_pages is not None:
        connection.execute(f"PRAGMA max_page_count = {int(options.maximum_pages)}")
    return connection


def choose_read_options(options: SqliteOptions) -> SqliteOptions:
    """Return the options with which the file can be read.

    In WAL mode even a reader creates files in the database's folder. If the folder is not writable, the file can be
    opened as immutable, but only if no writer has it open or left a log file there.
    """
    try:
        retry_locked(lambda: connect(options, sqlite3.Connection), options.busy_seconds).close()
    except sqlite3.OperationalError:
        if not options.path.is_file() or os.access(options.path.parent, os.W_OK, effective_ids=True):
            raise
        neighbours = [options.path.with_name(options.path.name + suffix) for suffix in ("-wal", "-journal", "-shm")]
        unfinished = [path.name for path in neighbours if path.exists() and path.stat().st_size]
        if unfinished:
            raise StoreReadOnly(
                f"{options.path} was not closed ({unfinished[0]} is next to it) and its folder is not writable",
                remedy="copy all of its files to a writable folder and open it there",
            ) from None
        return replace(options, immutable=True)
    return options


def choose_access(options: SqliteOptions) -> SqliteOptions:
    """Return read-only options if the file exists but cannot be written. Raise StoreUnavailable if it is unreadable."""
    path = options.path
    try:
        if options.read_only or not path.is_file():
            return options
    except PermissionError:
        raise _make_unreadable_error(path.parent) from None
    if not os.access(path, os.R_OK, effective_ids=True):
        raise _make_unreadable_error(path)
    # Writing needs a log file in the folder, which exists already if another process has the database open.
    has_log = path.with_name(f"{path.name}-wal").exists()
    can_write_folder = has_log or os.access(path.parent, os.W_OK, effective_ids=True)
    can_write = can_write_folder and os.access(path, os.W_OK, effective_ids=True)
    return options if can_write else replace(options, read_only=True)


def _make_unreadable_error(path: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"permission denied: {path} cannot be read",
        value=str(path),
        remedy="change its permissions, or run as the user that owns it",
    )


def make_read_only_error(options: SqliteOptions) -> StoreReadOnly:
    """Return the error for a write to a file that was opened with these options."""
    if options.read_only:
        return StoreReadOnly(f"{options.path} was opened read-only", remedy="open it without mode=ro to write")
    return StoreReadOnly(f"{options.path} or its folder is read-only", remedy="change their permissions to write")


def _create_or_check(path: Path) -> None:
    """Create an empty file, or check, without opening it, that an existing file can be written.

    When a process closes a file, POSIX drops all locks that the process has on it, even those of other connections.
    Another process could then remove the write-ahead log that those connections still use and destroy the database.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not path.exists():  # a symbolic link to a file that does not exist yet
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        elif path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)) from None
        elif not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None


def create_file(path: Path) -> None:
    """Create an empty database file that only its owner can read; do nothing if the file exists."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _create_or_check(path)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM) and path.is_file():
            raise StoreReadOnly(_READ_ONLY[0].format(path=path), remedy=_READ_ONLY[1].format(path=path)) from error
        if isinstance(error, IsADirectoryError):
            raise StoreUnavailable(
                f"{path} is a folder", remedy=f"name a file in it: {path / 'everhold.db'}"
            ) from error
        raise StoreUnavailable(
            f"{path} cannot be opened ({error.strerror})",
            remedy="check that it is a file in a folder that you can write",
        ) from error


def retry_locked(work: Callable[[], T], seconds: float) -> T:
    """Return the result of `work`. Retry it for up to `seconds` while another process locks the file.

    SQLite's busy timeout does not apply to opening a file and changing its journal mode: those fail at once.
    """
    policy = RetryPolicy(seconds=seconds, first_pause=_FIRST_PAUSE, longest_pause=_MAX_PAUSE)
    name = "open a SQLite file that another process has locked"
    return retry(name, lambda _: work(), policy, on=sqlite3.OperationalError, should_retry=_is_busy)


def _is_busy(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class translate_errors:  # noqa: N801 — used like a function; contextmanager would slow every query
    """Raise the errors of `sqlite3` as Everhold errors."""

    __slots__ = ("_options",)

    def __init__(self, options: SqliteOptions) -> None:
        self._options = options

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        if isinstance(error, sqlite3.IntegrityError):
            raise _make_integrity_error(error) from error
        if isinstance(error, sqlite3.DatabaseError):
            raise _make_store_error(error, self._options) from error
        if isinstance(error, OverflowError | UnicodeEncodeError):
            raise InvalidInput(f"SQLite cannot hold a value: {error}", remedy="change the value") from error


_READ_ONLY = ("{path} or its folder is read-only", "change their permissions to write")
_ERRORS: dict[int, tuple[type[StoreError], str, str]] = {
    sqlite3.SQLITE_BUSY: (StoreBusy, "{path} was locked by other writers for {seconds:g} s", "try again"),
    sqlite3.SQLITE_LOCKED: (StoreBusy, "{path} was locked by other writers for {seconds:g} s", "try again"),
    sqlite3.SQLITE_FULL: (StoreFull, "no space left for {path}", "free some disk or raise its limit, then retry"),
    sqlite3.SQLITE_READONLY: (StoreReadOnly, *_READ_ONLY),
    sqlite3.SQLITE_CORRUPT: (StoreDamaged, "{path} is damaged ({error})", "restore it from a backup"),
    sqlite3.SQLITE_NOTADB: (StoreDamaged, "{path} is not a database", "choose another file"),
    sqlite3.SQLITE_CANTOPEN: (
        StoreUnavailable,
        "{path} cannot be opened",
        "check that its folder exists and you can write it",
    ),
    sqlite3.SQLITE_INTERRUPT: (StoreUnavailable, "{path} has been closed", "open it again"),
    sqlite3.SQLITE_IOERR: (
        StoreFull,
        "the system cannot write {path} ({name})",
        "check disk space and file limits",
    ),
}
_DEFAULT_ERROR = (StoreError, "SQLite failed on {path}: {error}", "check the file with `everhold doctor`")


def _make_store_error(error: sqlite3.DatabaseError, options: SqliteOptions) -> EverholdError:
    code: int = getattr(error, "sqlite_errorcode", 0)
    if code & _PRIMARY_CODE == sqlite3.SQLITE_NOTADB and _is_duckdb(options.path):
        return InvalidSettings(f"{options.path} is a DuckDB file", remedy=f"open it as duckdb:///{options.path}")
    kind, fact, remedy = _ERRORS.get(code & _PRIMARY_CODE, _DEFAULT_ERROR)
    details = {"path": options.path, "seconds": options.busy_seconds, "error": error, "name": _get_error_name(error)}
    return kind(fact.format(**details), remedy=remedy.format(**details))


def _is_duckdb(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(_DUCKDB_OFFSET)
        return file.read(len(_DUCKDB)) == _DUCKDB


def _get_error_name(error: sqlite3.Error) -> str:
    return str(getattr(error, "sqlite_errorname", error))


def _make_integrity_error(error: sqlite3.IntegrityError) -> Exception:
    text = str(error)
    if "FOREIGN KEY" in text:
        return BrokenReference(
            "a row refers to one that does not exist in its organization", remedy="create that row first"
        )
    if text.startswith("UNIQUE constraint failed: "):
        table, rule = _find_rule(text.removeprefix("UNIQUE constraint failed: "))
        return AlreadyExists(f"{table}: a live row with the same {rule} exists", table=table, rule=rule)
    return InvalidInput(f"the store refused a value: {text}", remedy="change the value")


@cache  # runs whenever a duplicate memory is stored
def _find_rule(detail: str) -> tuple[str, str]:
    """Return the table and the unique rule that an error names. SQLite names an index or the columns."""
    if detail.startswith("index '"):
        index = detail.removeprefix("index '").rstrip("'")
        for table in TABLES.values():
            for unique in table.uniques:
                if name_index(table, "one", (unique.name,)) == index:
                    return table.name, unique.name
    names = [part.split(".") for part in detail.split(", ")]
    table, columns = TABLES[names[0][0]], tuple(name for _, name in names)
    if columns == table.key:
        return table.name, "key"
    for unique in table.uniques:
        if columns[-len(unique.columns) :] == unique.columns:
            return table.name, unique.name
    return table.name, ", ".join(columns)


def read_pragma(connection: sqlite3.Connection, name: str) -> Any:
    """Return the value of a SQLite setting."""
    return connection.execute(f"PRAGMA {name}").fetchone()[0]
