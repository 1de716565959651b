"""The result table of an answer: the rows of a query, and the known meaning of each column."""

from dataclasses import dataclass

from everhold.ports.data_engine import Value

# A cell as a data engine returns it.
ResultValue = Value


@dataclass(frozen=True)
class AnswerColumn:
    """A column of a result.

    `data_type` is the type as the engine names it, and may be empty. The rest is known if the column comes from a
    described table or from a frame: `meaning` is a kind of column ("id", "code", "category", "measure", "year", "date",
    "flag", "text"), `function` the aggregate that computed it ("count", "sum", "avg", "min", "max"), `unit` such as
    "EUR" or "km", and `title` the heading of the column for a person.
    """

    name: str
    data_type: str = ""
    meaning: str = ""
    function: str = ""
    unit: str = ""
    title: str = ""


@dataclass(frozen=True)
class ResultTable:
    """Columns and rows in the order of the statement. `is_truncated` is true if the statement has more rows."""

    columns: tuple[AnswerColumn, ...]
    rows: tuple[tuple[ResultValue, ...], ...]
    is_truncated: bool = False

    def values(self, index: int) -> list[ResultValue]:
        """Return the values of one column."""
        return [row[index] for row in self.rows]
