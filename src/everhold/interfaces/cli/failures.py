"""Errors on the command line: how remedies are typed, and exit codes."""

from collections.abc import Callable

from everhold.errors import Argument, InvalidInput, InvalidSettings, Verb
from everhold.interfaces.shared.failures import Failure, describe_failure

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
# Verbs whose command has another name.
_COMMANDS = {
    "reopen_session": "session reopen",
    "blocks": "block list",
    "block_history": "block history",
    "create_block": "block create",
    "detach_block": "block detach",
    "resume_agent": "agent resume",
    "create_agent": "agent create",
    "run": "run start",
    **{verb: f"run {verb}" for verb in ("propose", "complete", "resume", "retry", "fork", "cancel")},
    "workspaces": "workspace list",
    "files": "workspace files",
    "snapshots": "workspace snapshots",
    "manifest": "workspace diff",
    "list_views": "views list",
    "learned": "ask learned",
    **{verb: f"ask {verb}" for verb in ("confirm", "correct", "reject")},
}
# Options whose name differs from the argument's.
_OPTIONS = {"organization": "--org"}


class Interrupted(Exception):
    """Ctrl-C was pressed: `kept` says what the work has left behind, `remedy` what to do next."""

    def __init__(self, kept: str, remedy: str) -> None:
        super().__init__(kept)
        self.kept, self.remedy = kept, remedy


def describe(error: Exception, spell: Callable[[Verb | Argument], str] | None = None) -> Failure:
    """Return what the command line tells about an error; `spell` writes verbs and arguments, by default as typed."""
    if isinstance(error, Interrupted):
        return Failure(f"interrupted: {error.kept}", type(error).__name__, remedy=error.remedy, retryable=True)
    return describe_failure(error, spell or spell_for_terminal)


def find_exit_code(error: Exception) -> int:
    """Return 2 if what was typed must change, 130 after Ctrl-C, and 1 otherwise."""
    if isinstance(error, Interrupted):
        return INTERRUPTED
    return MISUSED if isinstance(error, InvalidInput | InvalidSettings) else FAILED


def spell_for_terminal(reference: Verb | Argument) -> str:
    """Return a verb as a command and an argument as an option."""
    if isinstance(reference, Verb):
        command = _COMMANDS.get(reference.name) or reference.name.replace("_", "-")
        return f"`everhold {command}`"
    option = _OPTIONS.get(reference.name) or f"--{reference.name.replace('_', '-')}"
    return option if reference.value is None or reference.value is True else f"{option} {reference.value}"
