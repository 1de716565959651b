"""Rerank the best hits with a second model."""

from dataclasses import replace
from typing import Any

from everhold.errors import InvalidInput, format_value
from everhold.model import Scope
from everhold.ports.reranker import Reranker
from everhold.recall.hit import Hit, Hits
from everhold.recall.pipeline import recall
from everhold.recall.request import RecallDeps, Request

# The minimum number of hits that a reranker gets.
MIN_RERANKED = 50


def recall_reranked(deps: RecallDeps, scope: Scope, request: Request, reranker: Reranker | None) -> Hits:
    """Return the hits of a recall. With a reranker, the hits have its scores and are ordered by them.

    The reranker gets hits with any score; the request's minimum applies to the reranker's scores. A reranked recall has
    only one page.
    """
    if reranker is None:
        return recall(deps, scope, request)
    if request.cursor is not None:
        raise InvalidInput("a reranked recall has no further pages", remedy="raise k instead of passing a cursor")
    wide = request._replace(k=max(request.k, MIN_RERANKED), minimum=0)
    hits = recall(deps, scope, wide)
    scores = _read_scores(reranker.rerank(request.query, [hit.text for hit in hits]), len(hits))
    min_score = request.minimum or 0.0
    reranked = [replace(hit, score=float(score)) for hit, score in zip(hits, scores, strict=True) if score >= min_score]
    return replace(hits, hits=tuple(sorted(reranked, key=_rank_hit)[: request.k]), more=False)


def _read_scores(answer: Any, texts: int) -> list[float]:
    try:
        scores = [float(score) for score in answer]
    except (TypeError, ValueError, OverflowError):
        scores = []
    if len(scores) != texts or not all(0 <= score <= 1 for score in scores):
        raise InvalidInput(
            f"the reranker returned {format_value(answer)} for {texts} texts",
            value=answer,
            remedy="it must return one number from 0 to 1 for each text",
        )
    return scores


def _rank_hit(hit: Hit) -> tuple[float, str, str]:
    return -hit.score, hit.id, hit.kind
