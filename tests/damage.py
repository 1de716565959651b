"""Write rows that the engine itself never writes."""

import pytest

from everhold.ports.records import Records
from everhold.schema.operations import Patch, Put


def damage(records: Records, operation: Patch | Put) -> None:
    """Write a row that breaks the rules over several fields, as damage to a disk could."""
    entity = type(operation.row) if isinstance(operation, Put) else operation.entity
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(entity, "rules", ())
        records.commit([operation])
