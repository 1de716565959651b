"""What the command line reads from standard input and asks at the terminal."""

import sys
from collections.abc import Sequence

from everhold.errors import InvalidInput


def standard_input() -> list[str]:
    """The lines of standard input that say something."""
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"standard input is not UTF-8 at byte {error.start}", remedy="convert it with iconv"
        ) from None
    return [line.strip() for line in text.splitlines() if line.strip()]


def texts_from(given: Sequence[str]) -> list[str]:
    """The texts to remember; `-` among them stands for the lines of standard input."""
    return [text for one in given for text in (standard_input() if one == "-" else [one])]


def confirm(question: str) -> bool:
    """Asks on standard error, so that standard output stays the answer's."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer:
        print(file=sys.stderr)
        raise InvalidInput("there was no answer, so nothing was done", remedy="pass --yes to go ahead without asking")
    return answer.strip().lower() in ("y", "yes")
