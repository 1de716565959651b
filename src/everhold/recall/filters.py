"""Check the filter of a recall or a listing, and find the rows of an image that a scope covers."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

import numpy as np
from pydantic_core import PydanticCustomError

from everhold.errors import InvalidInput, UnknownField, format_value
from everhold.model import Scope
from everhold.model.base import Entity
from everhold.model.fields import check_json
from everhold.model.memory import KIND_NAMES, compute_importance
from everhold.model.scope import SHORT_TERM
from everhold.model.searchable import SEARCHABLE
from everhold.model.validation import check_time, suggest_name, validate_text
from everhold.recall.image import NEVER, Image, Mask
from everhold.schema.catalog import get_table
from everhold.schema.conditions import list_fields
from everhold.schema.operations import AllOf, AnyOf, Condition, Not, Op, Where
from everhold.schema.table import Column, Kind
from everhold.values import Value, value_class

_MEMORIES = ("memory",)
_TAGS = ("tags", "tag")
_COMBINATIONS = ("and", "or", "not")
_ONLY_OF_MEMORIES = ("priority", *_TAGS)
_SIGNS = {op.value for op in Op}
MAX_CONDITIONS = 100
DEEPEST_FILTER = 10
MAX_VALUES = 10_000
_MAX_PATH_LENGTH = 1_000
_WIDER = ("user", "agent", "session", "project", "organization")


@value_class
class Filter(Value):
    """Conditions on memories: on fields, tags, kinds and the time of creation. A memory must have all of the `tags`.

    A tag inside `conditions` is written `Where("tags", Op.CONTAINS, tag)`, for which `resolve_tags` puts ids.
    """

    conditions: tuple[Condition, ...] = ()
    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    created_after: datetime | None = None
    created_before: datetime | None = None

    def __bool__(self) -> bool:
        return bool(self.conditions or self.kinds or self.tags or self.created_after or self.created_before)

    @property
    def all_conditions(self) -> list[Condition]:
        """The whole filter as conditions, except `tags`."""
        conditions = list(self.conditions)
        if self.kinds:
            conditions.append(Where("kind", Op.IN, list(self.kinds)))
        if self.created_after:
            conditions.append(Where("created_at", Op.GE, self.created_after))
        if self.created_before:
            conditions.append(Where("created_at", Op.LT, self.created_before))
        return conditions


ANY = Filter()


class FilterArguments(TypedDict, total=False):
    """The arguments of every verb that can be narrowed to some memories. `make_filter` says what they mean."""

    kind: str | Sequence[str] | None
    tags: str | Sequence[str] | None
    where: Mapping[str, Any] | None
    after: datetime | None
    before: datetime | None


def make_filter(
    where: Mapping[str, Any] | None = None,
    *,
    kind: str | Sequence[str] | None = None,
    tags: str | Sequence[str] | None = None,
    after: datetime | None = None,
    before: datetime | None = None,
    among: Sequence[str] = _MEMORIES,
) -> Filter:
    """Return a checked filter.

    `where` maps a field to a value, to a list of values, or to `{operator: value}`. A record must meet all of these
    conditions. The key "or" or "and" has a list of such mappings as its value, and "not" has one mapping. `among` has
    the kinds of records that are searched.

    Raise UnknownField if one of these kinds lacks a field of the filter.
    """
    if (where, kind, tags, after, before) == (None,) * 5:
        return ANY
    for name, value in (("kind", kind), ("tags", tags)):
        if value is not None:
            _require_field(name, among)
    words = _read_words(tags, "tags")
    conditions: list[Condition] = []
    for condition in _parse_mapping(where, 1, among) if where else ():
        if isinstance(condition, Where) and condition.field == "tags":
            words.append(condition.value)
        else:
            conditions.append(condition)
    if not all(isinstance(condition, Where) for condition in conditions):  # else the mapping's length has been checked
        _check_count(conditions, len(words))
    kinds = tuple(KIND_NAMES.get(name, name) for name in _read_words(kind, "kind"))
    return Filter(
        tuple(conditions), kinds, tuple(words), _require_aware(after, "after"), _require_aware(before, "before")
    )


def _parse_mapping(where: Any, depth: int, among: Sequence[str]) -> list[Condition]:
    """Return the conditions of a mapping, all of which a record must meet."""
    if not isinstance(where, Mapping):
        raise InvalidInput(f"where holds {format_value(where)}", value=where, remedy="write a dictionary of conditions")
    if depth > DEEPEST_FILTER:
        raise InvalidInput(f"where is nested deeper than {DEEPEST_FILTER} levels", remedy="write a flatter one")
    if len(where) > MAX_CONDITIONS:  # before any work
        raise _refuse_count(len(where))
    conditions: list[Condition] = []
    for name, value in where.items():
        if name in _TAGS:
            _require_field(name, among)
            conditions += [Where("tags", Op.CONTAINS, tag) for tag in _read_words(value, name)]
        elif name in _COMBINATIONS:
            conditions.append(_parse_combination(name, value, depth, among))
        else:
            conditions += _parse_conditions(name, value, among)
    return conditions


def _parse_combination(name: str, value: Any, depth: int, among: Sequence[str]) -> Condition:
    """Return the condition that a value under "and", "or" or "not" describes."""
    parts = [value] if name == "not" else value
    if not isinstance(parts, list | tuple) or not parts or not all(parts):
        expected = "a dictionary of conditions" if name == "not" else "a list of dictionaries of conditions"
        raise InvalidInput(
            f"{name!r} holds {format_value(value)}", value=value, remedy=f"write {expected}, none of them empty"
        )
    if len(parts) > MAX_CONDITIONS:
        raise _refuse_count(len(parts))
    combined = [AllOf(tuple(_parse_mapping(part, depth + 1, among))) for part in parts]
    simple = tuple(part.conditions[0] if len(part.conditions) == 1 else part for part in combined)
    if name == "not":
        return Not(simple[0])
    return AnyOf(simple) if name == "or" else AllOf(simple)


def _check_count(conditions: Sequence[Condition], tags: int) -> None:
    count = tags + sum(1 for _ in list_fields(conditions))
    if count > MAX_CONDITIONS:
        raise _refuse_count(count)


def _refuse_count(count: int) -> InvalidInput:
    return InvalidInput(f"where has {count} conditions", value=count, remedy=f"use at most {MAX_CONDITIONS}")


def replace_tags(condition: Condition, find_tagged: Callable[[str], frozenset[str]]) -> Condition:
    """Return a condition in which each tag is replaced by the ids of the memories that carry it."""
    match condition:
        case Where(field="tags", value=tag):
            return Where("id", Op.IN, find_tagged(tag))
        case Where():
            return condition
        case Not(condition=part):
            return Not(replace_tags(part, find_tagged))
        case AllOf(conditions=parts):
            return AllOf(tuple(replace_tags(part, find_tagged) for part in parts))
        case AnyOf(conditions=parts):
            return AnyOf(tuple(replace_tags(part, find_tagged) for part in parts))


def _read_words(value: str | Collection[str] | None, name: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, str | list | tuple | set | frozenset):
        raise InvalidInput(f"{name} is {format_value(value)}", value=value, remedy="pass a word or a list of words")
    words = [value] if isinstance(value, str) else list(value)
    for word in words:
        if not isinstance(word, str):
            raise InvalidInput(f"{name}: {format_value(word)} is not a word", value=word, remedy="pass words as text")
        validate_text(word, name)
    return words


def _require_aware(value: datetime | None, name: str) -> datetime | None:
    if value is not None:
        check_time(value, name)
    return value


def _parse_conditions(name: str, value: Any, among: Sequence[str]) -> list[Where]:
    """Return the conditions on one field. `value` is a value, a list of allowed values, or a mapping of operators."""
    validate_text(name, "where")
    if len(name) > _MAX_PATH_LENGTH:
        raise InvalidInput(
            f"where: a field has {len(name):,} characters", value=len(name), remedy=f"use at most {_MAX_PATH_LENGTH:,}"
        )
    if name == "priority":
        _require_field(name, among)
        levels = _parse_conditions("importance", value, among)
        return [Where("importance", level.op, _convert_priority(level.value)) for level in levels]
    column = _require_column(name, among)
    if isinstance(value, Mapping) and (column.kind is not Kind.JSON or (value and set(value) <= _SIGNS)):
        return [
            _make_condition(name, column.kind, _parse_operator(sign, name), operand) for sign, operand in value.items()
        ]
    if isinstance(value, list | tuple | set | frozenset):
        return [_make_condition(name, column.kind, Op.IN, value)]
    return [_make_condition(name, column.kind, Op.EQ, value)]


def _require_column(name: str, among: Sequence[str]) -> Column:
    """Return the column that a field of a filter names; for a path into JSON, the JSON column.

    Raise UnknownField if one of the kinds has no such column.
    """
    field = name.partition(".")[0]
    _require_field(field, among, name)
    column = get_table(SEARCHABLE[among[0]].entity).by_name[field]
    if field != name and column.kind is not Kind.JSON:
        raise _refuse_field(name, among[0])
    return column


def _require_field(field: str, among: Sequence[str], path: str | None = None) -> None:
    for kind in among:
        if field not in _list_filters(kind):
            raise _refuse_field(path or field, kind)


def _refuse_field(name: str, kind: str) -> UnknownField:
    table = get_table(SEARCHABLE[kind].entity).name
    return UnknownField(
        f"{table} have no field {format_value(name)} to filter by",
        value=name,
        remedy=suggest_name(name.partition(".")[0], [*_list_filters(kind), *_COMBINATIONS]),
    )


def _list_filters(kind: str) -> list[str]:
    """Return the names of the fields that records of a kind can be filtered by."""
    fields = list(get_table(SEARCHABLE[kind].entity).by_name)
    return [*fields, *_ONLY_OF_MEMORIES] if kind == "memory" else fields


def _make_condition(name: str, kind: Kind, op: Op, value: Any) -> Where:
    if op is Op.IN:
        if not isinstance(value, list | tuple | set | frozenset):
            raise InvalidInput(f"{name}: 'in' has {format_value(value)}", value=value, remedy="pass a list of values")
        if len(value) > MAX_VALUES:
            raise InvalidInput(
                f"{name}: 'in' has {len(value):,} values",
                value=len(value),
                remedy=f"use at most {MAX_VALUES:,} at once",
            )
        return Where(name, op, [_check_value(name, kind, item) for item in value])
    if op is Op.CONTAINS and kind not in (Kind.TEXT, Kind.JSON):
        raise InvalidInput(f"{name} is a {kind.value}", remedy="'contains' finds part of a text or a member of a list")
    return Where(name, op, _check_value(name, kind, value))


def _convert_priority(priority: Any) -> Any:
    if isinstance(priority, list):
        return [_convert_priority(level) for level in priority]
    return None if priority is None else compute_importance(priority)


def _parse_operator(sign: str, name: str) -> Op:
    try:
        return Op(sign)
    except ValueError:
        known = ", ".join(op.value for op in Op)
        raise InvalidInput(
            f"{name}: no operator {format_value(sign)}", value=sign, remedy=f"use one of {known}"
        ) from None


_TYPES: Mapping[Kind, type | tuple[type, ...]] = {
    Kind.TEXT: str,
    Kind.INTEGER: int,
    Kind.REAL: (int, float),
    Kind.BOOLEAN: bool,
    Kind.TIME: datetime,
    Kind.BYTES: bytes,
}


def _check_value(name: str, kind: Kind, value: Any) -> Any:
    """Return the value of a condition, checked against the kind of its column."""
    expected = _TYPES.get(kind)
    if isinstance(value, str):
        validate_text(value, name)
    if value is None:
        return value
    if expected is None:
        return _check_json_value(name, value)
    if (isinstance(value, bool) and kind is not Kind.BOOLEAN) or not isinstance(value, expected):
        raise InvalidInput(
            f"{name} is a {kind.value}; it cannot be compared with {format_value(value)}",
            value=value,
            remedy=f"pass a {kind.value}",
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{name} cannot be compared with the number {value}", remedy="use a finite one")
    return _require_aware(value, name) if isinstance(value, datetime) else value


def _check_json_value(name: str, value: Any) -> Any:
    try:
        return check_json(list(value) if isinstance(value, tuple | set | frozenset) else value)
    except PydanticCustomError as error:
        raise InvalidInput.from_sentence(f"{name}: {error}") from None


def check_include(include: str | Collection[str], among: Collection[str] = ("memory",)) -> tuple[str, ...]:
    """Return the reaches of shared records to read too. Raise InvalidInput if one is unknown or no kind has a reach."""
    names = (include,) if isinstance(include, str) else tuple(include)
    for name in names:
        if name not in _WIDER:
            raise InvalidInput(
                f"include {format_value(name)} is not a reach", value=name, remedy=suggest_name(name, _WIDER)
            )
    if names:
        require_column("reach", "include", among)
    return names


def require_column(column: str, argument: str, among: Collection[str]) -> None:
    """Raise InvalidInput if none of the kinds has the column that an argument is about."""
    if not any(SEARCHABLE[kind].has_column(column) for kind in among):
        raise InvalidInput(
            f"{argument} is about memories, and only {', '.join(sorted(among))} records are searched",
            remedy=f"leave {argument} out, or add 'memory' to among",
        )


def make_visibility_check(scope: Scope, include: Collection[str]) -> Callable[[Entity], bool]:
    """Return a function that says whether a scope may read a record, as its own or by a reach in `include`.

    The function applies the rule of `mask_covered_rows` to one record. Recall applies it to every record it returns, so
    a wrong row in an image never shows a user another user's record. If the scope is limited by a dimension that a
    record does not have, such as a session, the scope does not cover the record.
    """
    organization = scope.organization
    columns = tuple(scope.columns.items())
    limits = tuple(scope.limits.items()) if scope.is_open else columns

    def is_visible(record: Entity) -> bool:
        values = record.__dict__
        if values["organization_id"] != organization:
            return False
        required = columns if values.get("namespace") == SHORT_TERM else limits
        for name, expected in required:
            if values.get(name) != expected:
                break
        else:
            return True
        if values.get("user_id") is None:  # the session limits shared records, but not the user's own ones
            required = columns
        return values.get("reach") in include and all(values.get(name) in (None, value) for name, value in required)

    return is_visible


def mask_covered_rows(
    image: Image, scope: Scope, include: Sequence[str], *, own: bool, closed: bool = False
) -> Mask | None:
    """Return the live rows that the scope covers; None if it covers every row.

    Rows of earlier texts are left out unless `closed` is true. `own` says that all rows belong to the scope's user, so
    that only the other dimensions, such as the session, are compared.
    """
    limits = {name: value for name, value in scope.limits.items() if not (own and name == "user_id")}
    if not limits and image.plain:
        return None
    current = image.column("alive").copy()
    if not closed:
        current &= image.column("known_to") == NEVER
    if not limits:
        return current
    matching = np.ones(image.size, np.bool_)
    for name, value in limits.items():
        matching &= image.column(name) == image.code(name, value)
    if include:
        compatible = np.isin(image.column("reach"), [image.code("reach", name) for name in include])
        for name, value in scope.columns.items():
            column = image.column(name)
            agrees = (column == image.code(name, value)) | (column == 0)
            if name == "session_id" and scope.is_open:  # the session does not limit the user's own records
                agrees |= image.column("user_id") != 0
            compatible &= agrees
        matching |= compatible
    return current & matching
