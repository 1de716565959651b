"""What held when: the memories that answer one question over time, each until the next took its place."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from everhold.model import Memory
from everhold.recall.hit import Hit
from everhold.recall.judging import ONE_ANSWER


class Period(NamedTuple):
    """A memory, and from when until when it held; `until` is None for what holds today."""

    memory: Memory
    since: datetime
    until: datetime | None


def make_timeline(hits: Sequence[Hit]) -> list[Period]:
    """Return the best hit, all that it replaced or that replaced it, and all that fit nearly as well, oldest first."""
    if not hits or hits[0].score < ONE_ANSWER.minimum:
        return []
    by_id = {hit.id: hit for hit in hits}
    chosen = {hit.id for hit in hits if hit.score >= ONE_ANSWER.find_least(hits[0].score)}
    chosen |= _follow(hits[0].id, by_id)
    ordered = sorted((_find_start(by_id[one].memory), one) for one in chosen)
    ends: list[datetime | None] = [start for start, _ in ordered[1:]]
    return [Period(by_id[one].memory, start, end) for (start, one), end in zip(ordered, [*ends, None], strict=True)]


def _follow(first: str, hits: Mapping[str, Hit]) -> set[str]:
    """Return the ids of hits that lead from one to another by replacing each other."""
    linked: dict[str, set[str]] = {one: set() for one in hits}
    for one, hit in hits.items():
        for other in (hit.why.updates, hit.why.outdated_by, hit.memory.superseded_by):
            if other in linked:
                linked[one].add(other)
                linked[other].add(one)
    found, waiting = {first}, [first]
    while waiting:
        new = linked[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def _find_start(memory: Memory) -> datetime:
    return memory.valid_from or memory.occurred_at or memory.created_at
