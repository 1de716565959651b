"""How often does the engine take two memories for one, or end one that still holds?

    python -m benchmarks.merges

Every labelled pair of `tests/fixtures/conflicts.json` is remembered by a user of its own, on a real store with the
real model; then duplicates are merged. A wrong merge or a wrong supersession loses a memory; what is missed merely
stays.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.engines import chosen
from benchmarks.report import Report
from everhold import Everhold, parts

PAIRS = Path(__file__).parents[1] / "tests" / "fixtures" / "conflicts.json"
SAID = datetime(2023, 6, 14, 10, tzinfo=UTC)
MOST_WRONG = 0.01


class Pair(NamedTuple):
    """Two texts and what is right: the second "replaces" the first, says the "same", or both stay."""

    first: str
    second: str
    label: str
    must_merge: bool
    """Whether two that say the same do so in words near enough to be made one."""


class Outcome(NamedTuple):
    """What became of a pair."""

    superseded: bool
    merged: bool


def labelled() -> list[Pair]:
    held = json.loads(PAIRS.read_text("utf-8"))
    return [
        *[Pair(first, second, label, False) for first, second, label in held["relations"]],
        *[Pair(first, second, "same", True) for first, second in held["same"]],
        *[Pair(first, second, label, False) for first, second, label in held["different"]],
    ]


def outcome(engine: Everhold, number: int, pair: Pair) -> Outcome:
    user = engine.scope(user=f"user-{number}")
    first = user.remember(pair.first, kind="fact", speaker="Alice", occurred_at=SAID)
    second = user.remember(pair.second, kind="fact", speaker="Alice", occurred_at=SAID + timedelta(minutes=1))
    superseded = user.get(first.id).superseded_by is not None
    return Outcome(superseded, first.id == second.id or user.merge_duplicates().count > 0)


def measure(report: Report, engine: Everhold) -> None:
    pairs = labelled()
    found = [(pair, outcome(engine, number, pair)) for number, pair in enumerate(pairs)]
    wrong_merges = [pair for pair, done in found if done.merged and pair.label != "same"]
    wrong_ends = [pair for pair, done in found if done.superseded and pair.label != "replaces"]
    missed = [
        pair
        for pair, done in found
        if (pair.must_merge and not done.merged) or (pair.label == "replaces" and not done.superseded)
    ]
    for what, those in (("wrong merge", wrong_merges), ("wrong supersession", wrong_ends), ("missed", missed)):
        for pair in those:
            print(f"merges: {what}: {pair.first!r}, {pair.second!r}", file=sys.stderr)
    report.add("pairs", len(pairs))
    report.add("wrong_merges", len(wrong_merges))
    report.add("wrong_supersessions", len(wrong_ends))
    report.add("missed", len(missed))
    report.add("wrong_rate", len({*wrong_merges, *wrong_ends}) / len(pairs), "<=", MOST_WRONG)


def main() -> int:
    report = Report("merges")
    with TemporaryDirectory(prefix="everhold-") as folder:
        settings = chosen(Path(folder) / "memories.db", sqlite={"synchronous": "NORMAL"})
        engine = Everhold(parts.build(settings))
        try:
            measure(report, engine)
        finally:
            engine.close()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
