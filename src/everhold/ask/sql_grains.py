"""Dates cut to a period, in the functions of each dialect."""

from collections.abc import Mapping

from sqlglot import exp

# SQLite keeps dates as text; its formats sort as time does.
_SQLITE_FORMATS: Mapping[str, str] = {"year": "%Y", "month": "%Y-%m", "week": "%Y-%W", "day": "%Y-%m-%d"}


def cut_date(column: exp.Expr, grain: str, dialect: str) -> exp.Expr:
    """Return the period that a date lies in; `grain` is year, quarter, month, week or day."""
    if dialect != "sqlite":
        return exp.TimestampTrunc(this=column, unit=exp.Var(this=grain.upper()))
    if grain != "quarter":
        return _format(column, _SQLITE_FORMATS[grain])
    month = exp.Cast(this=_format(column, "%m"), to=exp.DataType.build("int"))
    shifted = exp.Paren(this=exp.Add(this=month, expression=exp.Literal.number(2)))
    number = exp.Paren(this=exp.Div(this=shifted, expression=exp.Literal.number(3)))
    start = exp.DPipe(this=_format(column.copy(), "%Y"), expression=exp.Literal.string("-Q"))
    return exp.DPipe(this=start, expression=number)


def _format(column: exp.Expr, pattern: str) -> exp.Expr:
    return exp.Anonymous(this="strftime", expressions=[exp.Literal.string(pattern), column])
