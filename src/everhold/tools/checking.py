"""Check the arguments of a call against the schema of a tool."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pydantic_core import PydanticCustomError

from everhold.errors import ArgumentFault, InvalidArguments, InvalidInput, format_value
from everhold.model.fields import check_json
from everhold.tools.faults import describe_schema, make_fault, make_missing_fault, make_unknown_fault
from everhold.tools.patterns import compile_pattern
from everhold.tools.schemas import Schema, check_schema, find_place

# A schema whose alternatives multiply could take exponentially long.
MAX_STEPS = 200_000
# Each level takes up to three frames of Python's stack, which has a thousand.
MAX_DEPTH = 160
MAX_FAULTS = 20


def parse_arguments(arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    """Return the arguments of a call, which some models write as JSON text."""
    if not isinstance(arguments, str):
        return dict(arguments)
    try:
        value = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the arguments are not JSON ({error})", remedy="pass a JSON object") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"the arguments are {format_value(value)}", value=value, remedy="pass a JSON object")
    return value


def check_arguments(name: str, schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with the defaults of the schema; raise InvalidArguments with every fault."""
    try:
        check_json(arguments)
    except PydanticCustomError as error:
        raise InvalidInput.from_sentence(f"the arguments: {error}") from None
    checker = _Checker(check_schema(schema))
    faults: list[ArgumentFault] = []
    completed_arguments = checker.check("", dict(arguments), "", faults)
    if not faults:
        return dict(completed_arguments)
    shown_faults = faults[:MAX_FAULTS]
    raise InvalidArguments(
        f"{name}: {', and '.join(fault.fact for fault in shown_faults)}",
        faults=tuple(shown_faults),
        remedy=", and ".join(dict.fromkeys(fault.remedy for fault in shown_faults)),
    )


def check_defaults(schema: Schema) -> None:
    """Raise InvalidInput if a default does not fit its own schema."""
    places = check_schema(schema)
    for place, subschema in places.items():
        if isinstance(subschema, dict) and "default" in subschema:
            faults: list[ArgumentFault] = []
            _Checker(places).check(place, subschema["default"], "default", faults)
            if faults:
                raise InvalidInput(
                    f"{faults[0].fact} at {place} of the schema", remedy="write a default that fits, or none"
                )


def make_key(value: Any) -> Any:
    """Return a value that is equal exactly for equal JSON values: 1 equals 1.0 but not true."""
    match value:
        case bool() | None | str():
            return type(value).__name__, value
        case list() | tuple():
            return "list", tuple(map(make_key, value))
        case dict():
            return "object", frozenset((name, make_key(member)) for name, member in value.items())
        case _:
            return "number", value


def _get_type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case dict():
            return "object"
    return "integer" if isinstance(value, int) or value.is_integer() else "number"


def _has_type(schema: Schema | bool, value: Any) -> bool:
    types = schema.get("type", ()) if isinstance(schema, Mapping) else ()
    allowed = (types,) if isinstance(types, str) else types
    kind = _get_type(value)
    return not allowed or kind in allowed or (kind == "integer" and "number" in allowed)


