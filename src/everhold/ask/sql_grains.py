"""Truncate dates to a period, with the functions of each dialect."""

from collections.abc import Mapping

from sqlglot import exp

# SQLite stores dates as text. Texts in these formats have the same order as the times.
_SQLITE_FORMATS: Mapping[str, str] = {"year": "%Y", "month": "%Y-%m", "week": "%Y-%W", "day": "%Y-%m-%d"}
_MYSQL_FORMATS: Mapping[str, str] = {"year": "%Y-01-01", "month": "%Y-%m-01", "day": "%Y-%m-%d"}


def cut_date(column: exp.Expr, grain: str, dialect: str) -> exp.Expr:
    """Return the expression for the period of a date. `grain` is year, quarter, month, week or day."""
    if dialect == "mysql":
        return exp.cast(_cut_for_mysql(column, grain), "date", copy=False)
    if dialect != "sqlite":
        # PostgreSQL would convert a date to a time with a zone, and cannot truncate a date that is stored as text.
        moment = exp.cast(column, "timestamp", copy=False) if dialect == "postgres" else column
        cut = exp.TimestampTrunc(this=moment, unit=exp.Var(this=grain.upper()))
        return exp.cast(cut, "date", copy=False) if dialect == "postgres" else cut
    if grain != "quarter":
        return _format(column, _SQLITE_FORMATS[grain])
    # The number of the quarter is (month + 2) / 3, divided as whole numbers.
    month = exp.Cast(this=_format(column, "%m"), to=exp.DataType.build("int"))
    shifted = exp.Paren(this=exp.Add(this=month, expression=exp.Literal.number(2)))
    quarter = exp.Paren(this=exp.Div(this=shifted, expression=exp.Literal.number(3)))
    prefix = exp.DPipe(this=_format(column.copy(), "%Y"), expression=exp.Literal.string("-Q"))
    return exp.DPipe(this=prefix, expression=quarter)


def _cut_for_mysql(column: exp.Expr, grain: str) -> exp.Expr:
    if grain in _MYSQL_FORMATS:
        return exp.TimeToStr(this=column, format=exp.Literal.string(_MYSQL_FORMATS[grain]))
    if grain == "week":
        weekday = exp.Anonymous(this="WEEKDAY", expressions=[column.copy()])
        return exp.DateSub(this=column, expression=weekday, unit=exp.Var(this="DAY"))
    # The first month of a quarter is 3 * quarter - 2.
    month = exp.Sub(
        this=exp.Mul(this=exp.Quarter(this=column.copy()), expression=exp.Literal.number(3)),
        expression=exp.Literal.number(2),
    )
    dash = exp.Literal.string("-")
    parts = [exp.Year(this=column), dash, month, dash.copy(), exp.Literal.string("1")]
    return exp.Concat(expressions=parts, safe=True, coalesce=False)


def _format(column: exp.Expr, pattern: str) -> exp.Expr:
    return exp.Anonymous(this="strftime", expressions=[exp.Literal.string(pattern), column])
