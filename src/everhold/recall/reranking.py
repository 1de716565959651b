"""Reranking: the best hits in the order of a second model."""

from dataclasses import replace
from typing import Any

from everhold.errors import InvalidInput, format_value
from everhold.model import Scope
from everhold.ports.reranker import Reranker
from everhold.recall.hit import Hit, Hits
from everhold.recall.pipeline import recall
from everhold.recall.request import RecallDeps, Request

# How many hits a reranker is shown, at least.
RERANKED = 50


def recall_reranked(deps: RecallDeps, scope: Scope, request: Request, reranker: Reranker | None) -> Hits:
    """Return what a recall finds; with a reranker, whatever its scores, in its order and with its scores.

    The request's minimum is then for those scores, and there are no further pages.
    """
    if reranker is None:
        return recall(deps, scope, request)
    if request.cursor is not None:
        raise InvalidInput("a reranked recall has no further pages", remedy="raise k instead of passing a cursor")
    wide = request._replace(k=max(request.k, RERANKED), minimum=0)
    hits = recall(deps, scope, wide)
    scores = _read_scores(reranker.rerank(request.query, [hit.text for hit in hits]), len(hits))
    min_score = request.minimum or 0.0
    better = [replace(hit, score=float(score)) for hit, score in zip(hits, scores, strict=True) if score >= min_score]
    return replace(hits, hits=tuple(sorted(better, key=_rank_hit)[: request.k]), more=False)


def _read_scores(answer: Any, texts: int) -> list[float]:
    try:
        scores = [float(score) for score in answer]
    except (TypeError, ValueError, OverflowError):
        scores = []
    if len(scores) != texts or not all(0 <= score <= 1 for score in scores):
        raise InvalidInput(
            f"the reranker gave {format_value(answer)} for {texts} texts",
            value=answer,
            remedy="it must give one number 0–1 each",
        )
    return scores


def _rank_hit(hit: Hit) -> tuple[float, str, str]:
    return -hit.score, hit.id, hit.kind
