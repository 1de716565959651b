"""Check that arguments can be checked with a tool's schema.

The schema is JSON Schema, draft 2020-12, with the keywords in `KEYWORDS`. Other keywords are refused, because ignoring
one would accept arguments that the author meant to refuse. `format` and annotations are kept but not checked. A `$ref`
may refer only to places in the same schema.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from pydantic_core import PydanticCustomError

from everhold.errors import InvalidInput, format_value
from everhold.model.fields import JsonLimits, check_json, walk_json
from everhold.model.validation import suggest_name
from everhold.tools.patterns import compile_pattern

LIMITS = JsonLimits(depth=64, values=20_000, characters=200_000)
MAX_SCHEMA_DEPTH = 32
MAX_SUBSCHEMAS = 2_000
TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_DRAFTS = ("json-schema.org/draft/2020-12/schema", "json-schema.org/draft/2019-09/schema",
           "json-schema.org/draft-07/schema")  # fmt: skip

Schema = Mapping[str, Any]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_texts(value: Any) -> bool:
    return _is_list(value) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _is_type(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return _is_texts(names) and bool(names) and all(name in TYPES for name in names)


def _is_draft(value: Any) -> bool:
    return isinstance(value, str) and value.partition("://")[2].removesuffix("#") in _DRAFTS


_COUNT = (_is_count, "a whole number from 0")
_NUMBER = (_is_number, "a number")
_TEXT = (_is_text, "text")
_FLAG = (_is_flag, "true or false")
_ANY = (lambda value: True, "a value")
# The checks for the values of keywords.
_VALUE_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_is_type, f"one of {', '.join(TYPES)}, or a list of these"),
    "enum": (lambda value: _is_list(value) and bool(value), "a list of values"),
    "const": _ANY,
    "required": (_is_texts, "a list of different names"),
    "minProperties": _COUNT, "maxProperties": _COUNT, "minItems": _COUNT, "maxItems": _COUNT,
    "minLength": _COUNT, "maxLength": _COUNT,
    "minimum": _NUMBER, "maximum": _NUMBER, "exclusiveMinimum": _NUMBER, "exclusiveMaximum": _NUMBER,
    "multipleOf": (lambda value: _is_number(value) and value > 0, "a number above 0"),
    "uniqueItems": _FLAG, "pattern": _TEXT, "$ref": _TEXT,
    "$schema": (_is_draft, "the address of draft 2020-12, 2019-09 or 07"),
    "format": _TEXT, "title": _TEXT, "description": _TEXT, "$comment": _TEXT, "default": _ANY,
    "examples": (_is_list, "a list"), "deprecated": _FLAG, "readOnly": _FLAG, "writeOnly": _FLAG,
}  # fmt: skip
_SCHEMA_KEYWORDS = ("additionalProperties", "items", "not", "propertyNames")
_SCHEMA_LIST_KEYWORDS = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions")
KEYWORDS = (*_VALUE_CHECKS, *_SCHEMA_KEYWORDS, *_SCHEMA_LIST_KEYWORDS, *NAMED_SCHEMAS)
# Keywords whose subschemas apply to the same value as the schema itself.
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "$ref")


def check_schema(schema: Schema) -> dict[str, Schema | bool]:
    """Return all subschemas of a schema by their place; raise InvalidInput if arguments cannot be checked with it.

    A place is a JSON pointer such as `/properties/city`. The schema itself has the empty pointer.
    """
    try:
        walk_json(check_json(schema), lambda _: None, LIMITS)
    except PydanticCustomError as error:
        raise InvalidInput.from_sentence(f"the schema: {error}") from None
    if schema.get("type") != "object" and schema:
        raise InvalidInput(
            f"the schema's type is {format_value(schema.get('type'))}",
            remedy='arguments are an object: write "type": "object" and a schema for each in "properties"',
        )
    places = _collect_subschemas(schema)
    for place, subschema in places.items():
        if not isinstance(subschema, bool):
            _check_keywords(place, subschema, places)
    _refuse_endless_references(places)
    return places


def list_subschemas(schema: Schema) -> Iterator[tuple[str, Any]]:
    """Yield the schemas directly inside a schema, each with its pointer from there."""
    for keyword in _SCHEMA_KEYWORDS:
        if keyword in schema:
            yield f"/{keyword}", schema[keyword]
    for keyword in _SCHEMA_LIST_KEYWORDS:
        if keyword in schema:
            _require(isinstance(schema[keyword], list) and schema[keyword], keyword, "a list of schemas")
            for index, subschema in enumerate(schema[keyword]):
                yield f"/{keyword}/{index}", subschema
    for keyword in NAMED_SCHEMAS:
        if keyword in schema:
            _require(isinstance(schema[keyword], dict), keyword, "an object of schemas")
            for name, subschema in schema[keyword].items():
                yield f"/{keyword}/{_escape(name)}", subschema


def find_place(reference: str) -> str | None:
    """Return the place that a `$ref` refers to; None if it is not in the same schema."""
    return unquote(reference[1:]) if reference.startswith("#") else None


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _require(is_right: object, name: str, expected: str) -> None:
    if not is_right:
        raise InvalidInput(f"{name} of the schema is malformed", remedy=f"write {expected}")


def _collect_subschemas(schema: Schema) -> dict[str, Schema | bool]:
    places: dict[str, Schema | bool] = {}
    pending: list[tuple[str, Any, int]] = [("", schema, 0)]
    while pending:
        place, subschema, depth = pending.pop()
        places[place] = subschema
        if depth > MAX_SCHEMA_DEPTH or len(places) > MAX_SUBSCHEMAS:
            raise InvalidInput(
                "the schema is too large",
                remedy=f"use at most {MAX_SUBSCHEMAS:,} schemas, at most {MAX_SCHEMA_DEPTH} inside each other",
            )
        if isinstance(subschema, dict):
            pending += [(place + step, inner, depth + 1) for step, inner in list_subschemas(subschema)]
        else:
            _require(isinstance(subschema, bool), place or "the whole", "an object, true or false")
    return places


def _check_keywords(place: str, schema: Schema, places: Mapping[str, Any]) -> None:
    """Raise InvalidInput if one object of a schema has an unknown keyword or a keyword with an invalid value."""
    location = f" at {place}" if place else ""
    for keyword, value in schema.items():
        if keyword not in KEYWORDS:
            raise InvalidInput(
                f"the schema has the keyword {format_value(keyword)}{location}, which is not checked here",
                value=keyword,
                remedy=f"leave it out; {suggest_name(keyword, KEYWORDS)}",
            )
        if keyword in _VALUE_CHECKS and not _VALUE_CHECKS[keyword][0](value):
            raise InvalidInput(
                f"{keyword} is {format_value(value)}{location} of the schema",
                value=value,
                remedy=f"write {_VALUE_CHECKS[keyword][1]}",
            )
    for pattern in (*([schema["pattern"]] if "pattern" in schema else ()), *schema.get("patternProperties", ())):
        compile_pattern(pattern)
    if "$ref" in schema and find_place(schema["$ref"]) not in places:
        raise InvalidInput(
            f"$ref is {format_value(schema['$ref'])}{location} of the schema",
            value=schema["$ref"],
            remedy="refer to a schema in the same document, such as #/$defs/address",
        )


def _refuse_endless_references(places: Mapping[str, Schema | bool]) -> None:
    """Raise InvalidInput for a schema that refers back to itself for the same value, which would never end."""
    finished_places: set[str] = set()
    for first in places:
        path: dict[str, Iterator[str]] = (
            {first: iter(_list_in_place(first, places))} if first not in finished_places else {}
        )
        while path:
            place = next(reversed(path))
            following = next(path[place], None)
            if following is None:
                finished_places.add(place)
                del path[place]
            elif following in path:
                raise InvalidInput(f"the schema at {following or '#'} refers to itself", remedy="remove that $ref")
            elif following not in finished_places:
                path[following] = iter(_list_in_place(following, places))


def _list_in_place(place: str, places: Mapping[str, Schema | bool]) -> list[str]:
    """Return the places of the schemas that are applied to the same value."""
    schema = places[place]
    if isinstance(schema, bool):
        return []
    inner_places = [place + step for step, _ in list_subschemas(schema) if step.split("/")[1] in _IN_PLACE]
    return [*inner_places, find_place(schema["$ref"]) or ""] if "$ref" in schema else inner_places
