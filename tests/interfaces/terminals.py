"""Run the command line in a separate process, on a pseudo-terminal."""

import os
import pty
import select
import signal
from collections.abc import Callable
from pathlib import Path

from tests.interfaces.conftest import CommandOutput
from tests.interfaces.test_cli_edge import COMMAND, make_environment

CTRL_C, CTRL_D = b"\x03", b"\x04"
# A prompt ends with this escape sequence, which turns bracketed paste off.
PROMPT_ENDS = "\x1b[?2004l"


class Terminal:
    """The user's side of a pseudo-terminal."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.unread = ""

    def type(self, line: str, expected: str) -> str:
        """Type a line and return what is shown after it, up to and with `expected`."""
        self.press(f"{line}\r".encode())
        self.read_until(line)
        return self.read_until(expected)

    def press(self, keys: bytes) -> None:
        os.write(self.descriptor, keys)

    def read_until(self, expected: str) -> str:
        """Return what is shown up to and with `expected`."""
        while expected not in self.unread:
            assert self._read(), f"{expected!r} did not come, but {self.unread!r}"
        before, _, self.unread = self.unread.partition(expected)
        return before + expected

    def read_to_the_end(self) -> str:
        """Return what is shown until the process ends."""
        while self._read():
            pass
        return self.unread

    def _read(self) -> bool:
        assert select.select([self.descriptor], [], [], 30)[0], f"nothing came after {self.unread!r}"
        try:
            content = os.read(self.descriptor, 4096)
        except OSError:  # how Linux tells that the process has ended
            return False
        self.unread += content.decode(errors="replace")
        return bool(content)


def run_in_terminal(
    folder: Path, arguments: list[str], converse: Callable[[Terminal], None] = lambda _: None
) -> CommandOutput:
    """Run a command in a folder while `converse` types and reads, and return the output that `converse` left unread."""
    child, descriptor = pty.fork()
    if child == 0:
        # Tests that run in the background ignore SIGINT, and the command would too.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.chdir(folder)
        os.execve(
            COMMAND[0], [*COMMAND, *arguments], make_environment(folder, TERM="xterm", PROMPT_TOOLKIT_NO_CPR="1")
        )  # fmt: skip
    terminal = Terminal(descriptor)
    try:
        converse(terminal)
        shown = terminal.read_to_the_end()
    finally:
        os.close(descriptor)
        _, status = os.waitpid(child, 0)
    return CommandOutput(os.waitstatus_to_exitcode(status), shown, "")
