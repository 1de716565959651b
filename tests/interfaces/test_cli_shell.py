"""The shell: driven through a pipe, and once on a terminal."""

from pathlib import Path

import pytest

from everhold.interfaces.cli import sample, shell
from tests.interfaces.conftest import Run
from tests.interfaces.terminals import CTRL_C, CTRL_D, PROMPT_ENDS, Terminal, run_in_terminal


def test_lines_are_remembered_recalled_and_forgotten(run: Run) -> None:
    document = run("shell", "--json", "--user", "mia", typed="My dog is called Rex\n?name of the dog\n/list\n").document
    stored, recalled, listed = document["answers"]
    memory = stored["answer"]["memories"][0]
    assert recalled["answer"]["hits"][0]["memory"]["id"] == memory["id"]
    assert [memory["id"] for memory in listed["answer"]["memories"]] == [memory["id"]]
    lines = f"/forget {memory['id']}\n?dog\n/undo\n?dog\n/help\n/quit\nnever kept\n"
    later_answers = run("shell", "--json", "--user", "mia", typed=lines).document["answers"]
    assert later_answers[0]["answer"]["memory"]["id"] == memory["id"]
    assert later_answers[1]["answer"]["hits"] == []
    assert later_answers[3]["answer"]["hits"][0]["memory"]["id"] == memory["id"]
    assert "/quit" in later_answers[4]["answer"]["commands"]
    assert len(later_answers) == 5


def test_the_explanation_is_shown_below_each_hit(run: Run) -> None:
    result = run("shell", typed="The service launches in May\n?when do services launch\n")
    assert result.code == 0
    assert "remembered" in result.out
    why = " ".join(result.out.partition("meaning")[2].split())
    assert "words ▇" in why
    assert "answer" in why
    assert "shares service, launches" in why  # the words as they were written, not their stems


def test_errors_do_not_end_the_shell(run: Run) -> None:
    result = run("shell", typed="/lst\n/forget\n/forget nope\n?\n/undo\nStill here\n")
    assert result.code == 1
    lines = result.err.splitlines()
    assert lines[0] == "no command /lst; did you mean '/list'?"
    assert "/forget needs the number or the id" in lines[1]
    assert "no memory 'nope'" in lines[2]
    assert "the question is empty" in lines[3]
    assert "nothing to undo" in lines[4]
    assert "Still here" in result.out
    assert len(run("list", "--json").document["memories"]) == 1


def test_commands_and_questions_without_a_slash_or_question_mark_are_not_stored(run: Run) -> None:
    lines = "My dog is called Rex\nhelp\nwhat is my dog called\nDo I have a dog\nIs the dog young?\nexit\nnever kept\n"
    result = run("shell", typed=lines)
    assert result.code == 0
    assert result.out.count("read as a question, so nothing was stored; /remember TEXT stores it") == 3
    result = run("shell", typed="why\nBye!\nnever kept\n")
    assert "a single word is not stored: 'why'; ?why recalls it, /remember why stores it, and" in result.err
    assert len(run("list", "--json").document["memories"]) == 1
    run("shell", typed="/remember what is love\nWhen I was young I lived in Rome\nquit\n")
    assert len(run("list", "--json").document["memories"]) == 3


def test_undo_takes_back_a_sentence(run: Run) -> None:
    result = run("shell", typed="I live in Rome\nMy dog is called Rex\n/undo\nI live in Oslo\n/undo\n")
    assert result.code == 0
    assert "taken back: My dog is called Rex" in result.out
    assert [memory["text"] for memory in run("list", "--json").document["memories"]] == ["I live in Rome"]


def test_a_memory_is_named_by_its_number_in_the_last_table(run: Run) -> None:
    result = run("shell", typed="My dog is called Rex\nI live in Rome\n/list\n/forget 2\n?where do I live\n/forget 1\n")
    assert (result.code, result.err) == (0, "")
    assert "\n2  My dog is called Rex" in result.out
    assert result.out.index("forgotten: My dog is called Rex") < result.out.index("forgotten: I live in Rome")
    lines = ["/list", "/get 2", "/revise 1 'I live in Oslo'", "/history 1", "/tag 2 x", "/relate 1 2", "/relations 1"]
    lines += ["/why-not 1 'where do I live'", "/undo 1", "/supersede 1 'I live in Bern'", "/recall dog", "/get 1"]
    lines += ["/list --kind fact", "/list", "/forget 1 2 --yes", "/undo", "/list"]
    result = run("shell", typed="My dog is called Rex\nI live in Rome\n" + "\n".join(lines))
    assert (result.code, result.err) == (0, "")
    assert result.out.count("My dog is called Rex") >= 6
    result = run("shell", "--json", typed="/list\n/revise 3 Rex\nA cat\n/undo\n/undo\n/list")
    assert [memory["text"] for memory in result.document["answers"][-1]["answer"]["memories"]] == [
        "I live in Bern",
        "I live in Rome",
        "My dog is called Rex",
    ]
    assert "no memory '7'" in run("shell", typed="/list\n/forget 7\n").err
    assert "memory_id has 5,000 characters" in run("shell", typed=f"/list\n/forget {'1' * 5000}\n").err


