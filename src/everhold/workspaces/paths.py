"""Check the paths of files in a workspace.

A path is relative and has "/" between its names. Every name must be valid, and mean the same, on all common file
systems. The rules are also applied to the compatibility form (NFKC) of a name, because a file system or a program may
convert it: "．．" becomes "..", and "ＣＯＮ" becomes "CON".
"""

import re
import unicodedata
from functools import lru_cache

from everhold.errors import InvalidInput

MAX_PATH_BYTES = 1_000
MAX_NAME_BYTES = 255
MAX_DEPTH = 40

_PORTS = [f"{kind}{number}" for kind in ("com", "lpt") for number in range(10)]
_DEVICES = frozenset(("con", "prn", "aux", "nul", "clock$", "conin$", "conout$", *_PORTS))
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")


def split_path(path: str) -> tuple[str, ...]:
    """Return the names of a path; raise InvalidInput for a path that no file of a workspace can have."""
    fault = find_path_fault(path)
    if fault is not None:
        raise InvalidInput(
            f"path {path[:80]!r} {fault}",
            value=path,
            remedy="pass a relative path of plain names, such as 'notes/a.md'",
        )
    return tuple(path.split("/"))


def find_path_fault(path: str) -> str | None:
    """Return what is wrong with a path, as the predicate of a sentence about it; None if the path is valid."""
    if not path:
        return "is empty"
    if path.startswith("/"):
        return "is absolute"
    if len(path) > MAX_PATH_BYTES or len(path.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES:
        return f"is longer than {MAX_PATH_BYTES:,} bytes"
    names = path.split("/")
    if len(names) > MAX_DEPTH:
        return f"is deeper than {MAX_DEPTH} folders"
    return next((fault for fault in map(find_name_fault, names) if fault is not None), None)


@lru_cache(maxsize=20_000)
def find_name_fault(name: str) -> str | None:
    """Return what is wrong with one name of a path, as a predicate; None if the name is valid."""
    if _PLAIN_NAME.fullmatch(name) and len(name) <= MAX_NAME_BYTES:
        return _find_device(name)
    if any("\ud800" <= char <= "\udfff" for char in name):
        return "is not UTF-8"
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"has a name of more than {MAX_NAME_BYTES} bytes"
    return _find_fault(name) or _find_fault(unicodedata.normalize("NFKC", name))


def _find_fault(name: str) -> str | None:
    if name == "":
        return "has an empty name"
    if name in (".", ".."):
        return f"has the name {name!r}"
    if not name.isprintable():
        return "has a control, format or blank character"
    if any(char in name for char in "/\\:"):
        return "has a slash, a backslash or a colon in a name"
    if name[-1] in ". " or name[0] == " ":
        return "has a name that ends in a dot or has a space at either end"
    return _find_device(name)


def _find_device(name: str) -> str | None:
    stem = name.partition(".")[0].rstrip(" ").casefold()
    return "has the name of a device" if stem in _DEVICES else None


def fold_name(name: str) -> str:
    """Return the form in which a file system that ignores case and composition compares names."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def fold_path(path: str) -> str:
    return "/".join(map(fold_name, path.split("/")))
