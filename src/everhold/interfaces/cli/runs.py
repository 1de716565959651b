"""Commands on runs and their cycles."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from everhold.errors import NotFound, Remedy, Verb
from everhold.interfaces.cli import memory_lists, show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.deleting import Hard, Preview, Yes, run_deletion
from everhold.interfaces.cli.groups import Object
from everhold.interfaces.shared.inputs import parse_list, parse_object, parse_scalar
from everhold.interfaces.shared.times import format_local
from everhold.model import Execution
from everhold.schema.codec import encode_json

if TYPE_CHECKING:
    from everhold import Run, RunStep

app = typer.Typer(help="Runs of agents and programs, and their cycles.")

_MAX_TEXT_LENGTH = 200

RunId = Annotated[str | None, typer.Option("--run", metavar="ID", help="Default: the latest that is not finished.")]
AnyRunId = Annotated[str | None, typer.Argument(metavar="RUN", help="Default: the latest.")]
TextOption = Annotated[str | None, typer.Option(metavar="TEXT")]
Value = Annotated[str | None, typer.Option(metavar="JSON|TEXT", help="JSON, or a text as it is.")]
Cycle = Annotated[int, typer.Argument(metavar="CYCLE", help="The number of a cycle, as `run show` has it.")]


@command(app, "start", creates_store=True)
def start(
    call: Call,
    task: Annotated[str, typer.Argument(metavar="TASK")],
    own_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Your own id: repeating it begins nothing new.")
    ] = None,
    message: Annotated[str | None, typer.Option(metavar="ID", help="The message that asked for it.")] = None,
) -> CommandResult:
    """Begin a run of a task."""
    run = call.view.run(task, id=own_id, message=message)
    return _show_run(run.execution, f"run {run.id} is {run.status}")


def read_proposal_fields(
    call: Call,
    arguments: Object = None,
    thoughts: TextOption = None,
    reasoning: TextOption = None,
    plan: Annotated[str | None, typer.Option(metavar="JSON", help="A list.")] = None,
    criticism: TextOption = None,
    workspace_cues: Annotated[str | None, typer.Option(metavar="JSON", help="A list.")] = None,
    raw: Value = None,
    snapshot: Object = None,
) -> dict[str, Any]:
    """Return the fields of a proposal that were passed."""
    object_options = {"arguments": arguments, "snapshot": snapshot}
    list_options = {"plan": plan, "workspace_cues": workspace_cues}
    text_options = {"thoughts": thoughts, "reasoning": reasoning, "criticism": criticism}
    return {
        **{name: value for name, value in text_options.items() if value is not None},
        **{name: parse_object(text, f"--{name}") for name, text in object_options.items() if text is not None},
        **{
            name: parse_list(text, f"--{name.replace('_', '-')}")
            for name, text in list_options.items()
            if text is not None
        },
        **({} if raw is None else {"raw": parse_scalar(raw)}),
    }


@command(app, "propose", fields=read_proposal_fields)
def propose(
    call: Call,
    tool: Annotated[str, typer.Argument(metavar="TOOL")],
    run_id: RunId = None,
    *,
    fields: dict[str, Any],
) -> CommandResult:
    """Begin the next cycle of a run with an action, and show its idempotency key."""
    run = _find_unfinished_run(call, run_id)
    return _show_step(run, run.propose(tool, fields.pop("arguments", None), **fields))


@command(app, "complete")
def complete(
    call: Call,
    output: Annotated[str | None, typer.Argument(metavar="OUTPUT", help="JSON, or a text as it is.")] = None,
    run_id: RunId = None,
    error: Annotated[str | None, typer.Option(metavar="JSON|TEXT", help="The action has failed with this.")] = None,
    summary: TextOption = None,
    artifact: Annotated[list[str] | None, typer.Option(metavar="ID", help="A file that it made; repeatable.")] = None,
    duration: Annotated[float | None, typer.Option(metavar="SECONDS")] = None,
    memory: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT|JSON", help="What was learned: a text, or an object with fields; repeatable."),
    ] = None,
) -> CommandResult:
    """Store what came of the pending action, with what was learned from it."""
    run = _find_unfinished_run(call, run_id)
    step = run.complete(
        None if output is None else parse_scalar(output),
        error=None if error is None else parse_scalar(error),
        summary=summary,
        artifacts=artifact or [],
        duration=duration,
        memories=[parse_object(item, "--memory") if item.startswith("{") else item for item in memory or []],
    )
    return _show_step(run, step)


@command(app, "finish")
def finish(
    call: Call,
    output: Annotated[str | None, typer.Argument(metavar="OUTPUT", help="JSON, or a text as it is.")] = None,
    run_id: RunId = None,
    summary: TextOption = None,
) -> CommandResult:
    """End a run as successful; `run how-to` then finds how it was done."""
    run = _find_unfinished_run(call, run_id)
    run.finish(None if output is None else parse_scalar(output), summary=summary)
    return _show_run(run.execution, f"run {run.id} has succeeded")


@command(app, "fail")
def fail(call: Call, error: Annotated[str, typer.Argument(metavar="ERROR")], run_id: RunId = None) -> CommandResult:
    """End a run as failed; `run retry` continues it."""
    run = _find_unfinished_run(call, run_id)
    return _show_run(run.fail(error), f"run {run.id} has failed")


@command(app, "show")
def show_run(call: Call, run_id: AnyRunId = None) -> CommandResult:
    """Tell the story of a run: what was done, why, and what came of it."""
    run = _find_run(call, run_id)
    document = {"run": run.execution, "pending": run.pending, "steps": run.steps()}
    return CommandResult(document, show.render_text(run.story(timezone=str(call.zone))))


@command(app, "list")
def list_runs(
    call: Call,
    status: Annotated[
        str | None, typer.Option(metavar="STATUS", help="running, paused, succeeded, failed or cancelled.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="How many.")] = 50,
) -> CommandResult:
    """Show runs, the latest first."""
    runs = call.view.runs(status=status, limit=limit)  # type: ignore[arg-type]  # the verb checks it
    table = show.make_table("run", "began", "status", "whose", "task")
    for run in runs:
        owners = " · ".join(name for name in (run.user_id, run.agent_id, run.project_id) if name)
        table.add_row(
            show.render_text(run.id),
            format_local(run.started_at, call.zone),
            run.status,
            show.render_text(owners),
            show.render_text(run.task, 80),
        )
    output: RenderableType = table if runs else Text("no runs", style="dim")
    return CommandResult({"runs": runs}, output)


@command(app, "resume")
def resume(call: Call, run_id: AnyRunId = None) -> CommandResult:
    """Go on with a run that is not finished, and show the action that has no result yet."""
    run = call.view.resume(run_id)
    if run.pending is not None:
        return _show_step(run, run.pending)
    return _show_run(run.execution, f"run {run.id} waits for its next action")


@command(app, "pause")
def pause(call: Call, run_id: RunId = None) -> CommandResult:
    """Let a run take no more actions until it is resumed."""
    run = _find_unfinished_run(call, run_id)
    return _show_run(run.pause(), f"run {run.id} is paused")


@command(app, "cancel")
def cancel(
    call: Call,
    run_id: RunId = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
) -> CommandResult:
    """End a run for good."""
    run = _find_unfinished_run(call, run_id)
    return _show_run(run.cancel(reason), f"run {run.id} was cancelled")


@command(app, "retry")
def retry(call: Call, run_id: AnyRunId = None) -> CommandResult:
    """Propose the failed action that a run ended with again."""
    run = _find_run(call, run_id)
    return _show_step(run, run.retry())


@command(app, "fork")
def fork(
    call: Call,
    cycle: Cycle,
    run_id: AnyRunId = None,
    task: Annotated[str | None, typer.Option(metavar="TEXT", help="Another task than the run's.")] = None,
    own_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="Your own id for the new run.")] = None,
) -> CommandResult:
    """Begin a run that shares another one's history up to a cycle."""
    run = _find_run(call, run_id).fork(cycle, task=task, id=own_id)
    return _show_run(run.execution, f"run {run.id} continues after cycle {cycle} of {run.execution.parent_id}")