@dataclass
class _Checker:
    """One check. `check` returns the value with defaults and adds to a list of faults."""

    places: Mapping[str, Schema | bool]
    steps: int = 0
    depth: int = 0

    def check(self, place: str, value: Any, path: str, faults: list[ArgumentFault]) -> Any:
        """Check a value, found at `path` of the arguments, with the schema at `place`."""
        self.steps, self.depth = self.steps + 1, self.depth + 1
        if self.steps > MAX_STEPS or self.depth > MAX_DEPTH:
            raise InvalidInput("the schema is too complex for these arguments", remedy="simplify its alternatives")
        try:
            schema = self.places[place]
            if isinstance(schema, bool):
                if not schema:
                    faults.append(make_fault(path, value, "leave it out"))
                return value
            return self._apply(place, schema, value, path, faults)
        finally:
            self.depth -= 1

    def _apply(self, place: str, schema: Schema, value: Any, path: str, faults: list[ArgumentFault]) -> Any:
        """Check a value against all keywords of a schema, and return it with defaults filled in."""
        before = len(faults)
        if "$ref" in schema:
            value = self.check(find_place(schema["$ref"]) or "", value, path, faults)
        self._check_plain(schema, value, path, faults)
        if len(faults) > before:
            return value
        match value:
            case dict():
                value = self._check_object(place, schema, value, path, faults)
            case list() | tuple():
                value = self._check_array(place, schema, value, path, faults)
            case str():
                _check_text(schema, value, path, faults)
            case int() | float() if not isinstance(value, bool):
                _check_number(schema, value, path, faults)
        return self._check_alternatives(place, schema, value, path, faults)

    def _check_plain(self, schema: Schema, value: Any, path: str, faults: list[ArgumentFault]) -> None:
        is_refused = (
            not _has_type(schema, value)
            or ("const" in schema and make_key(value) != make_key(schema["const"]))
            or ("enum" in schema and make_key(value) not in map(make_key, schema["enum"]))
        )
        if is_refused:
            faults.append(make_fault(path, value, f"pass {describe_schema(schema)}"))

    def _check_object(
        self, place: str, schema: Schema, value: dict[str, Any], path: str, faults: list[ArgumentFault]
    ) -> dict[str, Any]:
        """Check the members of an object and return it with defaults filled in. Faults are added to `faults`."""
        properties: Mapping[str, Any] = schema.get("properties", {})
        completed_members = dict(value)
        for name in properties:
            inner_place = f"{place}/properties/{name.replace('~', '~0').replace('/', '~1')}"
            if name in value:
                completed_members[name] = self.check(inner_place, value[name], _join(path, name), faults)
            else:
                property_schema = self._follow(inner_place)
                if isinstance(property_schema, dict) and "default" in property_schema:
                    completed_members[name] = self.check(
                        inner_place, property_schema["default"], _join(path, name), faults
                    )
        missing_names = [name for name in schema.get("required", ()) if name not in completed_members]
        # An argument that the schema does not allow is a separate fault.
        unknown_names = [
            name for name in value if name not in properties and schema.get("additionalProperties") is not False
        ]
        faults += [
            make_missing_fault(_join(path, name), properties.get(name, {}), name, unknown_names)
            for name in missing_names
        ]
        for name in value:
            completed_members[name] = self._check_by_name(place, schema, name, completed_members[name], path, faults)
        _check_size(schema, len(value), ("minProperties", "maxProperties"), "entries", path, value, faults)
        if "propertyNames" in schema:
            for name in value:
                self.check(f"{place}/propertyNames", name, _join(path, name), faults)
        return completed_members

    def _check_by_name(
        self, place: str, schema: Schema, name: str, value: Any, path: str, faults: list[ArgumentFault]
    ) -> Any:
        """Check a member of an object whose name is not in `properties`, by patterns or `additionalProperties`."""
        patterns = [text for text in schema.get("patternProperties", ()) if compile_pattern(text).matches(name)]
        for text in patterns:
            escaped = text.replace("~", "~0").replace("/", "~1")
            value = self.check(f"{place}/patternProperties/{escaped}", value, _join(path, name), faults)
        additional = schema.get("additionalProperties", True)
        if patterns or additional is True or name in schema.get("properties", ()):
            return value
        if additional is False:
            faults.append(make_unknown_fault(_join(path, name), name, schema.get("properties", ())))
            return value
        return self.check(f"{place}/additionalProperties", value, _join(path, name), faults)

    def _check_array(self, place: str, schema: Schema, value: Any, path: str, faults: list[ArgumentFault]) -> list[Any]:
        prefix_items = schema.get("prefixItems", ())
        completed_items = []
        for index, item in enumerate(value):
            item_place = (
                f"/prefixItems/{index}" if index < len(prefix_items) else "/items" if "items" in schema else None
            )
            item_path = f"{path}[{index}]"
            completed_items.append(
                item if item_place is None else self.check(place + item_place, item, item_path, faults)
            )
        _check_size(schema, len(value), ("minItems", "maxItems"), "items", path, value, faults)
        if schema.get("uniqueItems") and len(set(map(make_key, value))) < len(value):
            faults.append(make_fault(path, value, "pass each item once"))
        return completed_items

    def _check_alternatives(
        self, place: str, schema: Schema, value: Any, path: str, faults: list[ArgumentFault]
    ) -> Any:
        for index in range(len(schema.get("allOf", ()))):
            value = self.check(f"{place}/allOf/{index}", value, path, faults)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                value = self._check_branches(place, keyword, schema, value, path, faults)
        if "not" in schema:
            inner_faults: list[ArgumentFault] = []
            self.check(f"{place}/not", value, path, inner_faults)
            if not inner_faults:
                faults.append(make_fault(path, value, "pass another value"))
        return value

    def _check_branches(
        self, place: str, keyword: str, schema: Schema, value: Any, path: str, faults: list[ArgumentFault]
    ) -> Any:
        """Check the alternatives of `anyOf` or `oneOf`; return the value with the defaults of the first that fits."""
        fitting_values, faults_of_same_type = [], []
        for index in range(len(schema[keyword])):
            inner_faults: list[ArgumentFault] = []
            branch = f"{place}/{keyword}/{index}"
            completed_value = self.check(branch, value, path, inner_faults)
            if not inner_faults and keyword == "anyOf":
                return completed_value
            if not inner_faults:
                fitting_values.append(completed_value)
            elif _has_type(self._follow(branch), value):
                faults_of_same_type.append(inner_faults)
        if len(fitting_values) == 1:
            return fitting_values[0]
        if fitting_values:
            faults.append(make_fault(path, value, "pass a value that fits only one of the alternatives"))
        elif len(faults_of_same_type) == 1:
            # The faults inside the only alternative of the value's type are more helpful than a list of types.
            faults += faults_of_same_type[0]
        else:
            faults.append(make_fault(path, value, f"pass {describe_schema({'anyOf': schema[keyword]})}"))
        return value

    def _follow(self, place: str) -> Schema | bool:
        """Return the schema at a place, or the schema that its `$ref` refers to."""
        schema = self.places[place]
        while isinstance(schema, dict) and "$ref" in schema and not {"type", "default"} & set(schema):
            schema = self.places[find_place(schema["$ref"]) or ""]
        return schema


