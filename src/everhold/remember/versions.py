"""Check expected versions: refuse to change a memory that another caller has changed since this one read it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from everhold.errors import AlreadyExists, Argument, BrokenReference, Remedy, StaleVersion
from everhold.model import Memory, Revision
from everhold.ports.records import Records
from everhold.schema.catalog import get_table
from everhold.schema.operations import Operation, Patch

_REVISIONS = get_table(Revision).name


def require_version(memory: Memory, expected: int | None) -> None:
    """Raise StaleVersion unless a memory is at the version that the caller expects; None accepts any version."""
    if expected is None:
        return
    if memory.version != expected:
        raise StaleVersion(
            f"memory {memory.id!r} is at version {memory.version}, not {expected}",
            value=memory.id,
            remedy=Remedy("read it again and retry with {}", Argument("expected_version", memory.version)),
            current_version=memory.version,
        )


def hold_version(memory: Memory, expected: int | None, now: datetime) -> Sequence[Operation]:
    """Return an operation that fails the commit if the memory has changed; none without an expected version."""
    if expected is None:
        return ()
    # A hide or a delete has no version of its own, so a patch in the same commit checks it.
    return (Patch(Memory, (memory.organization_id, memory.id), {"updated_at": now}, version=expected),)


@contextmanager
def report_current_version(records: Records, memory: Memory) -> Iterator[None]:
    """Raise StaleVersion with the current version if another caller has changed the memory first.

    A store may detect the other change by the number of its revision (AlreadyExists) before it checks the version, and
    a purge by a row that refers to the memory (BrokenReference).
    """
    try:
        yield
    except (StaleVersion, AlreadyExists, BrokenReference) as error:
        if isinstance(error, AlreadyExists) and error.table != _REVISIONS:
            raise
        current = records.get(Memory, memory.organization_id, [memory.id], deleted=True).get(memory.id)
        if current is None:
            raise StaleVersion(
                f"memory {memory.id!r} has been purged", value=memory.id, remedy="nothing was written"
            ) from error
        if isinstance(error, BrokenReference):
            raise
        raise StaleVersion(
            f"memory {memory.id!r} has changed since it was read and is at version {current.version} now",
            value=memory.id,
            remedy="read it again and retry",
            current_version=current.version,
        ) from error
