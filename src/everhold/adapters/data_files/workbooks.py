"""Read the sheets of an Excel file (.xlsx) as streams. Declarations of types and entities are refused."""

import csv
import re
import zipfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

from everhold.adapters.data_files.containers import UnpackingBudget, open_zip
from everhold.adapters.data_files.context import ReadContext
from everhold.adapters.data_files.delimited import read_delimited
from everhold.adapters.data_files.merged_cells import MergedCells, read_merged_cells
from everhold.adapters.data_files.names import make_table_name
from everhold.adapters.data_files.refusal import Refusal

_BLOCK = 64 * 1024
_MAX_STRINGS = 64 * 1024 * 1024  # characters of all shared texts
_STRING_OVERHEAD = 50  # the memory of a Python text in addition to its characters
_MAX_COLUMN = 16_384  # of Excel
_MAX_DEPTH = 64
_GENERIC_SHEET = re.compile(r"(sheet|tabelle|feuil|hoja|foglio|worksheet)\s*\d*", re.IGNORECASE)
# The formats with these numbers are dates and times. Another format is one if its pattern has letters of dates.
_DATE_FORMATS = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))
_DATE_LETTERS = re.compile(r"[ymdhs]", re.IGNORECASE)
# The parts of a pattern whose letters do not stand for parts of a date.
_LITERALS = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.|_.|General')
_REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})")

Attributes = dict[str, str]


def read_workbook(context: ReadContext, path: Path, name: str) -> None:
    """Read every sheet that has rows as a table."""
    with open_zip(path) as archive:
        budget = UnpackingBudget(path.stat().st_size, context.limits.max_bytes)
        workbook = _Workbook(archive, budget)
        sheets = []
        for title, part in workbook.sheets:
            target = context.make_path(".csv")
            with context.measure("read"):
                merged = read_merged_cells(workbook.stream(part), budget)
                rows = workbook.write_sheet(part, target, merged, context.limits.max_columns)
            if rows:
                sheets.append((title, target, merged))
    for title, target, merged in sheets:
        table_name = name if len(sheets) == 1 else _name_sheet(name, title)
        notes = [f"{len(merged)} merged areas were filled with their value"] if len(merged) else []
        read_delimited(context, target, table_name, ",", notes)
    context.details.pop("separator", None)  # that of the CSV file, which the user does not know
    context.details.setdefault("sheets", ", ".join(title for title, _, _ in sheets)[:200])


def _name_sheet(file_name: str, title: str) -> str:
    """Return the name of the table of a sheet: its title, after the name of the file if the title is a generic one."""
    name = f"{make_table_name(file_name)} {title}" if _GENERIC_SHEET.fullmatch(title) else title
    return name.replace("/", " ").replace(".", " ")