@command(app, "compare")
def compare(
    call: Call,
    first: Annotated[str, typer.Argument(metavar="RUN")],
    second: Annotated[str, typer.Argument(metavar="RUN")],
) -> CommandResult:
    """Show two runs side by side."""
    comparison = call.view.get_run(first).compare(second)
    table = show.make_table("step", first, second, "")
    for step_pair in comparison.steps:
        note = "" if step_pair.has_same_outcome else "another result" if step_pair.has_same_action else "another action"
        table.add_row(str(step_pair.number), _describe(step_pair.first), _describe(step_pair.second), note)
    document = {"shared": comparison.shared, "steps": comparison.steps, "runs": [comparison.first, comparison.second]}
    return CommandResult(document, table)


@command(app, "delete")
def delete(
    call: Call,
    run_id: Annotated[str, typer.Argument(metavar="RUN")],
    hard: Hard = False,
    yes: Yes = False,
    preview: Preview = False,
) -> CommandResult:
    """Delete a run with its cycles. Shows what will be deleted and asks first."""
    return run_deletion(partial(call.view.delete_run, run_id), f"run {run_id}", hard=hard, yes=yes, preview=preview)


@command(app, "restore")
def restore(call: Call, run_id: Annotated[str, typer.Argument(metavar="RUN")]) -> CommandResult:
    """Restore a deleted run."""
    run = call.view.restore_run(run_id)
    return _show_run(run.execution, f"restored run {run.id}")


