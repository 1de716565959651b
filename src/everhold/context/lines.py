"""Format items and headings as lines of a prompt.

Every line of an item begins with a dash or is indented, so that no text looks like a heading. The source of an item is
before its text, so that no text can claim another source.
"""

from datetime import datetime

from everhold.context.fence import neutralise_marks
from everhold.context.section import Item

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_BRACKETS = str.maketrans("[]", "()")  # a source must not contain square brackets, because they enclose it
_MAX_SOURCE_LENGTH = 100


def make_heading(title: str) -> str:
    """Return the heading line of a section."""
    return neutralise_marks(format_one_line(title)) + ":"


def make_entry(item: Item) -> str:
    """Return an item as a list entry: its source and text, with further lines indented."""
    source = _format_source(item)
    lines = [line.rstrip() for line in item.text.splitlines() if line.strip()]
    first, *further_lines = lines or [""]
    first = f"[{source}] {first.lstrip()}" if source else first.lstrip()
    entry = "\n".join([first, *(f"  {line}" for line in further_lines)])
    return neutralise_marks(f"- {entry}")


def _format_source(item: Item) -> str:
    """Return the origin and the date of an item, as far as they are known."""
    origin = format_one_line(item.provenance or "").translate(_BRACKETS)
    if len(origin) > _MAX_SOURCE_LENGTH:
        origin = origin[: _MAX_SOURCE_LENGTH - 1].rstrip() + "…"
    date = _format_date(item.at) if item.at is not None else ""
    if item.at is not None and item.has_time:
        date += f" at {item.at:%H:%M}"
    return f"{origin} on {date}" if origin and date else origin or date


def _format_date(at: datetime) -> str:
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year}"


def format_one_line(text: str) -> str:
    """Return a text with every run of white space, including line breaks, as one space."""
    return " ".join(text.split())
