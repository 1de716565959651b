"""Data files as people have them: encodings, separators, titles, totals, dates, decimals, read as a person would."""

import gzip
import json
import sqlite3
import zipfile
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from everhold import UnreadableFile
from everhold.adapters.data_files import ChildReader
from everhold.ports.data_files import ColumnStatistics, FileContent, ReadLimits, TableFile
from everhold.ports.table_content import DeclaredKey
from everhold.progress import ignore_progress


def read_file(path: Path, limits: ReadLimits | None = None) -> FileContent:
    folder = path.parent / f"{path.name}.tables"
    return ChildReader(limits).read(path, path.name, folder, ignore_progress)


def read_bytes(folder: Path, name: str, content: bytes | str) -> FileContent:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_file(path)


def read_rows(table: TableFile) -> list[tuple[Any, ...]]:
    return duckdb.connect().execute(f"SELECT * FROM read_parquet('{table.path}')").fetchall()


def get_only_table(content: FileContent) -> TableFile:
    [table] = content.tables
    return table


def get_column(table: TableFile, name: str) -> ColumnStatistics:
    return next(column for column in table.columns if column.name == name)


def get_types(table: TableFile) -> dict[str, str]:
    return {column.name: column.data_type for column in table.columns}


# text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_every_encoding_and_separator_is_detected(tmp_path: Path, encoding: str, separator: str) -> None:
    lines = [["id", "city", "größe"], ["1", "Zürich", "3"], ["2", "Besançon", "4"], ["3", "Málaga", "5"]]
    text = "\r\n".join(separator.join(line) for line in lines) + "\r\n"
    content = read_bytes(tmp_path, "cities.csv", text.encode(encoding))
    table = get_only_table(content)
    assert read_rows(table) == [(1, "Zürich", 3), (2, "Besançon", 4), (3, "Málaga", 5)]
    assert [column_info.name for column_info in table.columns] == ["id", "city", "größe"]
    separator_names = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
    assert content.details["separator"] == separator_names[separator]
    expected = {"utf-8-sig": "UTF-8", "latin-1": "CP1252"}.get(encoding, encoding.upper())
    assert content.details["encoding"] == expected


def test_types_of_columns_are_detected(tmp_path: Path) -> None:
    text = (
        "id,name,share,born,seen,active,zip\n"
        "1,Anna,0.5,1990-02-03,2024-01-01 10:30:00,true,01234\n"
        "2,Bert,1.25,1991-12-31,2024-01-02 23:59:59,false,56789\n"
    )
    table = get_only_table(read_bytes(tmp_path, "people.csv", text))
    assert get_types(table) == {
        "id": "BIGINT", "name": "VARCHAR", "share": "DOUBLE", "born": "DATE", "seen": "TIMESTAMP",
        "active": "BOOLEAN", "zip": "VARCHAR",
    }  # fmt: skip
    assert read_rows(table)[0] == (
        1,
        "Anna",
        0.5,
        date(1990, 2, 3),
        datetime.fromisoformat("2024-01-01T10:30"),
        True,
        "01234",
    )


def test_titles_and_totals_of_a_report_are_no_rows(tmp_path: Path) -> None:
    text = (
        "Umsatzbericht 2023;;;\nStand: 31.12.2023;;;\n;;;\nKunde;Datum;Betrag;Anteil\n"
        "Müller;31.01.2023;1.234,56 €;12,5 %\nSchäfer;15.02.2023;99,00 €;3,0 %\nWeiß;01.03.2023;(12,00) €;n/a\n"
        "Summe;;1.321,56 €;\n"
    )
    content = read_bytes(tmp_path, "umsatz.csv", text.encode("cp1252"))
    table = get_only_table(content)
    assert read_rows(table) == [
        ("Müller", date(2023, 1, 31), 1234.56, 12.5),
        ("Schäfer", date(2023, 2, 15), 99.0, 3.0),
        ("Weiß", date(2023, 3, 1), -12.0, None),
    ]
    assert (get_column(table, "Betrag").unit, get_column(table, "Anteil").unit) == ("EUR", "%")
    assert (content.details["decimal"], content.details["dates"]) == ("comma", "day.month.year")
    assert [note for note in table.notes if "above the header" in note]
    assert [note for note in table.notes if "totals" in note]


