"""Find the table in a sheet: the titles above it, its one or two header rows, and the totals and remarks below it."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from everhold.adapters.data_files.column_types import detect_type, is_missing
from everhold.adapters.data_files.names import name_columns

Grid = Sequence[Sequence[str]]
_TOTAL = re.compile(
    r"\s*(grand |sub ?)?(totals?|sum|subtotals?|summe|gesamt|insgesamt|totaux|totale|suma|somme)\b\W*", re.IGNORECASE
)
_YEAR = re.compile(r"(19|20)\d\d")
_MAX_TITLE_ROWS = 30
_MAX_NAME = 100  # characters of a column name
_MIN_REMARK = 13  # characters; a shorter text in the first column may be a value


@dataclass(frozen=True)
class SheetLayout:
    """The rows before the data, the names of the columns, and sentences about what was found."""

    skipped: int
    names: tuple[str, ...]
    original_names: tuple[str, ...]
    header: str
    notes: tuple[str, ...] = ()


def find_layout(rows: Grid) -> SheetLayout:
    """Return the layout of a table by its first rows: where the data begins, and the names of the columns."""
    width = find_width(rows)
    notes: list[str] = []
    start = _count_title_rows(rows, width)
    titles = [" ".join(cell for cell in dict.fromkeys(row) if cell.strip()) for row in rows[:start]]
    if any(titles):
        shown = " / ".join(title for title in titles if title)
        notes.append(f"{start} row{'' if start == 1 else 's'} above the header left out: {shown[:120]!r}")
    body = [_pad(row, width) for row in rows[start:]]
    if not body or not _is_header(body[0], body[1:], width):
        names = tuple(f"column_{number}" for number in range(1, width + 1))
        notes.append("the table has no header, so its columns are called column_1, column_2, …")
        return SheetLayout(start, names, names, "none", tuple(notes))
    header_rows = 2 if len(body) > 3 and _is_double_header(body) else 1
    header = _join_headers(body[0], body[1]) if header_rows == 2 else body[0]
    if header_rows == 2:
        notes.append("the header has two rows, which were joined")
    names_list, changes = name_columns(header)
    return SheetLayout(
        start + header_rows,
        tuple(names_list),
        tuple(header),
        "two rows" if header_rows == 2 else "one row",
        (*notes, *changes),
    )


def find_width(rows: Grid) -> int:
    """Return the number of columns that most rows have, or a larger number that several rows have."""
    counts = Counter(len(row) for row in rows if any(cell.strip() for cell in row))
    if not counts:
        return 0
    common = counts.most_common(1)[0][0]
    wider = [width for width, count in counts.items() if width > common and count > max(2, len(rows) // 20)]
    return max([common, *wider])


def _pad(row: Sequence[str], width: int) -> list[str]:
    return [*row[:width], *[""] * (width - len(row))]


def _count_title_rows(rows: Grid, width: int) -> int:
    """Return how many rows at the top are blank, a title or remarks: far fewer different cells than the table has."""
    count = 0
    for row in rows[: min(_MAX_TITLE_ROWS, len(rows) - 1)]:
        filled = {cell for cell in row if cell.strip()}
        if filled and (width < 2 or len(filled) > max(1, width // 3)):
            break
        count += 1
    # If every row looks like a title, none is: the table has few filled columns.
    return count if count < min(_MAX_TITLE_ROWS, len(rows) - 1) else 0


def _is_value(cell: str) -> bool:
    """Return whether a cell looks like data: a number, a date, a flag."""
    return bool(cell.strip()) and detect_type([cell]).sql_type != "VARCHAR"


def _is_header(first: Sequence[str], others: Grid, width: int) -> bool:
    """Return whether `first` is a row of column names; `others` are the rows below it."""
    filled = [cell for cell in first if cell.strip()]
    if not filled or any(len(cell) > _MAX_NAME for cell in filled):
        return False
    values = [cell for cell in filled if _is_value(cell)]
    if values and not (len(values) < len(filled) and all(_YEAR.fullmatch(cell.strip()) for cell in values)):
        return False
    if not others:
        return True
    typed_columns = [
        column for column in range(width)
        if detect_type([row[column] for row in others if column < len(row)]).sql_type != "VARCHAR"
    ]  # fmt: skip
    if any(not _is_value(first[column]) for column in typed_columns) or values:
        return True
    # All columns are texts: names do not occur again among the values, and are not repeated.
    column_values = [{row[column].strip() for row in others if column < len(row)} for column in range(width)]
    repeats = sum(1 for column, cell in enumerate(first) if cell.strip() and cell.strip() in column_values[column])
    return not repeats and len(set(filled)) == len(filled) and len(filled) > width / 2


def _is_double_header(body: Grid) -> bool:
    """Return whether the second row belongs to the header: texts above numbers that fill gaps of the first row."""
    first, second, remaining = body[0], body[1], body[2:]
    filled = [cell for cell in second if cell.strip()]
    # A year looks like a value, but is often a part of a header, such as in "2024" above "Q1" and "Q2".
    if len(filled) < len(second) * 0.6 or any(_is_value(cell) and not _YEAR.fullmatch(cell) for cell in filled):
        return False
    has_gaps = sum(1 for cell in first if not cell.strip()) > 0 or len(set(first)) < len(first)
    typed_columns = [
        column for column in range(len(second))
        if detect_type([row[column] for row in remaining]).sql_type != "VARCHAR" and not is_missing(second[column])
    ]  # fmt: skip
    return has_gaps and bool(typed_columns)


def _join_headers(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Join each cell of the second row to the cell above it, or to the last filled cell before that one."""
    names, last_upper = [], ""
    for upper_cell, lower_cell in zip(first, second, strict=True):
        upper, lower = upper_cell.strip(), lower_cell.strip()
        last_upper = upper or last_upper
        parts = (last_upper if lower else upper, lower)
        names.append(" ".join(dict.fromkeys(part for part in parts if part)))
    return names


def count_footer_rows(rows: Grid, width: int) -> tuple[int, list[str]]:
    """Return how many of the last rows are blank, totals or remarks, and sentences about them."""
    count, notes = 0, []
    for row in reversed(rows):
        filled = [cell for cell in row if cell.strip()]
        label = filled[0] if filled else ""
        is_total = bool(_TOTAL.match(label)) and any(map(_is_value, filled[1:])) and not _is_value(label)
        is_remark = (
            len(filled) == 1 and width > 2 and not _is_value(label) and bool(row) and row[0].strip() == label.strip()
        )
        if filled and not is_total and not (is_remark and len(label) >= _MIN_REMARK):
            break
        count += 1
        if is_total:
            notes.append(f"a row of totals at the end was left out: {label.strip()[:60]!r}")
        elif filled:
            notes.append(f"a remark below the table was left out: {label.strip()[:80]!r}")
    return (count, notes) if count < len(rows) else (0, [])
