"""Send Ctrl-C at a chosen point, so that a test can try every point at which Python could deliver it."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

WAIT_SECONDS = 100


def interrupt_at(point: int, work: Callable[[], object]) -> bool:
    """Run `work` and send SIGINT at its `point`-th call or return from C, which is where Python handles signals.

    Return False if the work ended before that point.
    """
    remaining = point
    sent = False

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal remaining, sent
        if event in ("call", "c_return") and not sent:
            remaining -= 1
            if remaining < 0:
                sent = True
                os.kill(os.getpid(), signal.SIGINT)

    with suppress(KeyboardInterrupt):
        sys.setprofile(count)
        try:
            work()
        finally:
            sys.setprofile(None)
    return sent


def run_beside(work: Callable[[], None]) -> None:
    """Run `work` in another thread, which must end. It would not end if this thread still held a lock."""
    failures: list[BaseException] = []

    def attempt() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 — raised again in the thread that waits
            failures.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive(), "another thread never ends"
    if failures:
        raise failures[0]
