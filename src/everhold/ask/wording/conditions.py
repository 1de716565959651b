"""Write the conditions of a frame as phrases after a noun: "in France", "with price over 20 EUR", "placed in 2025"."""

from collections.abc import Callable, Mapping

from everhold.ask.frame import AnyPredicate, Expression, Function, Literal, Membership, Predicate, QueryFrame
from everhold.ask.schema import AskColumn, ColumnKind
from everhold.ask.wording.expressions import describe_counted, describe_measure, is_time_column
from everhold.ask.wording.names import FrameNames, join_words, make_singular
from everhold.ask.wording.periods import describe_bound, describe_period, read_day, write_day

Condition = Predicate | AnyPredicate | Membership
DescribeFrame = Callable[[QueryFrame], str]

_COMPARISONS: Mapping[str, str] = {"<": "under", "<=": "at most", ">": "over", ">=": "at least"}
_COUNTS: Mapping[str, str] = {
    "<": "fewer than", "<=": "at most", ">": "more than", ">=": "at least", "=": "exactly", "!=": "not exactly",
}  # fmt: skip
_OPPOSITES: Mapping[str, str] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_PLACES = frozenset({"country", "city", "state", "region", "continent", "county", "town", "district"})


def describe_condition(names: FrameNames, condition: Condition, describe: DescribeFrame) -> str:
    """Return a condition as a phrase. `describe` returns the description of a frame inside the condition."""
    if isinstance(condition, AnyPredicate):
        return _describe_choices(names, condition, describe)
    if isinstance(condition, Membership):
        return _describe_membership(names, condition, describe)
    condition = _resolve_negation(condition)
    if condition.frame is not None:
        return _describe_comparison(names, condition, describe(condition.frame))
    if condition.left.is_aggregate:
        return describe_having(names, condition)
    return _describe_predicate(names, condition)


def _resolve_negation(predicate: Predicate) -> Predicate:
    """Return "not over 20" as "at most 20"; other negated predicates stay as they are."""
    if not predicate.negated or predicate.operator not in _OPPOSITES:
        return predicate
    return Predicate(predicate.left, _OPPOSITES[predicate.operator], predicate.values, predicate.frame)


def _describe_predicate(names: FrameNames, predicate: Predicate) -> str:
    """Return the words for a condition, such as "with price from 10 to 20"."""
    ref = predicate.left.column
    assert ref is not None  # only counts have no column
    column = names.schema.column(ref)
    if predicate.operator == "is null":
        return f"{'with a' if predicate.negated else 'without a'} {names.name_column(ref)}"
    if is_time_column(names, ref) and (words := _describe_time(names, predicate, column)):
        return words
    negation = "not " if predicate.negated else ""
    if predicate.operator == "like":
        return f"{negation}with {names.name_column(ref)} {_describe_pattern(str(predicate.values[0]))}"
    if predicate.operator == "between":
        low, high = (_write_value(value, column) for value in predicate.values)
        return f"{negation}with {names.name_column(ref)} from {low} to {high}"
    if predicate.operator in _COMPARISONS:
        comparison = _COMPARISONS[predicate.operator]
        return f"with {names.name_column(ref)} {comparison} {_write_value(predicate.values[0], column)}"
    return _describe_equality(names, predicate, column)


def _describe_equality(names: FrameNames, predicate: Predicate, column: AskColumn) -> str:
    """Return the words for a condition with = or IN, such as "in Paris or Rome"."""
    is_negated = predicate.negated or predicate.operator == "!="
    if column.kind is ColumnKind.FLAG and len(predicate.values) == 1:
        is_true = (str(predicate.values[0]) == str(column.true_value)) != is_negated
        return f"that are {'' if is_true else 'not '}{names.name_column(column.ref)}"
    negation = "not " if is_negated else ""
    value = join_words([_write_value(value, column) for value in predicate.values], "or")
    noun = names.name_column(column.ref)
    if noun in _PLACES:
        return f"{negation}in {value}"
    if noun.endswith(" by"):
        return f"{negation}{noun} {value}"
    if column.table == names.subject:
        return f"with {noun} {'other than ' if is_negated else ''}{value}"
    if names.names_row(column.ref):
        noun = names.name_rows(column.table, is_plural=False)
    return f"where the {noun} is {negation}{value}"


def _describe_time(names: FrameNames, predicate: Predicate, column: AskColumn) -> str:
    """Return a condition on a time as a phrase; an empty text if its values are not times."""
    if column.kind is ColumnKind.YEAR and all(isinstance(value, int) for value in predicate.values):
        period = _describe_years(predicate)
    else:
        days = [read_day(value) for value in predicate.values]
        if not days or not all(days):
            return ""
        bounds = [day for day in days if day is not None]
        if predicate.operator == "between" and predicate.half_open:
            period = describe_period(*bounds)
        elif predicate.operator == "between":
            period = f"from {write_day(bounds[0])} to {write_day(bounds[1])}"
        elif len(bounds) == 1:
            period = describe_bound(predicate.operator, bounds[0])
        else:
            return ""
    negation = "not " if predicate.negated else ""
    verb = names.find_verb(column.ref)
    if verb:
        return f"{negation}{verb} {period}"
    if names.has_one_time(column.ref):
        return f"{negation}{period}"
    return f"with {names.name_column(column.ref)} {negation}{period}"


