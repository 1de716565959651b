"""Read standard input and ask for confirmation."""

import sys
from collections.abc import Sequence

from everhold.errors import InvalidInput


def read_standard_input() -> list[str]:
    """Return the lines of standard input that are not blank."""
    return [line.strip() for line in _read_all().splitlines() if line.strip()]


def read_text(argument: str) -> str:
    """Return the text of an argument. For `-`, return all of standard input without the last line break."""
    return _read_all().removesuffix("\n") if argument == "-" else argument


def _read_all() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"standard input is not UTF-8 at byte {error.start}", remedy="convert it with iconv"
        ) from None


def read_texts(arguments: Sequence[str]) -> list[str]:
    """Return the texts of arguments. `-` is replaced by the lines of standard input."""
    return [text for argument in arguments for text in (read_standard_input() if argument == "-" else [argument])]


def confirm(question: str) -> bool:
    """Ask on standard error, which keeps standard output for the result, and return whether the user agrees."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer:
        print(file=sys.stderr)
        raise InvalidInput("there was no answer, so nothing was done", remedy="pass --yes to go ahead without asking")
    return answer.strip().lower() in ("y", "yes")
