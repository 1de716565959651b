"""A mention: words of a question that name something."""

from dataclasses import dataclass

from everhold.ask.frame import Literal
from everhold.ask.language.periods import TimeInterval
from everhold.ask.schema import ColumnRef

# The kinds of mentions. The grammar uses them as codes, beside those of `language/cues.py`.
TABLE, COLUMN, VALUE, NUMBER, PERIOD = "T", "C", "V", "N", "P"
VERB = "verb"  # the value of `why` for a column that a verb implies, such as the amount of "spent"


@dataclass(frozen=True)
class Mention:
    """The tokens from `start` up to, but not including, `end`, and what they name.

    `score` is 1 for a whole name, and a little more for taught names and quoted values. `weight` is the number of
    meaningful words. `why` says how the name was recognised, and `lesson_id` is the lesson if the name was taught.
    """

    start: int
    end: int
    kind: str
    score: float
    weight: int
    table: str | None = None
    column: ColumnRef | None = None
    value: Literal | None = None
    period: TimeInterval | None = None
    why: str = ""
    counts_times: bool = False
    lesson_id: str = ""

    @property
    def owner(self) -> str | None:
        """The mentioned table, or the table of the mentioned column."""
        return self.column.table if self.column else self.table
