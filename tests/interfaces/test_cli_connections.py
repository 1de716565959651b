"""Connected databases on the command line."""

import sqlite3
from pathlib import Path

from tests.interfaces.conftest import Run


def test_a_database_is_connected_asked_and_deleted(run: Run, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.sqlite") as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount REAL)")
        database.execute("INSERT INTO orders VALUES (1, 5), (2, 7)")
    result = run("connect", "sales", "sqlite:///shop.sqlite", "--project", "shop")
    assert (result.code, "orders" in result.out) == (0, True)
    [connection] = run("connections", "--project", "shop", "--json").document["connections"]
    assert (connection["name"], connection["address"]) == ("sales", "sqlite:///shop.sqlite")
    assert "dsn" not in connection
    assert "sales" in run("connections", "--project", "shop").out
    assert run("ask", "total amount", "--connection", "sales", "--project", "shop", "--json").document["rows"] == [
        [12.0]
    ]
    assert run("sql", "SELECT count(*) FROM orders", "--project", "shop", "--json").document["rows"] == [[2]]
    database.execute("CREATE TABLE shops (id INTEGER PRIMARY KEY)")
    database.close()
    refreshed = run("refresh-connection", "sales", "--project", "shop")
    assert "+ shops added" in refreshed.out
    assert run("delete-connection", "sales", "--preview", "--project", "shop", "--json").document["preview"] is True
    assert "deleted 1 connections" in run("delete-connection", "sales", "--project", "shop").out
    assert "restored sales" in run("delete-connection", "sales", "--restore", "--project", "shop").out
    assert run("delete-connection", "sales", "--hard", "--project", "shop").code == 0
    assert "no connections" in run("connections", "--project", "shop").out


def test_invalid_connections_are_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("a,b\n1,2\n")
    (tmp_path / "other.db").write_bytes(b"something else")
    with sqlite3.connect(tmp_path / "shop.sqlite") as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    database.close()
    for arguments, message in (
        (("sales",), "a connection has one address"),
        (("sales", "nonsense"), "is not a URL"),
        (("sales", "postgresql://r:hunter2@example.com/shop"), "no secret is stored"),
        (("sales", "postgresql://r@localhost/shop"), "connections to 'localhost' are not allowed"),
        (("sales", "--url-env", "NO_SUCH_VARIABLE"), "is not set"),
        (("sales", "sqlite:///missing.sqlite"), "cannot be read"),
        (("sales", "sqlite:///plain.csv"), "'plain.csv' is a CSV file, not a SQLite database; name a database"),
        (("sales", "duckdb:///plain.csv"), "files such as CSV, JSON and Excel are added with `everhold upload`"),
        (("sales", "duckdb:///shop.sqlite"), "'shop.sqlite' is a SQLite database; its URL is sqlite:///"),
        (("sales", "duckdb:///other.db"), "'other.db' is not a DuckDB database"),
        (("sales", "sqlite:///."), "is not a file"),
        (("sales", "plain.csv"), "is not a URL; write postgresql://user@host/database"),
    ):
        result = run("connect", *arguments, "--project", "shop")
        assert result.code != 0
        assert message in result.err
        assert "hunter2" not in result.err + result.out
