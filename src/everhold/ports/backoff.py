"""The pause between retries after a version conflict."""

import random
import time

_LONGEST_PAUSE = 0.05


def back_off(attempt: int) -> None:
    """Sleep for a random time that grows with the attempts, so that two writers do not collide again."""
    time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.001 * 2 ** min(attempt, 10))))
