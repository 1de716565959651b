"""One line of the comparison: ours, each peer's, whether ours is ahead, and if not, why not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.report import Report, round_figure

Better = Literal["lower", "higher"]
SAME = 1e-9


@dataclass(frozen=True)
class Line:
    """One figure of ours and of each peer.

    `reasons` says by peer why it may be ahead. A `required` line has a bar: ours must not be behind.
    """

    name: str
    unit: str
    better: Better
    ours: float
    peers: Mapping[str, float]
    reasons: Mapping[str, str] = field(default_factory=dict)
    required: bool = True

    @property
    def best_peer(self) -> str:
        return (min if self.better == "lower" else max)(self.peers, key=lambda name: self.peers[name])

    @property
    def best(self) -> float:
        return self.peers[self.best_peer]

    @property
    def ahead(self) -> bool:
        return self.ours < self.best - SAME if self.better == "lower" else self.ours > self.best + SAME

    @property
    def why(self) -> str | None:
        if self.ahead:
            return None
        level = sorted(name for name, value in self.peers.items() if abs(value - self.ours) <= SAME)
        if level:
            return f"level with {', '.join(level)}; no peer is better"
        measured = f"{self.best_peer} measures {round_figure(self.best)} {self.unit}, ours {round_figure(self.ours)}"
        reason = self.reasons.get(self.best_peer)
        return f"{measured}: {reason}" if reason else f"{measured}; no reason is known"

    def values(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "unit": self.unit,
            "ours": round_figure(self.ours),
            "peers": {name: round_figure(value) for name, value in self.peers.items()},
            "best_peer": self.best_peer,
            "ahead": self.ahead,
        }
        return values if self.why is None else {**values, "why": self.why}

    def add_to(self, report: Report) -> None:
        report.add(self.name, self.values())
        if self.better == "lower":
            report.add(f"{self.name}_ratio", self.ours / self.best, *(("<=", 1.0) if self.required else ()))
        else:
            report.add(f"{self.name}_difference", self.ours - self.best, *((">=", 0.0) if self.required else ()))
