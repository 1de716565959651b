"""Describe a frame as a phrase: "the number of orders per country, placed in 2025, most first, top 5"."""

from dataclasses import replace

from everhold.ask.frame import Expression, Function, Ordering, QueryFrame, SetOperation, WindowKind
from everhold.ask.frame_parts import list_tables
from everhold.ask.schema import AskSchema
from everhold.ask.wording.conditions import describe_condition, describe_conditional_share, describe_having
from everhold.ask.wording.expressions import describe_column, describe_measure, name_extreme
from everhold.ask.wording.names import FrameNames, join_words, make_plural

_SET_WORDS = {
    SetOperation.INTERSECT: "and also", SetOperation.UNION: "or", SetOperation.EXCEPT: "but not",
}  # fmt: skip


def describe_frame(schema: AskSchema, frame: QueryFrame) -> str:
    """Return what a frame asks for, as a phrase that begins with "the" or "all"."""
    words = _FrameWriter(schema, frame).write()
    if frame.combined is None:
        return words
    operation, other = frame.combined
    if replace(frame, where=(), joined=(), via=(), combined=None) == replace(other, where=(), joined=(), via=()):
        second = _FrameWriter(schema, other).write_conditions() or "all others"
    else:
        second = describe_frame(schema, other)
    return f"{words}, {_SET_WORDS[operation]} {second}"


def name_columns(schema: AskSchema, frame: QueryFrame) -> list[str]:
    """Return what each selected expression is called, without an article."""
    names = FrameNames(schema, frame.entity, [frame.entity, *list_tables(frame)])
    is_grouped = bool(frame.group)
    titles = []
    for item in frame.select:
        if item.is_aggregate:
            titles.append(_describe_figure(schema, names, item))
        elif is_grouped and item.column is not None and item.grain is None:
            titles.append(names.name_group(item.column))
        else:
            titles.append(describe_column(names, item))
    return titles


def _describe_figure(schema: AskSchema, names: FrameNames, item: Expression) -> str:
    if item.condition is not None:
        return describe_conditional_share(names, item, lambda frame: describe_frame(schema, frame))
    return describe_measure(names, item)


def name_rows(schema: AskSchema, frame: QueryFrame) -> str:
    """Return the plural noun for the rows of a result: "customers" if each is a customer, otherwise "rows"."""
    is_list = not frame.group and not frame.distinct and frame.combined is None
    if not is_list or any(item.is_aggregate for item in frame.select):
        return "rows"
    return FrameNames(schema, frame.entity, [frame.entity]).name_rows(frame.entity)


