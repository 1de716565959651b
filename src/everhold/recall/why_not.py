"""Explain why a recall did not return a memory."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from everhold import clock
from everhold.model import Memory, Scope
from everhold.model.base import cut_text
from everhold.recall.eligible import find_tagged_ids, resolve_tags
from everhold.recall.hit import Hit, Why
from everhold.recall.image_views import KeyedImages
from everhold.recall.judging import Bounds
from everhold.recall.pipeline import rank_all, recall, searches_superseded, with_images
from everhold.recall.recipe import SCORE_DECIMALS
from everhold.recall.request import RecallDeps, Request
from everhold.recall.scoring import Scored
from everhold.schema.operations import Op, Where


@dataclass(frozen=True)
class WhyNot:
    """The reason why a recall did not return a memory, or its hit if it did.

    `reasons` are sentences, the decisive one first. `score` and `why` are the memory's score and its explanation, and
    `place` is its rank among all scored memories, from 1; all three are None if the memory was not scored. `winner` is
    the best hit of the recall, and `behind` is the difference between its score and that of the memory. `admitted_by`
    has arguments with which `recall` returns the memory, such as `{"minimum": 0.12, "k": 14}` or
    `{"include_superseded": True}`, unless a better hit says the same.
    """

    memory: Memory
    returned: bool
    reasons: tuple[str, ...]
    score: float | None = None
    place: int | None = None
    why: Why | None = None
    winner: Hit | None = None
    behind: float | None = None
    admitted_by: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"WhyNot({self.memory!r}, {cut_text('; '.join(self.reasons))!r})"


def why_not(deps: RecallDeps, scope: Scope, memory: Memory, request: Request) -> WhyNot:
    """Recall with this request and return why the memory is or is not among the hits."""
    hits = recall(deps, scope, request)
    returned = next((hit for hit in hits if hit.memory.id == memory.id), None)
    if returned is not None:
        rank = [hit.memory.id for hit in hits].index(memory.id) + 1
        return WhyNot(memory, True, (f"it came back, at place {rank}",), returned.score, rank, returned.why)
    reasons = _explain_scope(scope, memory, request) + _explain_validity(memory, request)
    reasons += _explain_filter(deps, scope, memory, request)
    winner = hits[0] if hits else None
    if reasons:
        admitted_by = _admit_superseded(deps, scope, memory, request)
        return WhyNot(memory, False, tuple(reasons), winner=winner, admitted_by=admitted_by)

    def find_place(images: KeyedImages | None) -> tuple[Sequence[Scored], Bounds, tuple[int, Scored, Why] | None]:
        scored, bounds, searched = rank_all(deps, scope, request, images)
        places = ((index, hit) for index, hit in enumerate(scored, 1) if hit.owner_id == memory.id)
        return scored, bounds, next(((rank, hit, hit.why(searched)) for rank, hit in places), None)

    scored, bounds, placed = with_images(deps, scope, request, find_place)
    if placed is None:
        reason = f"it was not among the {len(scored)} that could be scored"
        return WhyNot(memory, False, (reason,), winner=winner)
    rank, scored_memory, why = placed
    behind = None if winner is None else round(winner.score - scored_memory.score, SCORE_DECIMALS)
    reason, admitted_by = _find_bound(request, bounds, scored_memory.score, rank, scored[0].score)
    return WhyNot(memory, False, (reason,), scored_memory.score, rank, why, winner, behind, admitted_by)


def _admit_superseded(deps: RecallDeps, scope: Scope, memory: Memory, request: Request) -> Mapping[str, float]:
    """Return the arguments with which `recall` returns a superseded memory; empty if it is not superseded."""
    if memory.superseded_at is None or request.as_of is not None or searches_superseded(request):
        return {}
    explained = why_not(deps, scope, memory, request._replace(superseded=True))
    return {"include_superseded": True, **explained.admitted_by} if explained.score is not None else {}


def _find_bound(
    request: Request, bounds: Bounds, score: float, place: int, best: float
) -> tuple[str, dict[str, float]]:
    """Return the reason why a scored memory is not a hit, and the arguments with which it would be."""
    admitted_by: dict[str, float] = {}
    reason = "a better hit says the same"
    if place > request.k:
        reason = f"it is at place {place}, and {request.k} were asked for"
        admitted_by["k"] = place
    if score < bounds.find_minimum(best):
        if score < bounds.minimum:
            reason = f"its score {score:.3f} is below the minimum of {bounds.minimum:.3f}"
        else:
            reason = f"its score {score:.3f} is below {bounds.share:.0%} of the best, which has {best:.3f}"
        admitted_by["minimum"] = math.floor(score * 1000) / 1000
    return reason, admitted_by


def _explain_scope(scope: Scope, memory: Memory, request: Request) -> list[str]:
    if not scope.can_read(memory):
        return [f"it was not written in session {scope.session!r}, which alone was searched"]
    if memory.namespace in request.namespaces:
        return []
    return [f"it is in the namespace {memory.namespace!r}, and {', '.join(map(repr, request.namespaces))} was searched"]


def _explain_validity(memory: Memory, request: Request) -> list[str]:
    at = request.as_of or clock.now()
    reasons = []
    is_superseded = memory.superseded_at is not None and memory.superseded_at <= at
    if memory.superseded_at is not None and is_superseded and not searches_superseded(request):
        reasons.append(f"it was replaced by {memory.superseded_by} on {memory.superseded_at:%Y-%m-%d %H:%M} UTC")
    if memory.expires_at is not None and memory.expires_at <= at:
        reasons.append(f"it expired on {memory.expires_at:%Y-%m-%d %H:%M} UTC")
    if memory.valid_from is not None and memory.valid_from > at:
        reasons.append(f"it holds only from {memory.valid_from:%Y-%m-%d %H:%M} UTC")
    if memory.valid_to is not None and memory.valid_to <= at and not is_superseded:
        reasons.append(f"it held only until {memory.valid_to:%Y-%m-%d %H:%M} UTC")
    if memory.created_at > at:
        reasons.append(f"it was stored only on {memory.created_at:%Y-%m-%d %H:%M} UTC")
    return reasons


def _explain_filter(deps: RecallDeps, scope: Scope, memory: Memory, request: Request) -> list[str]:
    memory_filter = request.filter
    conditions = resolve_tags(deps.records, scope.organization, memory_filter.all_conditions)
    own_id = Where("id", Op.EQ, memory.id)
    reasons = []
    if conditions and not deps.records.count(Memory, scope.organization, [own_id, *conditions]):
        reasons.append("the filter excludes it")
    if memory_filter.tags and memory.id not in find_tagged_ids(deps.records, scope.organization, memory_filter.tags):
        reasons.append(f"it does not have all of the tags {', '.join(memory_filter.tags)}")
    return reasons
