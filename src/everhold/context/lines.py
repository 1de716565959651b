"""Format items and headings as lines of a prompt.

Every line of an item begins with a dash or is indented, so that no text can pass for a heading. The source of an item
comes before its text, so that no text can claim another source.
"""

from datetime import datetime

from everhold.context.fence import neutralise_marks
from everhold.context.section import Item

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_BRACKETS = str.maketrans("[]", "()")  # square brackets enclose the source, so a source must not contain them
_MAX_SOURCE_LENGTH = 100


def heading_of(title: str) -> str:
    return neutralise_marks(format_one_line(title)) + ":"


def entry_of(item: Item) -> str:
    """Return the lines of an item."""
    source = _source(item)
    lines = [line.rstrip() for line in item.text.splitlines() if line.strip()]
    first, *others = lines or [""]
    first = f"[{source}] {first.lstrip()}" if source else first.lstrip()
    entry = "\n".join([first, *(f"  {line}" for line in others)])
    return neutralise_marks(f"- {entry}")


def _source(item: Item) -> str:
    """Return where an item comes from and its date, as far as they are known."""
    origin = format_one_line(item.provenance or "").translate(_BRACKETS)
    if len(origin) > _MAX_SOURCE_LENGTH:
        origin = origin[: _MAX_SOURCE_LENGTH - 1].rstrip() + "…"
    date = _date(item.at) if item.at is not None else ""
    if item.at is not None and item.has_time:
        date += f" at {item.at:%H:%M}"
    return f"{origin} on {date}" if origin and date else origin or date


def _date(at: datetime) -> str:
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year}"


def format_one_line(text: str) -> str:
    return " ".join(text.split())
