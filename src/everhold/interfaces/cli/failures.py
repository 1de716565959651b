"""Errors on the command line: how remedies are typed, and exit codes."""

from collections.abc import Callable

from everhold.errors import Argument, InvalidInput, InvalidSettings, Verb
from everhold.interfaces.shared.failures import Failure, describe_failure

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
# The commands of verbs for which the command has a different name than the verb.
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
# The options of arguments for which the option has a different name than the argument.
_OPTIONS = {"organization": "--org"}


class Interrupted(Exception):
    """Raised after Ctrl-C. `kept` is a sentence about what the work has stored; `remedy` says what to do next."""

    def __init__(self, kept: str, remedy: str) -> None:
        super().__init__(kept)
        self.kept, self.remedy = kept, remedy


def describe(error: Exception, spell: Callable[[Verb | Argument], str] | None = None) -> Failure:
    """Return the message of an error for the command line.

    `spell` writes the verbs and arguments as commands and options by default.
    """
    if isinstance(error, Interrupted):
        return Failure(f"interrupted: {error.kept}", type(error).__name__, remedy=error.remedy, retryable=True)
    return describe_failure(error, spell or spell_for_terminal)


def find_exit_code(error: Exception) -> int:
    """Return 2 if the user must change the command, 130 after Ctrl-C, and 1 otherwise."""
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
