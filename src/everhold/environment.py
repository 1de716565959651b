"""Environment variables that set settings, and the errors that name them.

`EVERHOLD_STORAGE` sets `storage`. Two underscores go one level down: `EVERHOLD_EMBEDDING__MODEL` sets
`embedding.model`.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from everhold.errors import InvalidSettings

PREFIX = "EVERHOLD_"


def read_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Map the dotted name of each setting that a variable sets to the value of the variable."""
    # Sorted, so that `nest` sees the variable of a section before those of its settings.
    variables = {name: value for name, value in sorted(environment.items()) if name.startswith(PREFIX)}
    return {name.removeprefix(PREFIX).lower().replace("__", "."): value for name, value in variables.items()}


def name_variable(setting: str) -> str:
    """Return the variable that sets a setting."""
    return PREFIX + setting.upper().replace(".", "__")


def nest(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return settings by dotted name as sections within sections."""
    values: dict[str, Any] = {}
    for setting, value in variables.items():
        *sections, last = setting.split(".")
        current = values
        for depth, section in enumerate(sections, 1):
            inner = current.setdefault(section, {})
            if not isinstance(inner, dict):
                outer_variable = name_variable(".".join(sections[:depth]))
                raise InvalidSettings(
                    f"{name_variable(setting)} and {outer_variable} are both set", remedy=f"unset {outer_variable}"
                )
            current = inner
        current[last] = value
    return values


def merge_settings(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings of settings, section by section. Settings in `overrides` replace the same ones in `values`."""
    merged = dict(values)
    for name, value in overrides.items():
        section = merged.get(name)
        are_mappings = isinstance(section, dict) and isinstance(value, dict)
        merged[name] = merge_settings(section or {}, value) if are_mappings else value
    return merged


def refuse_unknown(setting: str, known_settings: Iterable[str]) -> InvalidSettings:
    """Return the error for a variable that sets no known setting."""
    similar_names = get_close_matches(setting, known_settings, n=1)
    remedy = (
        f"did you mean {name_variable(similar_names[0])}?"
        if similar_names
        else "unset it; docs/settings.md lists the names"
    )
    variable = name_variable(setting)
    return InvalidSettings(f"no setting for environment variable {variable}", value=variable, remedy=remedy)
