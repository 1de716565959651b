"""How every benchmark answers: one line of JSON with the figures, the bars they must reach, and whether they do."""

import json
import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, median
from time import perf_counter
from typing import Any

_MEETS: Mapping[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


@dataclass
class Report:
    """Figures as they are measured. A figure with a bar must be on the right side of it."""

    name: str
    figures: dict[str, Any] = field(default_factory=dict)
    bars: dict[str, str] = field(default_factory=dict)
    short: list[str] = field(default_factory=list)
    _started: float = field(default_factory=perf_counter)

    def add(self, figure: str, value: Any, *bar: Any) -> None:
        """`add("ratio", 1.1, "<=", 1.2)`, or without a bar for what is only worth knowing."""
        self.figures[figure] = rounded(value)
        if bar:
            sign, limit = bar
            self.bars[figure] = f"{sign} {limit}"
            if not _MEETS[sign](value, limit):
                self.short.append(figure)
        print(f"{self.name}: {figure} {rounded(value)} {self.bars.get(figure, '')}".rstrip(), file=sys.stderr)

    @property
    def ok(self) -> bool:
        return not self.short

    def line(self) -> str:
        seconds = round(perf_counter() - self._started, 1)
        return json.dumps(
            {
                "benchmark": self.name,
                "ok": self.ok,
                "short": self.short,
                "figures": self.figures,
                "bars": self.bars,
                "seconds": seconds,
            }
        )

    def finish(self) -> int:
        """Prints the line; the exit code."""
        print(self.line())
        return 0 if self.ok else 1


def rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


@dataclass(frozen=True)
class Pairs:
    """What two ways of doing the same took, in seconds, each pair measured at the same time of a shared machine.

    Bars are for medians. Means are told beside them: they show what is put off and done now and then."""

    ours: list[float]
    floor: list[float]

    @property
    def ratio(self) -> float:
        return median(self.ours) / median(self.floor)

    def add_to(self, report: Report, name: str, most: float) -> None:
        report.add(f"{name}_ratio", self.ratio, "<=", most)
        report.add(f"{name}_ms", 1000 * median(self.ours))
        report.add(f"{name}_floor_ms", 1000 * median(self.floor))
        report.add(f"{name}_mean_ratio", fmean(self.ours) / fmean(self.floor))
        report.add(f"{name}_pairs", len(self.ours))


def interleaved(ours: Callable[[int], object], floor: Callable[[int], object], pairs: int, warm_up: int = 10) -> Pairs:
    """Runs both by turns, and by turns the one or the other first. Each is given the number of the pair."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(warm_up + pairs):
        for side in (0, 1) if number % 2 else (1, 0):
            begun = perf_counter()
            (ours, floor)[side](number)
            took = perf_counter() - begun
            if number >= warm_up:
                taken[side].append(took)
    return Pairs(*taken)
