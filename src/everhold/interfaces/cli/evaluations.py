"""Commands that measure recall on your own data. Each uses a new store, which it deletes."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold import Everhold
from everhold.errors import InvalidInput
from everhold.evaluation import (
    answer_fitting,
    answer_folds,
    curve,
    episodes,
    fitting,
    leave_one_out,
    locomo,
    precision,
    precision_format,
    questions,
    small_scopes,
)
from everhold.evaluation.lives import Life, read_lives
from everhold.evaluation.locomo import CUTS, EvaluatedConversation
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command, make_store_call
from everhold.interfaces.cli.numbers import read_number
from everhold.interfaces.cli.question_tables import make_report_tables
from everhold.interfaces.shared.documents import Line
from everhold.model.validation import suggest_name
from everhold.recall.recipe import HYBRID, Recipe

app = typer.Typer(help="Measure recall and questions about data.")

File = Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="Conversations in the shape of LoCoMo.")]
_MEASURES = (*(f"r@{k}" for k in CUTS), "mrr")
# Settings that every evaluation chooses itself.
_FIXED_SETTINGS = ("storage", "interface", "strict_scopes")


@command(app, "locomo", make_store_call)
def measure_locomo(
    call: Call,
    file: File,
    folds: Annotated[
        Literal["conversation"] | None,
        typer.Option(help="Ask about each conversation with weights fitted to the others."),
    ] = None,
    without: Annotated[str | None, typer.Option(metavar="RETRIEVER", help="Leave one retriever out.")] = None,
) -> CommandResult:
    """Show how much of the evidence for each question is among the first 5, 10 and 25 hits."""
    change_recipe = _choose_recipe_change(without)
    conversations = _read_conversations(file)
    recipes = _fit_to_others(call, file, conversations) if folds else [HYBRID] * len(conversations)
    recipes_by_id = {
        conversation.id: change_recipe(recipe) for conversation, recipe in zip(conversations, recipes, strict=True)
    }
    with open_empty(call) as engine, call.progress("asking", _count_questions(conversations)) as progress:
        report = locomo.evaluate(
            engine, conversations, lambda conversation: recipes_by_id[conversation.id], progress
        ).as_json()
    line = Line({"file": str(file), "folds": folds, **({"without": without} if without else {})})
    line |= {name: report[name] for name in (*_MEASURES, "questions", "by_category", "context_tokens")}
    return CommandResult(line, _make_locomo_table(line))


def _choose_recipe_change(name: str | None) -> Callable[[Recipe], Recipe]:
    groups = leave_one_out.list_groups(HYBRID)
    if name is None:
        return lambda recipe: recipe
    if name not in groups:
        raise InvalidInput(f"--without: no retriever {name!r}", value=name, remedy=suggest_name(name, groups))
    return lambda recipe: recipe.without(name)


def _fit_to_others(call: Call, file: Path, conversations: Sequence[EvaluatedConversation]) -> list[Recipe]:
    examples = _gather_examples(call, file, conversations)
    recipes = []
    with call.progress("fitting", len(examples)) as progress:
        for number in range(len(examples)):
            recipes.append(fitting.fit_without(number, examples))
            progress(1)
    return recipes


def _make_locomo_table(line: Mapping[str, Any]) -> RenderableType:
    table = show.make_number_table("", "questions", *_MEASURES)
    for name, row in {"all": line, **line["by_category"]}.items():
        table.add_row(name, f"{row['questions']:,}", *_format_measures(row))
    return Group(
        table, Text(f"{locomo.CONTEXT_HITS} hits have {line['context_tokens']:,} tokens on average", style="dim")
    )


@command(app, "episodes", make_store_call)
def measure_episodes(call: Call, file: File) -> CommandResult:
    """Show how many of the sessions with the evidence are among the first 10 that episodes lead to."""
    conversations = _read_conversations(file)
    total = episodes.count_steps(conversations)
    with open_empty(call) as engine, call.progress("saying and asking", total) as progress:
        report = episodes.evaluate(engine, conversations, progress).as_json()
    share_name = f"sessions@{episodes.SESSIONS}"
    table = show.make_number_table("conversation", "questions", share_name, "episodes", "summaries")
    for name, row in {**report["by_conversation"], "all": report}.items():
        figures = (
            f"{row['questions']:,}",
            f"{row[share_name]:.3f}",
            f"{row['episodes']:,}",
            f"{row['summary_share']:.1%}",
        )
        table.add_row(show.render_text(name), *figures)
    return CommandResult(Line(file=str(file), **report), table)


@command(app, "leave-one-out", make_store_call)
def leave_each_out(call: Call, file: File) -> CommandResult:
    """Show how recall changes without each retriever."""
    conversations = _read_conversations(file)
    recipes = {"": HYBRID, **leave_one_out.make_variants()}
    total = len(recipes) * _count_questions(conversations)
    with open_empty(call) as engine, call.progress("asking", total) as progress:
        reports = leave_one_out.compare(engine, conversations, list(recipes.values()), progress)
    complete_measures, *reduced_measures = (report.overall.as_json() for report in reports)
    without = {
        name: _compare_measures(report, complete_measures)
        for name, report in zip(list(recipes)[1:], reduced_measures, strict=True)
    }
    table = show.make_number_table("without", *_MEASURES, *(f"Δ {name}" for name in _MEASURES[:-1]))
    table.add_row("–", *_format_measures(complete_measures))
    for name, row in without.items():
        differences = [f"{row['difference'][measure]:+.3f}" for measure in _MEASURES[:-1]]
        table.add_row(name, *_format_measures(row), *differences)
    return CommandResult(Line(file=str(file), **complete_measures, without=without), table)


def _compare_measures(reduced: Mapping[str, float], complete: Mapping[str, float]) -> dict[str, Any]:
    difference = {name: round(reduced[name] - complete[name], 4) for name in _MEASURES}
    return {**{name: reduced[name] for name in _MEASURES}, "difference": difference}


@command(app, "fit", make_store_call)
def fit(call: Call, file: File) -> CommandResult:
    """Print weights for the hybrid recipe, fitted to conversations, as weights.json has them."""
    weights = fitting.fit_weights(_gather_examples(call, file, _read_conversations(file)))
    return CommandResult(weights, Text(json.dumps(weights, indent=2), no_wrap=True, overflow="ignore"))


@command(app, "fit-answers", make_store_call)
def fit_answers(
    call: Call,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", dir_okay=False, help="A life: see docs/evaluation.md.")
    ],
    part: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Fit only this part of answers.json; repeat for several."),
    ] = None,
) -> CommandResult:
    """Print the weights by which the best memories are judged, fitted to lives, as answers.json has them."""
    parts = part or answer_fitting.PARTS
    for name in parts:
        if name not in answer_fitting.PARTS:
            remedy = suggest_name(name, answer_fitting.PARTS)
            raise InvalidInput(f"--part: no part {name!r} of the weights", value=name, remedy=remedy)
    lives = read_lives(files)
    scopes = small_scopes.cut_lives(lives) if "chance_among_few" in parts else []
    question_count = sum(len(life.questions) for life in (*lives, *scopes))
    with open_temporary(call) as engine, call.progress("asking", question_count) as progress:
        examples = answer_fitting.collect_examples(engine, lives, progress)
        small_scope_examples = answer_fitting.collect_examples(engine, scopes, progress)
    weights = answer_fitting.fit_weights(examples, small_scope_examples, parts)
    return CommandResult(weights, Text(json.dumps(weights, indent=2), no_wrap=True, overflow="ignore"))


@command(app, "curve", make_store_call)
def show_curve(call: Call, file: File) -> CommandResult:
    """Show what each minimum score lets through, and how often it keeps a foreign question unanswered."""
    examples = _gather_examples(call, file, _read_conversations(file))
    points = curve.trace_minimums(examples)
    default = curve.measure_minimum(examples, HYBRID.minimum, HYBRID.share)
    table = show.make_number_table("minimum", "precision", "recall", "silent")
    for name, point in [*((f"{point.minimum:.2f}", point) for point in points), ("default", default)]:
        precision_text = "–" if point.precision is None else f"{point.precision:.3f}"
        table.add_row(name, precision_text, f"{point.recall:.3f}", f"{point.silent:.3f}")
    document = Line(file=str(file), points=[point.as_json() for point in points], default=default.as_json())
    return CommandResult(document, table)


@command(app, "precision", make_store_call)
def measure_precision(
    call: Call,
    directory: Annotated[Path, typer.Argument(metavar="DIR", file_okay=False, help="A suite: see docs/evaluation.md.")],
) -> CommandResult:
    """Ask every case of a precision suite; it fails if one does not pass."""
    worlds = precision_format.read(directory)
    with call.progress("asking", len(worlds)) as progress:

        def open_engine() -> Everhold:
            progress(1)
            return open_empty(call)

        report = precision.evaluate(worlds, open_engine)
    return CommandResult(Line(report.as_json()), _make_precision_table(report), 1 if report.failed else 0)


def _make_precision_table(report: precision.PrecisionReport) -> RenderableType:
    figures = report.as_json()
    table = show.make_number_table("category", "cases", "passed", "precision", "recall")
    for name, row in {**figures["by_category"], "all": figures}.items():
        shares = (f"{row[measure]:.3f}" for measure in ("precision", "recall"))
        table.add_row(name, str(row["cases"]), str(row["passed"]), *shares)
    parts: list[RenderableType] = [table]
    if report.failed:
        failed = show.make_table("failed", "what is wrong")
        for outcome in report.failed:
            failed.add_row(show.render_text(outcome.name), show.render_text(_describe_faults(outcome)))
        parts += [Text(), failed]
    return Group(*parts)


def _describe_faults(outcome: precision.CaseOutcome) -> str:
    missing = [f"missing {', '.join(outcome.missing)}"] if outcome.missing else []
    unwanted = [f"unwanted {', '.join(outcome.unwanted)}"] if outcome.unwanted else []
    return "; ".join([*missing, *unwanted, *outcome.faults])


@command(app, "questions", make_store_call)
def measure_questions(
    call: Call,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", dir_okay=False, help="A life: see docs/evaluation.md.")
    ],
    failures: Annotated[bool, typer.Option("--failures", help="List what went wrong, with what came back.")] = False,
    fold: Annotated[
        str | None, typer.Option(metavar="K/N", help="Use every N-th file only, beginning with the K-th.")
    ] = None,
    few: Annotated[
        bool,
        typer.Option("--few", help="Ask each question in small scopes, with and without its answer."),
    ] = False,
    folds: Annotated[
        Literal["life"] | None, typer.Option(help="Judge the answers of each life with weights fitted to the others.")
    ] = None,
) -> CommandResult:
    """Ask questions about lives: what is right, stale or missing, and whether scores are chances."""
    chosen_files = files if fold is None else _choose_fold(files, fold)
    lives = read_lives(chosen_files)
    if few and folds:
        raise InvalidInput("--folds does not work with --few", remedy="leave out one of them")
    if folds:
        with (
            open_temporary(call) as engine,
            call.progress("asking", sum(len(life.questions) for life in lives)) as progress,
        ):
            report = answer_folds.cross_validate(engine, lives, progress)
    elif few:
        report = _measure_small_scopes(call, small_scopes.cut_lives(lives))
    else:
        with call.progress("storing and asking", questions.count_steps(lives)) as progress:
            report = questions.evaluate(lives, lambda: open_empty(call), progress)
    line = Line(files=[str(file) for file in chosen_files], fold=fold, few=few, folds=folds, **report.as_json())
    if failures:
        line["failures"] = [verdict.as_json() for verdict in report.failures]
    return CommandResult(line, make_report_tables(report, failures=failures))


def _measure_small_scopes(call: Call, scopes: Sequence[Life]) -> questions.QuestionsReport:
    with open_temporary(call) as engine, call.progress("storing and asking", questions.count_steps(scopes)) as progress:
        return questions.evaluate(scopes, lambda: nullcontext(engine), progress)


def _choose_fold(files: Sequence[Path], fold: str) -> Sequence[Path]:
    number_text, _, folds_text = fold.partition("/")
    number, folds = read_number(number_text) or 0, read_number(folds_text) or 0
    if not 1 <= number <= folds <= len(files):
        raise InvalidInput(
            f"--fold: {fold!r} is not a fold of the given files ({len(files)})",
            value=fold,
            remedy=f"write K/N with K from 1 to N and N at most {len(files)}, such as 1/2",
        )
    return files[number - 1 :: folds]


def open_empty(call: Call) -> Everhold:
    """Return an engine on an empty store in memory, with the settings of the call."""
    options = {name: value for name, value in call.settings if name not in _FIXED_SETTINGS}
    return Everhold.open("memory://", **options, interface="command line")


@contextmanager
def open_temporary(call: Call) -> Iterator[Everhold]:
    """Open an engine on an empty SQLite file, which is deleted at the end. A file finds one of many users faster."""
    with TemporaryDirectory(prefix="everhold-") as folder:
        options = {name: value for name, value in call.settings if name not in _FIXED_SETTINGS}
        with Everhold.open(Path(folder) / "lives.db", **options, interface="command line") as engine:
            yield engine


def _read_conversations(file: Path) -> list[EvaluatedConversation]:
    conversations = locomo.read(file)
    if not any(question.evidence for conversation in conversations for question in conversation.questions):
        raise InvalidInput(f"{file} has no question with evidence", remedy="see docs/evaluation.md")
    return conversations


def _gather_examples(call: Call, file: Path, conversations: Sequence[EvaluatedConversation]) -> list[fitting.Examples]:
    """Return the signals of every turn for every question.

    Raise InvalidInput if there are too few: fitting needs wrong turns, and questions of another conversation.
    """
    if len(conversations) < 2:
        raise InvalidInput(f"{file} has one conversation", remedy="add another, whose questions are foreign to it")
    min_turns = max(fitting.COMPARED_RANKS) + 1
    for conversation in conversations:
        if len(conversation.turns) < min_turns or not any(question.evidence for question in conversation.questions):
            evidence_count = sum(bool(question.evidence) for question in conversation.questions)
            raise InvalidInput(
                f"conversation {conversation.id!r} of {file} has {len(conversation.turns)} turns and"
                f" {evidence_count} questions with evidence",
                value=conversation.id,
                remedy=f"leave it out, or give it {min_turns} turns and a question",
            )
    with open_empty(call) as engine, call.progress("looking at every turn for every question"):
        return fitting.collect_examples(engine, conversations)


def _count_questions(conversations: Sequence[EvaluatedConversation]) -> int:
    return sum(len(conversation.questions) for conversation in conversations)


def _format_measures(row: Mapping[str, Any]) -> list[str]:
    return [f"{row[name]:.3f}" for name in _MEASURES]
