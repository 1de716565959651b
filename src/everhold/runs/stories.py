"""Describe a run as text."""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Any

from everhold.model import Execution
from everhold.runs.steps import RunStep
from everhold.schema.codec import encode_json

_MAX_LENGTH = 300
_THOUGHTS = (("thoughts", "thought"), ("reasoning", "because"), ("criticism", "criticism"))


def tell_story(execution: Execution, steps: Sequence[RunStep], zone: tzinfo) -> str:
    """Return a text with each action of a run in order, its reasons, its result and what was remembered."""
    lines = [f"Run {execution.id}: {_shorten(execution.task)}", _describe_run(execution, zone)]
    for step in steps:
        is_shared = step.cycle.execution_id != execution.id
        lines += ["", *_tell_step(step, zone, is_shared=is_shared)]
    if execution.status not in ("running", "paused"):
        lines += ["", _tell_end(execution, zone)]
    return "\n".join(lines)


def _describe_run(execution: Execution, zone: tzinfo) -> str:
    owners = [
        f"{word} {name}"
        for word, name in (
            ("agent", execution.agent_id),
            ("user", execution.user_id),
            ("project", execution.project_id),
            ("session", execution.session_id),
        )
        if name
    ]
    fork = [f"forked from {execution.parent_id} after cycle {execution.fork_index}"] if execution.parent_id else []
    return " · ".join([execution.status, f"began {_format_time(execution.started_at, zone)}", *owners, *fork])


def _tell_step(step: RunStep, zone: tzinfo, *, is_shared: bool) -> Iterator[str]:
    """Yield the lines of a story about one cycle: the thoughts, the action, its result and the memories."""
    proposal, result = step.proposal, step.result
    attempt_note = f", attempt {step.attempt}" if step.attempt > 1 else ""
    fork_note = ", before the fork" if is_shared else ""
    yield f"#{step.cycle_index} {_format_time(step.cycle.created_at, zone)}{attempt_note}{fork_note}"
    for name, word in _THOUGHTS:
        if proposal.__dict__[name]:
            yield f"  {word}: {_shorten(proposal.__dict__[name])}"
    if proposal.plan:
        yield f"  plan: {'; '.join(_shorten(part) for part in proposal.plan)}"
    arguments = ", ".join(f"{name}={_shorten(value)}" for name, value in proposal.arguments.items())
    yield f"  did: {proposal.tool or 'nothing'}({arguments})"
    if result is None:
        yield "  waits for its result"
        return
    duration = f" in {result.duration:.3g} s" if result.duration is not None else ""
    yield f"  {result.status}{duration}: {_describe_result(step)}"
    if result.artifacts:
        yield f"  artifacts: {', '.join(result.artifacts)}"
    for memory in step.memories:
        yield f"  remembered ({memory.kind}): {_shorten(memory.text)}"


def _describe_result(step: RunStep) -> str:
    return _shorten(describe_outcome(step))


def describe_outcome(step: RunStep) -> str:
    """Return the outcome of a step as text: its summary, or else its error or output."""
    result = step.result
    if result is None:
        return ""
    if result.summary:
        return result.summary
    return _format_value(result.error if result.error is not None else result.output)


def _tell_end(execution: Execution, zone: tzinfo) -> str:
    ended = _format_time(execution.ended_at, zone) if execution.ended_at is not None else ""
    outcome = execution.error if execution.error is not None else execution.output
    return f"{execution.status} {ended}{'' if outcome is None else f': {_shorten(outcome)}'}"


def _format_time(moment: datetime, zone: tzinfo) -> str:
    return moment.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else encode_json(value)


def _shorten(value: Any) -> str:
    text = " ".join(_format_value(value).split())
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"
