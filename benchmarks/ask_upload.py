"""Compare the upload of a large CSV file with bare DuckDB; a part of `python -m benchmarks.ask`.

For the floor, DuckDB detects the types of the columns, reads the file and writes Parquet, in this process. `read` is
the part of an upload that does the same work, without the start of the child process and the profile. `upload` is the
whole call of `view.upload`, with the real embedding model, on SQLite.
"""

import shutil
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import duckdb

from benchmarks.report import Report
from everhold import Everhold

ROWS = 336_000
READ_BAR = 2.0
UPLOAD_BAR = 6.0
_ROUNDS = 7
_COLUMNS = """
    i AS id, 'customer ' || (i % 5000) AS customer, DATE '2023-01-01' + (i % 700)::INT AS day,
    round(hash(i) % 100000 / 100.0, 2) AS amount, (i % 7)::INT AS quantity,
    ['north', 'south', 'east', 'west'][1 + i % 4] AS region, hash(i * 7) / 1e19 AS score,
    'note ' || md5(i::VARCHAR) AS note
"""


def write_sample(path: Path, rows: int) -> None:
    """Write orders of customers as CSV: ids, texts, dates, amounts, categories."""
    duckdb.connect().execute(f"COPY (SELECT {_COLUMNS} FROM range({rows}) t(i)) TO '{path}' (HEADER)")


def time_floor(path: Path, target: Path) -> float:
    """Return how long bare DuckDB takes to read a CSV file and to write it as Parquet."""
    connection = duckdb.connect()
    began = perf_counter()
    connection.execute(f"COPY (FROM read_csv('{path}')) TO '{target}' (FORMAT parquet)")
    seconds = perf_counter() - began
    target.unlink()
    return seconds


def time_upload(engine: Everhold, path: Path, round_number: int) -> tuple[float, float]:
    """Return how long an upload takes, and how long its reading and writing take."""
    view = engine.scope(project=f"round-{round_number}")
    began = perf_counter()
    [uploaded] = view.upload(str(path))
    return perf_counter() - began, uploaded.seconds["read"]


def measure(report: Report, rows: int = ROWS) -> None:
    """Add the figures of uploads to a report."""
    folder = Path(tempfile.mkdtemp(prefix="everhold-benchmark-"))
    try:
        path = folder / "orders.csv"
        write_sample(path, rows)
        floors, uploads, reads = [], [], []
        with Everhold.open(folder / "memories.db") as engine:
            engine.scope().remember("The model is loaded")
            for number in range(_ROUNDS):  # interleaved, so that a busy machine slows both
                floors.append(time_floor(path, folder / "floor.parquet"))
                upload, read = time_upload(engine, path, number)
                uploads.append(upload)
                reads.append(read)
    finally:
        shutil.rmtree(folder)
    floor = median(floors)
    report.add("upload_rows", rows)
    report.add("upload_floor_seconds", floor)
    report.add("upload_read_seconds", median(reads))
    report.add("upload_seconds", median(uploads))
    report.add("upload_read_ratio", median(map(_divide, reads, floors)), "<=", READ_BAR)
    report.add("upload_ratio", median(map(_divide, uploads, floors)), "<=", UPLOAD_BAR)


def _divide(seconds: float, floor: float) -> float:
    return seconds / floor
