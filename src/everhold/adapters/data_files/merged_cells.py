"""Fill the merged cells of a sheet: each cell of a merged area gets the value of the area's first cell."""

import re
import zlib
from collections.abc import Iterator, Sequence
from typing import IO

from everhold.adapters.data_files.containers import UnpackingBudget
from everhold.adapters.data_files.refusal import Refusal

_BLOCK = 256 * 1024
_AREA = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})"')
_MAX_TAG = 200
_MAX_AREAS = 20_000
_MAX_ROWS = 5_000  # taller areas are decoration, and would make a small file fill the memory
_MAX_COLUMNS = 1_000


class MergedCells:
    """The merged areas of a sheet as (top, left, bottom, right), and the values of the first cells read so far."""

    def __init__(self, areas: Sequence[tuple[int, int, int, int]]) -> None:
        self._areas = areas
        self._by_row: dict[int, list[int]] = {}
        for index, (top, _, bottom, _) in enumerate(areas):
            for row in range(top, min(bottom, top + _MAX_ROWS) + 1):
                self._by_row.setdefault(row, []).append(index)
        self._values: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._areas)

    def fill(self, row: int, cells: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Yield column and value for the empty cells of a row that belong to merged areas."""
        for index in self._by_row.get(row, ()):
            top, left, _, right = self._areas[index]
            if row == top:
                self._values[index] = cells[left - 1] if left <= len(cells) else ""
            value = self._values.get(index, "")
            for column in range(left, min(right, left + _MAX_COLUMNS) + 1):
                if value and (column > len(cells) or not cells[column - 1]):
                    yield column, value


def read_merged_cells(stream: IO[bytes], budget: UnpackingBudget) -> MergedCells:
    """Return the merged areas of a sheet. Its XML lists them after the cells, so the sheet is read a second time."""
    areas: list[tuple[int, int, int, int]] = []
    rows, previous_end = 0, b""
    with stream:
        try:
            while block := stream.read(_BLOCK):
                budget.spend(len(block))
                window = previous_end + block
                for left, top, right, bottom in _AREA.findall(window):
                    area = (int(top), _read_column_number(left), int(bottom), _read_column_number(right))
                    if not areas or areas[-1] != area:
                        areas.append(area)
                        rows += min(_MAX_ROWS, max(0, area[2] - area[0]))
                    if len(areas) > _MAX_AREAS or rows > 20 * _MAX_AREAS:
                        raise Refusal("a sheet has too many merged cells", "save its table as CSV")
                previous_end = window[-_MAX_TAG:]
        except (OSError, EOFError, zlib.error) as error:
            raise Refusal(f"the Excel file is damaged ({error})", "save it again") from None
    return MergedCells(list(dict.fromkeys(areas)))


def _read_column_number(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number
