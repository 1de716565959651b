"""Read text with separators (CSV, TSV and their relatives) with DuckDB, after a look at its beginning and end."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import duckdb

from everhold.adapters.data_files.column_types import (
    MISSING,
    TEXT,
    FileColumnType,
    detect_type,
    is_ambiguous_date,
)
from everhold.adapters.data_files.context import ReadContext, StoredTable, explain_error
from everhold.adapters.data_files.database import quote_name, quote_text
from everhold.adapters.data_files.encoding import MAX_LINE
from everhold.adapters.data_files.layout import SheetLayout, count_footer_rows, find_layout, find_width
from everhold.adapters.data_files.names import list_names
from everhold.adapters.data_files.refusal import Refusal

_HEAD = 512 * 1024
_PART = 64 * 1024
_SAMPLE_ROWS = 2_000
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
_BLOCK = 1024 * 1024
csv.field_size_limit(MAX_LINE)


@dataclass(frozen=True)
class _ReadPlan:
    """The format of a file."""

    path: Path
    separator: str
    skipped_lines: int
    layout: SheetLayout
    types: tuple[FileColumnType, ...]

    def make_source(self, *, is_typed: bool, is_lenient: bool) -> str:
        """Return the call of `read_csv`; with `is_typed`, plain types are read by DuckDB itself."""
        types = [kind.sql_type if is_typed and kind.is_plain else "VARCHAR" for kind in self.types]
        columns = ", ".join(
            f"{quote_text(name)}: {quote_text(kind)}" for name, kind in zip(self.layout.names, types, strict=True)
        )
        lenient = ", null_padding=true, ignore_errors=true, strict_mode=false, parallel=false" if is_lenient else ""
        return (
            f"read_csv({quote_text(str(self.path))}, auto_detect=false, delim={quote_text(self.separator)}, "
            f"quote='\"', escape='\"', header=false, skip={self.skipped_lines}, max_line_size={MAX_LINE}, "
            f"columns={{{columns}}}{lenient})"
        )


def read_delimited(
    context: ReadContext, path: Path, name: str, separator: str | None = None, notes: Sequence[str] = ()
) -> None:
    """Read a UTF-8 file with separators as one table."""
    with context.measure("read"):
        head, tail, is_whole = _read_ends(path)
        separator = separator or _detect_separator(head)
        rows = _parse(head, separator, is_whole)
        if not any(any(cell.strip() for cell in row) for row in rows):
            raise Refusal("the file holds no table", "choose a file with rows and columns")
        context.check_width(find_width(rows[:200]))
        layout = find_layout(rows[:200])
        if len(layout.names) < 2 and not any(any(row) for row in rows[layout.skipped :]):
            raise Refusal("the file holds no table", "choose a file with rows and columns")
        context.check_width(len(layout.names))
        tail_rows = rows[layout.skipped :] if is_whole else _parse(tail.partition("\n")[2], separator, True)
        footer, footer_notes = count_footer_rows(tail_rows, len(layout.names))
        path = _cut_footer(context, path, footer, tail_rows, tail)
        body = [*rows[layout.skipped : len(rows) - footer if is_whole else None], *tail_rows[: len(tail_rows) - footer]]
        types, decimal, type_notes = _detect_types(layout.names, body)
        plan = _ReadPlan(path, separator, _count_lines(head, separator, layout.skipped), layout, types)
        stored, plan, read_notes = _store(context, plan)
    table = StoredTable(context.name_table(name), stored)
    table.original_names = dict(zip(layout.names, layout.original_names, strict=True))
    table.units = {
        column: kind.unit for column, kind in zip(layout.names, plan.types, strict=True) if kind.unit is not None
    }
    table.notes = (*notes, *layout.notes, *footer_notes, *type_notes, *read_notes)
    context.tables.append(table)
    context.details.setdefault("separator", _SEPARATORS[separator])
    context.details.setdefault("header", layout.header)
    if decimal:
        context.details.setdefault("decimal", decimal)
    dates = sorted({kind.style for kind in types if kind.sql_type in ("DATE", "TIMESTAMP") and kind.style})
    if dates:
        context.details.setdefault("dates", ", ".join(dates))


def _read_ends(path: Path) -> tuple[str, str, bool]:
    """Return the first complete lines of a file, its last part, and whether the first part is the whole file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_HEAD)
        is_whole = len(head) == size
        if not is_whole:
            head = head[: head.rfind(b"\n") + 1] or head
            file.seek(size - _PART)
        tail = head[-_PART:] if is_whole else file.read(_PART)
    return head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), is_whole


def _parse(text: str, separator: str, is_complete: bool) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    rows: list[list[str]] = []
    with suppress(csv.Error):  # a line that DuckDB may still read, or refuses
        rows.extend(islice(reader, None if is_complete else _SAMPLE_ROWS))
    return rows


def _detect_separator(head: str) -> str:
    """Return the separator that cuts the lines into the most even rows."""
    lines = [line for line in head.splitlines()[:300] if line.strip()]
    best, best_score = ",", 0.0
    for separator in _SEPARATORS:
        counts = Counter(len(row) for row in _parse("\n".join(lines), separator, True) if row)
        counts.pop(1, None)
        if not counts:
            continue
        width, count = counts.most_common(1)[0]
        # Evenness matters most. A comma inside texts or decimals rarely cuts all lines alike.
        score = count / len(lines) + min(width, 50) / 200
        if score > best_score:
            best, best_score = separator, score
    return best