@pytest.mark.parametrize(
    ("texts", "values", "decimal"),
    [
        (["1,234.50", "2,000,000.00", "7"], [1234.5, 2_000_000.0, 7.0], "point"),
        (["1.234,50", "2.000.000,00", "7"], [1234.5, 2_000_000.0, 7.0], "comma"),
        (["1 234,50", "2 000 000,00", "7"], [1234.5, 2_000_000.0, 7.0], "comma"),
        (["1'234.50", "2'000'000.00", "7"], [1234.5, 2_000_000.0, 7.0], "point"),
        (["$1,234.50", "$5.00", "$3.25"], [1234.5, 5.0, 3.25], "point"),
        (["12,5", "0,25", "-3,0"], [12.5, 0.25, -3.0], "comma"),
    ],
)
def test_numbers_are_read_in_every_notation(
    tmp_path: Path, texts: list[str], values: list[float], decimal: str
) -> None:
    lines = [f"item {number};{text}" for number, text in enumerate(texts)]
    content = read_bytes(tmp_path, "numbers.csv", "\n".join(["what;amount", *lines]) + "\n")
    assert [row[1] for row in read_rows(get_only_table(content))] == values
    assert content.details["decimal"] == decimal


def test_thousands_follow_the_decimal_mark_of_other_columns(tmp_path: Path) -> None:
    text = "a;b\n1.234;0,5\n5.678;1,5\n"
    assert read_rows(get_only_table(read_bytes(tmp_path, "numbers.csv", text))) == [(1234.0, 0.5), (5678.0, 1.5)]


@pytest.mark.parametrize(
    ("texts", "first"),
    [
        (["31/12/2023", "01/02/2023"], date(2023, 12, 31)),
        (["12/31/2023", "01/02/2023"], date(2023, 12, 31)),
        (["31.12.2023", "01.02.2023"], date(2023, 12, 31)),
        (["2023/12/31", "2023/02/01"], date(2023, 12, 31)),
        (["31-Dec-2023", "01-Feb-2023"], date(2023, 12, 31)),
        (["December 31, 2023", "February 1, 2023"], date(2023, 12, 31)),
        (["31 December 2023", "1 February 2023"], date(2023, 12, 31)),
        (["31.12.23", "01.02.23"], date(2023, 12, 31)),
    ],
)
def test_dates_are_read_in_every_notation(tmp_path: Path, texts: list[str], first: date) -> None:
    text = "id;day\n" + "".join(f"{number};{day}\n" for number, day in enumerate(texts))
    table = get_only_table(read_bytes(tmp_path, "days.csv", text))
    assert read_rows(table)[0][1] == first
    assert not table.notes


def test_an_ambiguous_date_is_reported(tmp_path: Path) -> None:
    table = get_only_table(read_bytes(tmp_path, "days.csv", "id,day\n1,01/02/2023\n2,03/04/2023\n"))
    assert read_rows(table)[0][1] == date(2023, 1, 2)
    assert "no value shows which part is the month" in table.notes[0]


def test_a_header_of_two_rows_is_joined(tmp_path: Path) -> None:
    text = "Region,2022,,2023,\n,Units,Revenue,Units,Revenue\nNorth,1,2.5,3,4.5\nSouth,5,6.5,7,8.5\nEast,5,6.5,7,8.5\n"
    content = read_bytes(tmp_path, "sales.csv", text)
    names = [column_info.name for column_info in get_only_table(content).columns]
    assert names == ["Region", "2022 Units", "2022 Revenue", "2023 Units", "2023 Revenue"]
    assert (content.details["header"], len(read_rows(get_only_table(content)))) == ("two rows", 3)


