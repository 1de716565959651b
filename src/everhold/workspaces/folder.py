"""The folder of a workspace on this machine: its files, and the state that is kept beside them.

    base/of-DIGEST/ws-DIGEST/files/     the files; tools may write here
                             staging/   files that are being written
                             journal    a change that is being made
                             index      the timestamps and hash of each file, so that unchanged files need not be read
                             lock       held by the process that works here

The names come from the ids of the organization and the workspace, never from a stored path.
"""

import errno
import fcntl
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from everhold.errors import FileError, StoreBusy
from everhold.files import make_private_folder
from everhold.retries import RetryPolicy, TryAgain, retry
from everhold.workspaces.sandbox import EXECUTABLE, SandboxFolder, choose_mode

_FORMAT = 1
_LOCK_RETRIES = RetryPolicy(seconds=60, first_pause=0.002, longest_pause=0.1)
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Linux takes file timestamps from a clock that ticks every 1 to 10 ms: two changes in one tick get the same timestamp.
_TICK_NS = 20_000_000


class KnownFile(NamedTuple):
    """The index entry of a file: its status when it was read, and the hash of its content."""

    mtime_ns: int
    ctime_ns: int
    inode: int
    size: int
    mode: int
    sha256: str
    is_settled: bool
    """Whether the file was last changed clearly before it was read, so that equal timestamps mean equal content."""

    def matches(self, status: os.stat_result) -> bool:
        """Return whether a file certainly still has the content that was read."""
        stamps = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size)
        return self.is_settled and stamps == self[:4] and choose_mode(status) == self.mode


@dataclass
class FileIndex:
    """The files as they were at a version of the workspace's row."""

    version: int | None = None
    files: dict[str, KnownFile] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    """Files of the workspace whose content could not be fetched to this machine."""


class LocalFolder:
    """The folder of a workspace on this machine."""

    def __init__(self, base: Path, organization_id: str, workspace_id: str) -> None:
        self.path = name_organization_folder(base, organization_id) / _make_folder_name("ws", workspace_id)

    @property
    def files(self) -> Path:
        """The folder of the files."""
        return self.path / "files"

    @contextmanager
    def open(self) -> Iterator["LockedFolder"]:
        """Create the folder if it is missing, lock it against other processes and threads, and yield it.

        Raise StoreBusy if it stays locked for a minute, and FileError if the disk fails.
        """
        with translate_errors(self.path):
            make_private_folder(self.path)
            with _lock(self.path / "lock"):
                descriptors: list[int] = []
                try:
                    descriptors.append(os.open(self.path, _FOLDER_FLAGS))
                    for name in ("files", "staging"):
                        with suppress(FileExistsError):
                            os.mkdir(name, 0o700, dir_fd=descriptors[0])
                        descriptors.append(os.open(name, _FOLDER_FLAGS, dir_fd=descriptors[0]))
                    yield LockedFolder(self.path, *descriptors)
                finally:
                    for descriptor in descriptors:
                        os.close(descriptor)


