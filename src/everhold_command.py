"""The console command `everhold`: prepares the process for one short command, runs it and ends the process.

It handles Ctrl-C before it imports anything else, so that one during the imports prints no traceback.
"""

import gc
import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
_FEW_COLLECTIONS = 200_000
"""New objects between two garbage collections: more than a short command makes, whose imports leave no garbage."""


def main() -> int:
    """Run one command and end the process with its exit code; 130 if Ctrl-C ended it."""
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as in the background of a shell
    if not is_ignored:
        signal.signal(signal.SIGINT, _leave)
    gc.set_threshold(_FEW_COLLECTIONS)
    # Otherwise Pydantic searches every installed package for plugins, none of which concerns this command.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Otherwise each thread that OpenBLAS starts when numpy is imported spins for a tenth of a second, on a core that
    # the loading of the embedding model needs.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    from everhold.interfaces.cli import main as run

    try:
        if not is_ignored:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if not is_ignored:
        signal.signal(signal.SIGINT, _leave)  # for the interpreter's own end
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # a full disk, or the reader has gone: the interpreter's own end reports it
        return code
    # The command has closed its store, and nothing waits to be written. An orderly end of the interpreter would only
    # take apart what the operating system frees at once.
    os._exit(code)


def _leave(_: int, __: FrameType | None) -> None:
    """End the process at once: while modules load, or after a command has ended, nothing is open."""
    os._exit(INTERRUPTED)
