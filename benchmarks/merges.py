"""How often does the engine merge two different memories, or supersede one that is still true?

    python -m benchmarks.merges

Each labelled pair of `tests/fixtures/conflicts.json` is stored for a separate user, on a real store with the real
model; then near-duplicates are merged. A wrong merge or a wrong supersession hides a memory. A missed merge only leaves
both memories.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.engines import build_settings
from benchmarks.report import Report
from everhold import Everhold, parts

PAIRS = Path(__file__).parents[1] / "tests" / "fixtures" / "conflicts.json"
SAID_AT = datetime(2023, 6, 14, 10, tzinfo=UTC)
MAX_WRONG = 0.01


class TextPair(NamedTuple):
    """Two texts and a label: the second "replaces" the first, says the "same", or is "different"."""

    first: str
    second: str
    label: str
    must_merge: bool
    """Whether the two texts are worded so similarly that they must be merged."""


class MergeOutcome(NamedTuple):
    """Whether the second text superseded the first, and whether the two were merged."""

    superseded: bool
    merged: bool


def read_pairs() -> list[TextPair]:
    fixtures = json.loads(PAIRS.read_text("utf-8"))
    return [
        *[TextPair(first, second, label, False) for first, second, label in fixtures["relations"]],
        *[TextPair(first, second, "same", True) for first, second in fixtures["same"]],
        *[TextPair(first, second, label, False) for first, second, label in fixtures["different"]],
    ]


def merge_pair(engine: Everhold, number: int, pair: TextPair) -> MergeOutcome:
    view = engine.scope(user=f"user-{number}")
    first = view.remember(pair.first, kind="fact", speaker="Alice", occurred_at=SAID_AT)
    second = view.remember(pair.second, kind="fact", speaker="Alice", occurred_at=SAID_AT + timedelta(minutes=1))
    superseded = view.get(first.id).superseded_by is not None
    return MergeOutcome(superseded, first.id == second.id or view.merge_duplicates().count > 0)


def measure(report: Report, engine: Everhold) -> None:
    pairs = read_pairs()
    outcomes = [(pair, merge_pair(engine, number, pair)) for number, pair in enumerate(pairs)]
    wrong_merges = [pair for pair, outcome in outcomes if outcome.merged and pair.label != "same"]
    wrong_ends = [pair for pair, outcome in outcomes if outcome.superseded and pair.label != "replaces"]
    missed = [
        pair
        for pair, outcome in outcomes
        if (pair.must_merge and not outcome.merged) or (pair.label == "replaces" and not outcome.superseded)
    ]
    for outcome_name, pairs_of_kind in (
        ("wrong merge", wrong_merges),
        ("wrong supersession", wrong_ends),
        ("missed", missed),
    ):
        for pair in pairs_of_kind:
            print(f"merges: {outcome_name}: {pair.first!r}, {pair.second!r}", file=sys.stderr)
    report.add("pairs", len(pairs))
    report.add("wrong_merges", len(wrong_merges))
    report.add("wrong_supersessions", len(wrong_ends))
    report.add("missed", len(missed))
    report.add("wrong_rate", len({*wrong_merges, *wrong_ends}) / len(pairs), "<=", MAX_WRONG)


def main() -> int:
    report = Report("merges")
    with TemporaryDirectory(prefix="everhold-") as folder:
        settings = build_settings(Path(folder) / "memories.db", sqlite={"synchronous": "NORMAL"})
        engine = Everhold(parts.build(settings))
        try:
            measure(report, engine)
        finally:
            engine.close()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
