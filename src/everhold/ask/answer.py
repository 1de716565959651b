"""Make answers: a sentence, a table, the SQL, the reading of the question in words, and charts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from everhold.ask.charts.chart import Chart, ChartKind
from everhold.ask.charts.choosing import choose_charts
from everhold.ask.charts.intent import read_chart_intent
from everhold.ask.charts.sketch import sketch_chart
from everhold.ask.charts.specification import write_specification
from everhold.ask.earlier import EarlierQuestion
from everhold.ask.export import write_cell, write_csv
from everhold.ask.frame import QueryFrame
from everhold.ask.outcome import AnswerChoice, AnswerStatus, NotUnderstood, describe_problems
from everhold.ask.sentences import describe_result
from everhold.ports.result_table import ResultTable

_MAX_HTML_ROWS = 50


@dataclass(frozen=True)
class Answer:
    """The answer to a question about data.

    `restatement` says in words how the question was read, `assumptions` what was assumed in reading it, and
    `alternatives` are other readings in words. `charts` are ordered best first; the first is a table if no chart fits.

    With the status CLARIFY, `choices` are readings with different results, and `clarification` asks the user to choose;
    the other fields belong to the first choice. With CANNOT, `not_understood` says why; there are no rows and no SQL.

    `query` is the id of the stored query run of the question. Pass it to `confirm`, `correct` and `reject`.
    """

    question: str
    sentence: str
    table: ResultTable
    sql: str
    restatement: str
    assumptions: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    confidence: float = 1.0
    charts: tuple[Chart, ...] = field(default=(), repr=False)
    status: AnswerStatus = AnswerStatus.ANSWERED
    choices: tuple[AnswerChoice, ...] = ()
    clarification: str = ""
    not_understood: tuple[NotUnderstood, ...] = ()
    query: str = ""

    def __str__(self) -> str:
        return self.sentence

    @property
    def earlier(self) -> EarlierQuestion:
        """This question with its SQL. Pass it as `after` to ask a follow-up question."""
        return EarlierQuestion(self.question, self.sql or None)

    @property
    def full_text(self) -> str:
        """The sentence, and below it the choices if there are any."""
        return "\n".join([self.sentence, *(f"{choice.number}. {choice}" for choice in self.choices)])

    @property
    def chart(self) -> Chart | None:
        """The best chart, or None if a table is best."""
        best = self.charts[0] if self.charts else None
        return best if best is not None and best.kind != ChartKind.TABLE else None

    @property
    def specification(self) -> dict[str, Any] | None:
        """The best chart as a Vega-Lite specification, or None if a table is best."""
        return write_specification(self.chart) if self.chart else None

    def sketch(self, width: int = 80) -> str:
        """Return the best chart drawn with characters, in lines of at most `width` columns; empty without a chart."""
        return sketch_chart(self.chart, width) if self.chart else ""

    def to_csv(self) -> str:
        """Return the table as CSV. Cells that a spreadsheet would run as formulas are made plain text."""
        return write_csv(self.table)

    def _repr_html_(self) -> str:
        details = [
            ("How the question was read", [self.restatement] if self.restatement else []),
            ("Assumed", list(self.assumptions)),
            (escape(self.clarification), [f"{choice.number}. {choice}" for choice in self.choices]),
        ]
        notes = "".join(
            f"<dt>{title}</dt>" + "".join(f"<dd>{escape(text)}</dd>" for text in texts)
            for title, texts in details
            if texts
        )
        rows = _write_html_table(self.table) if self.table.columns else ""
        sql = f"<details><summary>SQL</summary><pre>{escape(self.sql)}</pre></details>" if self.sql else ""
        return f'<div class="everhold-answer"><p>{escape(self.sentence)}</p>{rows}<dl>{notes}</dl>{sql}</div>'


def _write_html_table(table: ResultTable) -> str:
    header = "".join(f"<th>{escape(column.name)}</th>" for column in table.columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(write_cell(cell))}</td>' for cell in row)}</tr>"
        for row in table.rows[:_MAX_HTML_ROWS]
    )
    omitted = len(table.rows) - _MAX_HTML_ROWS
    note = f"<caption>{omitted:,} more rows</caption>" if omitted > 0 else ""
    return f"<table>{note}<thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>"


def make_answer(
    question: str,
    table: ResultTable,
    sql: str,
    restatement: str,
    *,
    frame: QueryFrame | None = None,
    row_noun: str = "rows",
    assumptions: Sequence[str] = (),
    alternatives: Sequence[str] = (),
    confidence: float = 1.0,
    choices: Sequence[AnswerChoice] = (),
    clarification: str = "",
) -> Answer:
    """Return the answer for a result, with a sentence, charts and a status made from these arguments."""
    intent = read_chart_intent(question, frame)
    sentence = describe_result(table, intent, row_noun)
    status = AnswerStatus.ASSUMED if assumptions else AnswerStatus.ANSWERED
    return Answer(
        question=question,
        sentence=f"{clarification} The likeliest answer: {sentence}" if choices else sentence,
        table=table,
        sql=sql,
        restatement=restatement,
        assumptions=tuple(assumptions),
        alternatives=tuple(alternatives),
        confidence=confidence,
        charts=choose_charts(table, intent, restatement.removeprefix("the ")),
        status=AnswerStatus.CLARIFY if choices else status,
        choices=tuple(choices),
        clarification=clarification,
    )


def make_refusal(question: str, not_understood: Sequence[NotUnderstood], notes: Sequence[str] = ()) -> Answer:
    """Return the answer to a question that was not understood: it says what, and has no rows.

    `notes` are its `assumptions`.
    """
    return Answer(
        question=question,
        sentence=describe_problems(not_understood),
        table=ResultTable((), ()),
        sql="",
        restatement="",
        assumptions=tuple(notes),
        confidence=0.0,
        status=AnswerStatus.CANNOT,
        not_understood=tuple(not_understood),
    )
