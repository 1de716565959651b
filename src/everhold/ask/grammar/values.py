"""Read conditions with values that the question names: "in France", "whose name contains 'West'", "4 cylinders".

The letters in the patterns are the codes of `language/cues.py` and `linking/mention.py`.
"""

import re

from everhold.ask.frame import Expression, Literal, Predicate
from everhold.ask.grammar.columns import find_implied, find_time
from everhold.ask.grammar.conditions import compare_period
from everhold.ask.grammar.draft import FrameDraft, PlacedPredicate
from everhold.ask.language.stems import stem
from everhold.ask.linking.mention import Mention
from everhold.ask.schema import AskColumn, ColumnKind

_LIKE_PATTERNS = {"contains": "%{}%", "starts": "{}%", "ends": "%{}"}
_YEARS = range(1000, 2201)  # numbers that may be years
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
    for match in draft.find(r"[rh=]+(?P<negation>n)?[h=]*(?P<column>C)(?![=hi]?[VN>])"):
        column = draft.column(match.start("column"))
        if column.kind is ColumnKind.FLAG and column.true_value is not None:
            _add_condition(draft, match, _make_equality(column, column.true_value), bool(match["negation"]))


def _read_likes(draft: FrameDraft) -> None:
    for match in draft.find(r"[rh](?P<value>V)i(?P<column>C)"):
        mention, column = draft.mention(match.start("value")), draft.column(match.start("column"))
        if draft.pieces[match.start("value")].is_quoted and not column.is_numeric:
            _add_condition(draft, match, Predicate(Expression(column.ref), "like", (f"%{mention.value}%",)))
    for match in draft.find(r"(?P<column>C)r(?P<name_column>C)[=h]?(?P<like>l)[xfi]{0,2}(?P<value>V)"):
        _read_name_of_column(draft, match)
    for match in draft.find(r"(?P<column>C)?[=hxirfL]{0,3}(?P<negation>n)?[hx]?(?P<like>l)[xfi]{0,2}(?P<value>[VN])"):
        mention = draft.mention(match.start("value"))
        text = _find_text_column(draft, match.start("column"), mention)
        if text:
            pattern = _LIKE_PATTERNS[draft.cue(match.start("like")).value].format(mention.value)
            _add_condition(draft, match, Predicate(Expression(text.ref), "like", (pattern,)), bool(match["negation"]))


def _read_name_of_column(draft: FrameDraft, match: re.Match[str]) -> None:
    """Read "the state whose name contains" for a column of names such as "state"."""
    column = draft.column(match.start("column"))
    if not column.is_numeric and stem("name") in draft.column(match.start("name_column")).words:
        pattern = _LIKE_PATTERNS[draft.cue(match.start("like")).value].format(draft.mention(match.start("value")).value)
        _add_condition(draft, match, Predicate(Expression(column.ref), "like", (pattern,)))


def _find_text_column(draft: FrameDraft, position: int, mention: Mention) -> AskColumn | None:
    """Return the column to search for a part of a text: the named column, the value's column, or the display column."""
    if position >= 0 and not draft.column(position).is_numeric:
        return draft.column(position)
    entity = draft.entity()
    return draft.schema.column(mention.column or entity.display_ref) if entity else None


def _read_column_and_value(draft: FrameDraft) -> None:
    """Read a value directly before or after the name of its column."""
    for match in draft.find(r"(?P<column>C)[=hxif,]{0,3}(?P<negation>n)?[i=]?(?P<value>V)"):
        mention, column = draft.mention(match.start("value")), draft.column(match.start("column"))
        may_be_in_column = mention.column == column.ref or (mention.column is None and not column.is_numeric)
        if mention.value is not None and may_be_in_column:
            _add_condition(draft, match, _make_equality(column, mention.value), bool(match["negation"]))
    for match in draft.find(r"(?P<negation>n)?(?P<value>V)(?P<column>C)"):
        mention, column = draft.mention(match.start("value")), draft.column(match.start("column"))
        if mention.column == column.ref and mention.value is not None:
            _add_condition(draft, match, _make_equality(column, mention.value), bool(match["negation"]))


def _read_bare_values(draft: FrameDraft) -> None:
    for match in draft.find(r"(?P<negation>n)?[=hixr]{0,2}(?P<value>V)"):
        mention = draft.mention(match.start("value"))
        if mention.value is None:
            continue
        if mention.column is not None:
            column: AskColumn | None = draft.schema.column(mention.column)
        else:
            column = _guess_column(draft, match.start("value"))
        if column is not None:
            _add_condition(draft, match, _make_equality(column, mention.value), bool(match["negation"]))


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
    patterns = (
        r"(?P<negation>n)?(?P<value>N)(?P<column>C)",
        r"(?P<column>C)[=if>,]{0,2}(?P<negation>n)?(?P<value>N)",
    )
    for pattern in patterns:
        for match in draft.find(pattern):
            column, mention = draft.column(match.start("column")), draft.mention(match.start("value"))
            is_number = column.is_numeric or column.kind in (ColumnKind.ID, ColumnKind.YEAR, ColumnKind.FLAG)
            is_year = "i" in match.group() and mention.value in _YEARS and not column.is_time
            if is_number and mention.value is not None and not is_year:
                _add_condition(draft, match, _make_equality(column, mention.value), bool(match["negation"]))
    for match in draft.find(r"(?P<value>N)(?:\|(?P<value2>N))?y"):
        implied = find_implied(draft, "old")
        if implied:
            positions = [position for position in (match.start("value"), match.start("value2")) if position >= 0]
            ages = tuple(value for position in positions if (value := draft.mention(position).value) is not None)
            _add_condition(draft, match, Predicate(Expression(implied[0].ref), "in" if len(ages) > 1 else "=", ages))
    for match in draft.find(r"i?(?P<value>N)"):
        mention = draft.mention(match.start("value"))
        if isinstance(mention.value, int) and mention.value in _YEARS:
            time = find_time(draft, match.start())
            if time:
                _add_condition(draft, match, _make_year_equality(time, mention.value))


def _make_year_equality(column: AskColumn, year: int) -> Predicate:
    if column.kind is ColumnKind.YEAR:
        return _make_equality(column, year)
    return Predicate(Expression(column.ref), "between", (f"{year}-01-01", f"{year + 1}-01-01"), half_open=True)


def _read_periods(draft: FrameDraft) -> None:
    for match in draft.find(r"(?:(?P<column>C)[=i]{0,2})?i?(?P<value>P)"):
        position = match.start("column")
        named = draft.column(position) if position >= 0 and draft.column(position).is_time else None
        column = named or find_time(draft, match.start("value"))
        period = draft.mention(match.start("value")).period
        if column and period:
            start = match.start() if named or position < 0 else match.start("value")
            draft.where.append(PlacedPredicate(start, match.end() - 1, compare_period(column, "=", period)))
            draft.take(*range(start, match.end()))


def _add_condition(draft: FrameDraft, match: re.Match[str], predicate: Predicate, negated: bool = False) -> None:
    """Add a condition to the draft, and mark its items as used, except for tables."""
    draft.where.append(PlacedPredicate(match.start(), match.end() - 1, predicate, negated))
    draft.take(*(p for p in range(match.start(), match.end()) if draft.codes[p] != "T"))