def _check_text(schema: Schema, value: str, path: str, faults: list[ArgumentFault]) -> None:
    _check_size(schema, len(value), ("minLength", "maxLength"), "characters", path, value, faults)
    if "pattern" in schema and not compile_pattern(schema["pattern"]).matches(value):
        faults.append(make_fault(path, value, f"pass text that matches {schema['pattern']}"))


def _check_number(schema: Schema, value: float, path: str, faults: list[ArgumentFault]) -> None:
    tests: dict[str, tuple[Callable[[Any], bool], str]] = {
        "minimum": (lambda bound: value >= bound, "at least"),
        "maximum": (lambda bound: value <= bound, "at most"),
        "exclusiveMinimum": (lambda bound: value > bound, "more than"),
        "exclusiveMaximum": (lambda bound: value < bound, "less than"),
        # Decimal fractions are compared exactly: 0.3 is a multiple of 0.1.
        "multipleOf": (lambda step: not Fraction(repr(value)) % Fraction(repr(step)), "a multiple of"),
    }
    for keyword, (is_met, words) in tests.items():
        if keyword in schema and not is_met(schema[keyword]):
            faults.append(make_fault(path, value, f"pass {words} {schema[keyword]}"))


def _check_size(
    schema: Schema, size: int, keywords: tuple[str, str], unit: str, path: str, value: Any, faults: list[ArgumentFault]
) -> None:
    least, most = keywords
    if size < schema.get(least, 0):
        faults.append(make_fault(path, value, f"pass at least {schema[least]} {unit}"))
    if size > schema.get(most, size):
        faults.append(make_fault(path, value, f"pass at most {schema[most]} {unit}"))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
