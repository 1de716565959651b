"""Read conditions with values that the question names: "in France", "whose name contains 'West'", "4 cylinders"."""

import re

from everhold.ask.frame import Expression, Literal, Predicate
from everhold.ask.grammar.columns import find_implied, find_time
from everhold.ask.grammar.conditions import compare_period
from everhold.ask.grammar.draft import FrameDraft, PlacedPredicate
from everhold.ask.language.stems import stem
from everhold.ask.linking.mention import Mention
from everhold.ask.schema import AskColumn, ColumnKind

_PATTERNS = {"contains": "%{}%", "starts": "{}%", "ends": "%{}"}
_YEARS = range(1000, 2201)
# Words in the names of columns for places. A value after "in" or "from" is compared with such a column.
_PLACES = frozenset(
    map(stem, ("country", "city", "state", "location", "hometown", "region", "place", "district", "town"))
)


def read_values(draft: FrameDraft) -> None:
    """Read all conditions with values. Conditions with comparisons must be read before."""
    _read_flags(draft)
    _read_likes(draft)
    _read_column_and_value(draft)
    _read_bare_values(draft)
    _read_equal_numbers(draft)
    _read_periods(draft)


def _read_flags(draft: FrameDraft) -> None:
    """Read "who have been abandoned" if there is a column of yes and no for it."""
    for match in draft.find(r"[rh=]+(?P<n>n)?[h=]*(?P<c>C)(?![=hi]?[VN>])"):
        column = draft.column(match.start("c"))
        if column.kind is ColumnKind.FLAG and column.true_value is not None:
            _place(draft, match, _make_equality(column, column.true_value), bool(match["n"]))


def _read_likes(draft: FrameDraft) -> None:
    for match in draft.find(r"[rh](?P<v>V)i(?P<c>C)"):
        mention, column = draft.mention(match.start("v")), draft.column(match.start("c"))
        if draft.pieces[match.start("v")].is_quoted and not column.is_numeric:
            _place(draft, match, Predicate(Expression(column.ref), "like", (f"%{mention.value}%",)))
    for match in draft.find(r"(?P<c>C)r(?P<name>C)[=h]?(?P<l>l)[xfi]{0,2}(?P<v>V)"):
        _read_name_of_column(draft, match)
    for match in draft.find(r"(?P<c>C)?[=hxirfL]{0,3}(?P<n>n)?[hx]?(?P<l>l)[xfi]{0,2}(?P<v>[VN])"):
        mention = draft.mention(match.start("v"))
        text = _find_text_column(draft, match.start("c"), mention)
        if text:
            pattern = _PATTERNS[draft.cue(match.start("l")).value].format(mention.value)
            _place(draft, match, Predicate(Expression(text.ref), "like", (pattern,)), bool(match["n"]))


def _read_name_of_column(draft: FrameDraft, match: re.Match[str]) -> None:
    """Read "the state whose name contains" for a column of names such as "state"."""
    column = draft.column(match.start("c"))
    if not column.is_numeric and stem("name") in draft.column(match.start("name")).words:
        pattern = _PATTERNS[draft.cue(match.start("l")).value].format(draft.mention(match.start("v")).value)
        _place(draft, match, Predicate(Expression(column.ref), "like", (pattern,)))


def _find_text_column(draft: FrameDraft, position: int, mention: Mention) -> AskColumn | None:
    """Return the column to search for a part of a text: the named column, the value's column, or the display column."""
    if position >= 0 and not draft.column(position).is_numeric:
        return draft.column(position)
    entity = draft.entity()
    return draft.schema.column(mention.column or entity.display_ref) if entity else None


def _read_column_and_value(draft: FrameDraft) -> None:
    """Read a value directly before or after the name of its column."""
    for match in draft.find(r"(?P<c>C)(?P<gap>[=hxif,]{0,3})(?P<n>n)?[i=]?(?P<v>V)"):
        mention, column = draft.mention(match.start("v")), draft.column(match.start("c"))
        unknown = mention.column is None and not column.is_numeric
        if mention.value is not None and (mention.column == column.ref or unknown):
            _place(draft, match, _make_equality(column, mention.value), bool(match["n"]))
    for match in draft.find(r"(?P<n>n)?(?P<v>V)(?P<c>C)"):
        mention, column = draft.mention(match.start("v")), draft.column(match.start("c"))
        if mention.column == column.ref and mention.value is not None:
            _place(draft, match, _make_equality(column, mention.value), bool(match["n"]))


