"""`EarlierQuestion`, an earlier question that a follow-up question builds on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EarlierQuestion:
    """A question that was asked before. `sql` is the SQL of its reading; without it, the best reading is assumed."""

    text: str
    sql: str | None = None
