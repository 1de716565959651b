"""SQL views, on the command line."""

import sqlite3
from pathlib import Path

from tests.interfaces.conftest import Run


def run_query(path: Path, sql: str, script: str = "") -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        connection.executescript(script)
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def test_views_are_installed_listed_and_removed(run: Run, tmp_path: Path) -> None:
    run("remember", "The kettle is red", "--user", "alice", "--kind", "fact")
    installed = run("views", "install", "s4")
    assert (installed.code, installed.err) == (0, "")
    assert "julep_messages" in installed.out
    assert "everhold views script julep" in installed.out
    store = tmp_path / "everhold.db"
    assert run_query(store, "SELECT fact_type, content FROM memory_facts") == [("user_fact", "The kettle is red")]
    reinstalled = run("views", "install", "julep", "--json").document["views"]
    assert (reinstalled["state"], reinstalled["organization"]) == ("installed", "default")
    presets = {preset["alias"]: preset["state"] for preset in run("views", "list", "--json").document["presets"]}
    assert presets == {**dict.fromkeys(["s0", "s1", "s2", "s3"], "not installed"), "s4": "installed"}
    assert "julep" in run("views", "list").out
    assert "julep (installed)" in run("doctor").out
    assert run("views", "remove", "s4").out == "julep: views removed\n"
    result = run("views", "remove", "s4")
    assert (result.code, result.out) == (1, "")
    assert "preset 'julep' are not installed; `everhold views list` lists the installed ones" in result.err


def test_a_script_gives_views_their_original_names(run: Run, tmp_path: Path) -> None:
    run("remember", "The kettle is red", "--user", "alice", "--id", "m1")
    script = run("views", "script", "agentmem").out
    sql = "SELECT id, content, is_deleted FROM memories"
    assert run_query(tmp_path / "everhold.db", sql, script) == [("m1", "The kettle is red", 0)]
    assert run("views", "script", "agentmem", "--json").document == {"script": script}


def test_wrong_input_is_refused(run: Run, empty_store: None) -> None:
    for arguments, message in (
        (["install", "julpe"], "no preset 'julpe' of views; did you mean 'julep'?"),
        (["install", "s4", "--schema", "x"], "this store's database has no schemas; pass --prefix instead"),
        (["install", "s4", "--prefix", "a b"], "prefix is 'a b'; use up to 40 letters"),
        (["list", "--store", "memory://"], "cannot have SQL views; use SQLite, DuckDB or PostgreSQL"),
        (["install"], "missing argument"),
    ):
        result = run("views", *arguments)
        assert (result.code, result.out) == (2, ""), arguments
        assert message in result.err.lower() or message in result.err
    assert "no organization 'default' in this store, so the views are empty" in run("views", "install", "s4").err
