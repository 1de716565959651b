"""Commands that measure recall on data of one's own. Each works on an empty store in memory of its own."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold import Everhold
from everhold.errors import InvalidInput
from everhold.evaluation import answer_fitting, curve, fitting, leave_one_out, precision, precision_format, questions
from everhold.evaluation import locomo as data
from everhold.evaluation.lives import read_lives
from everhold.evaluation.locomo import CUTS, EvaluatedConversation
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, Outcome, command, on_store
from everhold.interfaces.cli.question_tables import make_report_tables
from everhold.interfaces.shared.documents import Line
from everhold.model.validation import suggest_name
from everhold.recall.recipe import HYBRID, Recipe

app = typer.Typer(help="Measure recall on data of your own.")

File = Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="Conversations in the shape of LoCoMo.")]
_MEASURES = (*(f"r@{k}" for k in CUTS), "mrr")
_NOT_THE_CALLERS = ("storage", "interface", "strict_scopes")


@command(app, "locomo", on_store)
def locomo(
    call: Call,
    file: File,
    folds: Annotated[
        Literal["conversation"] | None,
        typer.Option(help="Ask about each conversation with weights fitted to the others."),
    ] = None,
    without: Annotated[str | None, typer.Option(metavar="RETRIEVER", help="Leave one retriever out.")] = None,
) -> Outcome:
    """Show how much of the evidence for each question is among the first 5, 10 and 25 hits."""
    left_out = _checked_retriever(without)
    conversations = _conversations(file)
    recipes = _fitted_to_the_others(call, file, conversations) if folds else [HYBRID] * len(conversations)
    by_name = {one.id: left_out(recipe) for one, recipe in zip(conversations, recipes, strict=True)}
    with _fresh(call) as engine, call.progress("asking", _asked(conversations)) as progress:
        report = data.evaluate(engine, conversations, lambda one: by_name[one.id], progress).as_json()
    line = Line({"file": str(file), "folds": folds, **({"without": without} if without else {})})
    line |= {name: report[name] for name in (*_MEASURES, "questions", "by_category", "context_tokens")}
    return Outcome(line, _locomo_table(line))


def _checked_retriever(name: str | None) -> Callable[[Recipe], Recipe]:
    known = leave_one_out.groups_of(HYBRID)
    if name is None:
        return lambda recipe: recipe
    if name not in known:
        raise InvalidInput(f"--without: no retriever {name!r}", value=name, remedy=suggest_name(name, known))
    return lambda recipe: recipe.without(name)


def _fitted_to_the_others(call: Call, file: Path, conversations: Sequence[EvaluatedConversation]) -> list[Recipe]:
    examples = _examples(call, file, conversations)
    found = []
    with call.progress("fitting", len(examples)) as progress:
        for number in range(len(examples)):
            found.append(fitting.recipe_without(number, examples))
            progress(1)
    return found


def _locomo_table(line: Mapping[str, Any]) -> RenderableType:
    made = show.number_table("", "questions", *_MEASURES)
    for name, row in {"all": line, **line["by_category"]}.items():
        made.add_row(name, f"{row['questions']:,}", *_figures(row))
    return Group(made, Text(f"{data.CONTEXT_HITS} hits have {line['context_tokens']:,} tokens on average", style="dim"))


@command(app, "leave-one-out", on_store)
def leave_each_out(call: Call, file: File) -> Outcome:
    """Show what is lost without each retriever."""
    conversations = _conversations(file)
    recipes = {"": HYBRID, **leave_one_out.variants()}
    total = len(recipes) * _asked(conversations)
    with _fresh(call) as engine, call.progress("asking", total) as progress:
        reports = leave_one_out.compare(engine, conversations, list(recipes.values()), progress)
    whole, *others = (one.overall.as_json() for one in reports)
    without = {name: _compared(one, whole) for name, one in zip(list(recipes)[1:], others, strict=True)}
    made = show.number_table("without", *_MEASURES, *(f"Δ {name}" for name in _MEASURES[:-1]))
    made.add_row("–", *_figures(whole))
    for name, row in without.items():
        made.add_row(name, *_figures(row), *(f"{row['difference'][one]:+.3f}" for one in _MEASURES[:-1]))
    return Outcome(Line(file=str(file), **whole, without=without), made)


def _compared(one: Mapping[str, float], whole: Mapping[str, float]) -> dict[str, Any]:
    difference = {name: round(one[name] - whole[name], 4) for name in _MEASURES}
    return {**{name: one[name] for name in _MEASURES}, "difference": difference}


@command(app, "fit", on_store)
def fit(call: Call, file: File) -> Outcome:
    """Print weights for the hybrid recipe, fitted to conversations, as weights.json has them."""
    fitted = fitting.fit_weights(_examples(call, file, _conversations(file)))
    return Outcome(fitted, Text(json.dumps(fitted, indent=2), no_wrap=True, overflow="ignore"))


@command(app, "fit-answers", on_store)
def fit_answers(
    call: Call,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", dir_okay=False, help="A life: see docs/evaluation.md.")
    ],
) -> Outcome:
    """Print the weights by which the best memories are judged, fitted to lives, as answers.json has them."""
    lives = read_lives(files)
    with _fresh(call) as engine, call.progress("asking", sum(len(life.questions) for life in lives)) as progress:
        examples = answer_fitting.gather(engine, lives, progress)
    fitted = answer_fitting.fit(examples)
    return Outcome(fitted, Text(json.dumps(fitted, indent=2), no_wrap=True, overflow="ignore"))


@command(app, "curve", on_store)
def show_curve(call: Call, file: File) -> Outcome:
    """Show what each minimum score lets through, and how often it keeps a foreign question unanswered."""
    examples = _examples(call, file, _conversations(file))
    points = curve.curve(examples)
    usual = curve.point(examples, HYBRID.minimum, HYBRID.share)
    made = show.number_table("minimum", "precision", "recall", "silent")
    for name, one in [*((f"{one.minimum:.2f}", one) for one in points), ("default", usual)]:
        right = "–" if one.precision is None else f"{one.precision:.3f}"
        made.add_row(name, right, f"{one.recall:.3f}", f"{one.silent:.3f}")
    document = Line(file=str(file), points=[one.as_json() for one in points], default=usual.as_json())
    return Outcome(document, made)


@command(app, "precision", on_store)
def measure_precision(
    call: Call,
    directory: Annotated[Path, typer.Argument(metavar="DIR", file_okay=False, help="A suite: see docs/evaluation.md.")],
) -> Outcome:
    """Ask every case of a precision suite; it fails if one does not pass."""
    worlds = precision_format.read(directory)
    with call.progress("asking", len(worlds)) as progress:

        def opened() -> Everhold:
            progress(1)
            return _fresh(call)

        report = precision.evaluate(worlds, opened)
    return Outcome(Line(report.as_json()), _precision_table(report), 1 if report.failed else 0)


def _precision_table(report: precision.PrecisionReport) -> RenderableType:
    figures = report.as_json()
    made = show.number_table("category", "cases", "passed", "precision", "recall")
    for name, row in {**figures["by_category"], "all": figures}.items():
        shares = (f"{row[one]:.3f}" for one in ("precision", "recall"))
        made.add_row(name, str(row["cases"]), str(row["passed"]), *shares)
    parts: list[RenderableType] = [made]
    if report.failed:
        failed = show.table("failed", "what is wrong")
        for one in report.failed:
            failed.add_row(show.plain(one.name), show.plain(_wrong(one)))
        parts += [Text(), failed]
    return Group(*parts)


def _wrong(outcome: precision.CaseOutcome) -> str:
    missing = [f"missing {', '.join(outcome.missing)}"] if outcome.missing else []
    unwanted = [f"unwanted {', '.join(outcome.unwanted)}"] if outcome.unwanted else []
    return "; ".join([*missing, *unwanted, *outcome.faults])


@command(app, "questions", on_store)
def measure_questions(
    call: Call,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", dir_okay=False, help="A life: see docs/evaluation.md.")
    ],
    failures: Annotated[bool, typer.Option("--failures", help="List what went wrong, with what came back.")] = False,
    fold: Annotated[
        str | None, typer.Option(metavar="K/N", help="Use every N-th file only, beginning with the K-th.")
    ] = None,
) -> Outcome:
    """Ask questions about lives: what is right, stale or missing, and whether scores are chances."""
    chosen = files if fold is None else _choose_fold(files, fold)
    lives = read_lives(chosen)
    with call.progress("storing and asking", questions.count_steps(lives)) as progress:
        report = questions.evaluate(lives, lambda: _fresh(call), progress)
    line = Line(files=[str(file) for file in chosen], fold=fold, **report.as_json())
    if failures:
        line["failures"] = [verdict.as_json() for verdict in report.failures]
    return Outcome(line, make_report_tables(report, failures=failures))


def _choose_fold(files: Sequence[Path], fold: str) -> Sequence[Path]:
    number, slash, folds = fold.partition("/")
    if not (slash and number.isdecimal() and folds.isdecimal() and 1 <= int(number) <= int(folds) <= len(files)):
        raise InvalidInput(
            f"--fold: {fold!r} is not a fold of the given files ({len(files)})",
            value=fold,
            remedy=f"write K/N with K from 1 to N and N at most {len(files)}, such as 1/2",
        )
    return files[int(number) - 1 :: int(folds)]


def _fresh(call: Call) -> Everhold:
    """An empty engine in memory with the caller's settings."""
    given = {name: value for name, value in call.settings if name not in _NOT_THE_CALLERS}
    return Everhold.open("memory://", **given, interface="command line")