class _FrameWriter:
    """Writes the phrase of one frame."""

    def __init__(self, schema: AskSchema, frame: QueryFrame) -> None:
        self._schema, self._frame = schema, frame
        self._names = FrameNames(schema, frame.entity, [frame.entity, *list_tables(frame)])
        self._aggregates = [item for item in frame.select if item.is_aggregate]

    def write(self) -> str:
        if self._aggregates:
            return self._write_measures()
        return self._write_rows()

    def write_conditions(self) -> str:
        """Return the conditions on rows and groups, in their order."""
        phrases = [describe_condition(self._names, item, self._describe_inner) for item in self._frame.where]
        phrases += [describe_having(self._names, item) for item in self._frame.having]
        return _join_phrases(sorted(phrases, key=_rank_phrase))

    def _describe_inner(self, frame: QueryFrame) -> str:
        """Return the description of a frame inside a condition. If it only selects keys, its rows are named instead."""
        is_key = len(frame.select) == 1 and frame.select[0].column == self._schema.table(frame.entity).key_ref
        if is_key and frame.combined is None and not frame.select[0].is_aggregate:
            return _FrameWriter(self._schema, frame).write_row_names()
        return describe_frame(self._schema, frame)

    def write_row_names(self) -> str:
        """Return the noun for the rows with their conditions, without the columns that are shown."""
        return f"{self._name_limited_rows()} {self.write_conditions()}".strip()

    def _write_measures(self) -> str:
        """Return the description of aggregates, alone or per group."""
        frame = self._frame
        figures = [_describe_figure(self._schema, self._names, item) for item in self._aggregates]
        measures = join_words(figures)
        parts = [f"the {measures}{self._name_owner()}"]
        groups = [self._name_group(item) for item in frame.group]
        if groups:
            parts[0] += f" {self._link_groups(groups)}"
        conditions = self.write_conditions()
        if conditions:
            # Directly after a group, the conditions would seem to be about the group, so a comma separates them.
            parts = [*parts, conditions] if groups else [f"{parts[0]} {conditions}"]
        return ", ".join([*parts, *self._list_orderings()])

    def _link_groups(self, groups: list[str]) -> str:
        changes = [item for item in self._aggregates if item.window is WindowKind.CHANGE]
        if changes and len(groups) == 1:
            return f"from {groups[0]} to {groups[0]}"
        return f"per {join_words(groups)}"

    def _name_owner(self) -> str:
        """Return " of customers" for measures of one table whose name they do not say."""
        counts = [item for item in self._aggregates if item.function is Function.COUNT]
        tables = {item.column.table for item in self._aggregates if item.column}
        if counts or len(tables) != 1:
            return ""
        table = tables.pop()
        is_needed = bool(self._frame.where) or not self._frame.group
        return f" of {self._names.name_rows(table)}" if table == self._frame.entity and is_needed else ""

    def _name_group(self, item: Expression) -> str:
        if item.grain or item.column is None:
            return describe_column(self._names, item)
        return self._names.name_group(item.column)

    def _list_orderings(self) -> list[str]:
        """Return phrases for the sort order of measures and for the limit."""
        parts = []
        frame = self._frame
        for ordering in frame.order:
            if ordering.expression in self._aggregates:
                is_count = ordering.expression.function is Function.COUNT
                parts.append(_name_direction(ordering.descending, is_count=is_count))
            elif ordering.descending or ordering.expression not in frame.group:
                parts.append(self._describe_ordering(ordering))
        if frame.limit is not None:
            parts.append(f"top {frame.limit}" if frame.limit > 1 else "only the first")
        return parts

    def _describe_ordering(self, ordering: Ordering) -> str:
        item = ordering.expression
        if item.is_aggregate:
            return f"sorted by {describe_measure(self._names, item)}, {_name_direction(ordering.descending)}"
        noun = describe_column(self._names, item)
        column = self._schema.column(item.column) if item.column else None
        if column is not None and column.is_time:
            return f"{'latest' if ordering.descending else 'earliest'} {noun} first"
        if column is not None and not column.is_numeric:
            return f"sorted by {noun}{', from Z to A' if ordering.descending else ''}"
        return f"sorted by {noun}, {_name_direction(ordering.descending)}"

    def _write_rows(self) -> str:
        """Return the description of a list of rows: their columns, conditions, order and limit."""
        frame = self._frame
        conditions = self.write_conditions()
        parts = [f"{self._name_shown(self._name_limited_rows())} {conditions}".strip()]
        if not self._is_limited:
            parts += [self._describe_ordering(ordering) for ordering in frame.order]
            if frame.limit is not None:
                parts.append(f"the first {frame.limit}")
        return ", ".join(parts)

    @property
    def _is_limited(self) -> bool:
        return bool(self._frame.order) and self._frame.limit is not None

    def _name_limited_rows(self) -> str:
        """Return the noun for the rows with an article, and with "with the highest …" if an order and a limit select
        them."""
        frame = self._frame
        if not self._is_limited or frame.limit is None:
            return f"the {self._name_rows(is_single=False)}"
        ordering = frame.order[0]
        count = f"{frame.limit} " if frame.limit > 1 else ""
        extreme = name_extreme(self._names, ordering.expression, is_highest=ordering.descending)
        return f"the {count}{self._name_rows(is_single=frame.limit == 1)} with the {extreme}"

    def _name_rows(self, *, is_single: bool) -> str:
        """Return the noun for the listed rows: that of the entity, or that of the groups."""
        groups = [item for item in self._frame.group if item.column is not None]
        if groups and groups[0].column is not None:
            noun = self._names.name_group(groups[0].column)
            if self._names.names_row(groups[0].column):
                return self._names.name_rows(groups[0].column.table, is_plural=not is_single)
            return noun if is_single else make_plural(noun)
        return self._names.name_rows(self._frame.entity, is_plural=not is_single)

    def _name_shown(self, rows: str) -> str:
        """Return the words for the result of the query, such as "the names of customers". `rows` are words for its
        rows.
        """
        frame = self._frame
        if not frame.select:
            return f"all columns of {rows}"
        refs = [item.column for item in frame.select if item.column is not None]
        grouped = {item.column for item in frame.group if item.column is not None}
        named = {ref.table for ref in grouped if self._names.names_row(ref)}
        if frame.group and all(ref in grouped or (ref.table in named and self._names.names_row(ref)) for ref in refs):
            return rows
        is_plural = not (self._is_limited and frame.limit == 1)
        if frame.group and not self._is_limited:
            groups = join_words([self._name_group(item) for item in frame.group])
            shown = join_words([describe_column(self._names, item) for item in frame.select])
            return f"one {shown} for each {groups}"
        nouns = [describe_column(self._names, item) for item in frame.select]
        columns = join_words([make_plural(noun) if is_plural else noun for noun in nouns])
        different = "different " if frame.distinct else ""
        return f"the {different}{columns} of {rows if self._is_limited else rows.removeprefix('the ')}"


def _name_direction(is_descending: bool, *, is_count: bool = False) -> str:
    if is_count:
        return "most first" if is_descending else "fewest first"
    return "highest first" if is_descending else "lowest first"


def _rank_phrase(phrase: str) -> int:
    """Return the sort key of a phrase: times and places come directly after the noun, clauses at the end."""
    first = phrase.split(maxsplit=1)[0]
    return 2 if first == "where" else 1 if first in ("with", "without", "that") else 0


def _join_phrases(phrases: list[str]) -> str:
    """Join phrases to a text, with "and" between two phrases that begin with the same word."""
    text = ""
    for number, phrase in enumerate(phrases):
        if not number:
            link = ""
        elif phrases[number - 1].split()[0] == phrase.split()[0]:
            link = " and "
        else:
            link = ", " if number > 1 else " "
        text += f"{link}{phrase}"
    return text
