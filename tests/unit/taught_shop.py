"""A shop that is taught: its memory, and a gate that runs statements on its file."""

from itertools import count
from pathlib import Path

from everhold.adapters.sqlite_files.reader import run_query
from everhold.ask.guard import check_statement
from everhold.ask.learning.answering import LearnedMemory, rank_readings
from everhold.ask.learning.gate import ReplayGate
from everhold.ask.learning.patterns import QuestionContext
from everhold.ask.learning.teaching import Teaching, teach_pair
from everhold.ask.reading import QuestionReading
from everhold.ask.results import Rows
from everhold.errors import StatementRefused, StoreError
from tests.unit.ask_shop import TODAY, open_shop


class TaughtShop:
    """A shop, its memory, and a gate that runs statements on its file."""

    def __init__(self, path: Path) -> None:
        self.path, self.memory = path, LearnedMemory()
        reader = open_shop(path)
        self.columns = {table.name: [column.name for column in table.columns] for table in reader.schema.tables}
        self.context = QuestionContext(reader, TODAY)
        self.gate = ReplayGate(self.context, self._run)
        self._numbers = count(1)

    def _run(self, sql: str) -> Rows | None:
        try:
            return run_query(self.path, check_statement(sql, "sqlite", self.columns).sql, 5.0, 1000)
        except (StatementRefused, StoreError):
            return None

    def teach(self, question: str, sql: str) -> Teaching:
        teaching = teach_pair(
            self.gate, self.memory, question, sql, "sqlite", lambda kind: f"{kind}-{next(self._numbers)}"
        )
        self.memory = teaching.memory
        return teaching

    def read(self, question: str) -> QuestionReading | None:
        readings = rank_readings(self.context, self.memory, question, self.gate.read(question))
        return readings[0] if readings else None

    def ask(self, question: str) -> Rows | None:
        reading = self.read(question)
        return self.gate.run(reading.sql) if reading is not None else None
