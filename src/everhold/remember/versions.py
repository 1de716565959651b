"""Check expected versions, so that a caller does not overwrite the change of another caller."""

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
    """Raise StaleVersion if a memory is not at the version that the caller expects. None accepts any version."""
    if expected is None:
        return
    if memory.version != expected:
        raise StaleVersion(
            f"memory {memory.id!r} is at version {memory.version}, not {expected}",
            value=memory.id,
            remedy=Remedy("read it again and retry with {}", Argument("expected_version", memory.version)),
            current_version=memory.version,
        )


def make_version_check(memory: Memory, expected: int | None, now: datetime) -> Sequence[Operation]:
    """Return an operation that makes the commit fail if the memory has changed; none if no version is expected."""
    if expected is None:
        return ()
    # Hide and Delete cannot check a version, so a patch in the same commit does it.
    return (Patch(Memory, (memory.organization_id, memory.id), {"updated_at": now}, version=expected),)


@contextmanager
def report_current_version(records: Records, memory: Memory) -> Iterator[None]:
    """Convert the errors of a commit that lost against another change of the memory to StaleVersion.

    A store may detect the other change by its revision number (AlreadyExists) before it checks the version. It may
    detect a purge by a row that refers to the memory (BrokenReference).
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
