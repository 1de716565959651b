"""Try a step again after a failure that may pass: the one retry policy, on top of tenacity.

Every place that retries calls `retry` with a `RetryPolicy`. The first attempt runs directly, so a step that succeeds at
once costs one function call. tenacity is imported after the first failure.
"""

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

from everhold.values import Value, value_class

if TYPE_CHECKING:
    from tenacity import RetryCallState
    from tenacity.stop import stop_base

T = TypeVar("T")
Errors = type[Exception] | tuple[type[Exception], ...]

logger = logging.getLogger(__name__)


@value_class
class RetryPolicy(Value):
    """The number of attempts of a step, and the waiting time before each further attempt.

    `attempts` counts the first one too. `seconds` bounds the time from the first failure to the last. The pause doubles
    from `first_pause` up to `longest_pause`. Each pause is drawn between half of that and all of it, because clients
    that failed together would otherwise fail together again.
    """

    attempts: int | None = None
    seconds: float | None = None
    first_pause: float = 0.0
    longest_pause: float = 60.0


# For writers that change the same row: the one whose version is stale reads the row again. Many attempts with short
# pauses, because one of several writers succeeds each time and a conflict passes quickly.
CONFLICTS = RetryPolicy(attempts=200, first_pause=0.001, longest_pause=0.05)


class TryAgain(Exception):
    """Raise this in a step to have the step tried again. `pause` replaces the policy's pause, in seconds.

    The reason is logged, so it must not contain anything that users have written.
    """

    def __init__(self, reason: str, *, pause: float | None = None) -> None:
        super().__init__(reason)
        self.pause = pause


def retry(
    name: str,
    step: Callable[[int], T],
    policy: RetryPolicy,
    *,
    on: Errors = TryAgain,
    should_retry: Callable[[Exception], bool] = lambda _: True,
    before_retry: Callable[[], object] = lambda: None,
    give_up: Callable[[Exception], Exception] = lambda error: error,
) -> T:
    """Return what `step` returns, trying it again after errors of the types in `on` that `should_retry` accepts.

    `step` takes the number of the attempt, from 0. `before_retry` is called before each further attempt. When the
    policy is exhausted, the error that `give_up` returns is raised. It gets the last error, or the cause of a
    `TryAgain`. `name` completes "retrying to …" in the log.
    """
    try:
        return step(0)
    except on as error:
        if not should_retry(error):
            raise
        first_errors = [error]

    def attempt(number: int) -> T:
        if first_errors:  # tenacity counts the failure of the attempt above as the first
            raise first_errors.pop()
        before_retry()
        return step(number)

    def is_retryable(error: BaseException) -> bool:
        return isinstance(error, on) and should_retry(error)

    return _retry(name, attempt, policy, is_retryable, give_up)


def _retry(
    name: str,
    attempt: Callable[[int], T],
    policy: RetryPolicy,
    is_retryable: Callable[[BaseException], bool],
    give_up: Callable[[Exception], Exception],
) -> T:
    """Return what `attempt` returns; call it again as `policy` allows while it raises retryable errors."""
    import tenacity

    retrying = tenacity.Retrying(
        sleep=time.sleep,
        stop=_make_stop(policy),
        wait=_make_wait(policy),
        retry=tenacity.retry_if_exception(is_retryable),
        before_sleep=lambda state: _log_retry(name, state),
        retry_error_callback=lambda state: _fail(name, state, give_up),
    )
    state = None
    try:
        for context in retrying:
            state = context.retry_state
            with context:
                return attempt(state.attempt_number - 1)
    finally:
        if state is not None:
            # The state is in the error's traceback. Without this line the two would keep each other, and the
            # connections of the frames between them, until a garbage collection.
            state.outcome = None
    raise AssertionError("tenacity ends with a result or an error")


def _make_stop(policy: RetryPolicy) -> "stop_base":
    import tenacity

    stops: list[stop_base] = []
    if policy.attempts is not None:
        stops.append(tenacity.stop_after_attempt(policy.attempts))
    if policy.seconds is not None:
        stops.append(tenacity.stop_after_delay(policy.seconds))
    return tenacity.stop_any(*stops)


def _make_wait(policy: RetryPolicy) -> "Callable[[RetryCallState], float]":
    import tenacity

    # A fixed half plus a random half: the sum lies between half of the pause and all of it.
    first, longest = policy.first_pause / 2, policy.longest_pause / 2
    half = tenacity.wait_exponential(multiplier=first, max=longest)
    growing = half + tenacity.wait_random_exponential(multiplier=first, max=longest)

    def wait(state: "RetryCallState") -> float:
        error = _get_error(state)
        if isinstance(error, TryAgain) and error.pause is not None:
            return error.pause
        return growing(state)

    return wait


def _log_retry(name: str, state: "RetryCallState") -> None:
    if logger.isEnabledFor(logging.INFO):
        reason = describe_error(_get_error(state))
        logger.info(
            "retrying to %s in %.3f s after attempt %d: %s", name, state.upcoming_sleep, state.attempt_number, reason
        )


def _fail(name: str, state: "RetryCallState", give_up: Callable[[Exception], Exception]) -> NoReturn:
    error = _get_error(state)
    logger.warning("gave up trying to %s after attempt %d: %s", name, state.attempt_number, describe_error(error))
    if isinstance(error, TryAgain) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    final = give_up(error)
    try:
        if final is error:
            raise error
        raise final from error
    finally:
        del error, final  # otherwise, the traceback would be part of a reference cycle


def _get_error(state: "RetryCallState") -> Exception:
    error = state.outcome.exception() if state.outcome is not None else None
    assert isinstance(error, Exception)
    return error


def describe_error(error: BaseException) -> str:
    """Return the description of an error for the log: its type and, for a `TryAgain`, the reason.

    Messages of other errors may quote what users have written, so they are left out.
    """
    if isinstance(error, TryAgain):
        cause = f" ({type(error.__cause__).__name__})" if error.__cause__ is not None else ""
        return f"{error}{cause}"
    return type(error).__name__