def test_the_sample_answers_its_questions_and_fits_the_screen(run: Run, tmp_path: Path) -> None:
    result = run("shell", "--sample")
    assert result.code == 0
    lines = result.out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    for question, answer in zip(
        sample.QUESTIONS, ("Lisbon", "peanuts", "thunder", "passport", "jazz records"), strict=True
    ):
        index = lines.index(f"?{question}")
        assert answer in lines[index + 1]
        assert "meaning" in lines[index + 2]
    assert lines[-2] == f"What the move cost: /ask {sample.DATA_QUESTION}"
    assert "a sentence, ?question or /help" in lines[-1]
    assert (tmp_path / "data/everhold/sample.db").is_file()


def test_the_sample_is_loaded_only_once(run: Run) -> None:
    lines = sample.read_conversation()
    assert 25 <= len(lines) <= 30
    for _ in range(2):
        answers = run("shell", "--sample", "--json", "--store", "mine.db").document["answers"]
        assert [answer["question"] for answer in answers] == list(sample.QUESTIONS)
    memories = run("list", "--store", "mine.db", "--user", sample.USER, "--json").document["memories"]
    assert len(memories) == len(lines)


def test_the_sample_has_a_table_to_ask(tmp_path: Path) -> None:
    def converse(terminal: Terminal) -> None:
        assert sample.DATA_QUESTION in terminal.read_until("›")
        answer = terminal.type(f"/ask {sample.DATA_QUESTION}", "SELECT")
        assert "11,937.70 EUR" in answer
        assert "█" in answer
        terminal.read_until("›")
        terminal.press(CTRL_D)

    assert run_in_terminal(tmp_path, ["shell", "--sample"], converse).code == 0


def test_the_sample_runs_if_the_data_folder_cannot_be_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    assert run("shell", "--sample").code == 0


def test_the_shell_works_on_a_terminal(tmp_path: Path) -> None:
    def converse(terminal: Terminal) -> None:
        assert "recall what answers it" in terminal.read_until("›")
        assert "remembered" in terminal.type("My cat is called Miso", "mem_")
        terminal.read_until("›")
        assert "My cat is called Miso" in terminal.type("?who is Miso", "meaning")
        terminal.read_until("›")
        assert "My cat is called Miso" in terminal.type("who is Miso", shell.TAKEN_AS_QUESTION)
        terminal.read_until("›")
        assert "no command /lst" in terminal.type("/lst", "did you mean")
        terminal.read_until("›")
        terminal.press(CTRL_C)
        terminal.read_until(PROMPT_ENDS)  # before that, the terminal itself would handle the typed keys
        terminal.read_until("›")
        terminal.press(CTRL_D)

    assert run_in_terminal(tmp_path, ["shell", "--user", "mia"], converse).code == 0


def test_the_shell_runs_every_command_on_its_own_store_and_scope(run: Run) -> None:
    lines = [
        "/block create human 'Likes tea'",
        "/block list --user bob",
        "/workspace open notes",
        "/workspace list",
        "/state set '{\"step\": 1}'",
        "/tool list",
        "/agent show",
        "/doctor",
    ]
    result = run("shell", "--user", "alice", "--agent", "helper", "--json", typed="\n".join(lines) + "\n")
    answers = [line["answer"] for line in result.document["answers"]]
    assert (answers[0]["block"]["user_id"], answers[0]["block"]["value"]) == ("alice", "Likes tea")
    assert answers[1]["blocks"] == []
    assert [workspace["name"] for workspace in answers[3]["workspaces"]] == ["notes"]
    assert answers[4]["state"]["state"] == {"step": 1}
    assert answers[6]["agent"]["id"] == "helper"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("/blok list", "did you mean '/block'?"),
        ("/block lst", "did you mean 'list'?"),
        ("/block write 'open", "a quotation mark is not closed"),
        ("/shell", "no command /shell"),
        ("/block list --store other.db", "the shell has a store open; leave --store out"),
        ("/", "no command /"),
    ],
)
def test_the_shell_explains_a_command_that_it_cannot_run(run: Run, line: str, error: str) -> None:
    run("remember", "Likes tea")
    result = run("shell", typed=f"{line}\n/list\n")
    assert error in result.err
    assert "Likes tea" in result.out
