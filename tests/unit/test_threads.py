"""Windows over the turns of conversations equal plain slices of each session."""

import random

import numpy as np
import pytest

from everhold.recall.threads import WINDOWS, Threads


def make_threads(lengths: list[int], rng: random.Random) -> tuple[Threads, list[list[int]]]:
    """Return threads over sessions of these lengths, mixed with other rows, and each session's rows in order."""
    size = 2 * sum(lengths) + 3
    rows = rng.sample(range(size), sum(lengths))
    sessions = []
    for length in lengths:
        sessions.append(rows[:length])
        rows = rows[length:]
    turn_rows = [row for session in sessions for row in session]
    session_numbers = [number for number, length in enumerate(lengths) for _ in range(length)]
    return Threads(np.array(turn_rows, np.int64), np.array(session_numbers), size), sessions


@pytest.mark.parametrize("lengths", [[1], [5], [1, 1, 1], [20, 3, 8], [2, 30, 1, 7]], ids=str)
def test_windows_are_slices_of_the_session(lengths: list[int]) -> None:
    rng = random.Random(sum(lengths))
    threads, sessions = make_threads(lengths, rng)
    value_by_row = {row: rng.uniform(-1, 1) for session in sessions for row in session}
    values = np.array([value_by_row[row] for row in threads.rows.tolist()])
    marked = [row for row in value_by_row if rng.random() < 0.2]
    for name, (before, after) in WINDOWS.items():
        means = threads.mean(values, name)
        has_marked = threads.find_windows_with(threads.find_places(np.array(marked, int)), name)
        place = 0
        for session in sessions:
            for index in range(len(session)):
                window = session[max(0, index - before) : index + after + 1]
                assert means[place] == pytest.approx(sum(value_by_row[row] for row in window) / len(window)), name
                assert has_marked[place] == any(row in marked for row in window), name
                place += 1


def test_the_preceding_and_the_best_turn_are_of_the_same_session() -> None:
    threads, _ = make_threads([3, 1, 2], random.Random(1))
    values = np.array([1.0, 5.0, 2.0, 9.0, -3.0, -4.0])
    assert threads.take_previous(values).tolist() == [0.0, 1.0, 5.0, 0.0, 0.0, -3.0]
    assert threads.best(values).tolist() == [5.0, 5.0, 5.0, 9.0, -3.0, -3.0]


def test_rows_that_are_not_turns_have_no_place() -> None:
    threads = Threads(np.array([7, 2, 4]), np.array([0, 0, 1]), 9)
    assert threads.find_places(np.array([0, 2, 3, 4, 7, 8])).tolist() == [1, 2, 0]
    assert not threads.find_windows_with(threads.find_places(np.array([0, 8])), "wide").any()
