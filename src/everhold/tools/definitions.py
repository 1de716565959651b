"""Read definitions of tools by OpenAI, Anthropic and MCP, and render tools for these APIs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from everhold.errors import InvalidInput, format_value
from everhold.model import Tool
from everhold.model.page import ResultPage
from everhold.model.validation import suggest_name

# The names that both OpenAI and Anthropic accept.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SCHEMA_NAMES = ("json_schema", "parameters", "input_schema", "inputSchema")
_FIELDS = ("name", "description", "source_type", "source_code", "tags", "metadata", "id")
# Further fields of definitions, which are ignored because they do not affect a call.
_IGNORED = ("type", "strict", "cache_control", "annotations", "title")
_NO_PARAMETERS = {"type": "object", "properties": {}}


def check_name(name: str) -> None:
    """Raise InvalidInput unless the APIs of models accept the name."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"the name of the tool is {format_value(name)}",
            value=name,
            remedy="use 1 to 64 letters of a to z, digits, underscores and hyphens, as models' APIs ask for",
        )


def read_definition(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a tool from its definition.

    The definition is in the form of OpenAI's chat completions or responses, of Anthropic, or of MCP, or has our own
    names of fields.
    """
    function_definition = definition.get("function") if definition.get("type") == "function" else None
    source: Mapping[str, Any] = function_definition if isinstance(function_definition, dict) else definition
    fields: dict[str, Any] = {}
    for name, value in source.items():
        if name in _SCHEMA_NAMES:
            fields["json_schema"] = {} if value is None else value
        elif name in _FIELDS:
            fields[name] = value
        elif name not in _IGNORED:
            raise InvalidInput(
                f"a definition of a tool has no field {format_value(name)}",
                value=name,
                remedy=suggest_name(name, (*_FIELDS, *_SCHEMA_NAMES)),
            )
    if not isinstance(fields.get("name"), str):
        raise InvalidInput("the definition names no tool", remedy='write "name": "get_weather", for example')
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, repr=False)
class ToolList(ResultPage[Tool]):
    """A page of tools, ordered by id. Pass `cursor` to get the next page; it is None on the last one."""

    _items_field: ClassVar[str] = "rows"

    rows: tuple[Tool, ...]
    cursor: str | None = None

    def as_openai(self) -> list[dict[str, Any]]:
        """Return the tools as `tools` of OpenAI's chat completions take them."""
        return [
            {"type": "function", "function": {**_render_head(tool), "parameters": _render_schema(tool)}}
            for tool in self.rows
        ]

    def as_anthropic(self) -> list[dict[str, Any]]:
        """Return the tools as `tools` of Anthropic's messages take them."""
        return [{**_render_head(tool), "input_schema": _render_schema(tool)} for tool in self.rows]


def _render_head(tool: Tool) -> dict[str, Any]:
    check_name(tool.name)
    return {"name": tool.name, **({"description": tool.description} if tool.description else {})}


def _render_schema(tool: Tool) -> dict[str, Any]:
    """Return the schema of a tool. Every API requires an object schema, even if the tool has no arguments."""
    return dict(tool.json_schema or _NO_PARAMETERS)
