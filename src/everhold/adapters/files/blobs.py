"""Blobs as files `root/of-…/ab/abcdef…`: a folder per organization, and the SHA-256 of the content as the file name."""

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from everhold.errors import (
    InvalidInput,
    InvalidSettings,
    MissingExtra,
    NotFound,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
)  # fmt: skip
from everhold.files import sync_folder, write_private

_ADDRESS = re.compile(r"[0-9a-f]{64}")
_FOLDER_PREFIX = "of-"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def check_place(place: str) -> None:
    """Raise InvalidSettings for an unknown kind of address, and MissingExtra if a package for it is not installed.

    The address is only parsed; no connection is made.
    """
    kind = fsspec.utils.get_protocol(place)
    try:
        fsspec.get_filesystem_class(kind)
    except ImportError as error:
        raise MissingExtra(f"blobs at {kind}:// need another package: {error}", remedy="install the package") from error
    except ValueError as error:
        raise InvalidSettings(
            f"blobs cannot be stored at {kind}:// ({error})", remedy="use a folder or an fsspec address"
        ) from None


class FileBlobs:
    """Stores contents in a folder, or at any address that fsspec supports (`s3://bucket/prefix`, `memory://…`)."""

    def __init__(self, place: str, options: Mapping[str, Any] | None = None) -> None:
        check_place(place)
        try:
            self._files, self._root = fsspec.url_to_fs(place, **(options or {}))
        except ValueError as error:
            kind = fsspec.utils.get_protocol(place)
            raise InvalidSettings(
                f"blobs cannot be stored at this {kind}:// address ({error})", remedy="correct the address"
            ) from None
        self._is_local = isinstance(self._files, LocalFileSystem)

    def __repr__(self) -> str:
        return f"FileBlobs({self._root!r})"

    def __str__(self) -> str:
        return str(self._files.unstrip_protocol(self._root))

    def put(self, organization_id: str, content: bytes) -> str:
        address = hashlib.sha256(content).hexdigest()
        if not self.has(organization_id, address):
            self.write(organization_id, address, content)
        return address

    def get(self, organization_id: str, address: str) -> bytes:
        content = self.read(organization_id, address)
        if hashlib.sha256(content).hexdigest() != address:
            path = self._make_path(organization_id, address)
            raise StoreDamaged(
                f"the blob at {path} has another SHA-256 than its name", remedy="restore it from a backup"
            )
        return content

    def has(self, organization_id: str, name: str) -> bool:
        path = self._make_path(organization_id, name)
        with _translate_errors(f"the blob at {path} cannot be looked up"):
            return bool(self._files.exists(path))

    def write(self, organization_id: str, name: str, content: bytes) -> None:
        path = self._make_path(organization_id, name)
        with _translate_errors(f"a blob of {len(content)} bytes cannot be stored at {path}"):
            self._write(path, content)

    def read(self, organization_id: str, name: str) -> bytes:
        path = self._make_path(organization_id, name)
        with _translate_errors(f"the blob at {path} cannot be read"):
            try:
                return bytes(self._files.cat_file(path))
            except FileNotFoundError:
                raise _make_not_found(name, path) from None

    def delete(self, organization_id: str, address: str) -> None:
        path = self._make_path(organization_id, address)
        with _translate_errors(f"the blob at {path} cannot be deleted"), contextlib.suppress(FileNotFoundError):
            self._files.rm_file(path)

    def list_addresses(self, organization_id: str) -> Iterator[str]:
        for path in self._files.find(f"{self._root}/{_name_folder(organization_id)}"):
            name = str(path).rpartition("/")[2]
            if _ADDRESS.fullmatch(name):
                yield name

    def delete_others(self, organization_ids: Iterable[str]) -> int:
        kept_folders, deleted = set(map(_name_folder, organization_ids)), 0
        with _translate_errors(f"the blobs at {self._root} cannot be listed or deleted"):
            self._files.invalidate_cache()
            for path in self._files.find(self._root):
                folder = str(path).removeprefix(f"{self._root}/").partition("/")[0]
                if folder.startswith(_FOLDER_PREFIX) and folder not in kept_folders:
                    with contextlib.suppress(FileNotFoundError):
                        self._files.rm_file(path)
                        deleted += 1
        return deleted

    def delete_stale(self, organization_ids: Iterable[str], before: datetime, *, dry_run: bool = False) -> int:
        kept_folders, stale_files = set(map(_name_folder, organization_ids)), 0
        paths: dict[str, list[str]] = defaultdict(list)
        with _translate_errors(f"the blobs at {self._root} cannot be listed or deleted"):
            self._files.invalidate_cache()
            for path in self._files.find(self._root):
                folder = str(path).removeprefix(f"{self._root}/").partition("/")[0]
                if folder.startswith(_FOLDER_PREFIX) and folder not in kept_folders:
                    paths[folder].append(str(path))
            for folder, folder_paths in paths.items():
                if not all(self._is_older(path, before) for path in folder_paths):
                    continue
                stale_files += len(folder_paths)
                if not dry_run:
                    with contextlib.suppress(FileNotFoundError):
                        self._files.rm(f"{self._root}/{folder}", recursive=True)
        return stale_files

    def _is_older(self, path: str, before: datetime) -> bool:
        try:
            return bool(_make_aware(self._files.modified(path)) < before)
        except FileNotFoundError:
            return True  # another process has just deleted the file

    def put_file(self, organization_id: str, path: Path, address: str | None = None) -> str:
        name = address or _hash_file(path)
        target = self._make_path(organization_id, name)
        with _translate_errors(f"a blob of {path.stat().st_size} bytes cannot be stored at {target}"):
            if self._files.exists(target):
                return name
            if self._is_local:
                self._move(path, Path(target))
            else:
                self._files.put_file(str(path), target)
        return name

    def fetch_file(self, organization_id: str, address: str, target: Path) -> Path:
        path = self._make_path(organization_id, address)
        with _translate_errors(f"the blob at {path} cannot be read"):
            if not self._files.exists(path):
                raise _make_not_found(address, path)
            if self._is_local:
                return Path(path)
            self._files.get_file(path, str(target))
        return target

    def _move(self, path: Path, target: Path) -> None:
        """Move a file to the target durably; copy it if the target is on another disk."""
        self._make_folders(target.parent)
        path.chmod(0o600)
        temporary_path = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            try:
                path.rename(temporary_path)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                shutil.copyfile(path, temporary_path)
                temporary_path.chmod(0o600)
            with temporary_path.open("rb") as file:
                os.fsync(file.fileno())
            temporary_path.rename(target)
        finally:
            temporary_path.unlink(missing_ok=True)
        sync_folder(target.parent)

    def _make_path(self, organization_id: str, address: str) -> str:
        if not _ADDRESS.fullmatch(address):
            raise InvalidInput(
                f"{address!r:.80} is not the address of a blob", value=address, remedy="pass what `put` returned"
            )
        return f"{self._root}/{_name_folder(organization_id)}/{address[:2]}/{address}"

    def _write(self, path: str, content: bytes) -> None:
        """Write the content atomically. On an object store, every write is atomic."""
        if not self._is_local:
            self._files.pipe_file(path, content)
            return
        self._make_folders(Path(path).parent)
        write_private(Path(path), content, overwrite=True)

    def _make_folders(self, folder: Path) -> None:
        for ancestor in (*reversed(folder.parents), folder):
            if not ancestor.is_dir():
                ancestor.mkdir(exist_ok=True, mode=0o700)
                sync_folder(ancestor.parent)


def _make_aware(moment: datetime) -> datetime:
    """Return a time with a zone; some file systems return times in UTC without one."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _make_not_found(name: str, path: str) -> NotFound:
    return NotFound(
        f"no blob {name} at {path}",
        value=name,
        remedy="set `blobs` to an fsspec address that all machines share, or restore it from a backup",
    )


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _translate_errors(fact: str) -> Iterator[None]:
    """Raise a failure of the file system or the object store as StoreFull or StoreUnavailable."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error.__cause__ or error)
        if error.errno in _NO_ROOM:
            raise StoreFull(f"{fact} ({reason})", remedy="free some space there") from error
        raise StoreUnavailable(
            f"{fact} ({reason})", remedy="check that the folder or address in `blobs` exists and is writable"
        ) from error


def _name_folder(organization_id: str) -> str:
    """Return the name of the organization's folder.

    It is a digest, because file systems limit the length of names, and some ignore case.
    """
    return f"{_FOLDER_PREFIX}{hashlib.sha256(organization_id.encode()).hexdigest()}"