class LockedFolder:
    """A workspace's folder while it is locked: its files, staged files, journal and index."""

    def __init__(self, path: Path, root: int, files: int, staging: int) -> None:
        self.path = path
        self.files = SandboxFolder(files)
        self._root = root
        self._staging = staging

    def stage(self, content: bytes, mode: int, *, durable: bool = True) -> str:
        """Write a file that can be published later; return its name."""
        name = secrets.token_hex(8)
        rights = 0o700 if mode == EXECUTABLE else 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, rights, dir_fd=self._staging)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            os.fchmod(descriptor, rights)  # the umask may have taken rights away
            unwritten = memoryview(content)
            while unwritten:
                unwritten = unwritten[file.write(unwritten) or 0 :]
            if durable:
                os.fsync(descriptor)
        return name

    def publish(self, names: tuple[str, ...], staged: str) -> None:
        """Move a staged file to its path. Do nothing if it was moved before."""
        try:
            os.stat(staged, dir_fd=self._staging, follow_symlinks=False)
        except FileNotFoundError:
            return
        self.files.publish(names, self._staging, staged)

    def clear_staging(self) -> None:
        """Delete the staged files that an interrupted change has left."""
        with os.scandir(self._staging) as leftovers:
            for leftover in leftovers:
                with suppress(FileNotFoundError):
                    os.unlink(leftover.name, dir_fd=self._staging)

    @contextmanager
    def make_temporary(self) -> Iterator[Any]:
        """Yield an open temporary file without a name; closing it deletes it."""
        name = secrets.token_hex(8)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=self._staging)
        with os.fdopen(descriptor, "w+b") as file:
            os.unlink(name, dir_fd=self._staging)
            yield file

    def read_clock(self) -> int:
        """Return a time of the file system's clock, one tick ago: any later change gets a later timestamp."""
        os.utime("lock", dir_fd=self._root, follow_symlinks=False)
        return os.stat("lock", dir_fd=self._root, follow_symlinks=False).st_mtime_ns - _TICK_NS

    def read_journal(self) -> dict[str, Any] | None:
        """Return the change that an interrupted process has left; None if there is none."""
        return self._read("journal")

    def write_journal(self, change: Mapping[str, Any]) -> None:
        os.fsync(self._staging)  # the staged files that the journal names
        self._write("journal", change)
        os.fsync(self._root)

    def clear_journal(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink("journal", dir_fd=self._root)
            os.fsync(self._root)

    def has_index(self) -> bool:
        """Return whether this machine has used the folder before."""
        try:
            os.stat("index", dir_fd=self._root, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def read_index(self) -> FileIndex:
        document = self._read("index")
        if document is None or document.get("format") != _FORMAT:
            return FileIndex()
        files = {path: KnownFile(*values) for path, values in document["files"].items()}
        return FileIndex(document["version"], files, set(document["absent"]))

    def write_index(self, index: FileIndex) -> None:
        document = {"format": _FORMAT, "version": index.version, "files": index.files, "absent": sorted(index.absent)}
        # The index need not survive a power cut: without it, every file is read again.
        self._write("index", document, durable=False)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._root)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            try:
                document = json.loads(file.read())
            except ValueError:  # it is written atomically, so another program has changed it
                return None
        return document if isinstance(document, dict) else None

    def _write(self, name: str, document: Mapping[str, Any], *, durable: bool = True) -> None:
        staged = self.stage(json.dumps(document, separators=(",", ":")).encode(), 0, durable=durable)
        os.rename(staged, name, src_dir_fd=self._staging, dst_dir_fd=self._root)


def name_organization_folder(base: Path, organization_id: str) -> Path:
    return base / _make_folder_name("of", organization_id)


def list_folders(base: Path) -> list[tuple[Path, Path]]:
    """Return the folder of every workspace below a base, each with the folder of its organization."""
    if not base.is_dir():
        return []
    organizations = [folder for folder in base.iterdir() if folder.name.startswith("of-") and folder.is_dir()]
    return [
        (organization, folder)
        for organization in organizations
        for folder in organization.iterdir()
        if folder.name.startswith("ws-") and stat.S_ISDIR(folder.lstat().st_mode)
    ]


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate errors of the operating system about a workspace's folder to FileError."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = "free some space there" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "check the folder"
        raise FileError(
            f"the workspace at {path} cannot be used ({reason})", remedy=remedy, code=error.errno
        ) from error


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def try_lock(_: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TryAgain("another process works in the workspace") from error

    busy = StoreBusy(f"another process works in the workspace at {path.parent}")
    try:
        retry("lock a workspace", try_lock, _LOCK_RETRIES, give_up=lambda _: busy)
        yield
    finally:
        os.close(descriptor)


def _make_folder_name(prefix: str, key: str) -> str:
    """Return a folder's name with a digest of the key: file systems limit names, and some ignore their case."""
    return f"{prefix}-{hashlib.sha256(key.encode()).hexdigest()[:40]}"
