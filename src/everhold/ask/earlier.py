"""The questions that a follow-up builds on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EarlierQuestion:
    """A question that was asked before. `sql` tells which of its readings was meant; without one it is the best."""

    text: str
    sql: str | None = None
