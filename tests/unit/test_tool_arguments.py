"""Schemas of tools, patterns in schemas, and the check of arguments with them."""

import itertools
import random
import re
from collections.abc import Callable
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from everhold.errors import InvalidArguments, InvalidInput
from everhold.tools.checking import check_arguments, check_defaults
from everhold.tools.patterns import compile_pattern
from everhold.tools.schemas import check_schema

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
LETTERS = "abc"


def make_value(rng: random.Random, depth: int = 0) -> Any:
    scalars = [None, True, False, rng.randrange(-3, 5), rng.choice([0.5, 1.0, -2.5, 3.0]), rng.choice(["", "a", "zz9"])]
    if depth < 2 and rng.random() < 0.4:
        if rng.random() < 0.5:
            return [make_value(rng, depth + 1) for _ in range(rng.randrange(4))]
        return {rng.choice(LETTERS): make_value(rng, depth + 1) for _ in range(rng.randrange(3))}
    return rng.choice(scalars)


def make_count(rng: random.Random, make_inner: Any) -> int:
    return rng.randrange(3)


def make_bound(rng: random.Random, make_inner: Any) -> float:
    return rng.choice([0, 2.5])


def make_two_schemas(rng: random.Random, make_inner: Any) -> Any:
    return [make_inner(), make_inner()]


def make_inner_schema(rng: random.Random, make_inner: Any) -> Any:
    return make_inner()


# How a random value of each keyword is made; `make_inner` makes a schema inside it.
KEYWORD_MAKERS: list[tuple[str, Callable[[random.Random, Any], Any]]] = [
    ("type", lambda rng, make_inner: rng.choice(TYPES)),
    ("type", lambda rng, make_inner: rng.sample(TYPES, 2)),
    ("enum", lambda rng, make_inner: [make_value(rng, 1) for _ in range(3)]),
    ("const", lambda rng, make_inner: make_value(rng, 1)),
    ("properties", lambda rng, make_inner: {name: make_inner() for name in rng.sample(LETTERS, 2)}),
    ("required", lambda rng, make_inner: rng.sample(LETTERS, 1)),
    ("patternProperties", lambda rng, make_inner: {"[ab]": make_inner()}),
    ("prefixItems", lambda rng, make_inner: [make_inner()]),
    ("uniqueItems", lambda rng, make_inner: True),
    ("pattern", lambda rng, make_inner: rng.choice(["^a", "b$", "[0-9]", "a|z"])),
    ("multipleOf", lambda rng, make_inner: rng.choice([1, 2, 0.5])),
    ("$ref", lambda rng, make_inner: "#/$defs/x"),
    *[(keyword, make_inner_schema) for keyword in ("additionalProperties", "propertyNames", "items", "not")],
    *[(keyword, make_two_schemas) for keyword in ("anyOf", "oneOf", "allOf")],
    *[(keyword, make_bound) for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")],
    *[(f"{side}{noun}", make_count) for side in ("min", "max") for noun in ("Properties", "Items", "Length")],
]


def make_schema(rng: random.Random, depth: int = 0) -> Any:
    if rng.random() < 0.05:
        return rng.random() < 0.5
    schema: dict[str, Any] = {}
    for _ in range(rng.randrange(1, 4)):
        keyword, make = rng.choice(KEYWORD_MAKERS)
        schema[keyword] = make(rng, lambda: make_schema(rng, depth + 1) if depth < 3 else True)
    return schema


def test_schemas_accept_what_an_independent_validator_accepts() -> None:
    """Random schemas and arguments are checked by our validator and by an independent one."""
    rng, verdicts = random.Random(7), {True: 0, False: 0}
    for _ in range(3_000):
        schema = {
            "type": "object",
            "properties": {name: make_schema(rng) for name in "ab"},
            "$defs": {"x": {"type": rng.sample(TYPES, 3)}},
        }
        arguments = {name: make_value(rng) for name in rng.sample(LETTERS, 2)}
        expected = jsonschema.Draft202012Validator(schema).is_valid(arguments)
        try:
            check_arguments("tool", schema, arguments)
            accepted = True
        except InvalidArguments:
            accepted = False
        assert accepted == expected, (schema, arguments)
        verdicts[expected] += 1
    assert min(verdicts.values()) > 500


NESTED_SCHEMA = {
    "type": "object",
    "properties": {
        "filters": {"type": "array", "items": {"$ref": "#/$defs/filter"}, "maxItems": 2},
        "order": {"enum": ["asc", "desc"], "default": "asc"},
        "limit": {"anyOf": [{"type": "integer", "maximum": 100}, {"type": "null"}]},
    },
    "required": ["filters"],
    "$defs": {
        "filter": {
            "type": "object",
            "properties": {"field": {"type": "string", "pattern": "^[a-z_]+$"}, "price": {"type": "number"},
                           "negate": {"type": "boolean", "default": False},
                           "inner": {"$ref": "#/$defs/filter"}},
            "required": ["field"],
            "additionalProperties": False,
        }
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "search: filters is missing; pass a list for filters"),
        ({"filter": []}, "search: filters is missing (is 'filter' meant?); pass a list for filters"),
        ({"filters": "all"}, "search: filters is 'all'; pass a list for filters"),
        ({"filters": [{}]}, "search: filters[0].field is missing; pass text for filters[0].field"),
        (
            {"filters": [{"field": "a", "prise": 3}]},
            "search: there is no parameter 'filters[0].prise'; did you mean 'price'?",
        ),
        (
            {"filters": [{"field": "A B"}]},
            "search: filters[0].field is 'A B'; pass text that matches ^[a-z_]+$ for filters[0].field",
        ),
        ({"filters": [], "order": "up"}, "search: order is 'up'; pass 'asc' or 'desc' for order"),
        ({"filters": [], "limit": 200}, "search: limit is 200; pass at most 100 for limit"),
        ({"filters": [], "limit": "many"}, "search: limit is 'many'; pass a whole number or null for limit"),
        (
            {"filters": [{"field": "a", "inner": {"field": 5, "price": True}}]},
            (
                "search: filters[0].inner.field is 5, and filters[0].inner.price is True; "
                "pass text for filters[0].inner.field, and pass a number for filters[0].inner.price"
            ),
        ),
        ({"filters": [{"field": "a"}] * 3}, "at most 2 items for filters"),
    ],
)
def test_a_refusal_names_the_place_the_value_and_the_expected_value(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArguments, match=re.escape(message)) as caught:
        check_arguments("search", NESTED_SCHEMA, arguments)
    assert caught.value.faults


