"""The note that rows were purged, so that maintenance removes what is left of them from files.

It is a row among the projection states: `applied_sequence` counts purges, `generation` counts those whose traces have
been removed. So a purge that comes while files are being cleaned is not missed.
"""

from collections.abc import Callable

from everhold.model import ProjectionState
from everhold.ports.records import Records
from everhold.schema.operations import Ensure, Increment, Op, Operation, Patch, Where

_NOTE = "erased"


def note_purge() -> list[Operation]:
    """Return the operations that ask the next maintenance to clean files, for the commit of a purge."""
    return [Ensure(ProjectionState(projection=_NOTE)), Increment(ProjectionState, (_NOTE,), {"applied_sequence": 1})]


def maintain_files(records: Records, drop_indexes: Callable[[], None]) -> None:
    """Run the store's maintenance; after a purge also drop index files and clean the store's own."""
    notes = records.scan(ProjectionState, None, [Where("projection", Op.EQ, _NOTE)], limit=1)
    purges, cleaned = (notes[0].applied_sequence, notes[0].generation) if notes else (0, 0)
    erased = purges > cleaned
    if erased:
        drop_indexes()
    if records.upkeep(erased=erased) and erased:
        records.commit([Patch(ProjectionState, (_NOTE,), {"generation": purges})])
