"""Ctrl-C during long work: it ends between two steps, never inside one."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from everhold.interfaces.cli.failures import Interrupted

_GO_ON = "run it again to go on"


@contextmanager
def between_steps() -> Iterator[Callable[[], None]]:
    """The value is called after each step and raises Interrupted if Ctrl-C was pressed. Pressed twice, it ends at once.

    A driver may make an error of its own of the second; whatever is raised after Ctrl-C is an interruption.
    """
    pressed = False

    def press(_: int, __: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    def check() -> None:
        if pressed:
            raise Interrupted(_GO_ON)

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # as in the background, where Ctrl-C is meant for others
        signal.signal(signal.SIGINT, press)
    try:
        yield check
    except (Exception, KeyboardInterrupt):
        if pressed:
            raise Interrupted(_GO_ON) from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
