"""Files of backups in a folder, or at any address that fsspec supports."""

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from everhold.errors import FileError, InvalidInput, MissingExtra, NotFound, StoreDamaged, StoreFull, StoreUnavailable
from everhold.files import sync_folder, write_private

# No part begins with a dot, so that no name leads out of the root folder.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REMEDY = "check that the folder or address exists and can be written"


class BackupFiles:
    """Files below a folder or an fsspec address."""

    def __init__(self, address: str) -> None:
        try:
            with _translate_errors("the address of the backups cannot be opened"):
                self._files, root = fsspec.url_to_fs(address)
        except ImportError as error:
            raise MissingExtra(
                f"backups at {address.partition(':')[0]}:// need another package: {error}", remedy="install the package"
            ) from error
        except (TypeError, ValueError, RuntimeError) as error:  # TypeError: a part of the address is missing
            raise InvalidInput(
                f"backups cannot be stored at this address ({error})", remedy="name a folder or an fsspec address"
            ) from None
        self._root = str(root).rstrip("/")
        self._is_local = isinstance(self._files, LocalFileSystem)
        if self._is_local and Path(self._root).exists() and not Path(self._root).is_dir():
            raise InvalidInput(f"{self._root} is a file", value=self._root, remedy="name a folder")

    @property
    def address(self) -> str:
        return self._root if self._is_local else str(self._files.unstrip_protocol(self._root))

    def write(self, name: str, content: bytes) -> None:
        path = self._make_path(name)
        with _translate_errors(f"{len(content):,} bytes cannot be stored at {path}"):
            if not self._is_local:
                self._files.pipe_file(path, content)  # object stores are atomic by themselves
                return
            folder = Path(path).parent
            if not folder.is_dir():
                _make_folders(folder)
            write_private(Path(path), content, overwrite=True, sync_name=False)

    def sync(self, folder: str = "") -> None:
        if not self._is_local:
            return
        path = self._make_path(folder) if folder else self._root
        with _translate_errors(f"{path} cannot be written"), contextlib.suppress(FileNotFoundError):
            sync_folder(Path(path))

    def read(self, name: str, limit: int) -> bytes:
        path = self._make_path(name)
        with _translate_errors(f"{path} cannot be read"):
            try:
                size = Path(path).stat().st_size if self._is_local else int(self._files.size(path))
                if size > limit:
                    raise StoreDamaged(
                        f"{path} has {size:,} bytes, and at most {limit:,} are expected", remedy="use another backup"
                    )
                return Path(path).read_bytes() if self._is_local else bytes(self._files.cat_file(path))
            except FileNotFoundError:
                raise NotFound(f"no file {name} at {self.address}", value=name, remedy="use another backup") from None

    def has(self, name: str) -> bool:
        with _translate_errors(f"{self.address} cannot be read"):
            path = self._make_path(name)
            return Path(path).exists() if self._is_local else bool(self._files.exists(path))

    def list_names(self, folder: str) -> Iterator[str]:
        with _translate_errors(f"{self.address} cannot be listed"):
            paths = self._find(self._make_path(folder))
        for path in paths:
            name = path.removeprefix(f"{self._root}/")
            if _NAME.fullmatch(name):  # not a temporary file of a writer that was killed
                yield name

    def _find(self, folder: str) -> list[str]:
        """Return the paths of all files below a folder; none if the folder does not exist."""
        if self._is_local:  # much faster than fsspec, which reads the size and the times of each file
            return [
                f"{path}/{name}" for path, _, names in os.walk(folder, onerror=_raise_unless_missing) for name in names
            ]
        self._files.invalidate_cache()
        return [str(path) for path in self._files.find(folder)]

    def delete(self, name: str) -> None:
        with _translate_errors(f"{name} at {self.address} cannot be deleted"), contextlib.suppress(FileNotFoundError):
            path = self._make_path(name)
            if self._is_local:
                Path(path).unlink()
            else:
                self._files.rm_file(path)

    def _make_path(self, name: str) -> str:
        if not _NAME.fullmatch(name) or ".." in name:
            raise StoreDamaged(f"{name!r:.80} is not the name of a file of a backup", remedy="use another backup")
        return f"{self._root}/{name}"


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _make_folders(folder: Path) -> None:
    for ancestor in (*reversed(folder.parents), folder):
        if not ancestor.is_dir():
            ancestor.mkdir(exist_ok=True, mode=0o700)
            sync_folder(ancestor.parent)


@contextlib.contextmanager
def _translate_errors(fact: str) -> Iterator[None]:
    """Raise a failure of the file system or the object store as StoreFull or StoreUnavailable."""
    try:
        yield
    except FileError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in _NO_ROOM:
            raise StoreFull(f"{fact} ({cause.strerror})", remedy="free some space there") from error
        raise StoreUnavailable(f"{fact} ({error.fact})", remedy=_REMEDY) from error
    except OSError as error:
        reason = error.strerror or str(error.__cause__ or error)
        if error.errno in _NO_ROOM:
            raise StoreFull(f"{fact} ({reason})", remedy="free some space there") from error
        raise StoreUnavailable(f"{fact} ({reason})", remedy=_REMEDY) from error
