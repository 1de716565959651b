"""The note that is stored with each view: which preset it belongs to, and how it was installed."""

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

from everhold.ports.sql_views import NOTE_START, DatabaseView


class ViewNote(NamedTuple):
    """What a note says. `fingerprint` changes with the SQL of any view of the preset."""

    preset: str
    original_name: str
    organization: str | None
    prefix: str | None
    fingerprint: str


def encode_note(note: ViewNote) -> str:
    """Return a note as text. It never ends a comment of SQL, whatever the organization is called."""
    return NOTE_START + json.dumps(note._asdict()).replace("/", "\\/")


def decode_note(view: DatabaseView) -> ViewNote | None:
    """Return what the note of a view says; None if it was changed by hand and cannot be read."""
    try:
        return ViewNote(**json.loads(view.note.removeprefix(NOTE_START)))
    except (ValueError, TypeError):
        return None


def make_fingerprint(statements: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(statements).encode()).hexdigest()[:16]
