"""Manifests: which content each path of a workspace had at a snapshot.

A manifest is stored as pages, which are stored like contents: the first page has every file, and each further page has
the changes since the previous one. A snapshot names its pages. So a snapshot with few changes stores a small page and
shares the others with its parent. When the changes add up to half of the files, the next snapshot begins with a full
page again.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from everhold.errors import StoreDamaged
from everhold.model import Snapshot
from everhold.workspaces.paths import find_path_fault
from everhold.workspaces.sandbox import EXECUTABLE, PLAIN

_FORMAT = 1
_MAX_PAGES = 64  # loading a manifest reads all of its pages
_SHOWN_REFUSALS = 100  # refused paths that a snapshot's row lists
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ManifestEntry(NamedTuple):
    """One file of a manifest."""

    sha256: str
    size: int
    mode: int


Manifest = dict[str, ManifestEntry]
ManifestChange = dict[str, ManifestEntry | None]


class ManifestReference(NamedTuple):
    """The reference to a manifest in the row of a snapshot."""

    pages: list[str]
    changes: int
    """The number of entries of all pages after the first."""


def read_reference(snapshot: Snapshot) -> ManifestReference:
    """Return the pages that a snapshot names; raise StoreDamaged if the reference in its row is invalid."""
    pages, changes = snapshot.manifest.get("pages"), snapshot.manifest.get("changes")
    is_valid = (
        isinstance(pages, list)
        and 1 <= len(pages) <= _MAX_PAGES
        and all(isinstance(page, str) and _SHA256.fullmatch(page) for page in pages)
        and isinstance(changes, int)
    )
    if not is_valid:
        raise StoreDamaged(
            f"snapshot {snapshot.id!r} has no manifest that can be read",
            remedy="delete it, or restore it from a backup",
        )
    return ManifestReference(list(pages or ()), int(changes or 0))


def compare_manifests(before: Mapping[str, ManifestEntry], after: Mapping[str, ManifestEntry]) -> ManifestChange:
    """Return the changes that turn `before` into `after`; None marks a removed file."""
    change: ManifestChange = {path: entry for path, entry in after.items() if before.get(path) != entry}
    change.update(dict.fromkeys(before.keys() - after.keys()))
    return change


def encode_page(entries: Mapping[str, ManifestEntry | None]) -> bytes:
    lines = [[path, *entry] if entry is not None else [path] for path, entry in sorted(entries.items())]
    return json.dumps(lines, ensure_ascii=False, separators=(",", ":")).encode()


def decode_page(content: bytes) -> ManifestChange:
    """Return the entries of a page; raise StoreDamaged if one of them is invalid."""
    try:
        lines = json.loads(content)
        page = {line[0]: _read_entry(line) for line in lines}
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise StoreDamaged("a manifest of the workspace is damaged", remedy="restore it from a backup") from error
    return page


def _read_entry(line: Any) -> ManifestEntry | None:
    path, *values = line
    if not isinstance(path, str) or find_path_fault(path) is not None:
        raise ValueError("path")
    if not values:
        return None
    sha256, size, mode = values
    if not _SHA256.fullmatch(sha256) or not isinstance(size, int) or size < 0 or mode not in (PLAIN, EXECUTABLE):
        raise ValueError("entry")
    return ManifestEntry(sha256, size, mode)


def apply_page(manifest: Manifest, page: ManifestChange) -> None:
    """Apply the changes of a page to a manifest in place."""
    for path, entry in page.items():
        if entry is None:
            manifest.pop(path, None)
        else:
            manifest[path] = entry


def plan_pages(
    parent: ManifestReference | None, before: Manifest, after: Manifest
) -> tuple[ManifestReference, ManifestChange | None]:
    """Return the pages that the next snapshot shares with its parent, and the page to add, or None if nothing changed.

    The reference does not name the new page yet, but counts its entries.
    """
    change = compare_manifests(before, after)
    if parent is None:
        return ManifestReference([], 0), dict(after)
    if not change:
        return parent, None
    total = parent.changes + len(change)
    if len(parent.pages) >= _MAX_PAGES or total > len(after) // 2:
        return ManifestReference([], 0), dict(after)
    return ManifestReference(parent.pages, total), change


def describe_manifest(reference: ManifestReference, manifest: Manifest, refused: Mapping[str, str]) -> dict[str, Any]:
    """Return the `manifest` field of a snapshot's row."""
    document: dict[str, Any] = {
        "format": _FORMAT,
        "files": len(manifest),
        "bytes": sum(entry.size for entry in manifest.values()),
        "pages": reference.pages,
        "changes": reference.changes,
    }
    if refused:
        document["refused"] = dict(list(refused.items())[:_SHOWN_REFUSALS])
    return document
