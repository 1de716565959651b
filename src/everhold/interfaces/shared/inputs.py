"""Inputs as people write them, as the verbs take them."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin
from zoneinfo import ZoneInfo

from everhold.errors import InvalidInput
from everhold.interfaces.shared.times import parse_time
from everhold.model import Memory

_CONDITION = re.compile(r"\s*(?P<field>[\w.]+)\s*(?P<sign>!=|<=|>=|=|<|>|~)\s*(?P<value>.*)", re.DOTALL)
_SIGNS = {"~": "contains"}
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse_where(written: Sequence[str], zone: ZoneInfo) -> dict[str, Any]:
    """`field=value` and the like as the conditions of a filter. A field given twice with `=` may have either value."""
    found: dict[str, dict[str, list[Any]]] = {}
    for one in written:
        parts = _CONDITION.fullmatch(one)
        if parts is None:
            raise InvalidInput(
                f"--where {one!r} is not a condition", value=one, remedy="write field=value, field>=value or field~part"
            )
        sign = _SIGNS.get(parts["sign"], parts["sign"])
        found.setdefault(parts["field"], {}).setdefault(sign, []).append(_value(parts["field"], parts["value"], zone))
    return {field: _wanted(field, signs) for field, signs in found.items()}


def _wanted(field: str, signs: Mapping[str, list[Any]]) -> Any:
    for sign, values in signs.items():
        if len(values) > 1 and sign != "=":
            raise InvalidInput(f"--where has {field}{sign} {len(values)} times", remedy="give it once")
    if set(signs) == {"="}:
        return signs["="][0] if len(signs["="]) == 1 else signs["="]
    return {sign if len(values) == 1 else "in": values[0] if len(values) == 1 else values
            for sign, values in signs.items()}  # fmt: skip


def _value(field: str, written: str, zone: ZoneInfo) -> Any:
    """The written value as the field's type. `null` is an absent value; quotes make anything text."""
    if written == "null":
        return None
    if len(written) > 1 and written[0] == written[-1] == '"':
        return _json(written, f"--where {field}")
    kind = _type_of(field)
    try:
        if kind is datetime:
            return parse_time(written, zone, f"--where {field}")
        return _CONVERSIONS.get(kind, _scalar)(written)
    except (ValueError, KeyError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"--where {field}: {written!r} is not {_NAMES[kind]}", value=written, remedy="write another value"
        ) from None


def _type_of(field: str) -> Any:
    if field == "priority":
        return int
    info = Memory.model_fields.get(field)
    return str if info is None and "." not in field else _bare(info.annotation) if info else Any


def _bare(annotation: Any) -> Any:
    """The type beneath `| None` and `Annotated`."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return _bare(next(one for one in get_args(annotation) if one is not NoneType))
    return annotation


def _scalar(written: str) -> Any:
    """What a place inside JSON is compared with: a number, a truth or a list if it reads as one, else text."""
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return written


_CONVERSIONS: Mapping[Any, Callable[[str], Any]] = {
    int: int,
    float: float,
    bool: lambda written: _TRUTHS[written.lower()],
    str: str,
}
_NAMES: Mapping[Any, str] = {int: "a whole number", float: "a number", bool: "true or false"}


def parse_object(written: str, option: str) -> dict[str, Any]:
    """A JSON object."""
    value = _json(written, option)
    if not isinstance(value, dict):
        raise InvalidInput(
            f"{option} {written!r:.60} is not a JSON object",
            value=written,
            remedy='write it like \'{"city": "Paris"}\'',
        )
    return value


def _json(written: str, option: str) -> Any:
    try:
        return json.loads(written)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{option} {written!r:.60} is not JSON ({error})", value=written, remedy="write it like '{\"a\": 1}'"
        ) from None
