"""Read lines of the access log."""

from datetime import datetime

from everhold.model import AccessLog, Scope
from everhold.ports.records import Records
from everhold.schema.conditions import make_equalities
from everhold.schema.operations import Op, Where


def read_log(
    records: Records,
    scope: Scope,
    limit: int,
    operation: str | None,
    memory_id: str | None,
    after: datetime | None,
    before: datetime | None,
) -> list[AccessLog]:
    """Return the lines about a scope, newest first. An argument that is None adds no condition.

    `after` is included in the time span and `before` is not. Lines have no column for the project, so it is compared
    with the project in the stored request.
    """
    conditions = (
        *(condition for condition in make_equalities(scope.columns) if condition.field != "project_id"),
        Where("request.project", Op.EQ, scope.project),
        Where("operation", Op.EQ, operation),
        Where("memory_id", Op.EQ, memory_id),
        Where("timestamp", Op.GE, after),
        Where("timestamp", Op.LT, before),
    )
    where = [condition for condition in conditions if condition.value is not None]
    return records.scan(AccessLog, scope.organization, where, order="sequence", descending=True, limit=limit)
