"""What went wrong, as one line for people and one object for programs."""

from dataclasses import dataclass

from everhold.errors import EverholdError, InvalidInput, InvalidSettings
from everhold.model.validation import shown

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
_TYPED = {
    "use engine.scope(…, session='an id of yours')": "name one with --session ID",
    "list() shows": "`everhold list` shows",
    "use list() to see": "use `everhold list` to see",
    "pass overwrite=True": "pass --overwrite",
    "leave out the user": "leave out --user",
    "expected_version=": "--expected-version ",
}
"""Remedies as the library's messages name them, and as they are typed."""


class Interrupted(Exception):
    """Ctrl-C was pressed during work that can be gone on with."""


@dataclass(frozen=True)
class Failure:
    """An error as it is told. `code` is the exit code; `expected` says that the message is the whole story."""

    message: str
    kind: str
    code: int = FAILED
    retryable: bool = False
    expected: bool = True

    @property
    def document(self) -> dict[str, str | bool]:
        return {"error": self.message, "kind": self.kind, "retryable": self.retryable}


def failure_of(error: Exception) -> Failure:
    kind = type(error).__name__
    if isinstance(error, EverholdError):
        code = MISUSED if isinstance(error, InvalidInput | InvalidSettings) else FAILED
        return Failure(one_line(_typed(str(error))), kind, code, error.retryable)
    if isinstance(error, Interrupted):
        return Failure(one_line(str(error)), kind, INTERRUPTED, retryable=True)
    if isinstance(error, OSError) and error.filename is not None:
        return Failure(
            one_line(f"{shown(str(error.filename))} cannot be used: {error.strerror}; name another file"), kind
        )
    return Failure(one_line(f"unexpected {kind}: {error}"), kind, expected=False)


def _typed(message: str) -> str:
    for named, typed in _TYPED.items():
        message = message.replace(named, typed)
    return message


def one_line(message: str) -> str:
    return " ".join(message.encode(errors="backslashreplace").decode().split())
