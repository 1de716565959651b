"""Merge memories that say the same in nearly the same words."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from everhold import clock
from everhold.errors import InvalidInput
from everhold.facts.conflicts import is_near_duplicate
from everhold.model import Memory, Scope, Tag
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.validation import validate_row
from everhold.remember.deps import WriteDeps
from everhold.remember.draft import make_tag
from everhold.remember.erasure import make_merged_entries, read_merged_entries
from everhold.remember.journal import make_change
from everhold.remember.reading import find_event_time, is_extracted
from everhold.remember.revise import commit_revision, make_revision_operations
from everhold.remember.similar_pairs import SimilarPair, find_similar_pairs
from everhold.remember.versions import make_version_check
from everhold.schema.operations import Condition, Ensure, Hide, Op, Operation, Put, Where
from everhold.text.dates import find_time_spans

_MAX_SHOWN = 100
_BATCH = 500
# Kinds of memories about single events: the same words at another time describe another event.
_EVENT_KINDS = frozenset(("observation", "result", "plan", "episodic"))

_VALIDITY = ("valid_from", "valid_to", "expires_at")
# The parts of an extracted statement that differ with the wording, and so are not compared.
_WORDED_PARTS = ("text", "value")


@dataclass(frozen=True)
class MergedPair:
    """A memory that stays, the duplicate that is merged into it, and the cosine of their vectors."""

    kept: Memory
    merged: Memory
    similarity: float


@dataclass(frozen=True)
class Merged:
    """The number of memories that were merged into others, or in a preview would be, and the first pairs.

    `exhaustive` is false if there were too many memories to compare all pairs. Then the memories were sorted by their
    terms, and only those close to each other in this order were compared.
    """

    count: int
    pairs: tuple[MergedPair, ...]
    preview: bool
    exhaustive: bool


def merge_duplicates(deps: WriteDeps, scope: Scope, *, preview: bool) -> Merged:
    """Merge the duplicates of a scope. All merges into one survivor are one commit and one undoable change."""
    groups, exhaustive = plan_merges(deps, scope)
    merged_groups = groups if preview else [group for group in groups if merge_group(deps, scope, group)]
    pairs = [pair for group in merged_groups for pair in group]
    return Merged(len(pairs), tuple(pairs[:_MAX_SHOWN]), preview, exhaustive)


def plan_merges(
    deps: WriteDeps, scope: Scope, where: Sequence[Condition] = (), excluded_pairs: Container[frozenset[str]] = ()
) -> tuple[list[list[MergedPair]], bool]:
    """Return the pairs to merge in one group per survivor, and whether all pairs of memories were compared.

    Only memories that meet `where` are compared. `excluded_pairs` are pairs of ids that are never merged.
    """
    similar_pairs, exhaustive = find_similar_pairs(
        deps.records, scope, deps.chunking.embedder.model, clock.now(), where
    )
    candidates = [pair for pair in similar_pairs if frozenset((pair.first, pair.second)) not in excluded_pairs]
    groups: dict[str, list[MergedPair]] = {}
    for pair in _choose_pairs(deps, scope, candidates):
        groups.setdefault(pair.kept.id, []).append(pair)
    return list(groups.values()), exhaustive


def _choose_pairs(deps: WriteDeps, scope: Scope, similar_pairs: Sequence[SimilarPair]) -> list[MergedPair]:
    """Return the pairs to merge; of two duplicates, the one with the lower `_make_sort_key` is kept."""
    memory_ids = list(dict.fromkeys(memory_id for pair in similar_pairs for memory_id in (pair.first, pair.second)))
    memories: dict[str, Memory] = {}
    for start in range(0, len(memory_ids), _BATCH):
        memories |= deps.records.get(Memory, scope.organization, memory_ids[start : start + _BATCH])
    duplicates_by_id: dict[str, list[tuple[str, float]]] = {}
    for pair in similar_pairs:
        first, second = memories.get(pair.first), memories.get(pair.second)
        if first and second and is_duplicate(first, second, pair.cosine, deps.reading.zone):
            duplicates_by_id.setdefault(first.id, []).append((second.id, pair.cosine))
            duplicates_by_id.setdefault(second.id, []).append((first.id, pair.cosine))
    pairs: list[MergedPair] = []
    merged_ids: set[str] = set()
    for kept in sorted((memories[memory_id] for memory_id in duplicates_by_id), key=_make_sort_key):
        # In order of precedence, so that a memory that is merged never receives another one.
        if kept.id not in merged_ids:
            duplicates = [
                (memory_id, cosine)
                for memory_id, cosine in duplicates_by_id[kept.id]
                if memory_id not in merged_ids
                and not memories[memory_id].has_own_key
                and _make_sort_key(memories[memory_id]) > _make_sort_key(kept)
            ]
            pairs += [MergedPair(kept, memories[memory_id], cosine) for memory_id, cosine in duplicates]
            merged_ids.update(memory_id for memory_id, _ in duplicates)
    return pairs


def _make_sort_key(memory: Memory) -> tuple[Any, ...]:
    """Return the sort key of survivors, lowest first."""
    # A memory with a key comes first, because callers look it up by that key.
    return not memory.has_own_key, not memory.pinned, -memory.importance, memory.created_at, memory.id


def is_duplicate(first: Memory, second: Memory, cosine: float, zone: tzinfo) -> bool:
    """Return whether merging two memories would lose nothing but wording."""
    if any(getattr(first, name) != getattr(second, name) for name in _VALIDITY):
        return False
    if first.kind in _EVENT_KINDS and first.occurred_at != second.occurred_at:
        return False
    if _select_compared_content(first) != _select_compared_content(second) or not is_near_duplicate(
        first.text, second.text, cosine
    ):
        return False
    return _read_times(first, zone) == _read_times(second, zone)


def _select_compared_content(memory: Memory) -> dict[str, Any]:
    if not is_extracted(memory):
        return memory.content
    return {name: value for name, value in memory.content.items() if name not in _WORDED_PARTS}


def _read_times(memory: Memory, zone: tzinfo) -> list[tuple[datetime, datetime]]:
    """Return the times that a text names, resolved: "yesterday" differs between memories of different days."""
    return sorted((span.start, span.end) for span in find_time_spans(memory.text, find_event_time(memory), zone))


def merge_group(deps: WriteDeps, scope: Scope, pairs: Sequence[MergedPair]) -> bool:
    """Merge the duplicates of one survivor; return False and change nothing if the result would be invalid."""
    kept, merged = pairs[0].kept, [pair.merged for pair in pairs]
    now = clock.make_later_time(kept.updated_at)
    deletion_id = clock.make_id("del")
    tags_by_memory = _find_tags_to_add(deps, scope, kept, merged)
    added_tags = sorted({tag for memory_tags in tags_by_memory.values() for tag in memory_tags})
    ids = [kept.id, *(memory.id for memory in merged)]
    before = {"revision": kept.revision, "deletion_id": deletion_id}
    try:
        survivor = _merge_values(scope, kept, merged, tags_by_memory, now)
    except InvalidInput:
        return False
    operations = make_revision_operations(deps, kept, survivor, now, "merge")
    operations += [Ensure(make_tag(kept, tag, now)) for tag in added_tags]
    for memory in merged:
        operations += _hide_merged(deps, scope, memory, kept, deletion_id, now)
    request = {"memory": kept.id, "merged": ids[1:]}
    line = make_access_line(scope, "update", now, request, memory_id=kept.id, interface=deps.interface)
    entry = make_change(scope, "merge", ids, now, None, before=before, after={"tags": added_tags}, run_id=deps.run_id)
    commit_revision(deps, kept, [*operations, Put(entry), Put(line), Put(make_announcement(kept))])
    return True


def _merge_values(
    scope: Scope, kept: Memory, merged: Sequence[Memory], tags_by_memory: Mapping[str, set[str]], now: datetime
) -> Memory:
    aliases = dict.fromkeys(alias for memory in (kept, *merged) for alias in memory.aliases)
    # The survivor records what each memory adds, so that a later purge of that memory can remove it.
    own_aliases = set(kept.aliases)
    added_entries = [
        entry
        for memory in merged
        for entry in make_merged_entries(memory, set(memory.aliases) - own_aliases, tags_by_memory.get(memory.id, ()))
    ]
    sources = [*read_merged_entries(kept.provenance), *added_entries]
    values = {
        "aliases": list(aliases),
        "provenance": {**kept.provenance, "merged": sources},
        "updated_at": now,
        "revision": kept.revision + 1,
        "version": kept.version + 1,
        "last_updated_by_id": scope.actor,
    }
    return validate_row(Memory, {**kept.__dict__, **values})


def _hide_merged(
    deps: WriteDeps, scope: Scope, memory: Memory, kept: Memory, deletion_id: str, now: datetime
) -> list[Operation]:
    request = {"memory": memory.id, "merged_into": kept.id}
    line = make_access_line(scope, "delete", now, request, memory_id=memory.id, interface=deps.interface)
    hide = Hide(Memory, (scope.organization, memory.id), deletion_id, now)
    # If the memory was revised after the comparison, it may say something else, and the commit must fail.
    version_check = make_version_check(memory, memory.version, now)
    return [*version_check, hide, Put(line), Put(make_announcement(memory, "delete"))]


def _find_tags_to_add(deps: WriteDeps, scope: Scope, kept: Memory, merged: Sequence[Memory]) -> dict[str, set[str]]:
    """Return the tags of each merged memory that the survivor does not have."""
    where = [Where("memory_id", Op.IN, [kept.id, *(memory.id for memory in merged)])]
    rows = list(deps.records.columns(Tag, scope.organization, ("memory_id", "tag"), where))
    own_tags = {tag for memory_id, tag in rows if memory_id == kept.id}
    tags_by_memory: dict[str, set[str]] = {}
    for memory_id, tag in rows:
        if tag not in own_tags:
            tags_by_memory.setdefault(memory_id, set()).add(tag)
    return tags_by_memory
