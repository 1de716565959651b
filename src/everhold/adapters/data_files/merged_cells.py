"""Fill the merged cells of a sheet: each cell of a merged area gets the value of the area's first cell."""

import re
import zlib
from collections.abc import Iterator, Sequence
from typing import IO

from everhold.adapters.data_files.containers import Budget
from everhold.adapters.data_files.refusal import Refusal

_BLOCK = 256 * 1024
_AREA = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})"')
_LONGEST_TAG = 200
_MAX_AREAS = 20_000
_MAX_COLUMNS = 1_000


class MergedCells:
    """The merged areas of a sheet, and the values of their first cells once those have been read."""

    def __init__(self, areas: Sequence[tuple[int, int, int, int]]) -> None:
        self._areas = areas
        self._by_row: dict[int, list[int]] = {}
        for number, (top, _, bottom, _) in enumerate(areas):
            # Taller areas are decoration, and would make a small file fill the memory.
            for row in range(top, min(bottom, top + 5_000) + 1):
                self._by_row.setdefault(row, []).append(number)
        self._values: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._areas)

    def fill(self, row: int, cells: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Yield column and value for the empty cells of a row that belong to merged areas."""
        for number in self._by_row.get(row, ()):
            top, left, _, right = self._areas[number]
            if row == top:
                self._values[number] = cells[left - 1] if left <= len(cells) else ""
            value = self._values.get(number, "")
            for column in range(left, min(right, left + _MAX_COLUMNS) + 1):
                if value and (column > len(cells) or not cells[column - 1]):
                    yield column, value


def read_merged_cells(stream: IO[bytes], budget: Budget) -> MergedCells:
    """Return the merged areas of a sheet. They come at the end of its XML, so the sheet is read once for them alone."""
    areas: list[tuple[int, int, int, int]] = []
    rows, before = 0, b""
    with stream:
        try:
            while block := stream.read(_BLOCK):
                budget.spend(len(block))
                window = before + block
                for left, top, right, bottom in _AREA.findall(window):
                    area = (int(top), _count(left), int(bottom), _count(right))
                    if not areas or areas[-1] != area:
                        areas.append(area)
                        rows += min(5_000, max(0, area[2] - area[0]))
                    if len(areas) > _MAX_AREAS or rows > 20 * _MAX_AREAS:
                        raise Refusal("a sheet has too many merged cells", "save its table as CSV")
                before = window[-_LONGEST_TAG:]
        except (OSError, EOFError, zlib.error) as error:
            raise Refusal(f"the Excel file is damaged ({error})", "save it again") from None
    return MergedCells(list(dict.fromkeys(areas)))


def _count(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number