def test_defaults_are_filled_in_at_every_depth() -> None:
    arguments = {"filters": [{"field": "a", "inner": {"field": "b"}}]}
    assert check_arguments("search", NESTED_SCHEMA, arguments) == {
        "filters": [{"field": "a", "negate": False, "inner": {"field": "b", "negate": False}}],
        "order": "asc",
    }
    assert arguments == {"filters": [{"field": "a", "inner": {"field": "b"}}]}


def make_deep_schema(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"items": schema}
    return {"type": "object", "properties": {"a": schema}}


def make_object_schema(schema: Any) -> dict[str, Any]:
    """Return the schema of an object whose property `a` has this schema."""
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"properties": {}}, "the schema's type is None"),
        (
            make_object_schema({"typ": "string"}),
            "the keyword 'typ' at /properties/a, which is not checked here; leave it out; did",
        ),
        (make_object_schema({"nullable": True}), "the keyword 'nullable'"),
        (make_object_schema({"if": {}, "then": {}}), "the keyword 'if'"),
        (make_object_schema({"type": "text"}), "type is 'text' at /properties/a of the schema"),
        (make_object_schema({"type": []}), "type is \\[\\]"),
        (make_object_schema({"minLength": -1}), "minLength is -1"),
        (make_object_schema({"minimum": "3"}), "minimum is '3'"),
        (make_object_schema({"multipleOf": 0}), "multipleOf is 0"),
        (make_object_schema({"enum": []}), "enum is"),
        (make_object_schema({"required": "a"}), "required is 'a'"),
        (make_object_schema({"items": [{"type": "string"}]}), "an object, true or false"),
        (make_object_schema({"anyOf": []}), "anyOf of the schema is malformed"),
        (make_object_schema({"$ref": "#/$defs/none"}), "is '#/\\$defs/none'"),
        (make_object_schema({"$ref": "other.json#/a"}), "refer to a schema in the same document"),
        (make_object_schema({"$ref": "http://localhost/"}), "refer to a schema in the same document"),
        ({**make_object_schema({"$ref": "#/properties/a"})}, "refers to itself"),
        (
            {
                **make_object_schema(True),
                "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}},
            },
            "refers to itself",
        ),
        ({"type": "object", "$schema": "http://json-schema.org/draft-04/schema#"}, "draft 2020-12"),
        (make_object_schema({"pattern": "(?=a)"}), "a look-around"),
        (make_deep_schema(40), "too large"),
        ({"type": "object", "properties": {f"p{n}": True for n in range(2_001)}}, "too large"),
        (make_object_schema({"description": "x" * 300_000}), "more than 200,000 characters"),
        (
            make_object_schema({"default": 5, "type": "string"}),
            "default is 5 at /properties/a of the schema; write a default that",
        ),
        (make_object_schema(3), "an object, true or false"),
    ],
)
def test_a_schema_that_cannot_be_checked_is_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check_defaults(schema)


