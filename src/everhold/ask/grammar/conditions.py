"""Read conditions with numbers, periods and averages: "older than 30", "between 3 and 5", "above the average".

The letters in the patterns are the codes of `language/cues.py` and `linking/mention.py`.
"""

import re

from everhold.ask.frame import Expression, Function, Literal, Predicate, QueryFrame
from everhold.ask.grammar.columns import find_implied, find_time
from everhold.ask.grammar.draft import FrameDraft, GroupCondition, PlacedPredicate
from everhold.ask.language.periods import TimeInterval
from everhold.ask.linking.mention import NUMBER, PERIOD, VERB
from everhold.ask.schema import AskColumn, ColumnKind

_NEGATED_OPERATORS = {">": "<=", "<": ">=", ">=": "<", "<=": ">", "=": "!=", "!=": "="}
_YEARS = range(1000, 2201)  # numbers that may be years


def read_conditions(draft: FrameDraft) -> None:
    """Read all conditions with comparisons. Longer patterns are tried first, so the order of the calls matters."""
    _read_distributions(draft)
    _read_between(draft)
    _read_versus(draft)
    _read_counts(draft)
    _read_number_then_column(draft)
    _read_column_then_number(draft)
    _read_bare_comparisons(draft)


def _read_distributions(draft: FrameDraft) -> None:
    """Read "the distribution of delays", which asks for every value that is not missing."""
    for match in draft.find(r"D[_xf]*(?P<column>C)"):
        column = draft.column(match.start("column"))
        if column.has_nulls:
            missing = Predicate(Expression(column.ref), "is null", negated=True)
            draft.where.append(PlacedPredicate(match.start(), match.start(), missing))
        draft.take(match.start())


def _read_between(draft: FrameDraft) -> None:
    for match in draft.find(r"(?:(?P<column>C)[=hxir,]{0,3})?w(?P<low>[NP])[&i](?P<high>[NP])(?P<after>C)?"):
        low, high = match.start("low"), match.start("high")
        column = _choose_column(draft, match.start("column"), match.start("after"), low)
        if column is None:
            continue
        values = (_read_edge(draft, low, column, False), _read_edge(draft, high, column, True))
        half_open = draft.codes[high] == PERIOD and column.kind is ColumnKind.DATE
        _add_condition(draft, match, Predicate(Expression(column.ref), "between", values, half_open=half_open))


def _read_edge(draft: FrameDraft, position: int, column: AskColumn, is_end: bool) -> Literal:
    """Return the number at a position, or the start or the end of the period there."""
    mention = draft.mention(position)
    if mention.kind == NUMBER and mention.value is not None:
        return _fit_number(mention.value, column)
    assert mention.period
    return (mention.period.end if is_end else mention.period.start).isoformat()


def _choose_column(draft: FrameDraft, before: int, after: int, number: int) -> AskColumn | None:
    """Return the column at the position before or after a comparison, or one near the position of the number."""
    for position in (before, after):
        if position >= 0 and _is_comparable(draft.column(position)):
            return draft.column(position)
    return _find_column_near(draft, number)


def _is_comparable(column: AskColumn) -> bool:
    return column.is_numeric or column.is_time


def _read_versus(draft: FrameDraft) -> None:
    """Read comparisons with an average, a minimum or a maximum."""
    pattern = (
        r"(?:(?P<column>C)[=hxir]{0,3})?(?P<operator>[>c])(?P<middle>[C#x]*)k?"
        r"(?P<function>[ams])[#fx]*(?P<other>C)?"
    )
    for match in draft.find(pattern):
        operator, function = draft.cue(match.start("operator")), draft.cue(match.start("function"))
        middle = next((p for p in range(match.start("middle"), match.end("middle")) if draft.codes[p] == "C"), -1)
        positions = [p for p in (match.start("column"), middle, match.start("other")) if p >= 0]
        columns = [draft.column(p) for p in positions]
        if not columns and operator.adjective:
            implied = find_implied(draft, operator.adjective)
            columns = [implied[0]] if implied else []
        if not columns or not columns[0].is_numeric:
            continue
        aggregate = function.value if isinstance(function.value, Function) else _pick_extreme(bool(function.value))
        inner = QueryFrame(columns[-1].table, (Expression(columns[-1].ref, aggregate),))
        _add_condition(draft, match, Predicate(Expression(columns[0].ref), operator.value, frame=inner))


