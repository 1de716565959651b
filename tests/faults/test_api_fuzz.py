"""A short run of the fuzz over every public verb and command; benchmarks/api_fuzz.py runs it in full."""

from benchmarks.api_fuzz import fuzz
from benchmarks.fuzz_calls import find_verbs
from benchmarks.fuzz_commands import find_commands
from tests.exhaustive import choose_size

CALLS = choose_size(500, 1_000)


def test_verbs_raise_only_errors_of_everhold() -> None:
    outcome = fuzz("sqlite", CALLS, seed=11)
    assert outcome.findings == []
    assert outcome.calls == CALLS
    assert outcome.returned > CALLS / 4, "most calls are refused; they must also reach the verbs' bodies"


def test_every_verb_and_command_is_found() -> None:
    targets = {(target.owner, target.name) for target in find_verbs()}
    assert {("view", "recall"), ("view", "say"), ("engine", "open"), ("async view", "remember")} <= targets
    assert {("engine", "move"), ("async engine", "open"), ("async engine", "verify_log")} <= targets
    assert {("workspace", "write"), ("workspace", "restore")} <= targets
    words = {" ".join(command.words) for command in find_commands()}
    assert {"remember", "recall", "session show", "eval precision", "org create"} <= words
