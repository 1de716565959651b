"""Export a workspace to a tar file, and import a tar or zip file, which need not come from Everhold.

An archive is read twice. The first pass checks every name, kind and size, so that an archive with a single bad entry
changes nothing; the second one reads the contents. Only regular files and folders are accepted. The libraries never
extract anything: they only return bytes, and no more are read than the limits allow.
"""

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, cast

from everhold.errors import EverholdError, InvalidInput
from everhold.files import create_binary
from everhold.workspaces.changing import WorkArea, change_files
from everhold.workspaces.contents import hash_content
from everhold.workspaces.deps import WorkspaceLimits
from everhold.workspaces.files import check_quota
from everhold.workspaces.manifests import Manifest, ManifestEntry
from everhold.workspaces.paths import find_path_fault, fold_path, split_path
from everhold.workspaces.sandbox import EXECUTABLE, PLAIN

_COMPRESSED: tuple[tuple[bytes, Callable[[Any], Any]], ...] = (
    (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
)
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
# `tarfile` reads headers with long names and attributes into memory as a whole. Normal ones are far shorter.
_MAX_HEADER_BYTES = 1_000_000
_BLOCK = 512
_COPY_BYTES = 1 << 20
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, zlib.error, lzma.LZMAError,
            ValueError, OverflowError, RuntimeError, OSError)  # fmt: skip


class ArchivedFile(NamedTuple):
    """A file in an archive: its path in the workspace, its size by its header, and the library's entry."""

    path: str
    size: int
    mode: int
    member: Any


