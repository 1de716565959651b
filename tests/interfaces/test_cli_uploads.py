"""Uploaded data on the command line."""

from pathlib import Path

from tests.interfaces.conftest import Run


def write_orders(folder: Path) -> str:
    path = folder / "orders.csv"
    path.write_text("Orders 2024,,\n,,\nid,customer,amount\n1,Anna,2.5\n2,Bert,3.5\n3,Cora,4.5\nTotal,,10.5\n")
    return str(path)


def test_upload_shows_what_was_detected(run: Run, tmp_path: Path) -> None:
    output = run("upload", write_orders(tmp_path), "--project", "shop").out
    for part in ("orders.csv: version 1", "decimal: point", "orders", "'Orders 2024'", "totals"):
        assert part in output
    assert "already there" in run("upload", write_orders(tmp_path), "--project", "shop").out
    [file] = run("upload", write_orders(tmp_path), "--project", "shop", "--json").document["files"]
    assert (file["is_new"], file["tables"][0]["row_count"]) == (False, 3)


def test_tables_are_listed_found_and_described(run: Run, tmp_path: Path) -> None:
    run("upload", write_orders(tmp_path), "--project", "shop")
    assert "orders" in run("tables", "--project", "shop").out
    [hit] = run("tables", "--find", "what did Anna order?", "--project", "shop", "--json").document["tables"]
    assert (hit["table"]["table_name"], hit["values"]) == ("orders", [["customer", "Anna"]])
    run("describe", "orders", "--set", "What was bought", "--project", "shop")
    described = run("describe", "orders", "--project", "shop", "--json").document
    assert described["table"]["description"] == "What was bought"
    assert [field["data_type"] for field in described["fields"]] == ["BIGINT", "VARCHAR", "DOUBLE"]


def test_the_range_of_amounts_is_written_out(run: Run, tmp_path: Path) -> None:
    (tmp_path / "homes.csv").write_text("home_id,year_built,price\n10001,1987,1250000.5\n10002,2004,99500\n")
    run("upload", str(tmp_path / "homes.csv"), "--project", "shop")
    output = run("describe", "homes", "--project", "shop").out.split()
    assert {"99,500", "1,250,000.5", "10001", "10002", "1987", "2004"} <= set(output)


def test_sources_are_deleted_and_restored(run: Run, tmp_path: Path) -> None:
    run("upload", write_orders(tmp_path), "--project", "shop")
    assert "would delete 1 sources" in run("delete-source", "orders.csv", "--preview", "--project", "shop").out
    run("delete-source", "orders.csv", "--project", "shop")
    assert "no files" in run("sources", "--project", "shop").out
    run("delete-source", "orders.csv", "--restore", "--project", "shop")
    assert "orders.csv" in run("sources", "--project", "shop").out


def test_an_unreadable_file_is_explained(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(b"PK\x03\x04 damaged")
    result = run("upload", str(path))
    assert (result.code != 0, "the zip file is damaged" in result.err) == (True, True)


def test_an_export_names_the_files_that_it_leaves_out(run: Run, tmp_path: Path) -> None:
    assert "not in the bundle" not in run("export", str(tmp_path / "empty.jsonl")).out
    run("upload", write_orders(tmp_path), "--project", "shop")
    shown = " ".join(run("export", str(tmp_path / "a.jsonl")).out.split())
    assert "not in the bundle: the data of orders.csv; upload the files again after the import" in shown
    document = run("export", str(tmp_path / "b.jsonl"), "--json").document
    assert document["without_files"] == ["orders.csv"]
