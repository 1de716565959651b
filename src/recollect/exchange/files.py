"""Files that are written whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from recollect.errors import InvalidInput


@contextmanager
def whole_file(given: str | Path | IO[str], *, overwrite: bool) -> Iterator[IO[str]]:
    """A file to write to, which takes its name when it is complete; until then, and if it fails, what was there stays.

    Of a link, what it leads to is written. A device, a pipe and what is open already are written to straight.
    """
    if not isinstance(given, str | Path):
        yield given
        return
    path, place = Path(given), Path(os.path.realpath(given))
    if path.exists() and not place.is_file():
        with _opened(path) as out:
            yield out
        return
    if place.exists() and not overwrite:
        raise InvalidInput(f"{path} exists already; name another file, or pass overwrite=True")
    if not place.parent.is_dir():
        raise InvalidInput(f"there is no folder {place.parent} to write {place.name} into; make it first")
    part = place.with_name(f".{place.name}.part")
    try:
        with _opened(part) as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)


def _opened(path: Path) -> IO[str]:
    try:
        return open(path, "w", encoding="utf-8", newline="\n", opener=_private)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}; name another file") from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
