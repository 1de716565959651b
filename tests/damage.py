"""Rows that no write could have made."""

import pytest

from everhold.ports.records import Records
from everhold.schema.operations import Patch, Put


def damage(records: Records, operation: Patch | Put) -> None:
    """Write what the rules over several fields would refuse, as a damaged disk might leave it."""
    entity = type(operation.row) if isinstance(operation, Put) else operation.entity
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(entity, "rules", ())
        records.commit([operation])
