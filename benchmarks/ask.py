"""How long does it take to read a question about data, and to upload the data?

    python -m benchmarks.ask            50 and 1,000 tables, and a CSV file of 336,000 rows
    python -m benchmarks.ask --quick    the same tables with fewer questions, and 33,600 rows

`read_50` and `read_1000` measure the time from a question to a checked statement in a scope with 50 and 1,000 tables,
without running the statement. The floor is one embedding of the same question by the default model. Each question is
asked once. `benchmarks/ask_upload.py` measures uploads.
"""

import argparse
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import ask_upload
from benchmarks.ask_tables import SampleTable, list_tables, make_question, write_tables
from benchmarks.report import Report, run_interleaved
from everhold import Everhold, View
from everhold.ask.asking import read_in_scope
from everhold.views.data_deps import make_data_deps

# Numbers of tables, each with its bar: reading a question may take that many times as long as embedding it.
BARS = ((50, 4.0), (1000, 12.0))
PAIRS = 120
_STEP = 37  # has no common factor with 50 or 1,000, so that the questions reach all tables
_TODAY = date(2025, 1, 1)


def measure_reading(report: Report, folder: Path, count: int, bar: float, pairs: int) -> None:
    """Measure the time from a question to a checked statement in a scope with `count` tables, and report it."""
    tables = list_tables(count)
    path = folder / f"{count}.sqlite"
    write_tables(path, tables)
    with Everhold.open(folder / f"{count}.db") as engine:
        view = engine.scope(project="sample")
        view.upload(str(path))
        embedder = engine._parts.recall_deps.embedder

        def embed(number: int) -> object:
            # The added space does not change the tokens, but keeps the reading from finding this vector in the cache.
            return embedder.embed([f"{_choose_question(tables, number)} "])

        run_interleaved(_make_read(engine, view, tables), embed, pairs).add_to(report, f"read_{count}", bar)


def _choose_question(tables: list[SampleTable], number: int) -> str:
    return make_question(tables[_STEP * number % len(tables)], number)


def _make_read(engine: Everhold, view: View, tables: list[SampleTable]) -> Callable[[int], object]:
    def read(number: int) -> object:
        question = _choose_question(tables, number)
        scoped = read_in_scope(make_data_deps(engine._parts), view.scope, question, _TODAY, view._find_question_tables)
        assert scoped.readings.best is not None, question
        return scoped.check(scoped.readings.best)

    return read


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    report = Report("ask")
    with TemporaryDirectory(prefix="everhold-") as name:
        for count, bar in BARS:
            measure_reading(report, Path(name), count, bar, PAIRS // 3 if options.quick else PAIRS)
    ask_upload.measure(report, ask_upload.ROWS // 10 if options.quick else ask_upload.ROWS)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
