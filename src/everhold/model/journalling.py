"""Check that a journalled change holds what undoing it needs."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from everhold.model.base import DeferredModel
from everhold.model.fields import Id, Time, Word64

_Number = Annotated[int, Field(strict=True, ge=0, lt=2**63)]


class _Revised(DeferredModel):
    revision: _Number


class _Hidden(DeferredModel):
    deletion_id: Id


class _Merged(_Revised, _Hidden):
    pass


class _Ending(DeferredModel):
    """A memory's end before it was superseded. Every field must be there, even if it is None."""

    superseded_by: Id | None
    superseded_at: Time | None
    valid_to: Time | None


class _MergedTags(DeferredModel):
    tags: list[Word64]


_BEFORE: Mapping[str, type[BaseModel]] = {"revise": _Revised, "forget": _Hidden, "merge": _Merged}


def find_undo_fault(
    kind: str, memory_ids: Sequence[str], before: Mapping[str, Any], after: Mapping[str, Any]
) -> str | None:
    """Return what a change lacks to be undone; None if nothing, or if changes of its kind cannot be undone."""
    if kind not in _BEFORE and kind != "supersede":
        return None
    if len(memory_ids) < (2 if kind == "supersede" else 1):
        return f"it names {len(memory_ids)} memories"
    try:
        if kind == "supersede":
            for memory_id in memory_ids[:-1]:
                _Ending.model_validate(before.get(memory_id))
            return None
        _BEFORE[kind].model_validate(before)
        if kind == "merge":
            _MergedTags.model_validate(after)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_input=False)
        place = ".".join(map(str, first["loc"])) or "an ending"
        return f"{place} is missing or wrong ({first['msg']})"
    return None