def test_a_file_without_a_header_is_noted(tmp_path: Path) -> None:
    content = read_bytes(tmp_path, "plain.csv", "1,Anna,2023-01-01\n2,Bert,2023-02-01\n")
    assert read_rows(get_only_table(content)) == [(1, "Anna", date(2023, 1, 1)), (2, "Bert", date(2023, 2, 1))]
    assert content.details["header"] == "none"
    assert "no header" in get_only_table(content).notes[0]


def test_missing_and_repeated_column_names_are_replaced(tmp_path: Path) -> None:
    table = get_only_table(read_bytes(tmp_path, "names.csv", "id,name,,NAME\n1,a,x,b\n2,c,y,d\n"))
    assert [column_info.name for column_info in table.columns] == ["id", "name", "column_3", "NAME_2"]
    assert len(table.notes) == 2


def test_a_stray_value_becomes_empty_and_is_reported(tmp_path: Path) -> None:
    lines = [f"{number},{'oops' if number == 30_000 else number * 1.5}" for number in range(40_000)]
    table = get_only_table(read_bytes(tmp_path, "amounts.csv", "\n".join(["id,amount", *lines])))
    assert get_types(table)["amount"] == "DOUBLE"
    assert get_column(table, "amount").null_count == 1
    assert "1 value of 'amount' became empty" in table.notes[0]
    assert "oops" in table.notes[0]


def test_a_column_of_mixed_values_is_text(tmp_path: Path) -> None:
    lines = [f"{number},{number if number < 30_000 else 'text'}" for number in range(40_000)]
    table = get_only_table(read_bytes(tmp_path, "mixed.csv", "\n".join(["id,code", *lines])))
    assert get_types(table)["code"] == "VARCHAR"
    assert read_rows(table)[0] == (0, "0")


def test_a_mixed_value_after_the_sample_is_found(tmp_path: Path) -> None:
    lines = [
        f"{number},{'x' if 20_000 < number < 60_000 else 7},some words that make the file long"
        for number in range(90_000)
    ]
    table = get_only_table(read_bytes(tmp_path, "late.csv", "\n".join(["id,code,words", *lines])))
    assert get_types(table)["code"] == "VARCHAR"
    assert "holds BIGINT and other values" in table.notes[0]
    assert get_column(table, "code").distinct_count == 2


def test_rows_of_uneven_length_are_padded_or_reported(tmp_path: Path) -> None:
    table = get_only_table(read_bytes(tmp_path, "uneven.csv", "a,b,c\n1,2,3\n4,5\n6,7,8,9\n10,11,12\n"))
    assert (1, 2, 3) in read_rows(table)
    assert (4, 5, None) in read_rows(table)
    assert "more or fewer values" in table.notes[-1]


def test_line_breaks_and_quotes_inside_cells_are_kept(tmp_path: Path) -> None:
    text = 'id,note\n1,"two\nlines"\n2,"a ""quoted"", word"\n'
    assert read_rows(get_only_table(read_bytes(tmp_path, "notes.csv", text))) == [
        (1, "two\nlines"),
        (2, 'a "quoted", word'),
    ]


def test_nul_bytes_are_removed_and_reported(tmp_path: Path) -> None:
    content = read_bytes(tmp_path, "nul.csv", b"id,name\n1,a\x00b\n2,cd\n")
    assert read_rows(get_only_table(content)) == [(1, "ab"), (2, "cd")]
    assert content.notes == ("1 NUL bytes were removed",)


