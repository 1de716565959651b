"""Statements run on DuckDB and SQLite in processes of their own: typed rows, pages, limits."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import psutil
import pytest

from everhold import DataUnavailable, InvalidInput, QueryFailed, QueryMemoryExceeded, QueryTimeout, ResultTooLarge
from everhold.adapters.data_engine import SandboxedDataEngine
from everhold.adapters.data_engine.process import ChildAnswer, QueryProcess
from everhold.ask.guard import check_statement
from everhold.ports.data_engine import CheckedStatement, ParquetTables, QueryLimits, QueryResult, SqliteTables

LIMITS = QueryLimits(seconds=120, cpu_seconds=100, megabytes=300, rows=1000)


@pytest.fixture
def engine() -> Iterator[SandboxedDataEngine]:
    engine = SandboxedDataEngine(LIMITS)
    yield engine
    engine.close()


@pytest.fixture
def parquet(tmp_path: Path) -> ParquetTables:
    path = tmp_path / "it's orders.parquet"
    _write_orders(path, 3000)
    return ParquetTables({"orders": (str(path),)})


def _write_orders(path: Path, rows: int) -> None:
    name = str(path).replace("'", "''")
    duckdb.execute(f"COPY (SELECT i AS id, i % 3 AS kind FROM range({rows}) AS t(i)) TO '{name}'")


@pytest.fixture
def sqlite(tmp_path: Path) -> SqliteTables:
    path = tmp_path / "orders?#.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER, name TEXT, price REAL, image BLOB)")
        connection.execute("INSERT INTO orders VALUES (1, 'a\u20ac', 1.5, x'00ff'), (2, NULL, 2, NULL)")
        connection.execute("CREATE VIEW dear AS SELECT * FROM orders WHERE price > 1.6")
    return SqliteTables(str(path))


def run(engine: SandboxedDataEngine, data: ParquetTables | SqliteTables, sql: str) -> QueryResult:
    return engine.run(data, check_statement(sql, data.dialect, ["orders", "dear"]))


def run_unchecked(engine: SandboxedDataEngine, data: ParquetTables | SqliteTables, sql: str) -> QueryResult:
    return engine.run(data, CheckedStatement(sql, data.dialect, frozenset({"orders"}), 1000))


def test_types_of_duckdb_are_converted(engine: SandboxedDataEngine, parquet: ParquetTables) -> None:
    result = run_unchecked(
        engine,
        parquet,
        """SELECT true AS a, 170141183460469231731687303715884105727 AS b, 1.50::DECIMAL(9, 2) AS c, 'nan'::DOUBLE AS d,
        'x€' AS e, '\\x00'::BLOB AS f, DATE '2024-02-29' AS g, TIME '10:11:12' AS h, TIMESTAMP '2024-01-01 10:00' AS i,
        TIMESTAMPTZ '2024-01-01 10:00+02' AS j, INTERVAL 36 HOUR AS k, [1, NULL] AS l, {'a': DATE '2024-01-01'} AS m,
        NULL AS n""",
    )
    assert [str(column.type) for column in result.columns[:13]] == [
        "boolean", "integer", "decimal", "float", "text", "bytes", "date", "time", "timestamp", "timestamp", "interval",
        "json", "json",
    ]  # fmt: skip
    [row] = result.rows
    assert row[3] != row[3]  # not a number
    assert row[:3] + row[4:] == (
        True, 2**127 - 1, Decimal("1.50"), "x€", b"\0", date(2024, 2, 29), time(10, 11, 12), datetime(2024, 1, 1, 10),  # noqa: DTZ001
        datetime(2024, 1, 1, 8, tzinfo=UTC), timedelta(hours=36), [1, None], {"a": date(2024, 1, 1)}, None,
    )  # fmt: skip


def test_types_and_views_of_sqlite_are_read(engine: SandboxedDataEngine, sqlite: SqliteTables) -> None:
    result = run(engine, sqlite, "SELECT * FROM orders ORDER BY id")
    assert result.rows == ((1, "a€", 1.5, b"\0\xff"), (2, None, 2.0, None))
    assert [str(column.type) for column in result.columns] == ["integer", "text", "float", "bytes"]
    assert run(engine, sqlite, "SELECT id FROM dear").rows == ((2,),)


def test_empty_results_have_columns(engine: SandboxedDataEngine, sqlite: SqliteTables) -> None:
    result = run(engine, sqlite, "SELECT id, name FROM orders WHERE id > 9")
    assert ([column.name for column in result.columns], result.rows, result.truncated) == (["id", "name"], (), False)


def test_long_results_are_truncated(engine: SandboxedDataEngine, parquet: ParquetTables) -> None:
    result = run(engine, parquet, "SELECT id FROM orders ORDER BY id")
    assert (result.row_count, result.truncated, result.rows[-1]) == (1000, True, (999,))
    exact = run(engine, parquet, "SELECT id FROM orders WHERE id < 1000")
    assert (exact.row_count, exact.truncated) == (1000, False)


def test_pages_come_from_one_run(engine: SandboxedDataEngine, parquet: ParquetTables) -> None:
    statement = check_statement("SELECT id FROM orders ORDER BY id", "duckdb", ["orders"])
    all_rows = engine.run(parquet, statement)
    page = engine.run(parquet, statement, offset=10, limit=3)
    assert page.rows == ((10,), (11,), (12,))
    # The same time shows that both pages are of one run.
    assert (page.offset, page.row_count, page.seconds) == (
        10,
        1000,
        all_rows.seconds,
    )
    assert engine.run(parquet, statement, offset=5000, limit=3).rows == ()
    with pytest.raises(InvalidInput):
        engine.run(parquet, statement, offset=-1)


def test_a_statement_that_depends_on_the_time_runs_again(engine: SandboxedDataEngine, parquet: ParquetTables) -> None:
    statement = check_statement("SELECT now()", "duckdb", ["orders"])
    assert engine.run(parquet, statement).rows != engine.run(parquet, statement).rows


def test_changed_data_is_read_again(engine: SandboxedDataEngine, parquet: ParquetTables) -> None:
    assert run(engine, parquet, "SELECT count(*) FROM orders").rows == ((3000,),)
    _write_orders(Path(parquet.files["orders"][0]), 5)
    assert run(engine, parquet, "SELECT count(*) FROM orders").rows == ((5,),)


def test_results_are_cached_by_the_version_of_the_files(engine: SandboxedDataEngine, parquet: ParquetTables) -> None:
    parquet = replace(parquet, version="1")
    assert run(engine, parquet, "SELECT count(*) FROM orders").rows == ((3000,),)
    _write_orders(Path(parquet.files["orders"][0]), 5)
    assert run(engine, parquet, "SELECT count(*) FROM orders").rows == ((3000,),)
    assert run(engine, replace(parquet, version="2"), "SELECT count(*) FROM orders").rows == ((5,),)


def test_several_files_are_one_table(engine: SandboxedDataEngine, parquet: ParquetTables, tmp_path: Path) -> None:
    _write_orders(tmp_path / "more.parquet", 7)
    two_files = ParquetTables({"orders": (*parquet.files["orders"], str(tmp_path / "more.parquet"))})
    assert run(engine, two_files, "SELECT count(*) FROM orders").rows == ((3007,),)


def test_time_is_limited(engine: SandboxedDataEngine, parquet: ParquetTables) -> None:
    forever = "SELECT sum(a.i * b.i) FROM range(10000000) AS a(i), range(10000000) AS b(i)"
    statement = CheckedStatement(forever, "duckdb", frozenset(), 10)
    with pytest.raises(QueryTimeout, match="1 s"):
        engine.run(parquet, statement, replace(LIMITS, seconds=1))


def test_processor_time_is_limited(engine: SandboxedDataEngine, sqlite: SqliteTables) -> None:
    forever = "SELECT count(*) FROM orders" + ", orders" * 40
    with pytest.raises(QueryTimeout, match="processor"):
        engine.run(sqlite, CheckedStatement(forever, "sqlite", frozenset(), 10), replace(LIMITS, cpu_seconds=1))


@pytest.mark.parametrize("sql", ["SELECT repeat('x', 2000000000)", "SELECT list(i) FROM range(1000000000) AS t(i)"])
def test_memory_is_limited(engine: SandboxedDataEngine, parquet: ParquetTables, sql: str) -> None:
    with pytest.raises(QueryMemoryExceeded, match="300 MB"):
        run_unchecked(engine, parquet, sql)


def test_a_large_sort_uses_the_disk(engine: SandboxedDataEngine, parquet: ParquetTables) -> None:
    # It takes so long that DuckDB would print a progress bar, which must not become part of the answer.
    ordered = "SELECT i, hash(i) AS h FROM range(24000000) AS t(i) ORDER BY h"
    statement = CheckedStatement(f"SELECT i FROM ({ordered}) LIMIT 1 OFFSET 23999999", "duckdb", frozenset(), 10)
    limits = replace(LIMITS, megabytes=600, seconds=100, cpu_seconds=100)
    with pytest.raises(QueryMemoryExceeded):
        engine.run(parquet, statement, limits)
    assert engine.run(parquet, statement, replace(limits, disk_megabytes=4000)).row_count == 1


def test_the_size_of_a_result_is_limited(engine: SandboxedDataEngine, parquet: ParquetTables) -> None:
    statement = CheckedStatement("SELECT repeat('x', 10000) FROM orders", "duckdb", frozenset({"orders"}), 1000)
    with pytest.raises(ResultTooLarge, match="2 MB"):
        engine.run(parquet, statement, replace(LIMITS, result_megabytes=2))


@pytest.mark.parametrize("sql", ["SELECT nothing FROM orders", "SELECT CAST('x' AS INT) FROM orders"])
def test_wrong_statements_fail(engine: SandboxedDataEngine, parquet: ParquetTables, sql: str) -> None:
    with pytest.raises(QueryFailed):
        run(engine, parquet, sql)
    assert run(engine, parquet, "SELECT count(*) FROM orders").rows == ((3000,),)


def test_missing_and_damaged_files_are_reported(engine: SandboxedDataEngine, tmp_path: Path) -> None:
    missing_files = ParquetTables({"orders": (str(tmp_path / "gone"),)})
    with pytest.raises(DataUnavailable, match="No such file"):
        run(engine, missing_files, "SELECT * FROM orders")
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"PAR1 not really")
    with pytest.raises(DataUnavailable):
        run(engine, ParquetTables({"orders": (str(damaged),)}), "SELECT * FROM orders")
    with pytest.raises(DataUnavailable, match="not a database"):
        run(engine, SqliteTables(str(damaged)), "SELECT * FROM orders")


def test_a_statement_belongs_to_its_dialect(engine: SandboxedDataEngine, sqlite: SqliteTables) -> None:
    with pytest.raises(InvalidInput, match="duckdb"):
        engine.run(sqlite, check_statement("SELECT 1", "duckdb", []))


def test_a_table_outside_the_data_set_is_refused(engine: SandboxedDataEngine, parquet: ParquetTables) -> None:
    with pytest.raises(InvalidInput, match="other"):
        engine.run(parquet, check_statement("SELECT * FROM other", "duckdb", ["other"]))


def test_no_process_and_no_file_is_left_behind(
    sqlite: SqliteTables, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    before = set(psutil.Process().children())
    engine = SandboxedDataEngine(LIMITS)
    run(engine, sqlite, "SELECT * FROM orders")
    with pytest.raises(QueryFailed):
        run(engine, sqlite, "SELECT wrong FROM orders")
    assert len(list(folder.iterdir())) == 1, "the process of the next query waits"
    engine.close()
    assert list(folder.iterdir()) == []
    assert set(psutil.Process().children()) == before


def test_an_interrupt_ends_the_process(sqlite: SqliteTables, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, before = SandboxedDataEngine(LIMITS), set(psutil.Process().children())

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(QueryProcess, "_exchange", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(engine, sqlite, "SELECT * FROM orders")
    assert set(psutil.Process().children()) == before


def test_a_forged_answer_is_refused(sqlite: SqliteTables, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = SandboxedDataEngine(LIMITS)
    end = b'{"end": true, "truncated": false, "seconds": 1}'
    forged_outputs = [
        b'{"columns": [["a", "integer"]]}\n{"rows": [[{"python": "x"}]]}\n' + end,
        b'{"columns": [["a", "wrong"]]}\n' + end,
        b'{"columns": 3}\n' + end,
        b"[]\n[]",
        end,
    ]
    for output in forged_outputs:
        monkeypatch.setattr(QueryProcess, "run", lambda *_, output=output: ChildAnswer(output, 0, False, False))
        with pytest.raises(QueryFailed, match="no valid answer"):
            run(engine, sqlite, "SELECT * FROM orders")
    engine.close()