def test_a_recursive_schema_is_allowed_if_each_step_goes_deeper_into_the_value() -> None:
    assert "/properties/a" in check_schema(make_object_schema({"type": "object", "properties": {"b": {"$ref": "#"}}}))


def test_alternatives_that_multiply_end_soon() -> None:
    names = [f"d{number}" for number in range(30)]
    definitions = {
        name: {"allOf": [{"$ref": f"#/$defs/{next_name}"}, {"anyOf": [{"$ref": f"#/$defs/{next_name}"}, True]}]}
        for name, next_name in itertools.pairwise(names)
    }
    schema = {**make_object_schema({"$ref": "#/$defs/d0"}), "$defs": {**definitions, names[-1]: {"type": "string"}}}
    with pytest.raises(InvalidInput, match="too complex for these arguments"):
        check_arguments("tool", schema, {"a": "x"})


def test_deep_arguments_do_not_exhaust_the_stack() -> None:
    schema = make_object_schema({"$ref": "#"})
    value: dict[str, Any] = {}
    for _ in range(60):
        value = {"a": value}
    assert check_arguments("tool", schema, value) == value
    for _ in range(60):
        value = {"a": value}
    with pytest.raises(InvalidInput, match="nested deeper than 64 levels"):
        check_arguments("tool", schema, value)


PATTERNS = (
    r"^\d{4}-\d{2}-\d{2}$", r"^[\w.+-]+@[\w-]+\.[a-z]{2,}$", "a|b|", "(ab)*c?", r"\bfoo\b", r"o\Bo", "^(a+)+$", "",
    "[^a-c]+x{2,3}", "a{0}b", "^(?:x|y|xy)*$", r"[\d-]", r"\u0041|\x61", r"a.c", r"^a??b+?$", "(?<year>1)2",
    r"[\]\\^-]", r"\.|\*", r"\S\s\D\W",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_match_what_pythons_patterns_match(pattern: str) -> None:
    expected = re.compile(pattern.replace("$", r"\Z").replace("?<", "?P<"), re.ASCII)
    rng, match_count = random.Random(3), 0
    for _ in range(2_000):
        text = "".join(rng.choice("abcxy_fo -1.@A2*]") for _ in range(rng.randrange(9)))
        text = text if rng.random() < 0.8 else rng.choice(["foo ", "2024-01-31", "a@b.co", "axc", "xx"]) + text
        assert compile_pattern(pattern).matches(text) == bool(expected.search(text)), text
        match_count += bool(expected.search(text))
    assert match_count


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|a)*$", "^(a*)*b$", "a*a*a*a*a*a*a*a*a*b", "^(([a-z])+.)+[A-Z]([a-z])+$"]
)
def test_no_pattern_backtracks(pattern: str) -> None:
    """Python's own engine would need longer than the universe exists for some of these."""
    assert not compile_pattern(pattern).matches("a" * 2_000 + "!")


@pytest.mark.parametrize(
    "pattern",
    ["(?!a)", "(?<=a)b", "(a", "a)", "a**", "[a", "[z-a]", "\\1", "\\p{L}", "{", "a{3,1}", "a{1001}", "(?i)a", "^*",
     "\\", "\\x4", "(a{100}){100}", "((((){1000}){1000}){1000})", "(" * 30 + ")" * 30, "a" * 2_000],
)  # fmt: skip
def test_a_pattern_outside_the_subset_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput):
        compile_pattern(pattern)


def test_a_text_that_is_too_long_for_a_pattern_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"too long for the pattern .*; shorten the text, or give the schema a maxLength"
    ):
        compile_pattern("^(ab|cd){100}$").matches("ab" * 1_000_000)
