"""Select the rows of an image that may be returned: those that are valid at a time and pass the filter."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache

import numpy as np

from everhold import clock
from everhold.model import Scope, Tag
from everhold.model.searchable import SEARCHABLE
from everhold.ports.records import Records
from everhold.recall.filters import Filter, replace_tags
from everhold.recall.image import Image, Mask
from everhold.schema.operations import Condition, Op, Where


def find_valid_rows(image: Image, at: datetime, *, past: bool, superseded: bool = False) -> Mask | None:
    """Return the rows that were known, valid, not superseded and not expired at the time `at`; None if all were.

    `past` says that `at` is in the past, so that rows which became known later are left out. With `superseded`,
    superseded rows are included although their validity has ended: the supersession ended it.
    """
    if image.plain and not past:
        return None
    moment = clock.micros(at)
    is_eligible = image.column("alive").copy()
    dated = np.flatnonzero(image.column("dated"))
    if len(dated):
        is_superseded = image.column("superseded_at")[dated] <= moment
        is_valid = image.column("valid_to")[dated] > moment
        is_eligible[dated] &= (
            (image.column("known_to")[dated] > moment)
            & (is_valid | is_superseded if superseded else is_valid & ~is_superseded)
            & (image.column("expires_at")[dated] > moment)
            & (image.column("valid_from")[dated] <= moment)
        )
    if past:
        is_eligible &= image.column("known_from") <= moment
    return is_eligible


def filter_rows(image: Image, memory_filter: Filter, records: Records, scope: Scope) -> Mask | None:
    """Return the rows that pass the filter; None if the filter is empty."""
    if not memory_filter:
        return None
    passes = np.ones(image.size, np.bool_)
    if memory_filter.kinds:
        passes &= np.isin(image.column("kind"), [image.code("kind", kind) for kind in memory_filter.kinds])
    if memory_filter.created_after:
        passes &= image.column("created_at") >= clock.micros(memory_filter.created_after)
    if memory_filter.created_before:
        passes &= image.column("created_at") < clock.micros(memory_filter.created_before)
    if memory_filter.conditions:
        conditions = resolve_tags(records, scope.organization, memory_filter.conditions)
        rows = records.columns(SEARCHABLE[image.kind].entity, scope.organization, ["id"], conditions)
        passes &= mask_owners(image, {owner_id for (owner_id,) in rows})
    if memory_filter.tags:
        passes &= mask_owners(image, find_tagged_ids(records, scope.organization, memory_filter.tags))
    return passes


def resolve_filter(records: Records, organization: str, memory_filter: Filter) -> list[Condition]:
    """Return the whole filter as conditions that a store can evaluate, with tags replaced by ids of memories."""
    conditions = resolve_tags(records, organization, memory_filter.all_conditions)
    if memory_filter.tags:
        conditions.append(Where("id", Op.IN, frozenset(find_tagged_ids(records, organization, memory_filter.tags))))
    return conditions


def resolve_tags(records: Records, organization: str, conditions: Sequence[Condition]) -> list[Condition]:
    """Return conditions in which each tag is replaced by the ids of the memories that carry it."""
    find_tagged = cache(lambda tag: frozenset(find_tagged_ids(records, organization, (tag,))))
    return [replace_tags(condition, find_tagged) for condition in conditions]


def find_tagged_ids(records: Records, organization: str, tags: tuple[str, ...]) -> set[str]:
    """Return the ids of the memories that have all of the tags."""
    common_ids: set[str] | None = None
    for tag in tags:
        rows = records.columns(Tag, organization, ["memory_id"], [Where("tag", Op.EQ, tag)])
        ids = {memory_id for (memory_id,) in rows}
        common_ids = ids if common_ids is None else common_ids & ids
    return common_ids or set()


def mask_owners(image: Image, ids: set[str]) -> Mask:
    """Return a mask of the rows whose owner has one of these ids."""
    return np.fromiter((owner in ids for owner in image.owners), np.bool_, image.size)
