"""A folder whose files are opened name by name, without ever following a link.

Every step opens the next folder relative to the descriptor of the previous one, with O_NOFOLLOW. So a folder that is
replaced by a link during an operation is refused, and descriptors that are already open stay inside the sandbox. Only
regular files with a single name are read: another hard link may be a file outside.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from everhold.errors import Conflict, InvalidInput, NotFound, Remedy, Verb
from everhold.workspaces.paths import MAX_DEPTH, MAX_PATH_BYTES, find_name_fault, fold_name

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe would wait for its writer.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_A_FOLDER = (errno.ENOTDIR, errno.ELOOP)
_READ_BYTES = 1 << 20
PLAIN, EXECUTABLE = 0o644, 0o755


class FileEntry(NamedTuple):
    """A regular file that a walk found."""

    path: str
    status: os.stat_result

    @property
    def mode(self) -> int:
        return choose_mode(self.status)


def choose_mode(status: os.stat_result) -> int:
    """Return the mode that snapshots store. It shows only whether the file is executable."""
    return EXECUTABLE if status.st_mode & stat.S_IXUSR else PLAIN


class Walk(NamedTuple):
    """The files of a folder by path, and why each other entry was refused."""

    files: list[FileEntry]
    refused: dict[str, str]


class SandboxFolder:
    """An open folder. The caller owns the descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._root = descriptor
        self._device = os.fstat(descriptor).st_dev

    def read(self, names: Sequence[str], limit: int) -> tuple[bytes, os.stat_result]:
        """Return the content of a file, and its status before it was read.

        Raise NotFound if it does not exist, and InvalidInput if it is not a regular file or is larger than `limit`.
        """
        path = "/".join(names)
        with self._open_parent(names) as parent:
            try:
                descriptor = os.open(names[-1], _FILE_FLAGS, dir_fd=parent)
            except FileNotFoundError:
                raise _make_not_found(path) from None
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO, errno.EOPNOTSUPP):
                    raise _refuse(path, "is a link, a socket or a device") from None
                raise
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            fault = find_status_fault(status, self._device)
            if fault is not None:
                raise _refuse(path, fault)
            content = bytearray()
            while len(content) <= limit and (part := file.read(min(_READ_BYTES, limit + 1 - len(content)))):
                content += part
        if len(content) > limit:
            raise _refuse(path, f"is larger than {limit:,} bytes")
        return bytes(content), status

    def publish(self, names: Sequence[str], source: int, staged: str) -> None:
        """Move a finished file from the folder `source` to its path, replacing anything there but a folder.

        Call `check_free` before. It finds names that only differ in case, but reads whole folders.
        """
        with self._open_parent(names, create=True) as parent:
            with suppress(FileNotFoundError):
                if stat.S_ISDIR(os.stat(names[-1], dir_fd=parent, follow_symlinks=False).st_mode):
                    raise _refuse("/".join(names), "is a folder")
            os.rename(staged, names[-1], src_dir_fd=source, dst_dir_fd=parent)

    def sync_folders(self, folders: Iterable[tuple[str, ...]]) -> None:
        """Write the entries of folders to disk, so that published and removed files survive a power cut."""
        for names in folders:
            with suppress(NotFound), self._open_parent((*names, "")) as folder:
                os.fsync(folder)

    def check_free(self, names: Sequence[str]) -> None:
        """Raise Conflict or InvalidInput if a file could not be published at a path."""
        descriptor = os.dup(self._root)
        try:
            for depth, name in enumerate(names, 1):
                self._check_new_name(descriptor, names[:depth])
                if depth == len(names):
                    with suppress(FileNotFoundError):
                        if stat.S_ISDIR(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                            raise _refuse("/".join(names), "is a folder")
                    return
                try:
                    inner_descriptor = self._open_inner_folder(descriptor, name, names)
                except FileNotFoundError:
                    return
                os.close(descriptor)
                descriptor = inner_descriptor
        finally:
            os.close(descriptor)

    def remove(self, names: Sequence[str]) -> None:
        """Delete a file, a link or a special file, then its parent folders as far as they are empty.

        Do nothing if the path does not exist or is a folder.
        """
        with suppress(FileNotFoundError, NotFound):
            with self._open_parent(names) as parent, suppress(IsADirectoryError):
                os.unlink(names[-1], dir_fd=parent)
            for depth in range(len(names) - 1, 0, -1):
                with self._open_parent(names[:depth]) as parent:
                    try:
                        os.rmdir(names[depth - 1], dir_fd=parent)
                    except OSError:  # not empty
                        return

    def walk(self, is_known: Callable[[str], bool] = lambda _: False) -> Walk:
        """Return the files, ordered by path. Of names that only differ in case, accept one: a known one, if any."""
        walk = Walk([], {})
        open_folders: list[tuple[int, tuple[str, ...]]] = [(os.dup(self._root), ())]
        try:
            while open_folders:
                descriptor, names = open_folders.pop()
                try:
                    open_folders += self._read_folder(descriptor, names, is_known, walk)
                finally:
                    os.close(descriptor)
        finally:
            for descriptor, _ in open_folders:
                os.close(descriptor)
        walk.files.sort()
        return walk

    def _read_folder(
        self, descriptor: int, names: tuple[str, ...], is_known: Callable[[str], bool], walk: Walk
    ) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Add the files of one folder to the walk, and yield descriptors and names of the folders inside it."""
        with os.scandir(descriptor) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
        prefix = "".join(f"{name}/" for name in names)
        twins = _find_twins([entry.name for entry in entries], prefix, is_known)
        for entry in entries:
            path = prefix + entry.name
            try:
                status = os.stat(entry.name, dir_fd=descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue
            fault = _find_entry_fault(path, entry.name, status, self._device)
            if fault is None and entry.name in twins:
                fault = f"has the same name as {twins[entry.name]!r} but for case or composition"
            if fault is not None:
                walk.refused[_make_printable(path)] = fault
            elif not stat.S_ISDIR(status.st_mode):
                walk.files.append(FileEntry(path, status))
            elif len(names) + 1 >= MAX_DEPTH:
                walk.refused[path] = f"is deeper than {MAX_DEPTH} folders"
            else:
                try:
                    yield self._open_inner_folder(descriptor, entry.name, (*names, entry.name)), (*names, entry.name)
                except (FileNotFoundError, InvalidInput):  # it was replaced in the meantime
                    walk.refused[path] = "changed during the scan"

    @contextmanager
    def _open_parent(self, names: Sequence[str], *, create: bool = False) -> Iterator[int]:
        """Yield a descriptor of the folder that contains a path; with `create`, make missing folders."""
        descriptor = os.dup(self._root)
        try:
            for name in names[:-1]:
                try:
                    inner_descriptor = self._open_inner_folder(descriptor, name, names)
                except FileNotFoundError:
                    if not create:
                        raise _make_not_found("/".join(names)) from None
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o700, dir_fd=descriptor)
                    os.fsync(descriptor)
                    inner_descriptor = self._open_inner_folder(descriptor, name, names)
                os.close(descriptor)
                descriptor = inner_descriptor
            yield descriptor
        finally:
            os.close(descriptor)

    def _open_inner_folder(self, descriptor: int, name: str, names: Sequence[str]) -> int:
        """Open a folder inside an open folder; raise InvalidInput if it is a link, a file or on another file system."""
        try:
            inner_descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=descriptor)
        except OSError as error:
            if error.errno in _NOT_A_FOLDER:
                raise _refuse("/".join(names), f"leads through {name!r}, which is not a folder") from None
            raise
        if os.fstat(inner_descriptor).st_dev != self._device:
            os.close(inner_descriptor)
            raise _refuse("/".join(names), "leads to another file system")
        return inner_descriptor

    def _check_new_name(self, parent: int, names: Sequence[str]) -> None:
        """Raise Conflict if the folder has another name that is the same but for case or composition."""
        folded, name = fold_name(names[-1]), names[-1]
        for other in os.listdir(parent):
            if other != name and fold_name(other) == folded:
                raise Conflict(
                    f"path {'/'.join(names)!r} is the same as {other!r} there but for case or composition",
                    value="/".join(names),
                    remedy="use the existing name, or another one",
                )


def find_status_fault(status: os.stat_result, device: int) -> str | None:
    """Return why an entry cannot be a file of the workspace; None for a regular file with one name."""
    if stat.S_ISLNK(status.st_mode):
        return "is a symbolic link"
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"
    if status.st_nlink > 1:
        return "has more than one hard link"
    return "is on another file system" if status.st_dev != device else None


def _find_entry_fault(path: str, name: str, status: os.stat_result, device: int) -> str | None:
    fault = find_name_fault(name)
    if fault is not None:
        return fault
    # The names above were checked when their folders were entered.
    if len(path) > MAX_PATH_BYTES or len(path.encode()) > MAX_PATH_BYTES:
        return f"is longer than {MAX_PATH_BYTES:,} bytes"
    if stat.S_ISDIR(status.st_mode):
        return "is on another file system" if status.st_dev != device else None
    return find_status_fault(status, device)


def _find_twins(names: Sequence[str], prefix: str, is_known: Callable[[str], bool]) -> dict[str, str]:
    """Map each name to refuse to the accepted name from which it differs only in case or composition."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(fold_name(name), []).append(name)
    twins: dict[str, str] = {}
    for group in groups.values():
        if len(group) > 1:
            accepted_name = next((name for name in group if is_known(prefix + name)), group[0])
            twins.update((name, accepted_name) for name in group if name != accepted_name)
    return twins


def _make_printable(path: str) -> str:
    return path if path.isprintable() else repr(path)[1:-1]


def _refuse(path: str, fault: str) -> InvalidInput:
    return InvalidInput(f"{path[:80]!r} {fault}", value=path, remedy="remove it from the folder, or use another path")


def _make_not_found(path: str) -> NotFound:
    return NotFound(
        f"no file {path[:80]!r} in the workspace", value=path, remedy=Remedy("{} lists them", Verb("files"))
    )
