"""Procedural memory: how a task was done, from a run that succeeded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from everhold.model import Execution, Memory
from everhold.runs.steps import RunStep
from everhold.schema.codec import encode_json

# A procedure is an outline to follow. The run's cycles have what these limits cut.
_MAX_STEPS = 200
_MAX_NAMED_TOOLS = 20
_MAX_VALUE_LENGTH = 500
_MAX_TASK_LENGTH = 2000


@dataclass(frozen=True)
class ProcedureStep:
    """One action of a procedure: the tool, its arguments, and a summary of its result."""

    tool: str | None
    arguments: Mapping[str, Any]
    summary: str | None = None


@dataclass(frozen=True)
class Procedure:
    """An earlier execution of a task: the task, its steps in order, and its similarity to the question."""

    task: str
    steps: tuple[ProcedureStep, ...]
    score: float
    memory: Memory
    run_id: str | None = None
    summary: str | None = None


def draft_procedure(execution: Execution, history: Sequence[RunStep], summary: str | None) -> dict[str, Any] | None:
    """Return the fields of a memory of how a run did its task; None if no step succeeded."""
    succeeded_steps = [step for step in history if step.status == "succeeded"]
    if not succeeded_steps:
        return None
    steps = [
        {
            "tool": step.tool,
            "arguments": _shorten_arguments(step.arguments),
            "summary": None if step.result is None else _shorten_text(step.result.summary),
        }
        for step in succeeded_steps[:_MAX_STEPS]
    ]
    # With the names of the tools, two ways to do a task have different texts. Repeating one reinforces its memory.
    tool_names = [name for name, _ in groupby(step.tool for step in succeeded_steps) if name][:_MAX_NAMED_TOOLS]
    text = f"{execution.task[:_MAX_TASK_LENGTH]}\nDone with: {', '.join(tool_names)}" if tool_names else execution.task
    content = {"task": execution.task[:_MAX_TASK_LENGTH], "steps": steps, "summary": _shorten_text(summary)}
    return {
        "kind": "procedural", "text": text, "content": content, "provenance": {"run": execution.id}
    }  # fmt: skip


def _shorten_text(text: str | None) -> str | None:
    return text if text is None or len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 1]}…"


def _shorten_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments, with long values replaced by the beginning of their JSON."""
    return {
        name: value if len(encoded := encode_json(value)) <= _MAX_VALUE_LENGTH else _shorten_text(encoded)
        for name, value in arguments.items()
    }


def read_procedure(memory: Memory, score: float) -> Procedure | None:
    """Return the procedure in a memory; None if the memory has no steps."""
    steps = memory.content.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return None
    run_id, task, summary = memory.provenance.get("run"), memory.content.get("task"), memory.content.get("summary")
    return Procedure(
        task if isinstance(task, str) else memory.text,
        tuple(_read_step(step) for step in steps),
        score,
        memory,
        run_id if isinstance(run_id, str) else None,
        summary if isinstance(summary, str) else None,
    )


def _read_step(step: Mapping[str, Any]) -> ProcedureStep:
    tool, arguments, summary = step.get("tool"), step.get("arguments"), step.get("summary")
    return ProcedureStep(
        tool if isinstance(tool, str) else None,
        arguments if isinstance(arguments, dict) else {},
        summary if isinstance(summary, str) else None,
    )