def _pick_extreme(is_highest: bool) -> Function:
    return Function.MAXIMUM if is_highest else Function.MINIMUM


def _read_counts(draft: FrameDraft) -> None:
    """Read conditions on the number of related rows: "more than 2 orders", "at least twice"."""
    pattern = r"(?P<negation>n)?(?P<operator>>)?(?P<value>N)(?P<postfix>})?[x,fV]{0,3}(?P<counted>[TC])?"
    for match in draft.find(pattern):
        number = draft.mention(match.start("value"))
        index = match.start("counted")
        table = _find_counted_table(draft, index) if index >= 0 else None
        if number.counts_times and table is None:
            table = _find_related(draft, match.start("value"))
        operator_position = match.start("operator") if match["operator"] else match.start("postfix")
        cue = draft.cue(operator_position) if operator_position >= 0 else None
        if table is None or number.value is None or (cue is None and not _follows_have(draft, match.start())):
            continue
        operator = str(cue.value) if cue else "="
        draft.having.append(GroupCondition(match.start(), table, operator, number.value))
        end = match.end() if index >= 0 and not number.counts_times else match.end("value")
        draft.take(*(position for position in range(match.start(), end) if draft.codes[position] != "V"))


def _follows_have(draft: FrameDraft, position: int) -> bool:
    return bool(re.search(r"[hr]x?$", draft.originals[:position]))


def _find_counted_table(draft: FrameDraft, position: int) -> str | None:
    """Return the table whose rows are counted; None if the number is compared with the values of a column."""
    mention = draft.mention(position)
    if draft.codes[position] == "T":
        return mention.table
    column = draft.column(position)
    return None if _is_comparable(column) and column.kind is not ColumnKind.ID else column.table


def _find_related(draft: FrameDraft, position: int) -> str | None:
    """Return the table whose rows "twice" counts.

    This is the last table named before that is not the entity, else a table that refers to the entity.
    """
    entity = draft.entity()
    before = [table.name for table_position, table in draft.tables() if table_position < position and table != entity]
    if before:
        return before[-1]
    if entity is None:
        return None
    return next((key.table for key in draft.schema.keys_at(entity.name) if key.to_table == entity.name), None)


def _read_number_then_column(draft: FrameDraft) -> None:
    for pattern in (
        r"(?P<negation>n)?[h=x]{0,2}(?P<operator>>)(?P<value>N)[xi]?(?P<column>C)",
        r"(?P<negation>n)?(?P<operator>>)(?P<column>C)f?(?P<value>N)",
        r"(?P<negation>n)?(?P<value>N)(?P<operator>})(?P<column>C)?",
        r"(?P<column>C)[=h]*(?P<value>N)(?P<operator>})",
    ):
        for match in draft.find(pattern):
            position = match.start("column")
            column = draft.column(position) if position >= 0 else _find_column_near(draft, match.start("value"))
            if column and _is_comparable(column):
                _add_comparison(draft, match, column)


def _read_column_then_number(draft: FrameDraft) -> None:
    pattern = r"(?P<column>C)[=hxirf]{0,4}(?P<negation>n)?[=xi]{0,2}(?P<operator>[>A])i?(?P<value>[NP])"
    for match in draft.find(pattern):
        column = draft.column(match.start("column"))
        if _is_comparable(column) and _is_plausible(draft, match, column):
            _add_comparison(draft, match, column)


def _is_plausible(draft: FrameDraft, match: re.Match[str], column: AskColumn) -> bool:
    """Return whether the column before a comparison can belong to it. "Before" and "after" compare only times."""
    is_time_word = draft.originals[match.start("operator")] == "A" or draft.codes[match.start("value")] == PERIOD
    return column.is_time or not is_time_word


def _read_bare_comparisons(draft: FrameDraft) -> None:
    for match in draft.find(r"(?P<negation>n)?(?P<operator>[>A])i?(?P<value>[NP])(?P<age>y)?"):
        adjective = "old" if match["age"] else draft.cue(match.start("operator")).adjective
        implied = find_implied(draft, adjective) if adjective else None
        column = implied[0] if implied else _find_column_near(draft, match.start("value"))
        if column:
            _add_comparison(draft, match, column)