def _describe_years(predicate: Predicate) -> str:
    first, last = predicate.values[0], predicate.values[-1]
    if predicate.operator == "between":
        return f"from {first} to {last}"
    if predicate.operator == "in":
        return f"in {join_words([str(value) for value in predicate.values], 'or')}"
    words = {"=": "in", "!=": "not in", "<": "before", "<=": "until", ">": "after", ">=": "since"}
    return f"{words[predicate.operator]} {first}"


def _describe_pattern(pattern: str) -> str:
    text = pattern.strip("%")
    if pattern.startswith("%") and pattern.endswith("%"):
        return f"containing {text!r}"
    return f"starting with {text!r}" if pattern.endswith("%") else f"ending with {text!r}"


def _write_value(value: Literal, column: AskColumn) -> str:
    if isinstance(value, str):
        return value or "''"
    is_grouped = abs(value) >= 10_000 and column.kind is ColumnKind.MEASURE
    text = f"{value:,}" if is_grouped else str(value)
    return f"{text} {column.unit}".strip()


def _describe_comparison(names: FrameNames, predicate: Predicate, description: str) -> str:
    """Return a comparison with the single value of another frame, which has this description.

    For example "with price over the average price".
    """
    assert predicate.frame is not None
    noun = describe_measure(names, predicate.left) if predicate.left.is_aggregate else _name_left(names, predicate.left)
    item = predicate.frame.select[0] if predicate.frame.select else None
    is_extreme = item is not None and item.function in (Function.MINIMUM, Function.MAXIMUM)
    if predicate.operator == "=" and is_extreme and item is not None and item.column == predicate.left.column:
        return f"with {description}"
    comparison = {"=": "equal to", "!=": "other than"}.get(predicate.operator) or _COMPARISONS[predicate.operator]
    return f"with {noun} {comparison} {description}"


def _name_left(names: FrameNames, item: Expression) -> str:
    return names.name_column(item.column) if item.column else ""


def _describe_choices(names: FrameNames, condition: AnyPredicate, describe: DescribeFrame) -> str:
    first = condition.choices[0]
    is_one_column = all(
        choice.operator == "=" and choice.left == first.left and not choice.negated and choice.frame is None
        for choice in condition.choices
    )
    if is_one_column:
        values = tuple(value for choice in condition.choices for value in choice.values)
        return describe_condition(names, Predicate(first.left, "in", values), describe)
    return join_words([describe_condition(names, choice, describe) for choice in condition.choices], "or")


def _describe_membership(names: FrameNames, condition: Membership, describe: DescribeFrame) -> str:
    word = "without" if condition.negated else "with"
    inner = condition.frame
    is_plain = not inner.having and not inner.order and inner.combined is None
    if inner.entity != condition.column.table and is_plain:
        inner_names = FrameNames(names.schema, inner.entity, [inner.entity])
        rows = names.name_rows(inner.entity)
        phrases = [describe_condition(inner_names, item, describe) for item in inner.where if not _checks_null(item)]
        return " ".join([word, rows, *phrases])
    words = describe(inner)
    own_rows = f"the {names.name_rows(names.subject)} "
    if words.startswith(own_rows):
        return f"{'other than those ' if condition.negated else ''}{words.removeprefix(own_rows)}"
    return f"{'not ' if condition.negated else ''}of {words}"


def _checks_null(condition: Condition) -> bool:
    return isinstance(condition, Predicate) and condition.operator == "is null"


def describe_having(names: FrameNames, predicate: Predicate) -> str:
    """Return a condition on a group: "with at least 2 orders", "with total price over 35"."""
    predicate = _resolve_negation(predicate)
    item = predicate.left
    if item.function is Function.COUNT and predicate.operator in _COUNTS and predicate.values:
        number = predicate.values[0]
        return f"with {_COUNTS[predicate.operator]} {number} {_fit_number(describe_counted(names, item), number)}"
    unit = names.schema.column(item.column).unit if item.column else ""
    values = [f"{value} {unit}".strip() for value in predicate.values]
    if predicate.operator == "between":
        return f"with {describe_measure(names, item)} from {values[0]} to {values[1]}"
    comparison = {"=": "of", "!=": "other than"}.get(predicate.operator) or _COMPARISONS[predicate.operator]
    return f"with {describe_measure(names, item)} {comparison} {values[0]}"


def _fit_number(noun: str, number: Literal) -> str:
    return make_singular(noun) if number == 1 else noun


def describe_conditional_share(names: FrameNames, item: Expression, describe: DescribeFrame) -> str:
    """Return the share of the rows that meet a condition: "share of orders with status cancelled"."""
    assert item.condition is not None
    total = names.name_column(item.column) if item.column else names.name_rows(item.of_table or names.subject)
    return f"share of {total} {describe_condition(names, item.condition, describe)}"
