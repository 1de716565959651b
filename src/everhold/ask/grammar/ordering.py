"""Read sort orders and superlatives: "sorted by age", "the 3 youngest", "with the most orders".

The letters in the patterns are the codes of `language/cues.py` and `linking/mention.py`.
"""

import re

from everhold.ask.frame import Expression, Function, Ordering, Predicate, QueryFrame
from everhold.ask.grammar.columns import find_implied, find_time
from everhold.ask.grammar.draft import FrameDraft, PlacedExpression, PlacedPredicate, make_count
from everhold.ask.grammar.groups import has_several
from everhold.ask.grouping import choose_function
from everhold.ask.language.lexicon import ADJECTIVES, QUANTITIES, SALES, SELLING, SIZES
from everhold.ask.linking.mention import VERB
from everhold.ask.schema import AskColumn, ColumnKind


def read_limits(draft: FrameDraft) -> None:
    """Read "top 3" and "the 3 youngest"."""
    for match in draft.find(r"tN|N(?=[sS])"):
        position = match.end() - 1
        value = draft.mention(position).value
        if isinstance(value, int) and value > 0:
            draft.limit = value
            draft.take(position)


def read_orderings(draft: FrameDraft) -> None:
    """Read the columns that the rows are to be sorted by."""
    pattern = (
        r"o[=i,]*(?P<direction1><)?[bofi]*(?P<column>C|#[xf]*T|#)(?:[fi]*T)?[i,o=]*(?P<direction2><)?"
        r"|(?P<direction3><)[bofi]*(?P<column2>C|#[xf]*T|#)(?:fT)?"
        r"|(?P<column3>C)i?(?P<direction4><)"
    )
    _read_sort_by(draft)
    for match in draft.find(pattern):
        start, end = next(match.span(name) for name in ("column", "column2", "column3") if match[name])
        directions = ("direction1", "direction2", "direction3", "direction4")
        direction = next((match.start(name) for name in directions if match[name]), -1)
        descending = bool(draft.cue(direction).value) if direction >= 0 else False
        draft.order.append(Ordering(_read_sorted(draft, start, end), descending))
        # "Sort employee names by age" shows the names; "names sorted by age" has nothing after the column.
        keep = {start} if match["column3"] and _is_listed(draft, start) else set()
        draft.take(*(p for p in range(match.start(), match.end()) if p not in keep))
    _read_sorted_selection(draft)


def _read_sort_by(draft: FrameDraft) -> None:
    """Read "sort the names by age": the names are shown, and the rows are sorted by the age."""
    for match in draft.find(r"o[^.bo<]{0,6}(?P<by>b)(?P<column>C)[i,o=]*(?P<direction><)?"):
        descending = bool(draft.cue(match.start("direction")).value) if match["direction"] else False
        draft.order.append(Ordering(Expression(draft.column(match.start("column")).ref), descending))
        draft.take(match.start(), *range(match.start("by"), match.end()))


def _is_listed(draft: FrameDraft, position: int) -> bool:
    return not re.search(r"[ob][^C]*$", draft.originals[:position])


def _read_sorted(draft: FrameDraft, start: int, end: int) -> Expression:
    if draft.codes[start] == "#":
        return make_count(draft.mention(end - 1).table if draft.codes[end - 1] == "T" else None)
    return Expression(draft.column(start).ref)


def _read_sorted_selection(draft: FrameDraft) -> None:
    """Read a direction without a column: the rows are sorted by the first column that is shown."""
    for match in draft.find(r"o?i?(?P<direction><)"):
        first = draft.codes.find("C")
        entity = draft.entity()
        ref = draft.column(first).ref if first >= 0 else entity.display_ref if entity else None
        time = find_time(draft, match.start()) if draft.cue(match.start("direction")).adjective == "recent" else None
        ref = time.ref if time else ref
        if ref:
            draft.order.append(Ordering(Expression(ref), bool(draft.cue(match.start("direction")).value)))
            draft.take(*range(match.start(), match.end()))


