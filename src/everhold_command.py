"""The console command `everhold`: loads the command line and runs it.

It handles Ctrl-C before it imports anything else, so that one during the imports prints no traceback.
"""

import gc
import os
import signal
import sys
from contextlib import suppress
from types import FrameType

INTERRUPTED = 130
_FEW_COLLECTIONS = 200_000
"""New objects between two garbage collections: more than a short command makes, whose imports leave no garbage."""


def main() -> int:
    """Run one command and return its exit code; 130 if Ctrl-C ended it."""
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as in the background of a shell
    if not is_ignored:
        signal.signal(signal.SIGINT, _leave)
    gc.set_threshold(_FEW_COLLECTIONS)
    from everhold.interfaces.cli import main as run

    try:
        if not is_ignored:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run()
        with suppress(OSError, ValueError):  # the reader of the output has gone
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if not is_ignored:
        signal.signal(signal.SIGINT, _leave)  # for the interpreter's own end
    return code


def _leave(_: int, __: FrameType | None) -> None:
    """End the process at once: while modules load, or after a command has ended, nothing is open."""
    os._exit(INTERRUPTED)
