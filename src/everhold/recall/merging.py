"""Merge the rankings of the clauses of one question, so that every clause gets its answers."""

from collections.abc import Sequence

from everhold.recall.judging import Bounds
from everhold.recall.recipe import SCORE_DECIMALS
from everhold.recall.scoring import Scored, rank_key

Ranking = tuple[Sequence[Scored], Bounds]


def merge_rankings(rankings: Sequence[Ranking]) -> Ranking:
    """Return the candidates of all rankings, best first, and bounds that admit what any of the rankings admits.

    A candidate has its best score. A candidate that no ranking admits stays below those that are admitted.
    """
    best: dict[tuple[str, str], Scored] = {}
    admitted: set[tuple[str, str]] = set()
    for ranked, bounds in rankings:
        lowest = bounds.find_minimum(ranked[0].score) if ranked else 0.0
        for candidate in ranked:
            key = candidate.kind, candidate.owner_id
            if key not in best or candidate.score > best[key].score:
                best[key] = candidate
            if candidate.score >= lowest:
                admitted.add(key)
    step = 10**-SCORE_DECIMALS
    lowest_admitted = min((best[key].score for key in admitted), default=None)
    minimum = max(candidate.score for candidate in best.values()) + step if lowest_admitted is None else lowest_admitted
    merged = [
        candidate if key in admitted else candidate._replace(score=min(candidate.score, minimum - step))
        for key, candidate in best.items()
    ]
    return sorted(merged, key=rank_key), Bounds(minimum, 0.0)