def read_superlatives(draft: FrameDraft) -> None:
    """Read superlatives that select rows. Superlatives that only compute a value are read by the selection."""
    _read_most_common(draft)
    for match in draft.find(r"(?P<aggregate>_)?(?P<column>C)(?P<superlative>s)(?![#xfi]{0,2}[CT])"):
        if draft.mention(match.start("column")).why == VERB:
            _order_by(draft, match, draft.column(match.start("column")), Function.SUM)
    for match in draft.find(r"(?P<aggregate>a)?(?P<column>C)=+(?P<superlative>[sm])(?![#xf]*[CT])"):
        _order_by(draft, match, draft.column(match.start("column")))
    for match in draft.find(r"i(?P<superlative>s)(?P<column>C)"):
        _read_extreme_time(draft, match)
    for match in draft.find(r"(?P<superlative>[sm])#?[xfi]{0,2}(?P<aggregate>a)?(?P<column>C)"):
        if not _is_value_only(draft, match):
            _read_superlative_column(draft, match)
    for match in draft.find(r"(?P<superlative>s)#?[xdfi]{0,2}(?P<table>T)"):
        _read_superlative_table(draft, match)
    for match in draft.find(r"(?P<superlative>s)(?P<column>C)?"):
        if not _is_size_of(draft, match):
            _read_bare_superlative(draft, match)


def _is_size_of(draft: FrameDraft, match: re.Match[str]) -> bool:
    """Return whether a superlative is about the measure after it: "the longest delay" is the highest value."""
    if match["column"] is None or draft.cue(match.start("superlative")).adjective not in SIZES:
        return False
    return draft.column(match.start("column")).kind is ColumnKind.MEASURE


def _read_most_common(draft: FrameDraft) -> None:
    """Read "the most common city": group by it and count."""
    pattern = r"(?P<superlative>S)[xf]{0,2}(?P<noun>[CT])|(?P<noun2>[CT])[^CT]{0,4}(?P<superlative2>S)"
    for match in draft.find(pattern):
        position = match.start("noun") if match["noun"] else match.start("noun2")
        cue = draft.cue(match.start("superlative") if match["superlative"] else match.start("superlative2"))
        mention = draft.mention(position)
        assert mention.owner
        shown = mention.column or draft.schema.table(mention.owner).display_ref
        others = [name for _, table in draft.tables() if (name := table.name) != mention.owner]
        counted = mention.owner if mention.column or not others else others[0]
        draft.most = (counted, bool(cue.value))
        draft.select.append(PlacedExpression(position, Expression(shown)))
        draft.take(*(p for p in range(match.start(), match.end()) if draft.codes[p] in "SCx"))


def _is_value_only(draft: FrameDraft, match: re.Match[str]) -> bool:
    """Return whether the question asks for the highest or lowest value itself: "what is the highest price?"."""
    before = draft.originals[: match.start()]
    sentence = before[before.rfind(".") + 1 :]
    return not re.search(r"[rTVCe]|#", sentence.rstrip("&,")) or bool(re.search(r"[am][&,]*$|[La#]$", sentence))


def _read_superlative_column(draft: FrameDraft, match: re.Match[str]) -> None:
    column = draft.column(match.start("column"))
    if _is_countable(column) and draft.originals[match.start("superlative")] == "s":
        draft.most = (column.table, bool(draft.cue(match.start("superlative")).value))
        draft.limit = draft.limit or 1
        draft.take(*range(match.start(), match.end()))
    else:
        _order_by(draft, match, column)


def _read_extreme_time(draft: FrameDraft, match: re.Match[str]) -> None:
    """Read "in the earliest year", which picks all rows of that year."""
    column = draft.column(match.start("column"))
    if column.kind is ColumnKind.YEAR:
        function = Function.MAXIMUM if draft.cue(match.start("superlative")).value else Function.MINIMUM
        inner = QueryFrame(column.table, (Expression(column.ref, function),))
        draft.where.append(
            PlacedPredicate(match.start(), match.end() - 1, Predicate(Expression(column.ref), "=", frame=inner))
        )
        draft.take(*range(match.start(), match.end()))


def _is_countable(column: AskColumn) -> bool:
    """Return whether "the most" of a column means the number of rows, because its values cannot be compared."""
    return column.kind is ColumnKind.ID or not (column.is_numeric or column.is_time)


