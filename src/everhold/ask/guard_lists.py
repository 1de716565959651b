"""The allow lists of the guard: what a statement may consist of. Everything else is refused."""

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

# Nodes and the arguments that they may have. A statement with any other argument, such as a lock, is refused.
STRUCTURE: Final[Mapping[type[exp.Expr], frozenset[str]]] = {
    node: frozenset(arguments.split())
    for node, arguments in {
        exp.Select: "expressions from_ joins where group having order limit offset distinct with_ windows qualify",
        exp.Union: "this expression distinct order limit offset with_",
        exp.Intersect: "this expression distinct order limit offset with_",
        exp.Except: "this expression distinct order limit offset with_",
        exp.With: "expressions",
        exp.CTE: "this alias",
        exp.Subquery: "this alias",
        exp.From: "this",
        exp.Table: "this db alias joins",
        exp.TableAlias: "this columns",
        exp.Join: "this on using side kind method",
        exp.Lateral: "this alias",
        exp.Where: "this",
        exp.Group: "expressions rollup cube grouping_sets",
        exp.Rollup: "expressions",
        exp.Cube: "expressions",
        exp.GroupingSets: "expressions",
        exp.Having: "this",
        exp.Qualify: "this",
        exp.Order: "expressions",
        exp.Ordered: "this desc nulls_first",
        exp.Limit: "expression",
        exp.Fetch: "direction count limit_options",
        exp.LimitOptions: "rows",
        exp.Offset: "expression",
        exp.Distinct: "expressions on",
        exp.Window: "this partition_by order spec over alias",
        exp.WindowSpec: "kind start start_side end end_side exclude",
        exp.Filter: "this expression",
        exp.WithinGroup: "this expression",
        exp.IgnoreNulls: "this",
        exp.Column: "this table",
        exp.Identifier: "this quoted",
        exp.Star: "except_",
        exp.Alias: "this alias",
        exp.Literal: "this is_string",
        exp.Null: "",
        exp.Boolean: "this",
        exp.Var: "this",
        exp.Paren: "this",
        exp.Tuple: "expressions",
        exp.Interval: "this unit",
        exp.DataType: "this expressions nested",
        exp.DataTypeParam: "this expression",
        exp.In: "this expressions query",
        exp.Exists: "this",
        exp.Any: "this",
        exp.All: "this",
        exp.Case: "this ifs default",
        exp.If: "this true false",
        exp.Between: "this low high symmetric",
        exp.Cast: "this to",
        exp.TryCast: "this to safe requires_string",
        exp.AtTimeZone: "this zone",
        exp.Collate: "this expression",
    }.items()
}

OPERATORS: Final[frozenset[type[exp.Expr]]] = frozenset({
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.NullSafeEQ,
    exp.NullSafeNEQ, exp.Like, exp.ILike, exp.Escape, exp.Glob, exp.SimilarTo, exp.RegexpLike, exp.RegexpILike,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow, exp.Neg, exp.DPipe,
    exp.BitwiseAnd, exp.BitwiseOr,
})  # fmt: skip

