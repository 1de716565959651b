"""Make the names of tables and columns from the names of files and sheets and from header cells."""

import re
import unicodedata
from collections.abc import Sequence
from pathlib import PurePosixPath

_SUFFIXES = frozenset((".gz", ".zip", ".csv", ".tsv", ".txt", ".tab", ".xlsx", ".xlsm", ".json", ".jsonl", ".ndjson",
                       ".parquet", ".pq", ".sqlite", ".sqlite3", ".db"))  # fmt: skip
_MAX_TABLE = 60
_MAX_COLUMN = 120


def make_table_name(name: str, taken: Sequence[str] = ()) -> str:
    """Return a name of letters, digits and underscores that no other table has."""
    path = PurePosixPath(name.replace("\\", "/").rpartition("/")[2])
    while path.suffix.lower() in _SUFFIXES:
        path = path.with_suffix("")
    words = re.sub(r"\W+", "_", unicodedata.normalize("NFC", path.name)).strip("_")[:_MAX_TABLE]
    if not words or words[0].isdigit():
        words = f"table_{words}".strip("_")
    return make_unique(words, {other.lower() for other in taken})


def make_unique(name: str, taken: set[str]) -> str:
    """Return the name, with a number appended if it is taken in any case, and add the result to `taken`."""
    number, candidate = 1, name
    while candidate.lower() in taken:
        number += 1
        candidate = f"{name}_{number}"
    taken.add(candidate.lower())
    return candidate


def clean_column_name(name: str) -> str:
    """Return a name without control characters, line breaks and repeated spaces."""
    printable = "".join(char if char.isprintable() else " " for char in unicodedata.normalize("NFC", name))
    return " ".join(printable.split())[:_MAX_COLUMN]


def name_columns(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return unique names of columns, and sentences that report the changed names."""
    taken: set[str] = set()
    unique_names, empty, repeated = [], [], []
    for number, name in enumerate(names, 1):
        cleaned = clean_column_name(name)
        unique = make_unique(cleaned or f"column_{number}", taken)
        if not cleaned:
            empty.append(unique)
        elif unique != cleaned:
            repeated.append(unique)
        unique_names.append(unique)
    notes = []
    if empty:
        notes.append(f"columns without a name are called {list_names(empty)}")
    if repeated:
        notes.append(f"column names that occur twice have a number behind them: {list_names(repeated)}")
    return unique_names, notes


def list_names(names: Sequence[str], limit: int = 5) -> str:
    """Return the first `limit` names and the number of the others, for a sentence."""
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} others"