def test_statistics_of_columns_are_computed(tmp_path: Path) -> None:
    lines = [f"{n},{n % 4},{'red' if n % 3 else 'blue'},{n / 2 if n % 5 else ''}" for n in range(1, 1001)]
    table = get_only_table(read_bytes(tmp_path, "numbers.csv", "\n".join(["id,group,color,half", *lines])))
    assert (table.row_count, get_column(table, "id").distinct_count) == (1000, 1000)
    color, half = get_column(table, "color"), get_column(table, "half")
    assert color.top_values == (("red", 667), ("blue", 333))
    assert (half.null_count, half.minimum, half.maximum) == (200, 0.5, 499.5)
    assert half.quantiles[2] == pytest.approx(250, rel=0.05)


# other formats


def test_each_sheet_of_a_workbook_is_a_table(tmp_path: Path) -> None:
    import openpyxl  # slow to import

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Sales"
    sheet["A1"] = "Report 2023"
    sheet.merge_cells("A1:D1")
    sheet.append([])
    sheet.append(["Region", "Product", "Day", "Amount"])
    for number in range(6):
        region = {0: "North", 3: "South"}.get(number)
        sheet.append([region, f"P{number}", date(2023, 1, 1 + number), 10.5 * number])
    sheet.merge_cells("A4:A6")
    sheet.merge_cells("A7:A9")
    sheet.append(["Total", None, None, 157.5])
    second_sheet = book.create_sheet("Sheet2")
    for row in (
        ["key", "ok", "seen", "sum"],
        [1, True, datetime.fromisoformat("2023-05-06T07:08"), "=1+1"],
        [2, False, None, None],
    ):
        second_sheet.append(row)
    book.create_sheet("Empty")
    book.save(tmp_path / "book.xlsx")
    content = read_file(tmp_path / "book.xlsx")
    sales, second = content.tables
    assert (sales.name, second.name) == ("Sales", "book_Sheet2")
    assert [row[0] for row in read_rows(sales)] == ["North"] * 3 + ["South"] * 3
    assert read_rows(sales)[1][1:] == ("P1", date(2023, 1, 2), 10.5)
    assert read_rows(second)[0][:3] == (1, True, datetime.fromisoformat("2023-05-06T07:08"))
    assert content.details["sheets"] == "Sales, Sheet2"
    assert any("merged areas" in note for note in sales.notes)


def test_json_objects_become_columns(tmp_path: Path) -> None:
    rows = [{"id": n, "who": {"name": f"N{n}", "tags": ["x", "y"]}, "at": f"2023-01-0{n}T10:00:00Z"} for n in (1, 2)]
    table = get_only_table(read_bytes(tmp_path, "rows.json", json.dumps(rows)))
    assert read_rows(table)[0] == (1, "N1", '["x","y"]', datetime.fromisoformat("2023-01-01T10:00"))
    assert [column_info.name for column_info in table.columns] == ["id", "who_name", "who_tags", "at"]


def test_lists_in_a_json_object_become_tables(tmp_path: Path) -> None:
    document = {"orders": [{"id": 1, "customer_id": 7}], "customers": [{"id": 7, "name": "Zed"}], "made": "today"}
    for indent in (None, 2):
        content = read_bytes(tmp_path, f"shop{indent}.json", json.dumps(document, indent=indent))
        assert [table.name for table in content.tables] == ["orders", "customers"]


def test_json_lines_become_rows(tmp_path: Path) -> None:
    content = read_bytes(tmp_path, "rows.jsonl", '{"a":1,"b":"x"}\n{"a":2,"c":3.5}\n')
    assert read_rows(get_only_table(content)) == [(1, "x", None), (2, None, 3.5)]
    assert content.details["format"] == "JSONL"


def test_a_parquet_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    duckdb.connect().execute(f"COPY (SELECT 1 AS a, {{'b': 2}} AS s, 3::HUGEINT AS h) TO '{path}' (FORMAT parquet)")
    assert read_rows(get_only_table(read_file(path))) == [(1, 2, 3.0)]