# Functions whose cost and result grow only with their input. Not listed are functions that repeat or pad (repeat, lpad,
# printf), make rows or lists (range, generate_series), read the server's state, or run SQL.
_COMMON: Final[frozenset[type[exp.Expr]]] = frozenset({
    exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.GroupConcat, exp.Stddev, exp.StddevPop, exp.StddevSamp,
    exp.Variance, exp.VariancePop, exp.Corr, exp.CovarPop, exp.CovarSamp, exp.Median, exp.Mode, exp.AnyValue,
    exp.CountIf, exp.LogicalAnd, exp.LogicalOr, exp.PercentileCont, exp.PercentileDisc, exp.Quantile,
    exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile, exp.Lag, exp.Lead,
    exp.FirstValue, exp.LastValue, exp.NthValue,
    exp.Abs, exp.Ceil, exp.Floor, exp.Round, exp.Trunc, exp.Sqrt, exp.Cbrt, exp.Ln, exp.Log, exp.Exp, exp.Sign,
    exp.Greatest, exp.Least, exp.Coalesce, exp.Nullif,
    exp.Upper, exp.Lower, exp.Initcap, exp.Length, exp.Trim, exp.Substring, exp.Left, exp.Right, exp.Replace,
    exp.Concat, exp.ConcatWs, exp.StrPosition, exp.SplitPart, exp.StartsWith, exp.Contains, exp.Reverse,
    exp.CurrentDate, exp.CurrentTimestamp, exp.Extract, exp.TimestampTrunc, exp.DateTrunc, exp.TimeToStr,
    exp.StrToDate, exp.StrToTime, exp.TsOrDsToTimestamp, exp.TsOrDsToDate, exp.Date, exp.DateDiff, exp.DateAdd,
    exp.DateSub, exp.Grouping,
})  # fmt: skip
_DATE_PARTS: Final[frozenset[type[exp.Expr]]] = frozenset({
    exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth, exp.DayOfWeek,
    exp.DayOfWeekIso, exp.DayOfYear, exp.Hour, exp.Minute, exp.Second, exp.Dayname, exp.Monthname, exp.LastDay,
})  # fmt: skip
_DUCKDB: Final[frozenset[type[exp.Expr]]] = _DATE_PARTS | {
    exp.DateFromParts, exp.TimeToUnix, exp.ArgMax, exp.ArgMin, exp.ApproxDistinct, exp.RegrSlope, exp.Kurtosis,
    exp.Skewness,
}  # fmt: skip

FUNCTIONS: Final[Mapping[str, frozenset[type[exp.Expr]]]] = {
    "duckdb": _COMMON | _DUCKDB,
    "sqlite": _COMMON,
    "postgres": _COMMON | {exp.WidthBucket},
    "mysql": _COMMON | _DATE_PARTS | {exp.TimestampDiff},
    # Databases that are connected through SQLAlchemy or ADBC, with a driver that the settings allow.
    **dict.fromkeys(("bigquery", "databricks", "redshift", "trino", "tsql"), _COMMON | _DATE_PARTS),
}

# Functions that have no class in the parser, by name.
NAMED_FUNCTIONS: Final[Mapping[str, frozenset[str]]] = {
    "duckdb": frozenset({"age", "date_part", "now"}),
    "sqlite": frozenset({"date", "datetime", "julianday", "time", "total", "unixepoch"}),
    "postgres": frozenset({"age", "make_date"}),
    "mysql": frozenset({"now", "weekday"}),
}
# Dialects in which the names of two tables, or of two columns, may differ only in case.
CASE_SENSITIVE_TABLES: Final = frozenset({"mysql", "postgres"})
CASE_SENSITIVE_COLUMNS: Final = frozenset({"postgres"})

_KINDS = exp.DataType.Type
# Types that a value may be cast to. Types that read the catalog, such as PostgreSQL's regclass, are not listed.
TYPES: Final = frozenset({
    _KINDS.BIGINT, _KINDS.BIGDECIMAL, _KINDS.BOOLEAN, _KINDS.CHAR, _KINDS.DATE, _KINDS.DECIMAL, _KINDS.DOUBLE,
    _KINDS.FLOAT, _KINDS.INT, _KINDS.INT128, _KINDS.INTERVAL, _KINDS.NCHAR, _KINDS.NVARCHAR, _KINDS.SMALLINT,
    _KINDS.TEXT, _KINDS.TIME, _KINDS.TIMESTAMP, _KINDS.TIMESTAMPLTZ, _KINDS.TIMESTAMPNTZ, _KINDS.TIMESTAMPTZ,
    _KINDS.TINYINT, _KINDS.UBIGINT, _KINDS.UINT, _KINDS.VARCHAR, _KINDS.DATETIME,
})  # fmt: skip

# Names that belong to the engine even without a schema in front of them.
RESERVED_PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "duckdb": ("duckdb_", "pragma_", "sqlite_"),
    "sqlite": ("pragma_", "sqlite_"),
    "postgres": ("pg_",),
}
