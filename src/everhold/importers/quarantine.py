"""Write rows that could not be imported as JSON lines, which can be corrected and imported again."""

import json
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from everhold.errors import InvalidInput
from everhold.files import create_text
from everhold.import_results import RowFault
from everhold.importers.source import RECORD_KINDS, BadRow, ImportInput, RowDraft, Sample, SourceItem
from everhold.json_streams import parse_line

MARK = "everhold_quarantine"
VERSION = 1
_MAX_SHOWN = 20
_MAX_ROW_CHARACTERS = 4_000_000
_SPOOL_BYTES = 1_000_000


class Quarantine:
    """Collects bad rows in a temporary file, and writes them to their file at the end."""

    def __init__(self) -> None:
        self.count = 0
        self.faults: list[RowFault] = []
        self._spool: IO[str] = tempfile.SpooledTemporaryFile(_SPOOL_BYTES, "w+", encoding="utf-8")  # noqa: SIM115

    def close(self) -> None:
        self._spool.close()

    def add(self, bad_row: BadRow, source: str) -> None:
        """Add a row of a source."""
        self.count += 1
        if len(self.faults) < _MAX_SHOWN:
            self.faults.append(RowFault(bad_row.origin, bad_row.place, bad_row.reason))
        document: dict[str, Any] = {MARK: VERSION, "source": source, "origin": bad_row.origin, "place": bad_row.place}
        document |= {"reason": bad_row.reason, "kind": bad_row.kind, "row": bad_row.row}
        try:
            line = json.dumps(document, ensure_ascii=True, default=_make_json_value)
        except RecursionError:
            line = json.dumps({**document, "row": "nested too deeply to be kept"})
        if len(line) > _MAX_ROW_CHARACTERS:
            line = json.dumps({**document, "row": f"{len(line):,} characters, which are too many to keep"})
        self._spool.write(line + "\n")

    def save(self, path: Path, *, overwrite: bool) -> None:
        """Write the rows to a file that only its owner can read."""
        self._spool.seek(0)
        with create_text(path, overwrite=overwrite) as out:
            while block := self._spool.read(65_536):
                out.write(block)


def _make_json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return f"{len(value)} bytes" if isinstance(value, bytes) else str(value)


def detect(sample: Sample) -> float:
    """Return 1 for a quarantine file that an earlier import has written, else 0."""
    return float(any(isinstance(line, dict) and MARK in line for line in sample.lines[:1]))


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    """Yield the corrected rows. Only "kind" and "row" of each line are used."""
    for number, line in import_input.files.read_lines():
        place = f"line {number}"
        try:
            document = parse_line(line)
        except ValueError as error:
            yield BadRow("quarantine", place, str(error), line)
            continue
        if not isinstance(document, dict) or document.get(MARK) != VERSION:
            raise InvalidInput(f"{place} is not a line of a quarantine file", remedy="remove it")
        row, kind = document.get("row"), document.get("kind")
        if kind not in RECORD_KINDS or not isinstance(row, dict):
            yield BadRow("quarantine", place, "the line has no kind, or its row has no fields", row)
        else:
            yield RowDraft(kind, str(document.get("origin") or "quarantine"), place, row)