class _Workbook:
    """The parts of an Excel file that are needed to read its cells, such as the shared texts and the formats."""

    def __init__(self, archive: zipfile.ZipFile, budget: UnpackingBudget) -> None:
        self._archive, self._budget = archive, budget
        self._names = set(archive.namelist())
        self.uses_1904 = False
        self.sheets: list[tuple[str, str]] = []
        self._date_styles: list[bool] = []
        self._strings: list[str] = []
        self._read_sheets()
        self._read_styles()
        self._read_strings()

    def stream(self, part: str) -> IO[bytes]:
        try:
            return self._archive.open(part)
        except (KeyError, zipfile.BadZipFile, RuntimeError) as error:
            raise Refusal(f"the Excel file is damaged or encrypted ({error})", "save it again") from None

    def _parse(
        self, part: str, start: Callable[..., None], end: Callable[..., None], text: Callable[..., None]
    ) -> None:
        with self.stream(part) as stream:
            _parse_xml(stream, self._budget, start, end, text)

    def _read_sheets(self) -> None:
        targets: dict[str, str] = {}

        def read_relation(tag: str, values: Attributes) -> None:
            if tag == "Relationship" and values.get("Type", "").endswith("/worksheet"):
                targets[values.get("Id", "")] = values.get("Target", "")

        def read_sheet(tag: str, values: Attributes) -> None:
            if tag == "workbookPr":
                self.uses_1904 = values.get("date1904") in ("1", "true")
            if tag == "sheet" and values.get("id") in targets:
                target = targets[values["id"]].lstrip("/")
                part = target if target.startswith("xl/") else f"xl/{target}"
                if part in self._names:
                    self.sheets.append((values.get("name", ""), part))

        if "xl/_rels/workbook.xml.rels" in self._names:
            self._parse("xl/_rels/workbook.xml.rels", read_relation, _ignore, _ignore)
        self._parse("xl/workbook.xml", read_sheet, _ignore, _ignore)

    def _read_styles(self) -> None:
        """Find which styles show a number as a date."""
        if "xl/styles.xml" not in self._names:
            return
        date_formats, is_in_styles = set(_DATE_FORMATS), False

        def start(tag: str, values: Attributes) -> None:
            nonlocal is_in_styles
            if tag == "numFmt" and _DATE_LETTERS.search(_LITERALS.sub("", values.get("formatCode", ""))):
                date_formats.add(_to_int(values.get("numFmtId")))
            elif tag == "cellXfs":
                is_in_styles = True
            elif tag == "xf" and is_in_styles:
                self._date_styles.append(_to_int(values.get("numFmtId")) in date_formats)

        def end(tag: str) -> None:
            nonlocal is_in_styles
            if tag == "cellXfs":
                is_in_styles = False

        self._parse("xl/styles.xml", start, end, _ignore)

    def _read_strings(self) -> None:
        """Read the texts that cells of all sheets refer to by number. Phonetic readings are left out."""
        if "xl/sharedStrings.xml" not in self._names:
            return
        parts: list[str] = []
        state = {"is_text": False, "is_phonetic": False, "size": 0}

        def start(tag: str, _: Attributes) -> None:
            if tag == "si":
                parts.clear()
            state["is_text"] = tag == "t" and not state["is_phonetic"]
            if tag == "rPh":
                state["is_phonetic"] = True

        def end(tag: str) -> None:
            state["is_text"] = False
            if tag == "rPh":
                state["is_phonetic"] = False
            if tag == "si":
                self._strings.append("".join(parts))

        def text(data: str) -> None:
            if state["is_text"]:
                parts.append(data)
                state["size"] += len(data) + _STRING_OVERHEAD
                if state["size"] > _MAX_STRINGS:
                    raise Refusal("the Excel file has too many texts", "save its sheets as CSV")

        self._parse("xl/sharedStrings.xml", start, end, text)

    def write_sheet(self, part: str, target: Path, merged: MergedCells, max_columns: int) -> int:
        """Write a sheet as CSV and return how many rows it has."""
        with target.open("x", newline="", encoding="utf-8", errors="replace") as file:
            writer = _SheetWriter(csv.writer(file), self, merged, max_columns)
            self._parse(part, writer.start, writer.end, writer.text)
        return writer.rows

    def get_string(self, number: str) -> str:
        position = _to_int(number)
        return self._strings[position] if 0 <= position < len(self._strings) else ""

    def is_date(self, style: str | None) -> bool:
        number = _to_int(style)
        return 0 <= number < len(self._date_styles) and self._date_styles[number]


