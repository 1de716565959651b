"""Describe what is wrong with an argument, and what is expected instead."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from everhold.errors import ArgumentFault, format_value
from everhold.model.validation import suggest_name

_ALL_ARGUMENTS = "the arguments"
_WORDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "text",
}
_MAX_CHOICES = 12


def describe_schema(schema: Any) -> str:
    """Return what a schema expects in a few words, such as "a whole number or null"."""
    if not isinstance(schema, dict):
        return "a value"
    if "const" in schema:
        return format_value(schema["const"])
    if "enum" in schema:
        choices = [format_value(choice) for choice in schema["enum"][:_MAX_CHOICES]]
        return _join_words(choices if len(schema["enum"]) <= _MAX_CHOICES else [*choices, "…"])
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        words = [_describe_items(schema) if name == "array" else _WORDS[name] for name in types]
        return _join_words(words)
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if alternatives:
        return _join_words(dict.fromkeys(map(describe_schema, alternatives)))
    return "an object" if "$ref" in schema or "properties" in schema else "a value"


def _describe_items(schema: Mapping[str, Any]) -> str:
    items = schema.get("items")
    kind = items.get("type") if isinstance(items, dict) else None
    plural = {"string": "texts", "integer": "whole numbers", "number": "numbers", "object": "objects"}
    return f"a list of {plural[kind]}" if isinstance(kind, str) and kind in plural else _WORDS["array"]


def _join_words(words: Iterable[str]) -> str:
    *other_words, last = words
    return f"{', '.join(other_words)} or {last}" if other_words else last


def make_fault(path: str, value: Any, remedy: str) -> ArgumentFault:
    """Return the fault for a value of the argument at `path`."""
    shown_value = format_value(value)
    if not path:
        return ArgumentFault(path, f"{_ALL_ARGUMENTS} are {shown_value}", remedy)
    return ArgumentFault(path, f"{path} is {shown_value}", f"{remedy} for {path}")


def make_missing_fault(path: str, schema: Any, name: str, unknown_names: Sequence[str]) -> ArgumentFault:
    """Return the fault for a missing argument. It mentions a similar unknown name that was passed, if there is one."""
    similar_names = get_close_matches(name, unknown_names, n=1, cutoff=0.6)
    hint = f" (is {similar_names[0]!r} meant?)" if similar_names else ""
    return ArgumentFault(path, f"{path} is missing{hint}", f"pass {describe_schema(schema)} for {path}")


def make_unknown_fault(path: str, name: str, known_names: Iterable[str]) -> ArgumentFault:
    """Return the fault for an argument that the tool does not have."""
    all_names = list(known_names)
    remedy = suggest_name(name, all_names) if all_names else "leave it out"
    return ArgumentFault(path, f"there is no parameter {format_value(path)}", remedy)
