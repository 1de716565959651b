"""The kinds of records and the namespaces that a recall searches."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from everhold.errors import InvalidInput, format_value
from everhold.model.memory import LONG_TERM
from everhold.model.searchable import SEARCHABLE
from everhold.model.validation import suggest_name, validate_text
from everhold.recall.filters import Filter, require_column
from everhold.schema.operations import Op, Where


def check_among(among: str | Sequence[str]) -> tuple[str, ...]:
    """Return the kinds of records to search, each once. Their order decides between hits with equal scores and ids."""
    kinds = (among,) if isinstance(among, str) else tuple(sorted(set(among)))
    for kind in kinds:
        if kind not in SEARCHABLE:
            raise InvalidInput(
                f"among {format_value(kind)} is not a kind of record that is searched",
                value=kind,
                remedy=suggest_name(kind, list(SEARCHABLE)) or f"use {', '.join(SEARCHABLE)}",
            )
    if not kinds:
        raise InvalidInput("among names no kind of record", remedy=f"use some of {', '.join(SEARCHABLE)}")
    return kinds


def check_namespaces(namespace: str | Sequence[str] | None, among: Collection[str]) -> tuple[str, ...]:
    """Return the namespaces to search, each once. Raise InvalidInput if none of the kinds in `among` has namespaces."""
    if namespace is None:
        return (LONG_TERM,)
    namespaces = (namespace,) if isinstance(namespace, str) else tuple(dict.fromkeys(namespace))
    if not namespaces:
        raise InvalidInput("namespace is an empty list", remedy="name a namespace, or leave it out")
    for name in namespaces:
        validate_text(name, "namespace")
    require_column("namespace", "namespace", among)
    return namespaces


def within_namespaces(memory_filter: Filter, namespace: str | Sequence[str] | None) -> Filter:
    """Return a filter of memories that also requires one of these namespaces; with None, the filter unchanged."""
    if namespace is None:
        return memory_filter
    names = check_namespaces(namespace, ("memory",))
    return replace(memory_filter, conditions=(*memory_filter.conditions, Where("namespace", Op.IN, list(names))))
