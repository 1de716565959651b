"""Check that a journalled change has the values that `undo` needs.

Each class describes the required fields of `before` or `after` for one kind of change.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from everhold.model.base import DeferredModel
from everhold.model.fields import Id, Time, Word64

_Number = Annotated[int, Field(strict=True, ge=0, lt=2**63)]


class _ReviseBefore(DeferredModel):
    revision: _Number


class _ForgetBefore(DeferredModel):
    deletion_id: Id


class _MergeBefore(_ReviseBefore, _ForgetBefore):
    pass


class _SupersedeBefore(DeferredModel):
    """The fields of one memory before it was superseded. All are required, even if they are None."""

    superseded_by: Id | None
    superseded_at: Time | None
    valid_to: Time | None


class _MergeAfter(DeferredModel):
    tags: list[Word64]


class _RelateAfter(DeferredModel):
    relationship_id: Id


_BEFORE: Mapping[str, type[BaseModel]] = {"revise": _ReviseBefore, "forget": _ForgetBefore, "merge": _MergeBefore}
_AFTER: Mapping[str, type[BaseModel]] = {"merge": _MergeAfter, "relate": _RelateAfter}

# Kinds of changes whose `before` and `after` have values of fields. Undoing restores the fields that were not changed
# again.
VALUE_KINDS: Mapping[str, frozenset[str]] = {
    "decay": frozenset({"strength"}),
    "reinforce": frozenset({"importance", "confidence", "provenance", "access_count", "last_accessed"}),
}


def find_undo_fault(
    kind: str, memory_ids: Sequence[str], before: Mapping[str, Any], after: Mapping[str, Any]
) -> str | None:
    """Return why a change cannot be undone; None if it can. Kinds that are never undone are not checked."""
    if kind in VALUE_KINDS:
        is_sound = before.keys() == after.keys() and VALUE_KINDS[kind].issuperset(before)
        return None if is_sound else "its values before and after do not match"
    if kind not in _BEFORE and kind not in _AFTER and kind != "supersede":
        return None
    if len(memory_ids) < (2 if kind == "supersede" else 1):
        return f"it names {len(memory_ids)} memories"
    try:
        if kind == "supersede":
            for memory_id in memory_ids[:-1]:  # the last one is the memory that superseded the others
                _SupersedeBefore.model_validate(before.get(memory_id))
            return None
        for models, values in ((_BEFORE, before), (_AFTER, after)):
            if kind in models:
                models[kind].model_validate(values)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_input=False)
        path = ".".join(map(str, first["loc"])) or "the state before"
        return f"{path} is missing or wrong ({first['msg']})"
    return None
