"""Make the calls of functions steps of a run. Calls are recorded, and a completed call is not made again."""

import functools
import inspect
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from everhold.errors import InvalidInput
from everhold.model import ActionResult
from everhold.model.validation import complete_row
from everhold.runs.replay import StepRecording, describe_failure, rebuild_failure
from everhold.runs.steps import RunStep
from everhold.schema.codec import decode_json, encode_json

if TYPE_CHECKING:
    from everhold.views.run import Run

P = ParamSpec("P")
R = TypeVar("R")
Work = Callable[[], Any]
_KEY_ARGUMENT = "idempotency_key"


class StepRecorder:
    """Records the calls that a program makes as steps of a run, one after the other."""

    def __init__(self, run: "Run", load: Callable[[], StepRecording]) -> None:
        self._run, self._load = run, load
        self._recording: StepRecording | None = None
        self._lock = threading.Lock()

    def begin(self, function: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> "StepCall":
        """Record the call that a program is about to make, unless it is recorded already, and return it."""
        tool, arguments = _describe_call(function, args, keywords)
        with self._lock:
            if self._recording is None:
                self._recording = self._load()
            return StepCall(self._run, self._recording, self._find_or_propose(self._recording, tool, arguments))

    def _find_or_propose(self, recording: StepRecording, tool: str, arguments: Mapping[str, Any]) -> RunStep:
        step = recording.find(tool, arguments)
        if step is None:
            return self._run.propose(tool, arguments)
        if step.status == "succeeded":
            recording.advance()
        elif not step.is_open and not recording.is_last(step):
            recording.advance()
            raise rebuild_failure(step)
        elif not step.is_open:
            # A fork may begin with a step that failed in the original run. That step cannot be retried in the fork.
            is_own = step.cycle.execution_id == self._run.id
            return self._run.retry() if is_own else self._run.propose(tool, arguments)
        return step


class StepCall:
    """One call of a step. The function is called in its context; an error there ends the step as failed.

    An interrupt is not an error: the step stays open, and is called again when the run is resumed.
    """

    def __init__(self, run: "Run", recording: StepRecording, step: RunStep) -> None:
        self._run, self._recording = run, recording
        self.step = step
        self.is_done = not step.is_open
        self._started = time.perf_counter()

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            failure = describe_failure(error)
            self._recording.record(self._run.complete(error=failure, duration=self._measure_duration()))

    def _measure_duration(self) -> float:
        return time.perf_counter() - self._started

    def complete(self, output: Any) -> Any:
        """Store the result of the function, and return it as a resumed run will return it, that is, converted by
        JSON."""
        duration = self._measure_duration()
        complete_row(ActionResult, {"output": output}, {})  # raises InvalidInput for a result that JSON cannot express
        self._recording.record(self._run.complete(output, duration=duration))
        return decode_json(encode_json(output))

    def add_key(self, function: Callable[..., Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return the named arguments of a call, with the idempotency key if the function takes one."""
        takes_key = _KEY_ARGUMENT in inspect.signature(function).parameters
        return {**keywords, _KEY_ARGUMENT: self.step.idempotency_key} if takes_key else dict(keywords)


def _describe_call(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the name of a function and its arguments by name, without the idempotency key."""
    signature = inspect.signature(function)
    arguments_without_key = {name: value for name, value in keywords.items() if name != _KEY_ARGUMENT}
    bound = signature.bind_partial(*args, **arguments_without_key)
    bound.apply_defaults()
    arguments = {name: value for name, value in bound.arguments.items() if name != _KEY_ARGUMENT}
    return getattr(function, "__name__", type(function).__name__), arguments


def record_calls(recorder: StepRecorder, function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that calls `function` as a step of a run."""
    if inspect.iscoroutinefunction(function):
        raise InvalidInput("the function is a coroutine function", remedy="use a run of AsyncEverhold")

    @functools.wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        step_call = recorder.begin(function, args, keywords)
        if step_call.is_done:
            return cast("R", step_call.step.output)
        with step_call:
            output = function(*args, **step_call.add_key(function, keywords))
        return cast("R", step_call.complete(output))

    return call


def record_awaited_calls(
    recorder: StepRecorder, function: Callable[..., Any], run_in_pool: Callable[[Work], Coroutine[Any, Any, Any]]
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return a coroutine function that calls `function`, a coroutine function or a plain one, as a step of a run."""
    is_plain = not inspect.iscoroutinefunction(function)

    @functools.wraps(function)
    async def call(*args: Any, **keywords: Any) -> Any:
        step_call = await run_in_pool(functools.partial(recorder.begin, function, args, keywords))
        if step_call.is_done:
            return step_call.step.output
        keywords_with_key = step_call.add_key(function, keywords)
        async with _AwaitedCall(step_call, run_in_pool):
            if is_plain:
                output = await run_in_pool(functools.partial(function, *args, **keywords_with_key))
            else:
                output = await function(*args, **keywords_with_key)
        return await run_in_pool(functools.partial(step_call.complete, output))

    return call


class _AwaitedCall:
    """The asynchronous context of a step's call. The store is used in the pool, so the event loop is not blocked."""

    def __init__(self, step_call: StepCall, run_in_pool: Callable[[Work], Coroutine[Any, Any, Any]]) -> None:
        self._step_call, self._run_in_pool = step_call, run_in_pool

    async def __aenter__(self) -> None:
        self._step_call.__enter__()

    async def __aexit__(self, *error_info: Any) -> None:
        if error_info[0] is not None:
            await self._run_in_pool(functools.partial(self._step_call.__exit__, *error_info))
