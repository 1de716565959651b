"""Match the calls that a program makes with the steps that its run has recorded."""

from collections.abc import Mapping
from typing import Any

from everhold.errors import Conflict, StepFailed
from everhold.model import Execution
from everhold.ports.records import Records
from everhold.runs.steps import RunStep, group_attempts, load_history
from everhold.schema.codec import encode_json

# Built-in errors that a replay raises with their own type, so that the program handles them as it did before.
_BUILT_IN_ERRORS = {
    error_class.__name__: error_class
    for error_class in (
        ArithmeticError, AssertionError, AttributeError, ConnectionError, FileNotFoundError, IndexError, KeyError,
        LookupError, OSError, PermissionError, RuntimeError, TimeoutError, TypeError, ValueError, ZeroDivisionError,
    )
}  # fmt: skip
_MAX_MESSAGE = 2000  # characters of an error's message that are recorded


class StepRecording:
    """The recorded steps of a run, in order, and the position that the program has reached.

    Consecutive attempts of one action count as one step.
    """

    def __init__(self, records: Records, execution: Execution) -> None:
        self._run_id = execution.id
        self._steps = [group[-1] for group in group_attempts(load_history(records, execution))]
        self._position = 0

    def find(self, tool: str, arguments: Mapping[str, Any]) -> RunStep | None:
        """Return the recorded step that the next call repeats; None if the call is new.

        Raise Conflict if the call differs from the recorded one.
        """
        if self._position == len(self._steps):
            return None
        step = self._steps[self._position]
        if step.tool == tool and encode_json(step.arguments) == encode_json(arguments):
            return step
        if step.status == "failed" and self._position == len(self._steps) - 1:
            self._position += 1  # the program has handled the failure and continues
            return None
        difference = "with other arguments than now" if step.tool == tool else f"and the program calls {tool!r} now"
        raise Conflict(
            f"step {self._position} of run {self._run_id!r} called {step.tool!r} {difference}",
            value=tool,
            remedy="let the program make the same calls in the same order, or begin another run",
        )

    def is_last(self, step: RunStep) -> bool:
        """Return whether nothing was recorded after a step."""
        return self._steps[-1] is step

    def advance(self) -> None:
        """Move to the next step."""
        self._position += 1

    def record(self, step: RunStep) -> None:
        """Record a step that the program has just made: the next one, or another attempt of the current one."""
        self._steps[self._position :] = [step]
        if step.status == "succeeded":
            self._position += 1


def describe_failure(error: BaseException) -> dict[str, str]:
    """Return an error in the form in which a result stores it."""
    message = str(error)[:_MAX_MESSAGE].encode("utf-8", "replace").decode().replace("\x00", "")
    return {"type": type(error).__name__, "message": message}


def rebuild_failure(step: RunStep) -> Exception:
    """Return the error of a recorded step that failed: a built-in error with its type, any other as StepFailed."""
    recorded = step.error if isinstance(step.error, dict) else {}
    name, message = str(recorded.get("type", "error")), str(recorded.get("message", ""))
    if name in _BUILT_IN_ERRORS:
        return _BUILT_IN_ERRORS[name](message)
    return StepFailed(
        f"step {step.tool!r} failed with {name} when the run was recorded", value=step.tool, remedy="see its story"
    )
