"""Blobs as files: `place/organization/ab/abcdef…`, the name being the SHA-256 of what is in it."""

import contextlib
import errno
import hashlib
import re
from collections.abc import Iterator, Mapping
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
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def check_place(place: str) -> None:
    """Refuses a place of a kind that is unknown or needs another package. Nothing is reached."""
    kind = fsspec.utils.get_protocol(place)
    try:
        fsspec.get_filesystem_class(kind)
    except ImportError as error:
        raise MissingExtra(f"blobs at {kind}:// need another package: {error}", remedy="install it") from error
    except ValueError as error:
        raise InvalidSettings(
            f"blobs cannot lie at {kind}:// ({error})", remedy="use a folder or an fsspec address"
        ) from None


class FileBlobs:
    """Contents under a folder, or under any address that fsspec understands (`s3://bucket/prefix`, `memory://…`)."""

    def __init__(self, place: str, options: Mapping[str, Any] | None = None) -> None:
        check_place(place)
        try:
            self._files, self._root = fsspec.url_to_fs(place, **(options or {}))
        except ValueError as error:
            kind = fsspec.utils.get_protocol(place)
            raise InvalidSettings(
                f"blobs cannot lie at this {kind}:// address ({error})", remedy="correct it"
            ) from None
        self._is_local = isinstance(self._files, LocalFileSystem)

    def __repr__(self) -> str:
        return f"FileBlobs({self._root!r})"

    def __str__(self) -> str:
        return str(self._files.unstrip_protocol(self._root))

    def put(self, organization_id: str, content: bytes) -> str:
        address = hashlib.sha256(content).hexdigest()
        path = self._path(organization_id, address)
        if not self._files.exists(path):
            with _translated(f"a blob of {len(content)} bytes cannot be kept at {path}"):
                self._write(path, content)
        return address

    def get(self, organization_id: str, address: str) -> bytes:
        path = self._path(organization_id, address)
        with _translated(f"the blob at {path} cannot be read"):
            try:
                content = bytes(self._files.cat_file(path))
            except FileNotFoundError:
                raise NotFound(
                    f"no blob {address} at {path}",
                    value=address,
                    remedy="set `blobs` to an fsspec address that all machines share, or restore it from a backup",
                ) from None
        if hashlib.sha256(content).hexdigest() != address:
            raise StoreDamaged(f"the blob at {path} is not what was kept", remedy="restore it from a backup")
        return content

    def delete(self, organization_id: str, address: str) -> None:
        path = self._path(organization_id, address)
        with _translated(f"the blob at {path} cannot be deleted"), contextlib.suppress(FileNotFoundError):
            self._files.rm_file(path)

    def addresses(self, organization_id: str) -> Iterator[str]:
        for path in self._files.find(f"{self._root}/{_folder(organization_id)}"):
            name = str(path).rpartition("/")[2]
            if _ADDRESS.fullmatch(name):
                yield name

    def _path(self, organization_id: str, address: str) -> str:
        if not _ADDRESS.fullmatch(address):
            raise InvalidInput(
                f"{address!r:.80} is no address of a blob", value=address, remedy="use what `put` returned"
            )
        return f"{self._root}/{_folder(organization_id)}/{address[:2]}/{address}"

    def _write(self, path: str, content: bytes) -> None:
        """Write the whole content or nothing. Object stores do so by themselves."""
        if not self._is_local:
            self._files.pipe_file(path, content)
            return
        folder = Path(path).parent
        for above in (*reversed(folder.parents), folder):
            if not above.is_dir():
                above.mkdir(exist_ok=True, mode=0o700)
                sync_folder(above.parent)
        write_private(Path(path), content, overwrite=True)


@contextlib.contextmanager
def _translated(fact: str) -> Iterator[None]:
    """Turns what the system or an object store refuses into our errors."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error.__cause__ or error)
        if error.errno in _NO_ROOM:
            raise StoreFull(f"{fact} ({reason})", remedy="free some space there") from error
        raise StoreUnavailable(
            f"{fact} ({reason})", remedy="check that `blobs` names a place that is there and yours to write"
        ) from error


def _folder(organization_id: str) -> str:
    """Return a folder name that no other organization has.

    A digest, because file systems limit the length of names, and some ignore case.
    """
    return f"of-{hashlib.sha256(organization_id.encode()).hexdigest()}"
