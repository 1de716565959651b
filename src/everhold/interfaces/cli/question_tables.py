"""The report on questions about lives, for a terminal of 80 columns or more."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from everhold.evaluation.lives import LifeQuestion
from everhold.evaluation.questions import FIGURES, QuestionsReport, QuestionVerdict
from everhold.evaluation.reliability import ReliabilityTable
from everhold.interfaces.cli import show

_HEADERS = {"stale_on_top": "stale\non top", "lookalike": "look-\nalike"}
_NONE = "–"
_PADDING = (0, 1, 0, 0)  # narrow, so that all figures fit into 80 columns
_MAX_TEXT_LENGTH = 110


def make_report_tables(report: QuestionsReport, *, failures: bool) -> RenderableType:
    """Return the figures by type and, of several lives, by life, the reliability table, and the failures if asked."""
    parts: list[RenderableType] = [_make_figures_table("type", {**report.by_type, "all": report.overall}), Text()]
    if len(report.by_life) > 1:
        parts += [_make_figures_table("life", report.by_life), Text()]
    parts += [_make_reliability_table(report.reliability), _describe_errors(report)]
    if failures:
        for verdict in report.failures:
            parts += [Text(), *_describe_failure(verdict)]
    return Group(*parts)


def _make_figures_table(first: str, rows: Mapping[str, Mapping[str, Any]]) -> Table:
    table = show.make_number_table(first, "asked", *(_HEADERS.get(name, name) for name in FIGURES), padding=_PADDING)
    for name, figures in rows.items():
        cells = [_NONE if figures[figure] is None else f"{figures[figure]:.3f}" for figure in FIGURES]
        table.add_row(show.render_text(name), f"{figures['questions']:,}", *cells)
    return table


def _make_reliability_table(reliability: ReliabilityTable) -> Table:
    table = show.make_number_table("score", "hits", "mean score", "right", padding=_PADDING)
    for score_bin in reliability.bins:
        shares = [_NONE if share is None else f"{share:.3f}" for share in (score_bin.score, score_bin.right)]
        table.add_row(f"{score_bin.low:.1f}–{score_bin.high:.1f}", f"{score_bin.hits:,}", *shares)
    return table


def _describe_errors(report: QuestionsReport) -> Text:
    errors = (report.reliability.error, report.returned_reliability.error)
    of_all_hits, of_returned_hits = (_NONE if error is None else f"{error:.3f}" for error in errors)
    return Text(
        f"expected calibration error {of_all_hits}; of hits that default settings return, {of_returned_hits}",
        style="dim",
    )


def _describe_failure(verdict: QuestionVerdict) -> Iterator[Text]:
    question = verdict.question
    texts = {memory.id: memory.text for memory in verdict.life.memories}
    title = f"{verdict.life.name} {question.id} [{question.type}] {question.q}"
    yield show.render_text(f"{title} → {', '.join(verdict.faults)}", style="bold")
    if question.answer:
        yield show.render_text(f"    answer: {question.answer}")
    returned = {hit.id for hit in verdict.hits}
    for memory_id in question.expect:
        if memory_id not in returned:
            yield show.render_text(f"    missing         {memory_id}  {texts[memory_id]}", _MAX_TEXT_LENGTH)
    for hit in verdict.hits:
        mark = _mark_hit(question, hit.id)
        yield show.render_text(f"    {hit.score:.3f} {mark:9} {hit.id}  {texts.get(hit.id, '')}", _MAX_TEXT_LENGTH)


def _mark_hit(question: LifeQuestion, memory_id: str) -> str:
    if memory_id in question.stale:
        return "stale"
    if memory_id in question.expect:
        return "expected"
    return "right" if memory_id in question.right else "wrong"
