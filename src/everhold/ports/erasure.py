"""Count purges, so that maintenance removes the remains of purged rows from files.

One counter counts purges, another one counts the purges whose remains have been removed. So a purge that is committed
while files are being cleaned is not missed.
"""

from collections.abc import Callable

from everhold.model import Counter
from everhold.ports.records import Records
from everhold.schema.operations import Ensure, Increment, Op, Operation, Patch, Where

_PURGES, _CLEANED = "purges", "purges cleaned from files"


def note_purge() -> list[Operation]:
    """Return the operations that ask the next maintenance to clean files, for the commit of a purge."""
    return [Ensure(Counter(name=_PURGES)), Increment(Counter, (_PURGES,), {"value": 1})]


def count_unclean_purges(records: Records) -> int:
    """Return how many purges still have remains in files."""
    return _read(records, _PURGES) - _read(records, _CLEANED)


def maintain_files(records: Records, drop_indexes: Callable[[], None]) -> bool:
    """Run the store's maintenance; after a purge also drop index files and clean the store's own.

    Return whether nothing of purged rows is left in files.
    """
    purges = _read(records, _PURGES)  # read before the work: a purge during it must be cleaned the next time
    erased = purges > _read(records, _CLEANED)
    if erased:
        drop_indexes()
    is_clean = records.maintain(erased=erased)
    if is_clean and erased:
        records.commit([Ensure(Counter(name=_CLEANED)), Patch(Counter, (_CLEANED,), {"value": purges})])
    return is_clean or not erased


def _read(records: Records, name: str) -> int:
    rows = records.scan(Counter, None, [Where("name", Op.EQ, name)], limit=1)
    return rows[0].value if rows else 0
