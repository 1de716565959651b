"""Compute how often the statements of a language model were right, from the verdicts of a scope's users."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from everhold.ask.reading import ReadingOrigin
from everhold.ask.sources.lookup import find_project
from everhold.model import QueryRun, Scope
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where

# The assumed chance that a model's statement is right until enough answers were judged. It is so low that a different
# reading by the rules is offered too, and so high that a reading with the same result becomes nearly certain.
PRIOR: Final = 0.6
# The prior counts like ten verdicts, so that the first few verdicts change it little.
_PRIOR_VERDICTS: Final = 10
MIN_VERDICTS: Final = 5
# Limits of the confidence. Below the lower one, the model's statements would never be offered; above the upper one,
# readings by the rules would never be offered beside them.
_MIN_CONFIDENCE: Final = 0.35
_MAX_CONFIDENCE: Final = 0.85
_VERDICTS: Final = ("confirmed", "corrected", "chosen", "rejected")
_MAX_RUNS: Final = 1_000


@dataclass(frozen=True)
class ModelRecord:
    """The numbers of a model's judged answers that were right and wrong.

    Answers confirmed by other sources do not count.
    """

    right: int = 0
    wrong: int = 0
    judged_at: datetime | None = None

    @property
    def is_used(self) -> bool:
        """Whether enough answers were judged to use the record."""
        return self.right + self.wrong >= MIN_VERDICTS

    @property
    def confidence(self) -> float:
        """The chance that a statement of the model is right: the mean of a Beta distribution, within bounds."""
        if not self.is_used:
            return PRIOR
        mean = (PRIOR * _PRIOR_VERDICTS + self.right) / (_PRIOR_VERDICTS + self.right + self.wrong)
        return round(min(max(mean, _MIN_CONFIDENCE), _MAX_CONFIDENCE), 4)

    def describe(self) -> str:
        """Return the record in words."""
        total = self.right + self.wrong
        suffix = "" if self.is_used else f"; it is used from {MIN_VERDICTS} on"
        return f"{self.right} of {total} of its answers that were judged were right{suffix}"


def read_records(records: Records, scope: Scope) -> Mapping[str, ModelRecord]:
    """Return the record of each model by its name, computed from the latest verdicts on answers in the scope."""
    where = [Where("project_id", Op.EQ, find_project(scope)), Where("feedback", Op.IN, _VERDICTS)]
    runs = records.scan(QueryRun, scope.organization, where, order="created_at", descending=True, limit=_MAX_RUNS)
    models: dict[str, ModelRecord] = {}
    for run in runs:
        name = (run.metadata.get("language_model") or {}).get("model")
        is_alone = run.metadata.get("origin") == ReadingOrigin.MODEL and not run.metadata.get("confirmed_by_another")
        if name is None or not is_alone or run.metadata.get("user") not in (None, scope.user):
            continue
        record = models.get(name, ModelRecord())
        is_right = run.feedback == "confirmed" or run.metadata.get("right_sql") == run.sql
        judged_at = max(run.updated_at, record.judged_at or run.updated_at)
        models[name] = ModelRecord(record.right + is_right, record.wrong + (not is_right), judged_at)
    return models
