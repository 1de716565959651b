"""Reliability tables: they show whether scores are probabilities.

Of the hits with a score near 0.7, seven of ten should be right.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

BINS = 10
_DIGITS = 3


class ScoredHit(NamedTuple):
    """The score of a hit and whether the hit was right."""

    score: float
    is_right: bool


class ScoreBin(NamedTuple):
    """The hits with scores from `low` to `high`.

    `hits` is their number, `score` their mean score, and `right` the share of right hits among them. The last two are
    None for an empty bin.
    """

    low: float
    high: float
    hits: int
    score: float | None
    right: float | None


class ReliabilityTable(NamedTuple):
    """Ten bins of equal width, lowest first, and the expected calibration error over all hits.

    Each bin has a distance: between its mean score and its share of right hits. The error is the mean of these
    distances, weighted by the number of hits, or None if there are no hits.
    """

    bins: tuple[ScoreBin, ...]
    error: float | None

    @property
    def hits(self) -> int:
        return sum(score_bin.hits for score_bin in self.bins)

    def as_json(self) -> dict[str, Any]:
        return {"hits": self.hits, "error": self.error, "bins": [score_bin._asdict() for score_bin in self.bins]}


def tabulate_scores(scored_hits: Iterable[ScoredHit]) -> ReliabilityTable:
    """Sort hits into bins by their scores and return the reliability table."""
    hits_by_bin: list[list[ScoredHit]] = [[] for _ in range(BINS)]
    for hit in scored_hits:
        # A score of exactly 1 belongs to the last bin.
        hits_by_bin[min(int(hit.score * BINS), BINS - 1)].append(hit)
    total = sum(map(len, hits_by_bin))
    # A bin's distance times its number of hits is |sum of scores - number of right hits|.
    weighted_distance = sum(abs(_sum_scores(hits) - _count_right(hits)) for hits in hits_by_bin)
    bins = tuple(_make_bin(index, hits) for index, hits in enumerate(hits_by_bin))
    return ReliabilityTable(bins, round(weighted_distance / total, _DIGITS) if total else None)


def _make_bin(index: int, hits: Sequence[ScoredHit]) -> ScoreBin:
    low, high = index / BINS, (index + 1) / BINS
    if not hits:
        return ScoreBin(low, high, 0, None, None)
    score, right = _sum_scores(hits) / len(hits), _count_right(hits) / len(hits)
    return ScoreBin(low, high, len(hits), round(score, _DIGITS), round(right, _DIGITS))


def _sum_scores(hits: Iterable[ScoredHit]) -> float:
    return sum(hit.score for hit in hits)


def _count_right(hits: Iterable[ScoredHit]) -> int:
    return sum(hit.is_right for hit in hits)
