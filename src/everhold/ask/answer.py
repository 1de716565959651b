"""Answer: the sentence, the table, the SQL, how the question was read, and charts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from everhold.ask.charts.chart import Chart, ChartKind
from everhold.ask.charts.choosing import choose_charts
from everhold.ask.charts.intent import read_chart_intent
from everhold.ask.charts.sketch import sketch_chart
from everhold.ask.charts.specification import write_specification
from everhold.ask.export import write_cell, write_csv
from everhold.ask.frame import QueryFrame
from everhold.ask.sentences import describe_result
from everhold.ports.result_table import ResultTable

_HTML_ROWS = 50


@dataclass(frozen=True)
class Answer:
    """The answer to a question about data.

    `restatement` is the question as it was read, `assumptions` what was taken for granted, and `alternatives` other
    readings in words. `charts` are best first; the first one is a table if no chart fits.
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

    def __str__(self) -> str:
        return self.sentence

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
        """Return the table as CSV that a spreadsheet opens without running anything in it."""
        return write_csv(self.table)

    def _repr_html_(self) -> str:
        details = [("How the question was read", [self.restatement]), ("Assumed", list(self.assumptions))]
        notes = "".join(
            f"<dt>{title}</dt>" + "".join(f"<dd>{escape(text)}</dd>" for text in texts)
            for title, texts in details
            if texts
        )
        return (
            f'<div class="everhold-answer"><p>{escape(self.sentence)}</p>{_write_html_table(self.table)}'
            f"<dl>{notes}</dl><details><summary>SQL</summary><pre>{escape(self.sql)}</pre></details></div>"
        )


def _write_html_table(table: ResultTable) -> str:
    header = "".join(f"<th>{escape(column.name)}</th>" for column in table.columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(write_cell(cell))}</td>' for cell in row)}</tr>" for row in table.rows[:_HTML_ROWS]
    )
    rest = len(table.rows) - _HTML_ROWS
    note = f"<caption>{rest:,} more rows</caption>" if rest > 0 else ""
    return f"<table>{note}<thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>"


def make_answer(
    question: str,
    table: ResultTable,
    sql: str,
    restatement: str,
    *,
    frame: QueryFrame | None = None,
    assumptions: Sequence[str] = (),
    alternatives: Sequence[str] = (),
    confidence: float = 1.0,
) -> Answer:
    """Return the answer for a result: its sentence and its charts are made here."""
    intent = read_chart_intent(question, frame)
    return Answer(
        question=question,
        sentence=describe_result(table, intent),
        table=table,
        sql=sql,
        restatement=restatement,
        assumptions=tuple(assumptions),
        alternatives=tuple(alternatives),
        confidence=confidence,
        charts=choose_charts(table, intent, restatement),
    )
