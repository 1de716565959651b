"""Read the files of an input: one file, a folder or a zip archive. Links are not followed and nothing is unpacked."""

import io
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from everhold.clock import EPOCH
from everhold.errors import EverholdError, InvalidInput, UnreadableFile
from everhold.importers.recoding import Utf16Reader, has_utf16_mark
from everhold.json_streams import JsonStream, read_lines
from everhold.ports.foreign_tables import ForeignTables, OpenTables

_MAX_MEMBERS = 200_000
_MAX_DEPTH = 6
# A member of a zip archive that is larger than this is refused if it is compressed to less than a two-hundredth of its
# size.
_MAX_BOMB_BYTES = 64_000_000
_MAX_RATIO = 200
_SQLITE_MARK = b"SQLite format 3\x00"
_HEAD_BYTES = 262_144


@dataclass(frozen=True)
class ForeignFiles:
    """The files of one input. A member is named by its path in the folder or archive; "" is the file itself."""

    path: Path
    open_tables: OpenTables
    holder: "ForeignFiles | None" = None
    """The folder or archive that this file is a member of. `path` is then the holder's path and the member's."""

    def narrow(self, member: str) -> "ForeignFiles":
        """Return one file of a folder or archive as an input of its own."""
        return ForeignFiles(self.path / member, self.open_tables, self)

    @property
    def _member(self) -> str:
        """The name of this file in its holder."""
        return "" if self.holder is None else self.path.relative_to(self.holder.path).as_posix()

    @cached_property
    def is_folder(self) -> bool:
        return self.holder is None and self.path.is_dir()

    @cached_property
    def is_archive(self) -> bool:
        return (
            self.holder is None
            and not self.is_folder
            and zipfile.is_zipfile(self.path)
            and self.read_head().startswith(b"PK")
        )

    @cached_property
    def members(self) -> Sequence[str]:
        """The regular files of the folder or archive, sorted; empty for a single file."""
        if self.is_folder:
            return sorted(self._walk(self.path, 0))
        return sorted(self._sizes) if self.is_archive else ()

    @cached_property
    def links(self) -> Sequence[str]:
        """The links in the folder, which are not followed."""
        if not self.is_folder:
            return ()
        return [entry.name for entry in os.scandir(self.path) if entry.is_symlink()]

    @cached_property
    def _sizes(self) -> dict[str, int]:
        with self._open_archive() as archive:
            sizes = {}
            for member in archive.infolist():
                if member.is_dir() or stat.S_ISLNK(member.external_attr >> 16):
                    continue
                if member.file_size > max(_MAX_BOMB_BYTES, _MAX_RATIO * member.compress_size):
                    raise UnreadableFile(
                        f"{member.filename[:60]!r} in {self.path.name} would have {member.file_size:,} bytes unpacked",
                        remedy="unpack the archive yourself, and import the folder",
                    )
                sizes[member.filename] = member.file_size
                self._check_count(len(sizes))
        return sizes

    def _walk(self, folder: Path, depth: int) -> Iterator[str]:
        files_found = 0
        for entry in os.scandir(folder):
            if entry.is_symlink():
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < _MAX_DEPTH:
                    yield from self._walk(Path(entry.path), depth + 1)
            elif entry.is_file(follow_symlinks=False):
                files_found += 1
                self._check_count(files_found)
                yield str(Path(entry.path).relative_to(self.path))

    def _check_count(self, count: int) -> None:
        if count > _MAX_MEMBERS:
            raise UnreadableFile(
                f"{self.path.name} has more than {_MAX_MEMBERS:,} files", remedy="import its folders one by one"
            )

    @contextmanager
    def _open_archive(self) -> Iterator[zipfile.ZipFile]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                yield archive
        except EverholdError:
            raise
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:  # RuntimeError: it is encrypted
            raise UnreadableFile(f"{self.path.name} cannot be unpacked: {error}", remedy="copy it again") from error

    @contextmanager
    def open(self, member: str = "") -> Iterator[BinaryIO]:
        """Open a file for reading. A text in UTF-16 is read as UTF-8."""
        with self._open_raw(member) as file:
            is_utf16 = has_utf16_mark(file.read(4))
        with self._open_raw(member) as file:
            yield io.BufferedReader(Utf16Reader(file)) if is_utf16 else file

    @contextmanager
    def _open_raw(self, member: str) -> Iterator[BinaryIO]:
        if self.holder is not None:
            with self.holder._open_raw(self._member) as file:
                yield file
        elif not member:
            with self.path.open("rb") as file:
                yield file
        elif self.is_folder:
            # O_NOFOLLOW, because the file may have been replaced by a link after the folder was listed.
            descriptor = os.open(self.path / member, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                yield file
        else:
            with self._open_archive() as archive, archive.open(member) as file:
                yield file  # type: ignore[misc]

    @contextmanager
    def open_json(self, member: str = "") -> Iterator[JsonStream]:
        """Open a file of one JSON value."""
        with self.open(member) as file, JsonStream(file, member or self.path.name) as stream:
            yield stream

    def read_lines(self, member: str = "") -> Iterator[tuple[int, str]]:
        """Yield each line of a text file that is not blank, with its number."""
        with self.open(member) as file:
            yield from read_lines(file, member or self.path.name)

    def open_database(self, member: str = "") -> AbstractContextManager[ForeignTables]:
        """Open a file as a database."""
        return self.open_tables(self.path / member if member else self.path)

    def is_database(self, member: str = "") -> bool:
        """Return whether a file is a SQLite database that can be opened. One in an archive cannot."""
        is_packed = self.is_archive or (self.holder is not None and self.holder.is_archive)
        return not is_packed and self.has_database_mark(member)

    def has_database_mark(self, member: str = "") -> bool:
        """Return whether a file begins like a SQLite database."""
        return self.read_head(member).startswith(_SQLITE_MARK)

    def read_head(self, member: str = "") -> bytes:
        """Return the first bytes of a file."""
        if not member and self.is_folder:
            return b""
        with self.open(member) as file:
            return file.read(_HEAD_BYTES)

    def find_modified_at(self) -> datetime:
        """Return when the input was last changed."""
        path = self.holder.path if self.holder is not None and self.holder.is_archive else self.path
        return EPOCH + timedelta(seconds=path.stat().st_mtime)

    def find_size(self) -> int:
        """Return how many bytes a file has, unpacked."""
        if self.holder is not None and self.holder.is_archive:
            return self.holder._sizes[self._member]
        return self.path.stat().st_size


def require_input(path: Path) -> None:
    """Raise InvalidInput unless the path is a folder, or a regular file that is not empty."""
    if not path.is_dir() and not path.is_file():
        raise InvalidInput(f"no file {str(path)!r} to import", value=str(path), remedy="check the path")
    if path.is_file() and not path.stat().st_size:
        raise InvalidInput(f"{path} is empty", remedy="there is nothing to import")


def find_member(path: Path, member: str | None) -> Path:
    """Return a member of a folder; the path itself if it is a file, or if the member is outside of the folder."""
    member_path = path if member is None or not path.is_dir() else (path / member).resolve()
    return member_path if member_path.is_relative_to(path.resolve()) else path
