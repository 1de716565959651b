"""Does consolidation make the answers of recall worse? Ask questions about lives without it and after it.

    python -m benchmarks.consolidation                        # the lives in tests/lives
    python -m benchmarks.consolidation lives/mira.json

Each life is loaded into two stores. In the first, its questions are asked at once; in the second, they are asked after
one run of `maintain(["consolidate"])`. The figures are those of `everhold eval questions`. No figure may become worse
by more than 0.01.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from benchmarks.report import Report
from everhold import Everhold
from everhold.evaluation import questions
from everhold.evaluation.lives import read_lives

LIVES: Final = Path(__file__).resolve().parent.parent / "tests" / "lives"
# By how much a figure may become worse. This is not 0, because a merged memory may answer with another id.
TOLERANCE: Final = 0.01
# The figures that should be high, and those that should be low.
HIGH: Final = ("top1", "recall", "precision", "silence")
LOW: Final = ("stale_on_top", "lookalike")


def open_store() -> Everhold:
    return Everhold.open("memory://", log={"flush_seconds": 3600})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="lives; without them those in tests/lives")
    options = parser.parse_args()
    lives = read_lives(options.files or sorted(LIVES.glob("*.json")))
    report, counts = Report("consolidation"), Counter[str]()

    def consolidate(engine: Everhold) -> None:
        job = engine.maintain(["consolidate"])["consolidate"]
        assert job.outcome == "done", job.error
        counts.update(job.counts)

    before = questions.evaluate(lives, open_store).overall
    after = questions.evaluate(lives, open_store, prepare=consolidate).overall
    report.add("questions", before["questions"])
    report.add("changes", dict(counts))
    for name in (*HIGH, *LOW):
        if before[name] is not None and after[name] is not None:
            report.add(f"{name}_before", before[name])
            limit = round(before[name] + (TOLERANCE if name in LOW else -TOLERANCE), 3)
            report.add(f"{name}_after", after[name], "<=" if name in LOW else ">=", limit)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
