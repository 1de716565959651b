"""Write files atomically and privately.

Content goes to a temporary file in the same folder, which takes its final name when it is complete and on disk. The
temporary file has a random name, is created exclusively and never through a symbolic link, and only its owner can read
it, with any umask. So a planted file or link is neither followed nor reused, and two writers of one name do not write
into each other's file. Every operation goes through one descriptor of the folder, so that replacing the folder during a
write has no effect.
"""

import errno
import fcntl
import io
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NoReturn, cast

from everhold.errors import Argument, FileError, InvalidInput, Remedy

_PREFIX, _SUFFIX = ".everhold-", ".part"
_CREATE = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# In these folders only the system makes links, such as /dev/stdout and /dev/fd/63, so links in them may be followed.
_STREAMS = re.compile(r"/dev|/proc/\d+/(task/\d+/)?fd")
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
_CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF)
_LEFTOVER_SECONDS = 60  # a younger temporary file may belong to a writer that has not locked it yet
_REMEDIES = {
    errno.ENOSPC: "free some space there, or name another folder",
    errno.EDQUOT: "free some of your quota, or name another folder",
    errno.EFBIG: "raise the limit on the size of a file, or name another folder",
    errno.EIO: "check the disk, then try again",
    errno.EROFS: "name a folder that can be written to",
    errno.EMFILE: "close some files or raise the limit on open files, then try again",
    errno.ENFILE: "close some files or raise the limit on open files, then try again",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EPIPE: "its reader has gone; start again",
    errno.ELOOP: "name a file that is not behind a loop of links",
}
_OTHER_REMEDY = "check that the folder is there and yours to write, or name another file"


def write_private(path: Path, content: bytes, *, overwrite: bool, sync_name: bool = True) -> None:
    """Write a whole file that only its owner can read; raise InvalidInput if it exists, unless `overwrite` is true.

    Without `sync_name`, a power cut may undo the write until `sync_folder` has been called.
    """
    with _create_file(path, overwrite=overwrite, sync_name=sync_name) as raw:
        # One unbuffered write may take only a part.
        unwritten = memoryview(content)
        while unwritten:
            unwritten = unwritten[raw.write(unwritten) :]


@contextmanager
def create_text(target: str | Path | IO[str], *, overwrite: bool) -> Iterator[IO[str]]:
    """Yield a text file that appears under its name only when the block ends without an error.

    A link is never followed: without `overwrite` it is refused like any file that exists, with `overwrite` the link
    itself is replaced. A pipe or a device is written to directly, and so is a file that is open already.
    """
    if not isinstance(target, str | Path):
        text_file = _ReportingText(target)
        yield cast("IO[str]", text_file)
        text_file.flush()
        return
    path = Path(target)
    stream = _open_stream(path)
    if stream is not None:
        with stream:
            yield stream
        return
    with _create_file(path, overwrite=overwrite) as raw:
        _remove_leftovers(path.parent, raw)
        text = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", newline="\n")
        yield text
        text.flush()
        text.detach().detach()  # closing the text would close the file before it is on disk