class _SheetWriter:
    """Receives the XML of a sheet and writes its rows as CSV."""

    def __init__(self, writer: Any, workbook: _Workbook, merged: MergedCells, max_columns: int) -> None:
        self._writer, self._workbook, self._merged, self._max_columns = writer, workbook, merged, max_columns
        self.rows = 0
        self._row: list[str] = []
        self._row_number = 0
        self._column = 0
        self._cell_type = "n"
        self._style: str | None = None
        self._parts: list[str] = []
        self._is_value = False

    def start(self, tag: str, values: Attributes) -> None:
        if tag == "row":
            self._row_number = _to_int(values.get("r"), self._row_number + 1)
            self._row, self._column = [], 0
        elif tag == "c":
            match = _REFERENCE.fullmatch(values.get("r", ""))
            self._column = count_column(match[1]) if match else self._column + 1
            self._cell_type, self._style = values.get("t", "n"), values.get("s")
            self._parts = []
        elif tag in ("v", "t"):
            self._is_value = True

    def text(self, data: str) -> None:
        if self._is_value:
            self._parts.append(data)

    def end(self, tag: str) -> None:
        if tag in ("v", "t"):
            self._is_value = False
        elif tag == "c":
            self._put(self._column, self._read_value("".join(self._parts)))
        elif tag == "row":
            for column, value in self._merged.fill(self._row_number, self._row):
                self._put(column, value)
            if any(self._row):
                self.rows += 1
            self._writer.writerow(self._row or [""])

    def _put(self, column: int, value: str) -> None:
        if not value:
            return
        if column > _MAX_COLUMN or column > 2 * self._max_columns:
            raise Refusal(f"a sheet has more than {self._max_columns:,} columns", "save its table as CSV")
        self._row.extend([""] * (column - len(self._row)))
        self._row[column - 1] = value

    def _read_value(self, text: str) -> str:
        if self._cell_type == "s":
            return self._workbook.get_string(text)
        if self._cell_type == "b":
            return {"1": "true", "": ""}.get(text, "false")
        if self._cell_type == "e":
            return ""  # #N/A, #DIV/0! and the like
        if self._cell_type == "n" and text and self._workbook.is_date(self._style):
            return format_date(text, self._workbook.uses_1904)
        return text


def format_date(text: str, uses_1904: bool) -> str:
    """Return a day number of Excel as an ISO date, with the time if it has one."""
    try:
        days = float(text)
        epoch = datetime.fromisoformat("1904-01-01" if uses_1904 else "1899-12-30")
        moment = epoch + timedelta(seconds=round(days * 86_400))
    except (ValueError, OverflowError):
        return text
    if days < 1:
        return moment.time().isoformat()
    return moment.date().isoformat() if days == int(days) else moment.isoformat(" ")


def count_column(letters: str) -> int:
    """Return the number of a column: A is 1, Z is 26, AA is 27."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number


def _to_int(text: str | None, default: int = -1) -> int:
    return int(text) if text is not None and text.isdigit() and len(text) < 10 else default


def _ignore(*_: object) -> None:
    """Do nothing with a part of a document."""


def _parse_xml(
    stream: IO[bytes],
    budget: UnpackingBudget,
    start: Callable[..., None],
    end: Callable[..., None],
    text: Callable[..., None],
) -> None:
    """Call functions for the parts of an XML document.

    Raise Refusal for a document type or an entity, which a hostile file may expand to fill the memory.
    """
    parser = expat.ParserCreate()
    depth = 0

    def refuse(*_: object) -> None:
        raise Refusal("the Excel file declares XML entities", "save it again with Excel or LibreOffice")

    def start_element(tag: str, values: Attributes) -> None:
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH:
            raise Refusal("the Excel file is nested too deeply", "save it again")
        start(tag.rpartition(":")[2], {name.rpartition(":")[2]: value for name, value in values.items()})

    def end_element(tag: str) -> None:
        nonlocal depth
        depth -= 1
        end(tag.rpartition(":")[2])

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start_element, end_element, text
    parser.buffer_text = True
    try:
        for block in _read_blocks(stream, budget):
            parser.Parse(block, False)
        parser.Parse(b"", True)
    except (expat.ExpatError, zipfile.BadZipFile, EOFError, OSError, ValueError) as error:
        raise Refusal(f"the Excel file is damaged ({error})", "save it again") from None


def _read_blocks(stream: IO[bytes], budget: UnpackingBudget) -> Iterator[bytes]:
    while block := stream.read(_BLOCK):
        budget.spend(len(block))
        yield block
