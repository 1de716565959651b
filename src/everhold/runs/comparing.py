"""Compare two runs step by step."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from everhold.model import Execution
from everhold.runs.steps import RunStep, group_attempts
from everhold.schema.codec import encode_json


@dataclass(frozen=True)
class StepPair:
    """The steps of two runs at the same position, counted from 0. A step is None if its run has fewer steps."""

    number: int
    first: RunStep | None
    second: RunStep | None

    @property
    def has_same_action(self) -> bool:
        """Whether both runs did the same thing: the same tool with the same arguments."""
        return self.first is not None and self.second is not None and _identify(self.first) == _identify(self.second)

    @property
    def has_same_outcome(self) -> bool:
        """Whether both did the same thing with the same result."""
        first, second = self.first, self.second
        if first is None or second is None or not self.has_same_action:
            return False
        return (first.status, encode_json(first.output)) == (second.status, encode_json(second.output))


@dataclass(frozen=True)
class RunComparison:
    """Two runs, step by step. Of several attempts of an action the last one counts."""

    first: Execution
    second: Execution
    steps: tuple[StepPair, ...]

    @property
    def shared(self) -> int:
        """The number of steps at the beginning with the same action and the same outcome."""
        different = self.first_difference
        return len(self.steps) if different is None else different.number

    @property
    def first_difference(self) -> StepPair | None:
        """The first pair of steps that differ, or None."""
        return next((pair for pair in self.steps if not pair.has_same_outcome), None)


def compare_runs(
    first: Execution, first_steps: Sequence[RunStep], second: Execution, second_steps: Sequence[RunStep]
) -> RunComparison:
    """Return the steps of two runs side by side."""
    columns = [[group[-1] for group in group_attempts(steps)] for steps in (first_steps, second_steps)]
    pairs = (StepPair(number, *pair) for number, pair in enumerate(zip_longest(*columns)))
    return RunComparison(first, second, tuple(pairs))


def _identify(step: RunStep) -> tuple[str | None, str]:
    return step.tool, encode_json(step.arguments)
