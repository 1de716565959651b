"""One line of the comparison: our figure, the figure of each peer, and the reason if ours is not the best."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.report import Report, round_figure

Better = Literal["lower", "higher"]
# Values that differ by at most this much are equal.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class FigureLine:
    """Our value of one figure, and the value of each peer.

    `reasons` says for a peer why it may be better. A `required` line has a bar: our value must be as good as the best.
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
    def is_ahead(self) -> bool:
        return self.ours < self.best - TOLERANCE if self.better == "lower" else self.ours > self.best + TOLERANCE

    @property
    def why(self) -> str | None:
        """The reason why ours is not the best, or None if it is."""
        if self.is_ahead:
            return None
        equal_peers = sorted(name for name, value in self.peers.items() if abs(value - self.ours) <= TOLERANCE)
        if equal_peers:
            return f"level with {', '.join(equal_peers)}; no peer is better"
        measured = f"{self.best_peer} measures {round_figure(self.best)} {self.unit}, ours {round_figure(self.ours)}"
        reason = self.reasons.get(self.best_peer)
        return f"{measured}: {reason}" if reason else f"{measured}; no reason is known"

    def make_figure(self) -> dict[str, Any]:
        figure: dict[str, Any] = {
            "unit": self.unit,
            "ours": round_figure(self.ours),
            "peers": {name: round_figure(value) for name, value in self.peers.items()},
            "best_peer": self.best_peer,
            "ahead": self.is_ahead,
        }
        return figure if self.why is None else {**figure, "why": self.why}

    def add_to(self, report: Report) -> None:
        report.add(self.name, self.make_figure())
        if self.better == "lower":
            report.add(f"{self.name}_ratio", self.ours / self.best, *(("<=", 1.0) if self.required else ()))
        else:
            report.add(f"{self.name}_difference", self.ours - self.best, *((">=", 0.0) if self.required else ()))
