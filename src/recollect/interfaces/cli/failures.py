"""What went wrong, as one line for people and one object for programs."""

from dataclasses import dataclass

from recollect.errors import InvalidInput, InvalidSettings, RecollectError

FAILED, MISUSED, INTERRUPTED = 1, 2, 130


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
    if isinstance(error, RecollectError):
        code = MISUSED if isinstance(error, InvalidInput | InvalidSettings) else FAILED
        return Failure(one_line(str(error)), kind, code, error.retryable)
    return Failure(one_line(f"unexpected {kind}: {error}"), kind, expected=False)


def one_line(message: str) -> str:
    return " ".join(message.encode(errors="backslashreplace").decode().split())
