"""Read rankings: "top 5 products by revenue", "customers ranked by number of orders", "highest first".

The letters in the patterns are the codes of `language/cues.py` and `linking/mention.py`.
"""

import re
from dataclasses import replace

from everhold.ask.frame import Expression, Function, Ordering, QueryFrame
from everhold.ask.grammar.draft import FrameDraft, PlacedExpression, make_count
from everhold.ask.grammar.groups import group_by, group_by_period, has_several
from everhold.ask.grouping import choose_function, find_amount, holds_money
from everhold.ask.schema import AskSchema, ColumnKind

_DEFAULT_LIMIT = 10  # the limit for "top products by revenue"
_FIGURE = r"(?P<aggregate>[am])?[_xfid]*(?P<figure>C|#[_xfd]*T|T)"
# The same in the second branch of a pattern, where each group needs another name.
_FIGURE2 = _FIGURE.replace("<aggregate>", "<aggregate2>").replace("<figure>", "<figure2>")


def read_rankings(draft: FrameDraft) -> None:
    """Read what is ranked, and the measure or count that it is ranked by. Both are shown."""
    for match in draft.find(rf"t[_xf]*(?P<ranked>[TC])(?P<between>[^botT.]{{0,6}})b{_FIGURE}"):
        cue = draft.cue(match.start())
        if _rank(draft, match, bool(cue.value)):
            draft.limit = draft.limit or _DEFAULT_LIMIT
    for match in draft.find(rf"(?P<ranked>[TC])(?P<between>[^botTC.]{{0,4}})o[bxi]*{_FIGURE}"):
        # If each row has only one value, this is a plain sort order, which `read_orderings` reads.
        if (figure := _read_figure(draft, match)) and _is_computed(draft, figure, match.start("ranked")):
            _rank(draft, match, draft.pieces[match.end("between")].text.startswith("rank"))
    best_period = rf"(?P<superlative>s)(?P<period>M)[xif_]*{_FIGURE}|(?P<period2>M)[xh_]*(?P<superlative2>s){_FIGURE2}"
    for match in draft.find(best_period):
        _read_best_period(draft, match)
    for match in draft.find("F"):
        draft.highest_first = bool(draft.cue(match.start()).value)
        draft.take(match.start())


def _read_best_period(draft: FrameDraft, match: re.Match[str]) -> None:
    """Read "the best month for revenue" and "which month had the most orders"."""
    names = ("period", "superlative") if match["period"] else ("period2", "superlative2")
    position, superlative = (match.start(name) for name in names)
    figure = _read_figure(draft, match)
    if figure is None or not group_by_period(draft, position, str(draft.cue(position).value)):
        return
    draft.select.append(PlacedExpression(position, figure))
    draft.order.append(Ordering(figure, bool(draft.cue(superlative).value)))
    draft.limit = draft.limit or 1
    draft.take(*range(match.start(), match.end()))


def _rank(draft: FrameDraft, match: re.Match[str], descending: bool) -> bool:
    """Show and sort by the figure, and group by what is ranked if that has several values.

    Return whether it was read.
    """
    figure = _read_figure(draft, match)
    position = match.start("ranked")
    if figure is None:
        return False
    ranked = draft.mention(position)
    if _is_computed(draft, figure, position):
        group_by(draft, position)
    else:
        figure = Expression(figure.column)
        shown = ranked.column or draft.schema.table(str(ranked.table)).display_ref
        draft.select.append(PlacedExpression(position, Expression(shown)))
    draft.select.append(PlacedExpression(match.start("figure"), figure))
    draft.order.append(Ordering(figure, descending))
    draft.take(
        *(p for p in range(match.start(), match.end()) if p < match.start("between") or p >= match.end("between"))
    )
    return True


def _is_computed(draft: FrameDraft, figure: Expression, position: int) -> bool:
    return figure.column is None or has_several(draft, draft.schema.column(figure.column), position)


def _read_figure(draft: FrameDraft, match: re.Match[str]) -> Expression | None:
    """Return the measure or count to rank by; None if the column is not a measure."""
    name, aggregate = ("figure", "aggregate") if match["figure"] else ("figure2", "aggregate2")
    if match[name] == "C":
        column = draft.column(match.start(name))
        if column.kind is not ColumnKind.MEASURE:
            return None
        value = draft.cue(match.start(aggregate)).value if match[aggregate] else None
        return Expression(column.ref, value if isinstance(value, Function) else choose_function(draft.schema, column))
    table = draft.schema.table(str(draft.mention(match.end(name) - 1).table))
    amount = find_amount(table) if match[name] == "T" and holds_money(table) else None
    return Expression(amount.ref, Function.SUM) if amount else make_count(table.name)


def sort_by_figure(schema: AskSchema, frame: QueryFrame, highest_first: bool | None) -> QueryFrame:
    """Return the frame sorted for "highest first": by its last aggregate, else by the last measure that is shown."""
    if highest_first is None or frame.order:
        return frame
    figures = [item for item in frame.select if item.is_aggregate] or [
        item for item in frame.select if item.column and schema.column(item.column).kind is ColumnKind.MEASURE
    ]
    return replace(frame, order=(Ordering(figures[-1], highest_first),)) if figures else frame