def _count_lines(head: str, separator: str, rows: int) -> int:
    """Return how many lines of the file the first rows take: a quoted cell may have line breaks."""
    reader = csv.reader(io.StringIO(head, newline=""), delimiter=separator)
    for _ in islice(reader, rows):
        pass
    return reader.line_num


def _cut_footer(context: ReadContext, path: Path, footer: int, rows: Sequence[Sequence[str]], tail: str) -> Path:
    """Return a copy of the file without its last rows, or the file itself if there are none to leave out."""
    if not any(any(cell.strip() for cell in row) for row in rows[len(rows) - footer :]):
        return path
    lines = tail.splitlines(keepends=True)
    count = sum(max(1, sum(cell.count("\n") for cell in row) + 1) for row in rows[len(rows) - footer :])
    bytes_left = path.stat().st_size - sum(len(line.encode()) for line in lines[len(lines) - count :])
    target = context.make_path(".csv")
    with path.open("rb") as source, target.open("xb") as file:
        while bytes_left > 0 and (block := source.read(min(_BLOCK, bytes_left))):
            file.write(block)
            bytes_left -= len(block)
    return target


def _detect_types(
    names: Sequence[str], body: Sequence[Sequence[str]]
) -> tuple[tuple[FileColumnType, ...], str | None, list[str]]:
    """Return the types of the columns, the decimal mark if numbers show one, and sentences about guesses."""
    columns = [[row[number] for row in body if number < len(row)] for number in range(len(names))]
    types = [detect_type(column) for column in columns]
    votes = Counter(kind.style for kind in types if kind.style in ("comma", "point"))
    decimal = votes.most_common(1)[0][0] if votes else None
    if decimal == "comma" or votes["comma"]:
        types = [detect_type(column, "comma") for column in columns]
        decimal = "comma"
    notes = []
    for name, kind, column in zip(names, types, columns, strict=True):
        if is_ambiguous_date([cell for cell in column if cell.strip()], kind):
            notes.append(f"dates of {name!r} were read as {kind.style}; no value shows which part is the month")
    return tuple(types), decimal, notes


def _store(context: ReadContext, plan: _ReadPlan) -> tuple[Path, _ReadPlan, list[str]]:
    """Write the file as Parquet: directly if all values fit their types, otherwise after counting those that do not."""
    if all(kind.is_plain for kind in plan.types):
        try:
            source = plan.make_source(is_typed=True, is_lenient=False)
            return context.write_parquet(f"SELECT * FROM {source}"), plan, []
        except duckdb.OutOfMemoryException as error:
            raise explain_error(error) from None
        except duckdb.Error:
            pass  # a value or a row after the sample does not fit the types of the sample
    try:
        return _store_checked(context, plan, is_lenient=False)
    except duckdb.Error:
        pass
    try:
        return _store_checked(context, plan, is_lenient=True)
    except duckdb.Error as error:
        raise explain_error(error) from None


def _store_checked(context: ReadContext, plan: _ReadPlan, *, is_lenient: bool) -> tuple[Path, _ReadPlan, list[str]]:
    """Read every column as text, decide by all values which type it has, and write it as Parquet."""
    source = plan.make_source(is_typed=False, is_lenient=is_lenient)
    stray = [_count_stray_values(name, kind) for name, kind in zip(plan.layout.names, plan.types, strict=True)]
    row = context.connection.execute(f"SELECT count(*), {', '.join(stray)} FROM {source}").fetchall()[0]
    types, notes = [], []
    for number, (name, kind) in enumerate(zip(plan.layout.names, plan.types, strict=True)):
        filled, strays, example = row[1 + 3 * number : 4 + 3 * number]
        if not strays or kind is TEXT:
            types.append(kind)
        elif strays > max(1, 0.02 * filled):
            types.append(TEXT)
            notes.append(
                f"column {name!r} holds {kind.sql_type} and other values ({strays:,} of {filled:,}, such as "
                f"{example[:40]!r}), so it is text"
            )
        else:
            types.append(kind)
            plural = "value" if strays == 1 else "values"
            notes.append(f"{strays:,} {plural} of {name!r} became empty because the others are {kind.sql_type}: "
                         f"{example[:40]!r}")  # fmt: skip
    plan = replace(plan, types=tuple(types))
    selected = ", ".join(
        f"{kind.convert(name)} AS {quote_name(name)}" for name, kind in zip(plan.layout.names, types, strict=True)
    )
    path = context.write_parquet(f"SELECT {selected} FROM {source}")
    if is_lenient:
        notes += _count_left_out(context, plan, int(row[0]))
    return path, plan, notes


def _count_stray_values(name: str, kind: FileColumnType) -> str:
    """Return SQL that counts the filled values, and those that do not fit the type, with an example."""
    column = quote_name(name)
    if kind is TEXT or kind.sql_type == "VARCHAR":
        return "0, 0, ''"
    words = ", ".join(map(quote_text, MISSING))
    filled = f"{column} IS NOT NULL AND lower(trim({column})) NOT IN ({words})"
    stray = f"{filled} AND {kind.convert(name)} IS NULL"
    return f"count(*) FILTER ({filled}), count(*) FILTER ({stray}), min({column}) FILTER ({stray})"


def _count_left_out(context: ReadContext, plan: _ReadPlan, row_count: int) -> list[str]:
    """Return a sentence about rows that could not be cut into the columns."""
    with plan.path.open("rb") as file:
        lines = sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK), b""))
    missing = lines - plan.skipped_lines - row_count
    names = list_names(plan.layout.names, 3)
    note = f"rows with more or fewer values than the {len(plan.layout.names)} columns ({names}) were padded or left out"
    return [note + (f"; about {missing:,} are missing" if missing > 0 else "")]