def _conversations(file: Path) -> list[EvaluatedConversation]:
    found = data.read(file)
    if not any(question.evidence for one in found for question in one.questions):
        raise InvalidInput(f"{file} has no question with evidence", remedy="see docs/evaluation.md")
    return found


def _examples(call: Call, file: Path, conversations: Sequence[EvaluatedConversation]) -> list[fitting.Examples]:
    """What every signal says of every turn. Fitting needs wrong turns, and questions about something else."""
    if len(conversations) < 2:
        raise InvalidInput(f"{file} has one conversation", remedy="add another, whose questions are foreign to it")
    least = max(fitting.KTH) + 1
    for one in conversations:
        if len(one.turns) < least or not any(question.evidence for question in one.questions):
            asked = sum(bool(question.evidence) for question in one.questions)
            raise InvalidInput(
                f"conversation {one.id!r} of {file} has {len(one.turns)} turns and {asked} questions with evidence",
                value=one.id,
                remedy=f"leave it out, or give it {least} turns and a question",
            )
    with _fresh(call) as engine, call.progress("looking at every turn for every question"):
        return fitting.gather(engine, conversations)


def _asked(conversations: Sequence[EvaluatedConversation]) -> int:
    return sum(len(one.questions) for one in conversations)


def _figures(row: Mapping[str, Any]) -> list[str]:
    return [f"{row[name]:.3f}" for name in _MEASURES]
