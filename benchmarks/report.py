"""The report of a benchmark: one line of JSON with the figures, the bars they must reach, and whether they do."""

import json
import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, median
from time import perf_counter
from typing import Any

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


@dataclass
class Report:
    """The figures of a benchmark. `short` has the names of the figures that miss their bars."""

    name: str
    figures: dict[str, Any] = field(default_factory=dict)
    bars: dict[str, str] = field(default_factory=dict)
    short: list[str] = field(default_factory=list)
    _started: float = field(default_factory=perf_counter)

    def add(self, figure: str, value: Any, *bar: Any) -> None:
        """Add a figure, with a bar or without: `add("ratio", 1.1, "<=", 1.2)`."""
        self.figures[figure] = round_figure(value)
        if bar:
            sign, limit = bar
            self.bars[figure] = f"{sign} {limit}"
            if not _COMPARISONS[sign](value, limit):
                self.short.append(figure)
        print(f"{self.name}: {figure} {round_figure(value)} {self.bars.get(figure, '')}".rstrip(), file=sys.stderr)

    @property
    def ok(self) -> bool:
        return not self.short

    def make_line(self) -> str:
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
        """Print the line and return the exit code."""
        print(self.make_line())
        return 0 if self.ok else 1


def round_figure(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


@dataclass(frozen=True)
class PairedTimes:
    """The seconds of two implementations of the same work, measured by turns, because a shared machine is uneven.

    Bars apply to medians. Means are reported too, because they include work that only some calls do.
    """

    ours: list[float]
    floor: list[float]

    @property
    def ratio(self) -> float:
        return median(self.ours) / median(self.floor)

    def add_to(self, report: Report, name: str, bar: float) -> None:
        report.add(f"{name}_ratio", self.ratio, "<=", bar)
        report.add(f"{name}_ms", 1000 * median(self.ours))
        report.add(f"{name}_floor_ms", 1000 * median(self.floor))
        report.add(f"{name}_mean_ratio", fmean(self.ours) / fmean(self.floor))
        report.add(f"{name}_pairs", len(self.ours))


def run_interleaved(
    ours: Callable[[int], object], floor: Callable[[int], object], pairs: int, warm_up: int = 10
) -> PairedTimes:
    """Time both functions by turns, and change each time which one is first. Each gets the number of the pair."""
    times = PairedTimes([], [])
    for number in range(warm_up + pairs):
        turns = [(ours, times.ours), (floor, times.floor)]
        for work, seconds in turns if number % 2 else reversed(turns):
            started = perf_counter()
            work(number)
            elapsed = perf_counter() - started
            if number >= warm_up:
                seconds.append(elapsed)
    return times
