"""The note that is stored with each view. It has the preset and the options of its installation."""

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

from everhold.ports.sql_views import NOTE_START, DatabaseView


class ViewNote(NamedTuple):
    """The content of a note. `fingerprint` changes with the SQL of any view of the preset."""

    preset: str
    original_name: str
    organization: str | None
    prefix: str | None
    fingerprint: str


def encode_note(note: ViewNote) -> str:
    """Return a note as text. It is escaped, so that no name of an organization can end the SQL comment."""
    return NOTE_START + json.dumps(note._asdict()).replace("/", "\\/")


def decode_note(view: DatabaseView) -> ViewNote | None:
    """Return the note of a view; None if it cannot be read because it was changed by hand."""
    try:
        return ViewNote(**json.loads(view.note.removeprefix(NOTE_START)))
    except (ValueError, TypeError):
        return None


def make_fingerprint(statements: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(statements).encode()).hexdigest()[:16]
