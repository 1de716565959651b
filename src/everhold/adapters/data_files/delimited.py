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

_HEAD_BYTES = 512 * 1024
_TAIL_BYTES = 64 * 1024
_SAMPLE_ROWS = 2_000
_MAX_STRAY_SHARE = 0.02  # a column with a larger share of values that do not fit its type becomes text
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
_BLOCK = 1024 * 1024
csv.field_size_limit(MAX_LINE)


@dataclass(frozen=True)
class _ReadPlan:
    """How a file is read: its separator, the lines above the data, its layout, and the types of its columns."""

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
        lenient_options = ", null_padding=true, ignore_errors=true, strict_mode=false, parallel=false"
        return (
            f"read_csv({quote_text(str(self.path))}, auto_detect=false, delim={quote_text(self.separator)}, "
            f"quote='\"', escape='\"', header=false, skip={self.skipped_lines}, max_line_size={MAX_LINE}, "
            f"columns={{{columns}}}{lenient_options if is_lenient else ''})"
        )


def read_delimited(
    context: ReadContext, path: Path, name: str, separator: str | None = None, notes: Sequence[str] = ()
) -> None:
    """Read a UTF-8 file with separators as one table."""
    with context.measure("read"):
        head, tail, is_complete = _read_ends(path)
        separator = separator or _detect_separator(head)
        rows = _parse(head, separator, is_complete)
        if not any(any(cell.strip() for cell in row) for row in rows):
            raise Refusal("the file holds no table", "choose a file with rows and columns")
        context.check_width(find_width(rows[:200]))
        layout = find_layout(rows[:200])
        if len(layout.names) < 2 and not any(any(row) for row in rows[layout.skipped :]):
            raise Refusal("the file holds no table", "choose a file with rows and columns")
        context.check_width(len(layout.names))
        tail_rows = rows[layout.skipped :] if is_complete else _parse(tail.partition("\n")[2], separator, True)
        footer_rows, footer_notes = count_footer_rows(tail_rows, len(layout.names))
        path = _cut_footer(context, path, footer_rows, tail_rows, tail)
        end = len(rows) - footer_rows if is_complete else None
        sample = [*rows[layout.skipped : end], *tail_rows[: len(tail_rows) - footer_rows]]
        types, decimal, type_notes = _detect_types(layout.names, sample)
        plan = _ReadPlan(path, separator, _count_lines(head, separator, layout.skipped), layout, types)
        parquet_path, plan, read_notes = _store(context, plan)
    table = StoredTable(context.name_table(name), parquet_path)
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
    date_styles = sorted({kind.style for kind in types if kind.sql_type in ("DATE", "TIMESTAMP") and kind.style})
    if date_styles:
        context.details.setdefault("dates", ", ".join(date_styles))


def _read_ends(path: Path) -> tuple[str, str, bool]:
    """Return the first complete lines of a file, its last part, and whether the first lines are all of them."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        is_complete = len(head) == size
        if not is_complete:
            head = head[: head.rfind(b"\n") + 1] or head
            file.seek(size - _TAIL_BYTES)
        tail = head[-_TAIL_BYTES:] if is_complete else file.read(_TAIL_BYTES)
    return head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), is_complete


def _parse(text: str, separator: str, is_complete: bool) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    rows: list[list[str]] = []
    with suppress(csv.Error):  # a line that DuckDB may still read, or refuses
        rows.extend(islice(reader, None if is_complete else _SAMPLE_ROWS))
    return rows


def _detect_separator(head: str) -> str:
    """Return the separator that splits the lines into rows of the most even length."""
    lines = [line for line in head.splitlines()[:300] if line.strip()]
    best, best_score = ",", 0.0
    for separator in _SEPARATORS:
        counts = Counter(len(row) for row in _parse("\n".join(lines), separator, True) if row)
        counts.pop(1, None)
        if not counts:
            continue
        width, count = counts.most_common(1)[0]
        # Evenness matters most: a comma inside texts or decimals rarely splits all lines into equally many cells.
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
    """Return the path of a copy of the file without the last `footer` rows, or `path` if these rows are blank.

    `rows` are the rows of `tail`, the last part of the file.
    """
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
    names: Sequence[str], sample: Sequence[Sequence[str]]
) -> tuple[tuple[FileColumnType, ...], str | None, list[str]]:
    """Return the types of the columns, the decimal mark if numbers show one, and sentences about guesses."""
    columns = [[row[index] for row in sample if index < len(row)] for index in range(len(names))]
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
    """Read every column as text, choose its type by all of its values, and write it as Parquet.

    Return the path, the plan with the chosen types, and sentences about values that do not fit.
    """
    source = plan.make_source(is_typed=False, is_lenient=is_lenient)
    counts_sql = [_select_counts(name, kind) for name, kind in zip(plan.layout.names, plan.types, strict=True)]
    counts = context.connection.execute(f"SELECT count(*), {', '.join(counts_sql)} FROM {source}").fetchall()[0]
    types, notes = [], []
    for index, (name, kind) in enumerate(zip(plan.layout.names, plan.types, strict=True)):
        filled, stray, example = counts[1 + 3 * index : 4 + 3 * index]
        if not stray or kind is TEXT:
            types.append(kind)
        elif stray > max(1, _MAX_STRAY_SHARE * filled):
            types.append(TEXT)
            notes.append(
                f"column {name!r} holds {kind.sql_type} and other values ({stray:,} of {filled:,}, such as "
                f"{example[:40]!r}), so it is text"
            )
        else:
            types.append(kind)
            noun = "value" if stray == 1 else "values"
            notes.append(f"{stray:,} {noun} of {name!r} became empty because the others are {kind.sql_type}: "
                         f"{example[:40]!r}")  # fmt: skip
    plan = replace(plan, types=tuple(types))
    expressions = ", ".join(
        f"{kind.convert(name)} AS {quote_name(name)}" for name, kind in zip(plan.layout.names, types, strict=True)
    )
    path = context.write_parquet(f"SELECT {expressions} FROM {source}")
    if is_lenient:
        notes.append(_describe_lost_rows(plan, int(counts[0])))
    return path, plan, notes


def _select_counts(name: str, kind: FileColumnType) -> str:
    """Return SQL for three values: the number of filled values, the number that do not fit the type, and an example."""
    column = quote_name(name)
    if kind is TEXT or kind.sql_type == "VARCHAR":
        return "0, 0, ''"
    missing_values = ", ".join(map(quote_text, MISSING))
    filled = f"{column} IS NOT NULL AND lower(trim({column})) NOT IN ({missing_values})"
    stray = f"{filled} AND {kind.convert(name)} IS NULL"
    return f"count(*) FILTER ({filled}), count(*) FILTER ({stray}), min({column}) FILTER ({stray})"


def _describe_lost_rows(plan: _ReadPlan, row_count: int) -> str:
    """Return a sentence about rows that could not be split into the columns."""
    with plan.path.open("rb") as file:
        lines = sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK), b""))
    missing = lines - plan.skipped_lines - row_count
    names = list_names(plan.layout.names, 3)
    note = f"rows with more or fewer values than the {len(plan.layout.names)} columns ({names}) were padded or left out"
    return note + (f"; about {missing:,} are missing" if missing > 0 else "")
