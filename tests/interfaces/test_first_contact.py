"""Mistakes of someone who uses Everhold for the first time: each is answered with the fact and the remedy.

docs/troubleshooting.md lists the same messages.
"""

import shlex
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from everhold import Everhold, embedders
from everhold.adapters.sqlite.discarding import delete_empty_file
from everhold.interfaces.cli.shell import TAKEN_AS_QUESTION
from everhold.schema.changes import CURRENT
from tests.interfaces.conftest import Run
from tests.interfaces.terminals import run_in_terminal
from tests.interfaces.test_cli_edge import REPOSITORY
from tests.unit.test_sqlite_read_only import read_only

PAGE = REPOSITORY / "docs/troubleshooting.md"

Prepare = Callable[[pytest.MonkeyPatch, Run], object]


@dataclass(frozen=True)
class Mistake:
    """A command that is typed in a folder with a store, without the word `everhold`, and its answer."""

    name: str
    typed: str
    code: int
    printed: str
    prepare: Prepare = lambda *_: None


def set_variable(name: str, value: str) -> Prepare:
    return lambda patch, _: patch.setenv(name, value)


def write_file(name: str, content: str) -> Prepare:
    return lambda *_: Path(name).write_bytes(content.encode("latin-1"))


def write_truncated_export(_: pytest.MonkeyPatch, run: Run) -> None:
    run("export", "whole.jsonl")
    lines = Path("whole.jsonl").read_text("utf-8").splitlines(keepends=True)
    Path("half.jsonl").write_text("".join(lines[: len(lines) // 2]), "utf-8")


def add_later_schema_version(*_: object) -> None:
    with closing(sqlite3.connect("everhold.db")) as connection, connection:
        connection.execute(
            "INSERT INTO schema_versions (version, name, applied_at) VALUES (?, 'later', 0)", (CURRENT + 1,)
        )


def remove_driver(patch: pytest.MonkeyPatch, _: Run) -> None:
    for name in [name for name in sys.modules if name.startswith("everhold.adapters.duckdb")]:
        patch.delitem(sys.modules, name)
    patch.setitem(sys.modules, "duckdb", None)


def remove_model(patch: pytest.MonkeyPatch, _: Run) -> None:
    Path("models").mkdir()
    patch.setenv("EVERHOLD_EMBEDDING__PATH", "models")
    patch.setattr(embedders, "make_embedder", lambda chosen: embedders.make_named_embedder(chosen, chosen.embedding))


MISTAKES = [
    Mistake("misspelt command", "recal dog", 2, "no command 'recal'; did you mean 'recall'?"),
    Mistake("word of another tool", "search dog", 2, "no command 'search'; did you mean 'recall'?"),
    Mistake(
        "option before the command",
        "--user mia list",
        2,
        "no option --user before the command; write it after the command: `everhold COMMAND … --user …`",
    ),
    Mistake(
        "question without a command",
        "'Where is my dog?'",
        2,
        "`everhold recall QUESTION` asks and `everhold remember TEXT` stores",
    ),
    Mistake(
        "question without quotes",
        "recall where is my dog",
        2,
        "too many arguments: 'is my dog'; put a text of several words in quotes",
    ),
    Mistake("misspelt option", "recall dog --usr mia", 2, "no option --usr; did you mean --user?"),
    Mistake("log option after the command", "recall dog -v", 2, "write it before the command: `everhold -v COMMAND …`"),
    Mistake("option of another tool", "remember dog --ttl 7d", 2, "no option --ttl; did you mean --expires?"),
    Mistake("word for a number", "recall dog -k many", 2, "-k 'many' is not a whole number"),
    Mistake("score above 1", "recall dog --minimum 2", 2, "minimum is 2.0; pass a score from 0 to 1"),
    Mistake("empty text", "remember ''", 2, "there is nothing to remember"),
    Mistake("empty question", "recall ''", 2, "the question is empty; ask something, or use `everhold list`"),
    Mistake("unknown id", "get mem_nope", 1, "no memory 'mem_nope' in scope organization=default"),
    Mistake("wrong user", "list --user mai", 0, "no memories in scope organization=default user=mai"),
    Mistake("wrong time", "remember dog --expires soon", 2, "--expires 'soon' is not a time; write it as"),
    Mistake("misspelt kind", "list --kind fcat", 0, "did you mean --kind fact?"),
    Mistake("misspelt field", "list --where 'prio>3'", 2, "memories have no field 'prio' to filter by"),
    Mistake(
        "wrong folder",
        "list --store elsewhere/everhold.db",
        2,
        "`everhold remember TEXT` creates it; --store PATH names another",
    ),
    Mistake(
        "misspelt variable",
        "list",
        2,
        "no setting for environment variable EVERHOLD_STORGE; did you mean EVERHOLD_STORAGE?",
        set_variable("EVERHOLD_STORGE", "x.db"),
    ),
    Mistake(
        "wrong value of a variable",
        "list",
        2,
        "EVERHOLD_TIMEZONE: no time zone 'Mars'",
        set_variable("EVERHOLD_TIMEZONE", "Mars"),
    ),
    Mistake(
        "unknown setting in YAML",
        "list --store my.yaml",
        2,
        "my.yaml: no setting 'storge'; did you mean 'storage'?",
        write_file("my.yaml", "storge: everhold.db\n"),
    ),
    Mistake("settings file that is absent", "list --store absent.yaml", 2, "absent.yaml cannot be read"),
    Mistake(
        "not a database",
        "list --store note.txt",
        1,
        "note.txt is not a database; choose another file",
        write_file("note.txt", "My dog is called Rex. " * 10),
    ),
    Mistake("folder for a store", "list --store .", 1, ". is a folder; name a file in it: everhold.db"),
    Mistake("unknown kind of store", "list --store mysql://host/db", 2, "no store for mysql://"),
    Mistake("absent file to import", "import absent.txt", 2, "path 'absent.txt' does not exist"),
    Mistake("folder to import", "import .", 2, ". is not the export of a known system; import a bundle"),
    Mistake(
        "file that is not text",
        "import photo.jpg",
        2,
        "photo.jpg is neither a bundle nor a file of a known kind",
        write_file("photo.jpg", "\xff\xd8\xff"),
    ),
    Mistake(
        "text named .jsonl",
        "import note.jsonl",
        2,
        "line 1 of note.jsonl is not JSON",
        write_file("note.jsonl", "My dog is called Rex.\n"),
    ),
    Mistake("bundle that is cut off", "import half.jsonl", 2, "the bundle was cut short", write_truncated_export),
    Mistake("store of a later version", "list", 1, "the latest known here; upgrade Everhold", add_later_schema_version),
    Mistake(
        "missing extra", "remember dog --store duckdb:///x.duckdb", 1, "pip install 'everhold[duckdb]'", remove_driver
    ),
    Mistake("missing model", "recall dog", 1, "in the folder models (EVERHOLD_EMBEDDING__PATH)", remove_model),
    Mistake("question without an answer", "forget dog", 2, "nothing was done; pass --yes"),
]

# Messages by command.
UNWRITABLE = {
    "remember dog": "everhold.db or its folder is read-only; change their permissions to write",
    "remember dog --store new.db": "new.db cannot be opened (Permission denied)",
    "export out.jsonl": "out.jsonl cannot be written (Permission denied)",
}
UNREADABLE = {"import note.txt --store memory://": "'note.txt' cannot be opened: Permission denied"}
LOCKED = "everhold.db was locked by other writers"


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_answered_with_the_fact_and_the_remedy(
    run: Run, monkeypatch: pytest.MonkeyPatch, mistake: Mistake
) -> None:
    run("remember", "My dog is called Rex", "--id", "dog")
    mistake.prepare(monkeypatch, run)
    result = run(*shlex.split(mistake.typed))
    assert result.code == mistake.code, result
    assert mistake.printed in result.out + result.err
    assert "Traceback" not in result.err


def test_the_error_about_a_file_without_permission_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory() as parent:
        folder = Path(parent, "folder")
        folder.mkdir()
        Path(parent).chmod(0o777)
        monkeypatch.chdir(folder)
        run("remember", "My dog is called Rex")
        Path("note.txt").write_text("I live in Rome", "utf-8")
        with read_only(folder / "everhold.db"):
            assert "Rex" in run("list").out
            for typed, printed in UNWRITABLE.items():
                result = run(*shlex.split(typed))
                assert (result.code, printed in result.err) == (1, True), result
        with read_only(folder / "everhold.db", 0o000):
            for typed, printed in UNREADABLE.items():
                result = run(*shlex.split(typed))
                assert (result.code, printed in result.err) == (1, True), result


def test_a_store_that_another_process_locks_is_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERHOLD_SQLITE__BUSY_SECONDS", "0")
    run("remember", "My dog is called Rex")
    with closing(sqlite3.connect("everhold.db")) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        result = run("remember", "I live in Rome")
    assert (result.code, LOCKED in result.err) == (1, True)


def test_mistyped_commands_in_a_terminal_are_answered(tmp_path: Path) -> None:
    misspelt = run_in_terminal(tmp_path, ["recal", "dog"])
    assert (misspelt.code, "no command 'recal'; did you mean 'recall'?" in misspelt.out) == (2, True)
    elsewhere = run_in_terminal(tmp_path, ["list"])
    assert (elsewhere.code, "`everhold remember TEXT` creates it" in elsewhere.out) == (2, True)
    assert not (tmp_path / "everhold.db").exists()


@pytest.mark.parametrize("message", [*UNWRITABLE.values(), *UNREADABLE.values(), LOCKED, TAKEN_AS_QUESTION])
def test_the_page_lists_the_other_messages(message: str) -> None:
    assert message in PAGE.read_text("utf-8")


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_the_page_lists_the_message(mistake: Mistake) -> None:
    assert mistake.printed in PAGE.read_text("utf-8")


def test_refused_input_creates_no_store(run: Run, tmp_path: Path) -> None:
    lines = [
        "upload no.csv",
        "connect x nowhere",
        "remember ''",
        "tool create no.json",
        "agent import no",
        "org create ''",
    ]
    for line in [*lines, "remember '' --store duckdb:///new/x.duckdb"]:
        result = run(*shlex.split(line))
        assert result.code != 0, line
        assert result.err.startswith("everhold:"), line
        assert list(tmp_path.iterdir()) == [], line
    path = tmp_path / "everhold.db"
    Everhold.open(path).close()
    with closing(sqlite3.connect(path)) as connection:  # another program that has the store open
        connection.execute("SELECT * FROM memories").fetchall()
        assert not delete_empty_file(path, ["memories"])
    run("remember", "My dog is called Rex")
    assert not delete_empty_file(path, ["memories"])
    assert len(run("list", "--json").document["memories"]) == 1
