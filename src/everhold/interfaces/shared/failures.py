"""An error as an interface reports it: one sentence for people and one document for programs."""

from collections.abc import Callable
from typing import Any

from everhold.errors import Argument, EverholdError, Verb, format_value
from everhold.values import Value, value_class


@value_class
class Failure(Value):
    """The description of an error. `expected` is false if the error is neither one of Everhold's nor about a file."""

    fact: str
    kind: str
    value: Any = None
    remedy: str = ""
    retryable: bool = False
    expected: bool = True

    @property
    def message(self) -> str:
        """The fact and the remedy, on one line."""
        return join_lines(f"{self.fact}; {self.remedy}" if self.remedy else self.fact)

    @property
    def document(self) -> dict[str, Any]:
        return {
            "error": self.message,
            "kind": self.kind,
            "fact": join_lines(self.fact),
            "value": self.value,
            "remedy": join_lines(self.remedy),
            "retryable": self.retryable,
        }


def describe_failure(error: Exception, spell: Callable[[Verb | Argument], str]) -> Failure:
    """Return the description of an error. `spell` writes verbs and arguments with the names that the interface uses."""
    kind = type(error).__name__
    if isinstance(error, EverholdError):
        return Failure(error.fact, kind, error.value, error.remedy.render(spell), error.retryable)
    if isinstance(error, OSError) and error.filename is not None:
        file = str(error.filename)
        first_remedy = "change its permissions, or " if isinstance(error, PermissionError) else ""
        return Failure(
            f"{format_value(file)} cannot be opened: {error.strerror}", kind, file, f"{first_remedy}name another file"
        )
    return Failure(f"unexpected {kind}: {error}", kind, expected=False)


def join_lines(message: str) -> str:
    """Return a message on one line that any stream can take."""
    return " ".join(message.encode(errors="backslashreplace").decode().split())