@contextmanager
def create_binary(path: Path, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """Yield a binary file that appears under its name only when the block ends without an error."""
    with _create_file(path, overwrite=overwrite) as raw:
        _remove_leftovers(path.parent, raw)
        buffered = io.BufferedWriter(raw)
        yield buffered
        buffered.flush()
        buffered.detach()  # closing it would close the file before it is on disk


def make_private_folder(folder: Path) -> Path:
    """Create a folder that only its owner can use, if needed, and return it; raise OSError if another user owns it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.geteuid():  # root could use the folder, but would then trust another user's files
        raise PermissionError(errno.EPERM, "the folder belongs to another user", str(folder))
    folder.chmod(0o700)
    return folder


def open_lock(path: Path) -> IO[bytes]:
    """Open a private lock file, created if it does not exist; refuse a link."""
    with _translate_errors(path):
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "r+b")


def sync_folder(folder: Path | int) -> None:
    """Write the entries of a folder to disk, so that they survive a power cut."""
    descriptor = folder if isinstance(folder, int) else os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        if not isinstance(folder, int):
            os.close(descriptor)


class _ReportingFile(io.FileIO):
    """A file whose errors become FileError. They are translated here because a buffer may write at any time."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor, "w")
        self._path = path

    def write(self, content: Any) -> int:
        with _translate_errors(self._path):
            return super().write(content) or 0

    def close(self) -> None:
        with _translate_errors(self._path):
            super().close()


class _ReportingText:
    """A text file of the caller whose errors become FileError."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._path = Path(str(getattr(file, "name", "the open file")))

    def write(self, text: str) -> int:
        with _translate_errors(self._path):
            return self._file.write(text)

    def flush(self) -> None:
        with _translate_errors(self._path):
            self._file.flush()


@contextmanager
def _create_file(path: Path, *, overwrite: bool, sync_name: bool = True) -> Iterator[_ReportingFile]:
    """Yield a temporary file that is renamed to the path at the end; errors of the block are raised unchanged."""
    with _translate_errors(path):
        folder = _open_folder(path)
    try:
        with _translate_errors(path):
            _refuse_unusable(path, folder, overwrite=overwrite)
            temporary = f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
            descriptor = os.open(temporary, os.O_WRONLY | _CREATE, 0o600, dir_fd=folder)
        try:
            with _ReportingFile(descriptor, path) as raw:
                with suppress(OSError):
                    fcntl.flock(raw, fcntl.LOCK_EX | fcntl.LOCK_NB)  # shows `_remove_leftovers` that it is in use
                with _translate_errors(path):
                    os.fchmod(descriptor, 0o600)  # the umask may have taken away even the owner's rights
                yield raw
                # Before the rename: after a power cut the name must not lead to an incomplete file.
                with _translate_errors(path):
                    os.fsync(descriptor)
            with _translate_errors(path):
                _publish(temporary, path, folder, overwrite=overwrite)
        finally:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
        if sync_name:
            with _translate_errors(path):
                sync_folder(folder)
    finally:
        os.close(folder)


def _open_folder(path: Path) -> int:
    try:
        return os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidInput(
            f"there is no folder {path.parent} to write {path.name} into", remedy="create it first"
        ) from None


def _refuse_unusable(path: Path, folder: int, *, overwrite: bool) -> None:
    """Raise InvalidInput if the name is a folder, or is taken and may not be overwritten."""
    try:
        mode = os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise InvalidInput(f"{path} is a folder", remedy="name a file")
    if not overwrite:
        _refuse_existing(path)


def _refuse_existing(path: Path) -> NoReturn:
    raise InvalidInput(
        f"{path} exists already", remedy=Remedy("name another file, or pass {}", Argument("overwrite", True))
    ) from None


def _publish(temporary: str, path: Path, folder: int, *, overwrite: bool) -> None:
    """Give the finished file its name. Without `overwrite`, only one of several writers succeeds."""
    if not overwrite:
        try:
            os.link(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            return
        except FileExistsError:
            _refuse_existing(path)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
        # A file system without hard links: reserve the name exclusively, then replace the reservation.
        try:
            os.close(os.open(path.name, os.O_WRONLY | _CREATE, 0o600, dir_fd=folder))
        except FileExistsError:
            _refuse_existing(path)
    os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)


def _open_stream(path: Path) -> IO[str] | None:
    """Open a pipe or a device to write to; None if the path names neither."""
    try:
        is_system = _STREAMS.fullmatch(os.path.realpath(path.parent)) is not None
        status = path.stat() if is_system else path.lstat()
    except OSError:
        return None  # creating the file will raise the error
    if stat.S_ISDIR(status.st_mode) or not (is_system or _is_pipe_or_device(status.st_mode)):
        return None
    with _translate_errors(path):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | (0 if is_system else os.O_NOFOLLOW)
        raw = _ReportingFile(os.open(path, flags), path)
        # This checks the descriptor, because the name may point to a different file by now.
        opened = os.fstat(raw.fileno())
        is_trusted = is_system or (_is_pipe_or_device(opened.st_mode) and opened.st_uid in (os.geteuid(), 0))
        if not is_trusted:
            raw.close()
            raise InvalidInput(
                f"{path} is a pipe or device of another user (id {opened.st_uid})", remedy="name another file"
            )
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", newline="\n")


def _is_pipe_or_device(mode: int) -> bool:
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _remove_leftovers(folder: Path, current: _ReportingFile) -> None:
    """Remove old temporary files whose writers were killed, so that their locks are free. Best effort."""
    now = os.fstat(current.fileno()).st_mtime
    for leftover in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError):
            descriptor = os.open(leftover, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if now - os.fstat(descriptor).st_mtime > _LEFTOVER_SECONDS:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    leftover.unlink()
            finally:
                os.close(descriptor)


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Turn an OSError about the path into a FileError."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = _REMEDIES.get(error.errno or 0, _OTHER_REMEDY)
        raise FileError(f"{path} cannot be written ({reason})", remedy=remedy, code=error.errno) from error
