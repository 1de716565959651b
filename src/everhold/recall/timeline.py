"""The timeline of an answer: the memories that answered one question, each with the period in which it was true."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from everhold.model import Memory
from everhold.recall.hit import Hit
from everhold.recall.judging import ONE_ANSWER


class Period(NamedTuple):
    """A memory and the period in which it was true; `until` is None if it is still true."""

    memory: Memory
    since: datetime
    until: datetime | None


def make_timeline(hits: Sequence[Hit]) -> list[Period]:
    """Return periods, oldest first: of the best hit, the hits linked to it by replacement, and other high-scoring hits.

    The list is empty if no hit scores high enough.
    """
    if not hits or hits[0].score < ONE_ANSWER.minimum:
        return []
    by_id = {hit.id: hit for hit in hits}
    chosen = {hit.id for hit in hits if hit.score >= ONE_ANSWER.find_minimum(hits[0].score)}
    chosen |= _find_linked(hits[0].id, by_id)
    ordered = sorted((_find_start(by_id[hit_id].memory), hit_id) for hit_id in chosen)
    ends: list[datetime | None] = [start for start, _ in ordered[1:]]
    return [
        Period(by_id[hit_id].memory, start, end) for (start, hit_id), end in zip(ordered, [*ends, None], strict=True)
    ]


def _find_linked(first_id: str, hits: Mapping[str, Hit]) -> set[str]:
    """Return the ids of the hits that replace the hit `first_id` or that it replaces, directly or through others."""
    linked: dict[str, set[str]] = {hit_id: set() for hit_id in hits}
    for hit_id, hit in hits.items():
        for other in (hit.why.updates, hit.why.outdated_by, hit.memory.superseded_by):
            if other in linked:
                linked[hit_id].add(other)
                linked[other].add(hit_id)
    linked_ids, waiting = {first_id}, [first_id]
    while waiting:
        unvisited_ids = linked[waiting.pop()] - linked_ids
        linked_ids |= unvisited_ids
        waiting += unvisited_ids
    return linked_ids


def _find_start(memory: Memory) -> datetime:
    return memory.valid_from or memory.occurred_at or memory.created_at
