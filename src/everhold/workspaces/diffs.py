"""Compare two states of a workspace."""

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from everhold.errors import EverholdError
from everhold.workspaces.manifests import Manifest, ManifestEntry, compare_manifests

# Comparing takes time quadratic in the number of lines.
_MAX_TEXT_BYTES = 500_000
_MAX_LINES = 5_000


@dataclass(frozen=True)
class FileDifference:
    """The difference of one file between two states. A size is None if the file does not exist in that state.

    `text` is a unified diff; None for binary files, for large ones and for files that were only renamed.
    """

    path: str
    change: Literal["added", "removed", "changed", "renamed"]
    size_before: int | None = None
    size_after: int | None = None
    previous_path: str | None = None
    text: str | None = None


def compare_files(before: Manifest, after: Manifest, load: Callable[[str], bytes]) -> list[FileDifference]:
    """Return how the files of two manifests differ, ordered by path.

    An added file with the content of a removed one counts as renamed.
    """
    changes = compare_manifests(before, after)
    removed_entries = {path: before[path] for path, entry in changes.items() if entry is None}
    removed_by_hash: dict[str, list[str]] = {}
    for path, entry in sorted(removed_entries.items(), reverse=True):
        removed_by_hash.setdefault(entry.sha256, []).append(path)
    differences: list[FileDifference] = []
    renamed_paths: set[str] = set()
    for path, new in sorted(changes.items()):
        if new is None:
            continue
        old = before.get(path)
        if old is None and new.size and removed_by_hash.get(new.sha256):
            previous_path = removed_by_hash[new.sha256].pop()
            renamed_paths.add(previous_path)
            differences.append(FileDifference(path, "renamed", new.size, new.size, previous_path))
        else:
            differences.append(_compare_file(path, old, new, load))
    differences += [
        _compare_file(path, old, None, load) for path, old in removed_entries.items() if path not in renamed_paths
    ]
    return sorted(differences, key=lambda difference: difference.path)


def _compare_file(
    path: str, old: ManifestEntry | None, new: ManifestEntry | None, load: Callable[[str], bytes]
) -> FileDifference:
    change: Literal["added", "removed", "changed"] = "added" if old is None else "removed" if new is None else "changed"
    before, after = (entry.size if entry is not None else None for entry in (old, new))
    return FileDifference(path, change, before, after, text=_make_diff(path, old, new, load))


def _make_diff(
    path: str, old: ManifestEntry | None, new: ManifestEntry | None, load: Callable[[str], bytes]
) -> str | None:
    before, after = _read_text(old, load), _read_text(new, load)
    if before is None or after is None or max(len(before), len(after)) > _MAX_LINES:
        return None
    names = (f"a/{path}" if old is not None else "/dev/null", f"b/{path}" if new is not None else "/dev/null")
    return "".join(_end_lines(difflib.unified_diff(before, after, *names)))


def _end_lines(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _read_text(entry: ManifestEntry | None, load: Callable[[str], bytes]) -> list[str] | None:
    """Return the lines of a text; None if it is binary, large or not in this store."""
    if entry is None:
        return []
    if entry.size > _MAX_TEXT_BYTES:
        return None
    try:
        content = load(entry.sha256)
        return None if b"\x00" in content else content.decode().splitlines(keepends=True)
    except (EverholdError, UnicodeDecodeError):
        return None