def test_tables_and_keys_of_a_sqlite_file_are_read(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.executescript(
            "CREATE TABLE customers(id INTEGER PRIMARY KEY, name TEXT);"
            'CREATE TABLE "order lines"(id INTEGER PRIMARY KEY, customer REFERENCES Customers, price REAL, any);'
            "INSERT INTO customers VALUES (1, 'Anna'), (2, NULL);"
            "INSERT INTO \"order lines\" VALUES (1, 2, 2.5, 'x'), (2, 1, 3, 4);"
        )
    connection.close()
    customers, lines = read_file(tmp_path / "shop.db").tables
    assert read_rows(customers) == [(1, "Anna"), (2, None)]
    assert read_rows(lines) == [(1, 2, 2.5, "x"), (2, 1, 3.0, "4")]
    assert (lines.name, lines.primary_key) == ("order_lines", ("id",))
    assert lines.foreign_keys == (DeclaredKey("customer", "customers", "id"),)


def test_files_in_gzip_and_zip_archives_are_read(tmp_path: Path) -> None:
    gzip_content = read_bytes(tmp_path, "a.csv.gz", gzip.compress(b"x,y\n1,2\n"))
    assert (get_only_table(gzip_content).name, read_rows(get_only_table(gzip_content))) == ("a", [(1, 2)])
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("../../up.csv", "p,q\n1,2\n")
        archive.writestr("sub/b.json", '[{"r":3}]')
        archive.writestr("README.txt", "hello")
        archive.writestr("__MACOSX/._b.json", "\x00\x01")
    content = read_file(tmp_path / "b.zip")
    assert [(table.name, read_rows(table)) for table in content.tables] == [("up", [(1, 2)]), ("b", [(3,)])]
    assert "'README.txt' was left out" in content.notes[0]
    assert not (tmp_path.parent / "up.csv").exists()


# limits


def test_a_file_that_takes_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1,2\n" * 2_000_000)
    with pytest.raises(UnreadableFile, match=r"takes longer than 0\.2 s"):
        read_file(path, ReadLimits(seconds=0.2))


def test_a_file_that_takes_too_much_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({f"k{n}": [{"v": "x" * 100}] * 50 for n in range(3_000)}))
    with pytest.raises(UnreadableFile, match="memory"):
        read_file(path, ReadLimits(memory_megabytes=8))


@pytest.mark.parametrize(
    ("name", "content", "fact"),
    [
        ("a.csv", b"", "the file is empty"),
        ("a.csv", b"\n\n\n", "holds no table"),
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), "an old Excel or Word file"),
        ("a.pdf", b"%PDF-1.7", "a PDF"),
        ("a.json", b"[" * 100, "nested deeper"),
        ("a.parquet", b"PAR1" + bytes(50) + b"PAR1", "cannot be read"),
        ("a.zip", b"PK\x03\x04" + bytes(50), "damaged"),
        ("a.csv", b"a" * 9_000_000, "a line has more than 8 MB"),
    ],
)
def test_refusals_say_what_is_wrong(tmp_path: Path, name: str, content: bytes, fact: str) -> None:
    with pytest.raises(UnreadableFile, match=fact) as caught:
        read_bytes(tmp_path, name, content)
    assert str(caught.value.remedy)


def test_the_child_reads_no_other_file(tmp_path: Path) -> None:
    """A path written inside a data file is not followed: DuckDB may read only the upload and DuckDB's own folder."""
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    from everhold.adapters.data_files.database import connect

    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "own.csv").write_text("a,b\n1,2\n")
    connection = connect(folder, folder / "own.csv", 256)
    assert connection.execute(f"SELECT count(*) FROM read_csv('{folder}/own.csv')").fetchall() == [(1,)]
    with pytest.raises(duckdb.Error, match="disabled"):
        connection.execute(f"SELECT * FROM read_csv('{secret}')")
    with pytest.raises(duckdb.Error, match="locked"):
        connection.execute("SET enable_external_access = true")
