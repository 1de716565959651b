"""Index the turns of conversations in an image, so that a turn's signals can include those of its neighbours.

A reply makes sense only together with the turn that it answers.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# The number of turns before and after a turn that belong to each window. The turn itself always belongs to it.
WINDOWS: Mapping[str, tuple[int, int]] = {"before": (3, 0), "near": (1, 1), "around": (3, 3), "wide": (6, 6)}

Places = NDArray[np.int64]
Values = NDArray[np.floating[Any]]


class ThreadWindow(NamedTuple):
    """The start and the end (exclusive) of each turn's window, as positions in the order of turns."""

    start: Places
    end: Places


class Threads:
    """The turns of all sessions in their order, one session after another.

    `rows` are the rows of the turns, in that order, `sessions` the session of each, and `size` is the number of rows of
    the image. `fact_rows` has pairs: the row of a fact, and the row of the turn that it was derived from. A fact gets
    the values of its turn.
    """

    def __init__(
        self, rows: Places, sessions: NDArray[Any], size: int, fact_rows: Sequence[tuple[int, int]] = ()
    ) -> None:
        self.rows = rows
        self._place_of = np.full(size, -1, np.int64)
        self._place_of[rows] = np.arange(len(rows))
        self.fact_rows = np.array([fact for fact, _ in fact_rows], np.int64)
        self._fact_row_set = frozenset(self.fact_rows.tolist())
        self._fact_places = self._place_of[[turn for _, turn in fact_rows]] if fact_rows else self.fact_rows
        self._starts = np.flatnonzero(np.concatenate([[True], sessions[1:] != sessions[:-1]]))
        lengths = np.diff(np.append(self._starts, len(rows)))
        self._session = np.repeat(np.arange(len(self._starts)), lengths)
        first = np.repeat(self._starts, lengths)
        last = first + np.repeat(lengths, lengths)
        here = np.arange(len(rows))
        self.windows = {
            name: ThreadWindow(np.maximum(here - before, first), np.minimum(here + after + 1, last))
            for name, (before, after) in WINDOWS.items()
        }

    def has(self, row: int) -> bool:
        """Return whether a row is a turn, or a fact that was derived from one."""
        return bool(self._place_of[row] >= 0) or row in self._fact_row_set

    def find_places(self, rows: NDArray[np.integer[Any]]) -> Places:
        """Return the positions of these rows in the order of turns. Rows that are not turns are left out."""
        places: Places = self._place_of[rows]
        return places[places >= 0]

    def place_values(self, own: Values, turns: Values) -> Values:
        """Return `own`, the values of all rows, with the values of turns and of their facts replaced by those in
        `turns`.
        """
        placed = own.copy()
        placed[self.rows] = turns
        placed[self.fact_rows] = turns[self._fact_places]
        return placed

    def mean(self, values: Values, window: str) -> Values:
        """Return the mean value in each turn's window."""
        start, end = self.windows[window]
        summed = np.concatenate([[0.0], np.cumsum(values)])
        mean: Values = (summed[end] - summed[start]) / (end - start)
        return mean

    def take_previous(self, values: Values) -> Values:
        """Return the value of the turn before each turn; 0 for the first of a session."""
        shifted = np.concatenate([[0.0], values[:-1]])
        shifted[self._starts] = 0.0
        return shifted

    def best(self, values: Values) -> Values:
        """Return the best value in each turn's session."""
        return np.asarray(np.maximum.reduceat(values, self._starts))[self._session]

    def find_windows_with(self, places: Places, window: str) -> NDArray[np.bool_]:
        """Return for each turn whether any turn at these positions is in its window."""
        start, end = self.windows[window]
        marked = np.zeros(len(self.rows) + 1, np.int64)
        marked[places + 1] = 1
        counted = np.cumsum(marked)
        return np.asarray(counted[end] > counted[start])