def export_files(target: Path, manifest: Manifest, load: Callable[[str], bytes], *, overwrite: bool) -> None:
    """Write files to a tar file, ordered by path. The same files always make the same bytes."""
    with (
        create_binary(target, overwrite=overwrite) as output,
        tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path, entry in sorted(manifest.items()):
            member = tarfile.TarInfo(path)
            member.size, member.mode = entry.size, entry.mode
            archive.addfile(member, io.BytesIO(load(entry.sha256)))


def import_archive(area: WorkArea, source: Path, into: str | None, cycle_id: str | None) -> list[str]:
    """Write all files of an archive to the workspace, or none; return their paths.

    Raise InvalidInput if an entry is not a regular file or folder, has an invalid or repeated name, or exceeds the
    limits.
    """
    limits = area.limits
    with ExitStack() as resources:
        members, read = _open_archive(area, source, limits, resources)
        planned_files = _plan_files(members, into, limits)
        check_quota(area, {file.path: file.size for file in planned_files})
        for file in planned_files:
            area.folder.files.check_free(split_path(file.path))
        spool = _Spool(resources.enter_context(area.folder.make_temporary()))
        entries: dict[str, ManifestEntry | None] = {}
        for file in planned_files:
            content = _read_member(read, file)
            entries[file.path] = ManifestEntry(spool.add(content), len(content), file.mode)
        change_files(area, entries, spool.get, area.make_recording("update", cycle_id))
    return sorted(entries)


class _Spool:
    """Contents in a temporary file, because the contents of an archive may not fit into memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._places: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def add(self, content: bytes) -> str:
        sha256 = hash_content(content)
        if sha256 not in self._places:
            self._places[sha256] = (self._file.seek(0, os.SEEK_END), len(content))
            self._file.write(content)
        return sha256

    def get(self, sha256: str) -> bytes:
        start, size = self._places[sha256]
        with self._lock:
            self._file.seek(start)
            return self._file.read(size)


def _plan_files(members: Iterator[ArchivedFile | str], into: str | None, limits: WorkspaceLimits) -> list[ArchivedFile]:
    """Check every entry and return the files. A member that is a string is the path of a folder."""
    prefix = "" if into is None else "/".join(split_path(into)) + "/"
    files: dict[str, ArchivedFile] = {}
    folders: dict[str, str] = {}
    size, count = 0, 0
    for member in members:
        count += 1
        if count > 2 * limits.max_files + 1_000:
            _refuse(f"the archive has more than {count - 1:,} entries", "split it")
        name = member if isinstance(member, str) else member.path
        fault = find_path_fault(prefix + name)
        if fault is not None:
            _refuse(f"the archive has an entry {name[:80]!r} that {fault}", "make the archive without it")
        _add_folders(prefix + name, folders, is_folder=isinstance(member, str))
        if isinstance(member, str):
            continue
        folded = fold_path(prefix + name)
        if folded in files:
            _refuse(f"the archive has {name[:80]!r} twice, but for case or composition", "make it with one of them")
        files[folded] = member._replace(path=prefix + name)
        size += member.size
        limits.check_file(name, member.size)
        limits.check(len(files), size)
    clashing_path = next((files[folded].path for folded in files if folded in folders), None)
    if clashing_path is not None:
        _refuse(f"the archive has {clashing_path[:80]!r} as a file and as a folder", "make it with one of them")
    return list(files.values())


def _add_folders(path: str, folders: dict[str, str], *, is_folder: bool) -> None:
    """Add the folders of a path to `folders`; raise InvalidInput for two that only differ in case or composition."""
    names = path.split("/")
    for depth in range(1, len(names) + is_folder):
        folder = "/".join(names[:depth])
        if folders.setdefault(fold_path(folder), folder) != folder:
            _refuse(f"the archive has {folder[:80]!r} twice, but for case or composition", "make it with one of them")


def _open_archive(
    area: WorkArea, source: Path, limits: WorkspaceLimits, resources: ExitStack
) -> tuple[Iterator[ArchivedFile | str], Callable[[Any], IO[bytes] | None]]:
    """Return the entries of an archive, and a function that opens one of them."""
    # Beyond the contents, allow each entry 8 blocks for its header, its padding and its attributes.
    max_bytes = limits.max_bytes + 8 * _BLOCK * (limits.max_files + 1_000)
    file = resources.enter_context(_open_source(source, max_bytes))
    with _explain_damage(source):
        beginning = file.read(8)
        file.seek(0)
        if beginning.startswith(_ZIP):
            archive = resources.enter_context(zipfile.ZipFile(file))
            return _guard(source, _list_zip(archive)), archive.open
        decompress = next((opener for magic, opener in _COMPRESSED if beginning.startswith(magic)), None)
        if decompress is not None:
            plain = resources.enter_context(area.folder.make_temporary())
            _decompress(decompress(file), plain, max_bytes)
            file = plain
        tar = resources.enter_context(tarfile.TarFile(fileobj=cast("IO[bytes]", _HeaderReader(file))))
        return _guard(source, _list_tar(tar)), tar.extractfile


def _open_source(source: Path, max_bytes: int) -> IO[bytes]:
    """Open an archive; raise InvalidInput unless it is a regular file of at most `max_bytes`."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its writer.
        descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidInput(f"{source} cannot be read ({error.strerror})", remedy="check the path") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
        os.close(descriptor)
    if not stat.S_ISREG(status.st_mode):
        _refuse(f"{source} is not a regular file", "pass a tar or zip file")
    if status.st_size > max_bytes:
        _refuse(f"{source} has {status.st_size:,} bytes", f"pass an archive of at most {max_bytes:,}")
    return os.fdopen(descriptor, "rb")


class _HeaderReader:
    """Reads a file for `tarfile`; raises InvalidInput instead of reading a very long header into memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > _MAX_HEADER_BYTES:
            _refuse(f"the archive has a header of {size:,} bytes", "make it with another program")
        return self._file.read(size)


def _decompress(packed: Any, plain: IO[bytes], max_bytes: int) -> None:
    size = 0
    while part := packed.read(_COPY_BYTES):
        size += len(part)
        if size > max_bytes:
            _refuse(f"the archive unpacks to more than {max_bytes:,} bytes", "split it")
        plain.write(part)
    plain.seek(0)


def _list_tar(archive: tarfile.TarFile) -> Iterator[ArchivedFile | str]:
    for member in archive:
        name = member.name
        if member.isdir():
            if name.removeprefix("./").strip("/") not in ("", "."):
                yield name.removeprefix("./").removesuffix("/")
        elif member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
            _refuse(f"the archive has an entry {name[:80]!r} that is not a regular file", "make the archive without it")
        else:
            yield ArchivedFile(name.removeprefix("./"), member.size, _choose_mode(member.mode), member)


def _list_zip(archive: zipfile.ZipFile) -> Iterator[ArchivedFile | str]:
    for member in archive.infolist():
        name, mode = member.orig_filename, member.external_attr >> 16
        if member.flag_bits & 1:
            _refuse(f"the archive has an entry {name[:80]!r} that is encrypted", "make it without a password")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR) or name != member.filename:
            _refuse(f"the archive has an entry {name[:80]!r} that is not a regular file", "make the archive without it")
        if name.endswith("/"):
            yield name.removesuffix("/")
        elif stat.S_ISDIR(mode):
            _refuse(f"the archive has {name[:80]!r} as a file and as a folder", "make it with one of them")
        else:
            yield ArchivedFile(name, member.file_size, _choose_mode(mode), member)


def _choose_mode(mode: int) -> int:
    return EXECUTABLE if mode & stat.S_IXUSR else PLAIN


def _read_member(read: Callable[[Any], IO[bytes] | None], file: ArchivedFile) -> bytes:
    with _explain_damage(file.path):
        opened = read(file.member)
        if opened is None:
            _refuse(f"the archive has no content for {file.path[:80]!r}", "make it again")
        with opened:
            parts, bytes_left = [], file.size + 1
            while bytes_left > 0 and (part := opened.read(min(bytes_left, _COPY_BYTES // 2))):
                parts.append(part)
                bytes_left -= len(part)
        if bytes_left != 1:
            _refuse(f"the archive has {file.path[:80]!r} with another size than its header says", "make it again")
        return b"".join(parts)


def _guard(source: Path, members: Iterator[ArchivedFile | str]) -> Iterator[ArchivedFile | str]:
    with _explain_damage(source):
        yield from members


@contextmanager
def _explain_damage(source: Path | str) -> Iterator[None]:
    """Translate the errors that the libraries raise for a damaged archive to InvalidInput."""
    try:
        yield
    except EverholdError:
        raise
    except _DAMAGED as error:
        kind = type(error).__name__
        raise InvalidInput(f"{source} is not a readable archive ({kind})", remedy="make it again") from error


def _refuse(fact: str, remedy: str) -> NoReturn:
    raise InvalidInput(fact, remedy=remedy)
