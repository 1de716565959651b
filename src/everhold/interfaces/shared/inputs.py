"""Inputs as people write them: filters, JSON objects and values as text.

`option` is the name of the input in error messages, such as `--where` on the command line.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin
from zoneinfo import ZoneInfo

from everhold.errors import InvalidInput, format_value
from everhold.model import Memory
from everhold.text.lazy_pattern import lazy_pattern

_CONDITION = lazy_pattern(r"\s*(?P<field>[\w.]+)\s*(?P<operator>!=|<=|>=|=|<|>|~)\s*(?P<value>.*)", re.DOTALL)
_OPERATORS = {"~": "contains"}
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse_where(texts: Sequence[str], zone: ZoneInfo, option: str) -> dict[str, Any]:
    """Return one filter that combines all texts, each of which is `field>=value` or the like, or a filter in JSON.

    A field that is given twice with `=` may have either value.
    """
    filters = [parse_filter(text, zone, option) for text in texts if text.lstrip().startswith("{")]
    comparisons = [text for text in texts if not text.lstrip().startswith("{")]
    if comparisons:
        filters.insert(0, _parse_comparisons(comparisons, zone, option))
    return filters[0] if len(filters) == 1 else {"and": filters}


def parse_filter(text: str, zone: ZoneInfo, option: str) -> dict[str, Any]:
    """Return a filter in JSON as the verbs take it; a time is written as text."""
    return _convert_times(parse_object(text, option), zone, option)


def _convert_times(where: dict[str, Any], zone: ZoneInfo, option: str) -> dict[str, Any]:
    """Return a filter with the texts that are compared with time fields converted to times."""

    def convert(field: str, value: Any) -> Any:
        if field in ("and", "or") and isinstance(value, list):
            return [_convert_times(part, zone, option) if isinstance(part, dict) else part for part in value]
        if field == "not" and isinstance(value, dict):
            return _convert_times(value, zone, option)
        return _convert_time(value, zone, f"{option} {field}") if _find_type(field) is datetime else value

    return {field: convert(field, value) for field, value in where.items()}


def _convert_time(value: Any, zone: ZoneInfo, option: str) -> Any:
    match value:
        case str():
            from everhold.interfaces.shared.times import parse_time  # imported here, because most commands get no time

            return parse_time(value, zone, option)
        case list():
            return [_convert_time(item, zone, option) for item in value]
        case dict():
            return {operator: _convert_time(item, zone, option) for operator, item in value.items()}
        case _:
            return value


def _parse_comparisons(texts: Sequence[str], zone: ZoneInfo, option: str) -> dict[str, Any]:
    by_field: dict[str, dict[str, list[Any]]] = {}
    for text in texts:
        parts = _CONDITION.fullmatch(text)
        if parts is None:
            remedy = "write field=value, field>=value, field~part or a filter in JSON"
            raise InvalidInput(f"{option} {format_value(text)} is not a condition", value=text, remedy=remedy)
        operator = _OPERATORS.get(parts["operator"], parts["operator"])
        value = _parse_value(parts["field"], parts["value"], zone, option)
        by_field.setdefault(parts["field"], {}).setdefault(operator, []).append(value)
    return {field: _combine_operators(field, values, option) for field, values in by_field.items()}


def _combine_operators(field: str, values_by_operator: Mapping[str, list[Any]], option: str) -> Any:
    """Return the condition on a field. Only `=` may have several values, of which one must match."""
    for operator, values in values_by_operator.items():
        if len(values) > 1 and operator != "=":
            raise InvalidInput(f"{option} has {field}{operator} {len(values)} times", remedy="give it once")
    if set(values_by_operator) == {"="}:
        values = values_by_operator["="]
        return values[0] if len(values) == 1 else values
    condition: dict[str, Any] = {}
    for operator, values in values_by_operator.items():
        if len(values) == 1:
            condition[operator] = values[0]
        else:
            condition["in"] = values
    return condition


def _parse_value(field: str, text: str, zone: ZoneInfo, option: str) -> Any:
    """Return a value of the field's type. `null` is an absent value; quotes make anything text."""
    if text == "null":
        return None
    if len(text) > 1 and text[0] == text[-1] == '"':
        return _parse_json(text, f"{option} {field}")
    kind = _find_type(field)
    try:
        if kind is datetime:
            from everhold.interfaces.shared.times import parse_time

            return parse_time(text, zone, f"{option} {field}")
        return _CONVERSIONS.get(kind, parse_scalar)(text)
    except (ValueError, KeyError) as error:
        if isinstance(error, InvalidInput):
            raise
        fact = f"{option} {field}: {format_value(text)} is not {_TYPE_NAMES[kind]}"
        raise InvalidInput(fact, value=text, remedy="write another value") from None


def _find_type(field: str) -> Any:
    if field == "priority":
        return int
    info = Memory.model_fields.get(field)
    if info is not None:
        return _strip_annotation(info.annotation)
    return Any if "." in field else str


def _strip_annotation(annotation: Any) -> Any:
    """Return the type beneath `| None` and `Annotated`."""
    if get_origin(annotation) is Annotated:
        return _strip_annotation(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return _strip_annotation(next(option for option in get_args(annotation) if option is not NoneType))
    return annotation


def parse_scalar(text: str) -> Any:
    """Return the value of a JSON text, or the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


_CONVERSIONS: Mapping[Any, Callable[[str], Any]] = {
    int: int,
    float: float,
    bool: lambda text: _BOOLEANS[text.lower()],
    str: str,
}
_TYPE_NAMES: Mapping[Any, str] = {int: "a whole number", float: "a number", bool: "true or false"}


def parse_object(text: str, option: str) -> dict[str, Any]:
    """Return a JSON object."""
    value = _parse_json(text, option)
    if not isinstance(value, dict):
        remedy = 'write it like \'{"city": "Paris"}\''
        raise InvalidInput(f"{option} {format_value(text)} is not a JSON object", value=text, remedy=remedy)
    return value


def parse_content(text: str, option: str) -> list[Any] | dict[str, Any]:
    """Return the content of a message: a JSON list or object."""
    value = _parse_json(text, option)
    if not isinstance(value, list | dict):
        remedy = 'write it like \'[{"type": "text", "text": "Hello"}]\''
        raise InvalidInput(f"{option} {format_value(text)} is not a JSON list or object", value=text, remedy=remedy)
    return value


def parse_list(text: str, option: str) -> list[Any]:
    """Return a JSON list."""
    value = _parse_json(text, option)
    if not isinstance(value, list):
        remedy = "write it like '[{\"id\": 1}]'"
        raise InvalidInput(f"{option} {format_value(text)} is not a JSON list", value=text, remedy=remedy)
    return value


def parse_value(text: str, option: str) -> Any:
    """Return any JSON value."""
    return _parse_json(text, option)


def _parse_json(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        remedy = "write it like '{\"a\": 1}'"
        raise InvalidInput(f"{option} {format_value(text)} is not JSON ({error})", value=text, remedy=remedy) from None
