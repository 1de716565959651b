"""Wrong input: one line that says what to do, the right exit code, and nothing is lost."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

from everhold import View
from everhold.interfaces.cli.commands import COMMANDS, LazyCommand, make_root
from tests.interfaces.conftest import Run

REPOSITORY = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "everhold.interfaces.cli"]


def make_environment(tmp_path: Path, **variables: str) -> dict[str, str]:
    defaults = {"PYTHONPATH": str(REPOSITORY / "src"), "XDG_DATA_HOME": str(tmp_path / "data"), "COLUMNS": "80"}
    return {**os.environ, **defaults, **variables}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["remember", "x", "--priority", "11"], "priority 11 is out of range; use a whole number from 1 to 10"),
        (["remember", "x", "--priority", "high"], "--priority"),
        (["remember", "x", "--priority", "3", "--importance", "0.5"], "pass one of them"),
        (["remember", "x", "--importance", "1.5"], "importance"),
        (["remember", "x", "--tag", "t" * 65], "64 characters"),
        (["remember", "x", "--kind", "k" * 51], "kind"),
        (["remember", "x", "--id", "a/b "], "id 'a/b ' is malformed"),
        (["remember", "x", "--metadata", "[1]"], "--metadata '[1]' is not a JSON object"),
        (["remember", "x", "--metadata", "{"], "is not JSON"),
        (["remember", "x", "--at", "soon"], "--at 'soon' is not a time; write it as"),
        (["remember", "x", "--at", "3 days"], "'3 days ago' or 'in 3 days'"),
        (["remember", "x", "--at", "2025-13-01"], "is not a time"),
        (["remember", "x", "--at", "2025-01-01", "--timezone", "Mars/Olympus"], "no time zone 'Mars/Olympus'"),
        (["remember", "x", "--valid-from", "2025-02-01", "--valid-to", "2025-01-01"], "is before valid_from"),
        (["remember", "x" * 1_000_001], "everhold import FILE"),
        (["remember", "lone \udcff surrogate"], "lone surrogate"),
        (["remember", "   "], "nothing to remember"),
        (["remember"], "nothing to remember; give a text"),
        (["recall", ""], "the question is empty"),
        (["recall", "x", "-k", "0"], "k is 0; pass 1 to 1000"),
        (["recall", "x", "--where", "prioritty>3"], "did you mean 'priority'?"),
        (["recall", "x", "--where", "priority"], "write field=value"),
        (["recall", "x", "--where", "priority>=high"], "'high' is not a whole number"),
        (["recall", "x", "--where", "pinned=perhaps"], "'perhaps' is not true or false"),
        (["recall", "x", "--where", "created_at>soon"], "is not a time"),
        (["recall", "x", "--where", "importance>0", "--where", "importance>1"], "give it once"),
        (["recall", "x", "--include", "usr"], "did you mean 'user'?"),
        (["recall", "x", "--recipe", "hybird"], "did you mean 'hybrid'?"),
        (["recall", "x", "--cursor", "nonsense"], "cursor"),
        (["recall", "x", "--as-of", "then"], "--as-of 'then' is not a time"),
        (["list", "--limit", "0"], "limit"),
        (["list", "--user", " a b"], "id ' a b' is malformed"),
        (["revise", "x"], "nothing to change"),
        (["forget"], "either ids, or a filter"),
        (["forget", "a", "--kind", "fact"], "either ids, or a filter"),
        (["shell", "--sample", "extra"], "extra"),
        (["list", "--store", "oracle://x"], "no store for oracle://"),
        (["list", "--store", "absent.yaml"], "absent.yaml cannot be read"),
        (["session", "say", "Hello"], "the scope names no session; name one with --session ID"),
        (["recall", " "], "use `everhold list` to see memories"),
        (["recal", "x"], "recal"),
        (["org"], "everhold org --help"),
        (["recall", "x", "--explian"], "--explian"),
    ],
    ids=lambda value: " ".join(value)[:40].encode("ascii", "replace").decode() if isinstance(value, list) else "",
)
@pytest.mark.usefixtures("empty_store")
def test_wrong_input_is_one_line_and_exit_code_2(run: Run, arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("everhold: ")
    assert result.err.count("\n") == 1
    assert message in result.err
    assert run("list", "--json").document["memories"] == []


@pytest.mark.usefixtures("empty_store")
def test_errors_are_json_when_asked(run: Run) -> None:
    missing = run("get", "nope", "--json")
    assert (missing.code, missing.out) == (1, "")
    assert missing.error["kind"] == "NotFound"
    assert missing.error["retryable"] is False
    assert missing.error["value"] == "nope"
    assert missing.error["remedy"] == "`everhold list` shows what is there"
    assert missing.error["error"] == f"{missing.error['fact']}; {missing.error['remedy']}"
    misused = run("recall", "--json")
    assert (misused.code, misused.error["retryable"]) == (2, False)


def test_a_remedy_can_be_typed_as_it_is_shown(run: Run) -> None:
    run("remember", "kept")
    assert "`everhold list` shows what is there" in run("get", "nope").err
    Path("there.jsonl").touch()
    assert "name another file, or pass --overwrite" in run("export", "there.jsonl").err
    assert "there is no folder" in run("export", "no/such/folder.jsonl").err


@pytest.mark.usefixtures("empty_store")
def test_json_after_two_dashes_is_text(run: Run) -> None:
    result = run("get", "--", "--json")
    assert result.err.startswith("everhold: no memory '--json'")


def test_standard_input_that_is_not_text_is_refused(run: Run) -> None:
    result = run("remember", "-", typed=b"caf\xe9\n")
    assert result.code == 2
    assert "standard input is not UTF-8 at byte 3" in result.err


def test_a_write_to_a_read_only_store_is_refused(run: Run, tmp_path: Path) -> None:
    run("remember", "kept")
    result = run(
        "remember", "more", "--store", f"sqlite:///{tmp_path / 'everhold.db'}?mode=ro".replace("///", "////"), "--json"
    )
    assert (result.code, result.error["kind"]) == (1, "StoreReadOnly")


@pytest.mark.usefixtures("empty_store")
def test_an_unexpected_error_is_one_line_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the sky\nfell")

    monkeypatch.setattr(View, "list", fail)
    result = run("list")
    assert (result.code, result.err) == (1, "everhold: unexpected RuntimeError: the sky fell; --debug shows where\n")
    assert run("list", "--json").error["kind"] == "RuntimeError"
    assert "Traceback" in run("list", "--debug").err


def test_without_arguments_help_is_shown(run: Run) -> None:
    result = run()
    assert result.code == 0
    for name in ("remember", "recall", "forget", "shell", "doctor", "export", "import"):
        assert name in result.out
    assert "--user" in run("recall", "-h").out


def test_every_command_is_listed_with_the_first_paragraph_of_its_own_help() -> None:
    """`--help` imports no command, so it lists copies of their names and help."""
    listed = {command.name: command for command in make_root().commands.values()}
    for command in listed.values():
        assert isinstance(command, LazyCommand)
        loaded_command = command.load()
        assert (command.name, command.help) == (
            loaded_command.name,
            " ".join(loaded_command.help.split("\n\n")[0].split()),
        )
    for module, summaries in COMMANDS.items():
        application = import_module(f"everhold.interfaces.cli.{module}").app
        assert [command.name for command in application.registered_commands] == list(summaries)


def test_bash_completes_commands_and_kinds(tmp_path: Path) -> None:
    def complete(words: str, index: str) -> list[str]:
        variables = make_environment(
            tmp_path, _EVERHOLD_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=index
        )  # fmt: skip
        return subprocess.run(COMMAND, env=variables, capture_output=True, text=True, check=False).stdout.split()

    expected = {"remember", "recall", "relate", "relations", "resolve", "revise", "refresh-connection", "restore"}
    assert expected == set(complete("everhold re", "1"))
    assert complete("everhold remember --kind pref", "3") == ["preference"]


def test_an_interrupt_ends_with_130_and_does_nothing(run: Run, tmp_path: Path) -> None:
    run("remember", "Has a dog", "--id", "dog")
    # A test run in the background ignores SIGINT, and so do its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [*COMMAND, "forget", "dog"], env=make_environment(tmp_path), cwd=tmp_path,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr
    while process.stderr.read(1) != "?":  # the command has asked
        assert process.poll() is None
    deadline = time.monotonic() + 200
    while process.poll() is None and time.monotonic() < deadline:
        process.send_signal(signal.SIGINT)  # a signal may come a moment before the command waits for the answer
        with suppress(subprocess.TimeoutExpired):  # another signal would interrupt the command while it ends
            process.wait(timeout=30)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert run("get", "dog").code == 0


def test_a_reader_that_closes_the_pipe_early_causes_no_error(tmp_path: Path) -> None:
    line = f"{' '.join(COMMAND)} recall --help | head -1; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(
        ["bash", "-c", line], env=make_environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in result.stderr
