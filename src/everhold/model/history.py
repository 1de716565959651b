"""Earlier states of memories and blocks, and journalled changes of memories. A recall reads neither."""

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Literal

from pydantic import Field, TypeAdapter
from pydantic_core import PydanticCustomError

from everhold.model.base import Entity, RowRule, make_field_adapter
from everhold.model.fields import Count, Id, JsonSnapshot, Label, Text, Texts, Time
from everhold.model.journalling import find_undo_fault
from everhold.model.memory import Memory


def _check_revised_value(values: Mapping[str, Any]) -> None:
    """Raise PydanticCustomError if the value is not valid for the kind of owner."""
    if values["owner_kind"] == "memory":
        check_memory_value(values["value"])
    else:
        from everhold.model.agent import check_block_value  # few processes use blocks

        check_block_value(values["value"])


class Revision(Entity):
    """The state of a memory or a block before a change, with the reason."""

    rules: ClassVar[tuple[RowRule, ...]] = (RowRule(("owner_kind", "value"), _check_revised_value),)

    owner_kind: Literal["memory", "block"]
    owner_id: Id
    revision: Count
    value: JsonSnapshot
    known_from: Time
    known_to: Time
    reason: Text | None = None


REVISABLE = (
    "text", "content", "kind", "importance", "confidence", "expires_at", "occurred_at", "valid_from", "valid_to",
    "pinned", "aliases", "trust", "provenance", "metadata", "speaker", "source_agent", "scope", "level", "score",
    "key", "namespace",
)  # fmt: skip
DERIVED = ("attribute",)
_SEARCHED = ("text", "aliases")


def check_memory_value(value: Mapping[str, Any]) -> None:
    """Raise PydanticCustomError if a revision of a memory lacks a field, or has an unknown field or an invalid
    value."""
    missing_names = [name for name in _SEARCHED if name not in value]
    if missing_names:
        raise PydanticCustomError("revision_value", f"the revision's value has no {missing_names[0]!r}")
    for name, field_value in value.items():
        if name not in REVISABLE and name not in DERIVED:
            raise PydanticCustomError("revision_value", f"a memory's {name[:60]!r} cannot be revised")
        _find_field_adapter(name).validate_python(field_value)


@cache
def _find_field_adapter(name: str) -> TypeAdapter[Any]:
    return make_field_adapter(Memory.model_fields[name])


_UNDO_FIELDS = ("kind", "memory_ids", "before", "after")


def _check_undo(values: Mapping[str, Any]) -> None:
    """Raise PydanticCustomError if the change lacks values that `undo` needs."""
    fault = find_undo_fault(*(values[name] for name in _UNDO_FIELDS))
    if fault is not None:
        raise PydanticCustomError("undo", f"a change of kind {values['kind']!r} cannot be undone: {fault}")


class Change(Entity):
    """A journalled change of memories, with the values that `undo` and `undo_run` need."""

    rules: ClassVar[tuple[RowRule, ...]] = (RowRule(_UNDO_FIELDS, _check_undo),)

    user_id: Id | None = None
    kind: Label
    memory_ids: Texts = Field(default_factory=list)
    before: JsonSnapshot = Field(default_factory=dict)
    after: JsonSnapshot = Field(default_factory=dict)
    reason: Text | None = None
    run_id: Id | None = None
    """The run of maintenance that made the change."""
    undone_at: Time | None = None
