"""Tools derived from functions and read from definitions."""

import enum
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, Field

from everhold.errors import InvalidInput
from everhold.tools.checking import check_arguments, check_defaults
from everhold.tools.definitions import read_definition
from everhold.tools.docstrings import read_docstring
from everhold.tools.functions import read_function

_UNSET = object()


class Unit(enum.Enum):
    """A unit of temperature."""

    CELSIUS = "c"
    FAHRENHEIT = "f"


@dataclass
class Coordinates:
    latitude: float
    longitude: float = 0.0


class Options(TypedDict, total=False):
    verbose: bool


class SearchFilter(BaseModel):
    title: str
    children: list["SearchFilter"] = []


async def search(
    query: str,
    limit: Annotated[int, Field(ge=1, le=100), "How many."] = 10,
    unit: Unit = Unit.CELSIUS,
    order: Literal["asc", "desc"] = "asc",
    near: Coordinates | None = None,
    options: Options | None = None,
    filters: list[SearchFilter] = [],  # noqa: B006
    weights: dict[str, float] | None = None,
    since: date | int | None = None,
    note: str = None,  # type: ignore[assignment]  # noqa: RUF013
    pair: tuple[int, str] = (1, "a"),
    anything: Any = _UNSET,
) -> list[str]:
    """Find things.

    In several
    lines.

    Args:
        query (str): What to look for,
            in full.
        note: A note: with a colon.

    Returns:
        Things.
    """
    return []


def test_a_function_is_described_as_a_tool() -> None:
    fields = read_function(search)
    assert (fields["name"], fields["description"]) == ("search", "Find things.\n\nIn several\nlines.")
    assert fields["source_type"] == "python"
    assert fields["source_code"].startswith("async def search(")
    schema = fields["json_schema"]
    check_defaults(schema)
    null = {"type": "null"}
    assert schema["properties"] == {
        "query": {"type": "string", "description": "What to look for, in full."},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "How many.", "default": 10},
        "unit": {"$ref": "#/$defs/Unit", "default": "c"},
        "order": {"type": "string", "enum": ["asc", "desc"], "default": "asc"},
        "near": {"anyOf": [{"$ref": "#/$defs/Coordinates"}, null], "default": None},
        "options": {"anyOf": [{"$ref": "#/$defs/Options"}, null], "default": None},
        "filters": {"type": "array", "items": {"$ref": "#/$defs/SearchFilter"}, "default": []},
        "weights": {
            "anyOf": [{"type": "object", "additionalProperties": {"type": "number"}}, null],
            "default": None,
        },
        "since": {"anyOf": [{"type": "string", "format": "date"}, {"type": "integer"}, null], "default": None},
        "note": {"anyOf": [{"type": "string"}, null], "description": "A note: with a colon.", "default": None},
        "pair": {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "minItems": 2,
            "maxItems": 2,
            "default": [1, "a"],
        },
        "anything": {},
    }
    assert (schema["required"], schema["additionalProperties"]) == (["query"], False)
    assert schema["$defs"]["SearchFilter"]["properties"]["title"] == {"type": "string"}
    completed = check_arguments("search", schema, {"query": "x", "filters": [{"title": "a"}]})
    assert completed["filters"] == [{"title": "a", "children": []}]


class Service:
    def look_up(self, name: str, **others: int) -> None:
        """Look up."""


def test_methods_have_a_schema_without_self() -> None:
    schema = read_function(Service().look_up)["json_schema"]
    assert schema == {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": {"type": "integer"},
    }


def untyped(city) -> None:  # type: ignore[no-untyped-def]
    """Have a parameter without an annotation."""


def by_position(city: str, /) -> None:
    """Accept no keyword arguments."""


def take_any_number(*cities: str) -> None:
    """Accept any number of arguments."""


def with_unknown_type(city: "NeverImported") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Have an annotation whose type is not imported."""


class Opaque:
    pass


def with_opaque(city: Opaque) -> None:
    """Have a parameter that JSON cannot represent."""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (untyped, "parameter city of untyped has no annotation; add one, such as `: str`"),
        (by_position, "by_position takes city by position only"),
        (take_any_number, "take_any_number takes cities by position only"),
        (with_unknown_type, "the annotations of with_unknown_type cannot be read"),
        (with_opaque, "cannot be written as a JSON schema"),
        (Opaque, "is not a function"),
        (Opaque(), "is not a function"),
    ],
)
def test_a_function_that_no_model_could_call_is_refused(function: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_function(function)


GOOGLE = """Do it.

Args:
    a: First,
        longer.
    b (int, optional): Second.

Returns:
    x: Not this.
"""
NUMPY = """Do it.

Parameters
----------
a : int
    First,
    longer.
b : str, optional
    Second.

Returns
-------
x
    Not this.
"""
SPHINX = """Do it.

:param a: First,
    longer.
:param int b: Second.
:returns: Not this.
"""


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_docstrings_of_three_styles_are_read(text: str) -> None:
    assert read_docstring(text) == ("Do it.", {"a": "First, longer.", "b": "Second."})


def test_a_docstring_without_parameters_is_read() -> None:
    assert read_docstring(None) == (None, {})
    assert read_docstring("Note: this is text.\n\nArgs are nice.") == ("Note: this is text.\n\nArgs are nice.", {})


@pytest.mark.parametrize("line", [":param " + "a " * 50_000, "a (" * 30_000, "a" + " " * 50_000 + "("])
def test_a_long_line_is_text(line: str) -> None:
    """A backtracking pattern would need minutes for this line."""
    assert read_docstring(line) == (line.strip(), {})
    assert read_docstring(f"Do.\n\nArgs:\n    a: First.\n    {line}").parameters["a"].startswith("First. ")


SCHEMA = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True}},
        {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA},
        {"name": "f", "description": "d", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}},
        {"name": "f", "description": "d", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
        {"name": "f", "description": "d", "json_schema": SCHEMA, "tags": None},
    ],
)
def test_definitions_in_other_formats_are_read(definition: dict[str, Any]) -> None:
    assert read_definition(definition) == {"name": "f", "description": "d", "json_schema": SCHEMA}


def test_an_invalid_definition_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the definition names no tool"):
        read_definition({"description": "d"})
    with pytest.raises(InvalidInput, match="no field 'descripton'; did you mean 'description'"):
        read_definition({"name": "f", "descripton": "d"})
