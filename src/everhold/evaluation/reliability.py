"""Whether scores are chances: of the hits with a score near .7, seven of ten should be right."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

BINS = 10
_DIGITS = 3


class ScoredHit(NamedTuple):
    """The score of a hit and whether the hit was right."""

    score: float
    is_right: bool


class ScoreBin(NamedTuple):
    """The hits whose scores lie from `low` to `high`; `score` is their mean, `right` the share that was right."""

    low: float
    high: float
    hits: int
    score: float | None
    right: float | None


class ReliabilityTable(NamedTuple):
    """Ten bins of equal width, lowest first, and the expected calibration error over all hits.

    The error is the mean distance between the mean score and the share of right hits of a bin, weighted by the number
    of its hits. It is None if there are no hits.
    """

    bins: tuple[ScoreBin, ...]
    error: float | None

    @property
    def hits(self) -> int:
        return sum(score_bin.hits for score_bin in self.bins)

    def as_json(self) -> dict[str, Any]:
        return {"hits": self.hits, "error": self.error, "bins": [score_bin._asdict() for score_bin in self.bins]}


def tabulate_scores(scored_hits: Iterable[ScoredHit]) -> ReliabilityTable:
    """Return the reliability table of hits."""
    hits_by_bin: list[list[ScoredHit]] = [[] for _ in range(BINS)]
    for hit in scored_hits:
        # A score of exactly 1 belongs to the last bin.
        hits_by_bin[min(int(hit.score * BINS), BINS - 1)].append(hit)
    total = sum(map(len, hits_by_bin))
    distance = sum(abs(_sum_scores(hits) - _count_right(hits)) for hits in hits_by_bin)
    bins = tuple(_make_bin(number, hits) for number, hits in enumerate(hits_by_bin))
    return ReliabilityTable(bins, round(distance / total, _DIGITS) if total else None)


def _make_bin(number: int, hits: Sequence[ScoredHit]) -> ScoreBin:
    low, high = number / BINS, (number + 1) / BINS
    if not hits:
        return ScoreBin(low, high, 0, None, None)
    score, right = _sum_scores(hits) / len(hits), _count_right(hits) / len(hits)
    return ScoreBin(low, high, len(hits), round(score, _DIGITS), round(right, _DIGITS))


def _sum_scores(hits: Iterable[ScoredHit]) -> float:
    return sum(hit.score for hit in hits)


def _count_right(hits: Iterable[ScoredHit]) -> int:
    return sum(hit.is_right for hit in hits)