def _read_superlative_table(draft: FrameDraft, match: re.Match[str]) -> None:
    """Read a superlative before a table, such as "the oldest customer", as an order with a limit."""
    cue = draft.cue(match.start("superlative"))
    table = draft.mention(match.start("table")).table
    assert table
    if cue.adjective == SELLING:
        _order_by_sales(draft, match.start("superlative"), table, bool(cue.value))
        return
    if cue.adjective:
        implied = find_implied(draft, cue.adjective, [table])
        if implied:
            column, is_more = implied
            draft.order.append(
                Ordering(Expression(column.ref), _choose_direction(cue.adjective, bool(cue.value), is_more))
            )
            draft.limit = draft.limit or 1
            draft.take(match.start("superlative"))
            return
    draft.most = (table, bool(cue.value))
    draft.limit = draft.limit or 1
    draft.take(*range(match.start(), match.end()))


def _order_by_sales(draft: FrameDraft, position: int, table: str, descending: bool) -> None:
    """Sort by sales: by the sum of a quantity in a table of sales that refers to `table`, else by the number of
    rows."""
    referring = [key.table for key in draft.schema.keys_at(table) if key.to_table == table]
    sales_tables = [name for name in referring if SALES & set(draft.schema.table(name).words)]
    if not sales_tables:
        return
    quantities = [column for column in draft.schema.table(sales_tables[0]).columns if QUANTITIES & set(column.words)]
    if quantities:
        draft.order.append(Ordering(Expression(quantities[0].ref, Function.SUM), descending))
    else:
        draft.most = (sales_tables[0], descending)
    draft.limit = draft.limit or 1
    draft.take(position)


def _choose_direction(adjective: str, descending: bool, is_more: bool) -> bool:
    """Return the sort direction for a column. It is reversed if higher values mean less of the adjective."""
    return descending if ADJECTIVES[adjective][1] == is_more else not descending


def _read_bare_superlative(draft: FrameDraft, match: re.Match[str]) -> None:
    cue = draft.cue(match.start("superlative"))
    implied = find_implied(draft, cue.adjective) if cue.adjective and cue.adjective != SELLING else None
    if implied:
        column, is_more = implied
        draft.order.append(Ordering(Expression(column.ref), _choose_direction(cue.adjective, bool(cue.value), is_more)))
        draft.limit = draft.limit or 1
        draft.take(match.start("superlative"))
    elif not cue.adjective:
        related = _find_last_related(draft, match.start())
        if related:
            draft.most = (related, bool(cue.value))
            draft.limit = draft.limit or 1
            draft.take(match.start("superlative"))


def _find_last_related(draft: FrameDraft, position: int) -> str | None:
    entity = draft.entity()
    others = [table.name for _, table in draft.tables() if table != entity]
    return others[-1] if others else entity.name if entity else None


def _order_by(draft: FrameDraft, match: re.Match[str], column: AskColumn, function: Function | None = None) -> None:
    cue = draft.cue(match.start("superlative"))
    descending = cue.value if isinstance(cue.value, bool) else cue.value == "max"
    named_function = draft.cue(match.start("aggregate")).value if match["aggregate"] else None
    if function is None and (named_function is Function.SUM or _adds_up(draft, match, column)):
        function = Function.SUM
    elif named_function is Function.AVERAGE and _is_grouped(draft, match, column):
        function = Function.AVERAGE
    draft.order.append(Ordering(Expression(column.ref, function), descending))
    draft.limit = draft.limit or 1
    draft.take(*(p for p in range(match.start(), match.end()) if draft.codes[p] != "T"))


def _is_grouped(draft: FrameDraft, match: re.Match[str], column: AskColumn) -> bool:
    """Return whether the first named thing has several values of a measure, as departments have several salaries."""
    first = next((p for p in range(match.start()) if draft.original(p) in "TC"), None)
    return first is not None and has_several(draft, column, first)


def _adds_up(draft: FrameDraft, match: re.Match[str], column: AskColumn) -> bool:
    """Return whether "the most revenue" means a sum, because the first named thing has several values of the
    measure."""
    superlative = draft.pieces[match.start("superlative")].text
    if column.kind is not ColumnKind.MEASURE or superlative not in ("most", "least", "fewest"):
        return False
    return choose_function(draft.schema, column) is Function.SUM and _is_grouped(draft, match, column)
