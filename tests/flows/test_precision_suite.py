"""Every case of the suite in tests/precision passes with the real model, except for the known gaps."""

import json
from pathlib import Path

import pytest

from everhold import Everhold
from everhold.evaluation.precision import PrecisionReport, evaluate
from everhold.evaluation.precision_format import CATEGORIES, read

# All tests run in one process, because they share a report that takes seconds to compute.
pytestmark = [pytest.mark.model, pytest.mark.xdist_group("precision suite")]
SUITE = Path(__file__).resolve().parent.parent / "precision"


@pytest.fixture(scope="module")
def report() -> PrecisionReport:
    return evaluate(read(SUITE), lambda: Everhold.open("memory://"))


def test_the_suite_is_large_and_varied() -> None:
    cases = [case for world in read(SUITE) for case in world.cases if case.gap is None]
    assert len(cases) >= 120
    assert sum(case.wants_nothing for case in cases) >= 40
    assert {case.category for case in cases} == set(CATEGORIES)


def test_precision_and_recall_reach_their_minimum(report: PrecisionReport) -> None:
    assert report.precision >= 0.9
    assert report.recall >= 0.95


def test_known_gaps_are_still_open(report: PrecisionReport) -> None:
    """If a gap has closed, remove its mark, so that the case must pass from then on."""
    assert len(report.gaps) <= 0.2 * len(report.outcomes)
    assert not [gap.name for gap in report.gaps if gap.passed]


def test_every_case_passes(report: PrecisionReport) -> None:
    assert report.passed == len(report.outcomes), json.dumps(
        [outcome.as_json() for outcome in report.failed], indent=1, ensure_ascii=False
    )
