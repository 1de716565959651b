"""The window of a session, on the command line."""

import pytest

from tests.interfaces.conftest import Run
from tests.prompt_rules import check_anthropic, check_openai

CHAT = ("--user", "alice", "--session", "tea")


@pytest.fixture
def run_chat(run: Run) -> Run:
    run("session", "say", "Which tea should I buy?", "--name", "Alice", *CHAT)
    run("session", "say", "A green one.", "--role", "assistant", *CHAT)
    return run


def test_the_messages_are_shown_and_their_size_is_on_standard_error(run_chat: Run) -> None:
    result = run_chat("window", "--strategy", "truncate", "--system", "Be brief.", *CHAT)
    assert result.out.splitlines() == [
        "system: Be brief.",
        "user (Alice): Which tea should I buy?",
        "assistant: A green one.",
    ]
    assert result.err.endswith("of 4,000 tokens · turns 2\n")


def test_a_window_is_printed_as_json_in_both_forms(run_chat: Run) -> None:
    document = run_chat("window", "--json", "--budget", "300", *CHAT).document
    check_openai(document["messages"])
    assert (document["budget"], document["cursor"], document["shortened_ids"]) == (300, None, [])
    assert [section["name"] for section in document["sections"]] == ["turns"]
    document = run_chat("window", "--json", "--as", "anthropic", "--system", "Be brief.", *CHAT).document
    check_anthropic({name: document[name] for name in ("system", "messages")})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--strategy", "shrink"], "strategy is 'shrink'"),
        (["--budget", "0"], "budget is 0"),
        (["--system", "word " * 30, "--budget", "20"], "the system text needs"),
        (["--only", "user"], "only is 'user'"),
        (["--as", "gemini"], "gemini"),
    ],
)
def test_wrong_input_is_refused(run_chat: Run, options: list[str], problem: str) -> None:
    result = run_chat("window", *CHAT, *options)
    assert result.code == 2
    assert problem in result.err


def test_a_session_that_does_not_exist_is_named(run_chat: Run) -> None:
    missing = run_chat("window", "--user", "alice", "--session", "coffee")
    assert (missing.code, missing.out) == (1, "")
    assert "no session 'coffee' in this scope" in missing.err