def _read_bare_values(draft: FrameDraft) -> None:
    for match in draft.find(r"(?P<n>n)?[=hixr]{0,2}(?P<v>V)"):
        mention = draft.mention(match.start("v"))
        if mention.value is None:
            continue
        if mention.column is not None:
            _place(draft, match, _make_equality(draft.schema.column(mention.column), mention.value), bool(match["n"]))
        elif (column := _guess_column(draft, match.start("v"))) is not None:
            _place(draft, match, _make_equality(column, mention.value), bool(match["n"]))


def _guess_column(draft: FrameDraft, position: int) -> AskColumn | None:
    """Return a text column for a value without a column: one that is named before it, else a display column."""
    before = [p for p in range(max(0, position - 3), position) if draft.original(p) == "C"]
    texts = [draft.column(p) for p in before if not draft.column(p).is_numeric]
    if texts:
        return texts[-1]
    tables = [table for table_position, table in draft.tables() if table_position < position]
    if not tables:
        return None
    is_place = draft.original(position - 1) == "i"
    places = [column for column in tables[-1].columns if _PLACES & set(column.words) and not column.is_numeric]
    return places[0] if is_place and places else draft.schema.column(tables[-1].display_ref)


def _make_equality(column: AskColumn, value: Literal) -> Predicate:
    return Predicate(Expression(column.ref), "=", (value,))


def _read_equal_numbers(draft: FrameDraft) -> None:
    """Add conditions for numbers: beside the name of a column, as an age ("20 years old"), or as a year alone."""
    for pattern in (r"(?P<n>n)?(?P<v>N)(?P<c>C)", r"(?P<c>C)[=if>,]{0,2}(?P<n>n)?(?P<v>N)"):
        for match in draft.find(pattern):
            column, mention = draft.column(match.start("c")), draft.mention(match.start("v"))
            is_number = column.is_numeric or column.kind in (ColumnKind.ID, ColumnKind.YEAR, ColumnKind.FLAG)
            is_year = "i" in match.group() and mention.value in _YEARS and not column.is_time
            if is_number and mention.value is not None and not is_year:
                _place(draft, match, _make_equality(column, mention.value), bool(match["n"]))
    for match in draft.find(r"(?P<v>N)(?:\|(?P<w>N))?y"):
        implied = find_implied(draft, "old")
        if implied:
            positions = [position for position in (match.start("v"), match.start("w")) if position >= 0]
            ages = tuple(value for position in positions if (value := draft.mention(position).value) is not None)
            _place(draft, match, Predicate(Expression(implied[0].ref), "in" if len(ages) > 1 else "=", ages))
    for match in draft.find(r"i?(?P<v>N)"):
        mention = draft.mention(match.start("v"))
        if isinstance(mention.value, int) and mention.value in _YEARS:
            time = find_time(draft, match.start())
            if time:
                _place(draft, match, _make_year_equality(time, mention.value))


def _make_year_equality(column: AskColumn, year: int) -> Predicate:
    if column.kind is ColumnKind.YEAR:
        return _make_equality(column, year)
    return Predicate(Expression(column.ref), "between", (f"{year}-01-01", f"{year + 1}-01-01"), half_open=True)


def _read_periods(draft: FrameDraft) -> None:
    for match in draft.find(r"(?:(?P<c>C)[=i]{0,2})?i?(?P<v>P)"):
        position = match.start("c")
        named = draft.column(position) if position >= 0 and draft.column(position).is_time else None
        column = named or find_time(draft, match.start("v"))
        period = draft.mention(match.start("v")).period
        if column and period:
            start = match.start() if named or position < 0 else match.start("v")
            draft.where.append(PlacedPredicate(start, match.end() - 1, compare_period(column, "=", period)))
            draft.take(*range(start, match.end()))


def _place(draft: FrameDraft, match: re.Match[str], predicate: Predicate, negated: bool = False) -> None:
    draft.where.append(PlacedPredicate(match.start(), match.end() - 1, predicate, negated))
    draft.take(*(p for p in range(match.start(), match.end()) if draft.codes[p] != "T"))