def _find_column_near(draft: FrameDraft, position: int) -> AskColumn | None:
    """Return the column for a number without a column: a time for a year, else the last numeric column before it."""
    mention = draft.mention(position)
    if mention.kind == PERIOD or (isinstance(mention.value, int) and mention.value in _YEARS):
        near = [p for p in range(max(0, position - 4), position) if draft.original(p) == "C"]
        times = [draft.column(p) for p in near if draft.column(p).is_time]
        column = times[-1] if times else find_time(draft, position)
        if column:
            return column
    before = [p for p in range(position) if draft.original(p) == "C" and draft.column(p).is_numeric]
    return draft.column(before[-1]) if before else None


def _add_comparison(draft: FrameDraft, match: re.Match[str], column: AskColumn) -> None:
    """Add a comparison such as "price over 10" to the draft, as a condition on rows or on groups."""
    operator = str(draft.cue(match.start("operator")).value)
    if match["negation"]:
        operator = _NEGATED_OPERATORS[operator]
    mention = draft.mention(match.start("value"))
    function = _find_function(draft, match, column)
    if function and mention.value is not None:
        figure = Expression(column.ref, function)
        draft.having.append(GroupCondition(match.start(), column.table, operator, mention.value, figure))
        draft.take(*range(match.start(), match.end()))
        return
    if mention.period:
        _add_condition(draft, match, compare_period(column, operator, mention.period))
    elif mention.value is not None:
        value = _fit_number(mention.value, column)
        _add_condition(draft, match, Predicate(Expression(column.ref), operator, (value,)))


def _find_function(draft: FrameDraft, match: re.Match[str], column: AskColumn) -> Function | None:
    """Return the function if a condition is on an aggregate, as in "spent more than 35" or "total sales over 1,000"."""
    position = match.start("column") if "column" in match.re.groupindex else -1
    entity = draft.entity()
    if position < 0 or entity is None or column.table == entity.name:
        return None
    if position > 0 and draft.codes[position - 1] == "a":
        value = draft.cue(position - 1).value
        draft.take(position - 1)
        return value if isinstance(value, Function) else None
    verb_position = match.start() - 1
    if verb_position >= 0 and draft.original(verb_position) == "C" and draft.mention(verb_position).why == VERB:
        draft.take(verb_position)  # "spent more than 100 on freight"
        return Function.SUM
    if draft.mention(position).why == VERB:
        draft.take(*(p for p in range(match.end(), len(draft.codes)) if draft.pieces[p].text == "in total"))
        return Function.SUM
    return None


def compare_period(column: AskColumn, operator: str, period: TimeInterval) -> Predicate:
    """Return a comparison with a period. "After" means from the end of the period on, "before" means up to its
    start."""
    start, end = period.start.isoformat(), period.end.isoformat()
    if column.kind is ColumnKind.YEAR:
        return Predicate(Expression(column.ref), operator, (period.start.year,))
    match operator:
        case ">":
            return Predicate(Expression(column.ref), ">=", (end,))
        case ">=":
            return Predicate(Expression(column.ref), ">=", (start,))
        case "<=":
            return Predicate(Expression(column.ref), "<", (end,))
        case "<":
            return Predicate(Expression(column.ref), "<", (start,))
        case _:
            return Predicate(Expression(column.ref), "between", (start, end), half_open=True)


def _fit_number(value: Literal, column: AskColumn) -> Literal:
    """Return a number in the form of the column's values. A year becomes its first day if the column has dates."""
    if column.kind is ColumnKind.DATE and isinstance(value, int) and value in _YEARS:
        return f"{value:04d}-01-01"
    return value


def _add_condition(draft: FrameDraft, match: re.Match[str], predicate: Predicate) -> None:
    """Add a condition to the draft, and mark its items as used, except for tables."""
    # "Per release year since 2015" also groups by the year.
    is_group = re.search(r"[eb][xd]?$", draft.originals[: match.start()]) and draft.codes[match.start()] == "C"
    start = match.start() + 1 if is_group else match.start()
    draft.where.append(PlacedPredicate(match.start(), match.end() - 1, predicate))
    draft.take(*(p for p in range(start, match.end()) if draft.codes[p] != "T"))