@command(app, "how-to")
def how_to(
    call: Call,
    task: Annotated[str, typer.Argument(metavar="TASK")],
    k: Annotated[int, typer.Option("-k", metavar="N", help="How many.")] = 3,
) -> CommandResult:
    """Show how tasks like this one were done before."""
    procedures = call.view.how_to(task, k=k)
    lines: list[str] = []
    for procedure in procedures:
        lines.append(f"{procedure.task} ({procedure.score:.2f})")
        for number, step in enumerate(procedure.steps, 1):
            arguments = encode_json(dict(step.arguments)) if step.arguments else ""
            lines.append(f"  {number}. {step.tool or ''} {arguments} {step.summary or ''}".rstrip())
    output = show.render_text("\n".join(lines)) if lines else Text("no task like this was done before", style="dim")
    return CommandResult({"procedures": procedures}, output)


@command(app, "recall")
def recall_with_results(
    call: Call,
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    k: Annotated[int, typer.Option("-k", metavar="N", help="How many memories.")] = 10,
    results: Annotated[int, typer.Option(metavar="N", help="How many of the latest results.")] = 5,
) -> CommandResult:
    """Find memories that answer a question, together with the latest results of runs."""
    recollections = call.view.recall_with_results(question, k=k, results=results)
    table = show.make_table("score", "what", "of")
    for item in recollections:
        score = "" if item.score is None else f"{item.score:.2f}"
        origin = "" if item.step is None else f"cycle {item.step.cycle_index} ({item.step.tool or ''})"
        table.add_row(score, show.render_text(item.text, _MAX_TEXT_LENGTH), show.render_text(origin))
    output: RenderableType = table if recollections else Text("nothing", style="dim")
    return CommandResult({"items": recollections.items, "is_fallback": recollections.is_fallback}, output)


@command(app, "known-at")
def known_at(
    call: Call,
    cycle: Cycle,
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    run_id: AnyRunId = None,
) -> CommandResult:
    """Find what was known when a cycle of a run began."""
    hits = _find_run(call, run_id).known_at(cycle, question)
    return CommandResult(
        {"hits": hits.hits},
        memory_lists.make_hit_list(hits, call.zone, call.scope, empty=memory_lists.NOTHING_RELEVANT),
    )


def _find_unfinished_run(call: Call, run_id: str | None) -> "Run":
    if run_id is not None:
        return call.view.get_run(run_id)
    for status in ("running", "paused"):
        for latest in call.view.runs(status=status, limit=1):
            return call.view.get_run(latest.id)
    raise NotFound("no unfinished run in this scope", remedy=Remedy("begin one with {}", Verb("run")))


def _find_run(call: Call, run_id: str | None) -> "Run":
    if run_id is not None:
        return call.view.get_run(run_id)
    latest = call.view.runs(limit=1)
    if not latest:
        raise NotFound("no run in this scope", remedy=Remedy("begin one with {}", Verb("run")))
    return call.view.get_run(latest[0].id)


def _show_run(execution: Execution, sentence: str) -> CommandResult:
    return CommandResult({"run": execution}, show.render_text(sentence))


def _show_step(run: "Run", step: "RunStep") -> CommandResult:
    attempt = f", attempt {step.attempt}" if step.attempt > 1 else ""
    key_note = f"; its idempotency key is {step.idempotency_key}" if step.is_open else ""
    sentence = f"cycle {step.cycle_index} of run {run.id}: {_describe(step)}{attempt}{key_note}"
    document = {"run": run.execution, "step": step, "idempotency_key": step.idempotency_key}
    return CommandResult(document, show.render_text(sentence))


def _describe(step: "RunStep | None") -> str:
    if step is None:
        return ""
    arguments = ", ".join(f"{name}={encode_json(value)}" for name, value in step.arguments.items())[:_MAX_TEXT_LENGTH]
    return f"{step.tool or ''}({arguments}) {'has no result yet' if step.is_open else step.status}"
