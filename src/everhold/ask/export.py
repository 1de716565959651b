"""Write a result as CSV, safe to open in a spreadsheet."""

import csv
import io
from datetime import datetime

from everhold.ports.result_table import ResultTable, ResultValue

# A spreadsheet runs a cell that begins with one of these as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def write_csv(table: ResultTable) -> str:
    """Return a result as CSV with a header. Text that a spreadsheet would run gets an apostrophe before it."""
    buffer = io.StringIO(newline="")
    # The writer quotes a cell that contains a character of the line end. With "\n" alone it would not quote "\r", and
    # readers would split such a cell.
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(_protect_text(column.name) for column in table.columns)
    writer.writerows([_write_csv_cell(cell) for cell in row] for row in table.rows)
    return buffer.getvalue()


def _write_csv_cell(cell: ResultValue) -> str:
    return _protect_text(cell) if isinstance(cell, str) else write_cell(cell)


def _protect_text(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def write_cell(cell: ResultValue) -> str:
    """Return a cell as plain text: an empty text for None, and bytes in hexadecimal."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, bytes):
        return cell.hex()
    if isinstance(cell, datetime):
        return cell.isoformat(sep=" ")
    return str(cell)
