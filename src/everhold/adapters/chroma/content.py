"""Writing a collection from the records, and comparing it with them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from everhold.adapters.chroma import rows
from everhold.adapters.chroma.connection import ChromaProcess
from everhold.adapters.chroma.failures import Damaged
from everhold.adapters.chroma.rows import CollectionSpace
from everhold.adapters.chroma.search import ChromaQuery, Match, parse_owner_id
from everhold.batches import split_into_batches
from everhold.model.announcement import affects_descendants
from everhold.model.housekeeping import Outbox
from everhold.ports.embedder import Vector
from everhold.ports.records import Records

_SAMPLES = 16
_FOUND_SHARE = 0.9
# The most cosine distance between a vector and itself as Chroma has it.
_SAME = 0.01


class Content:
    """The content of one space's collections. `between` is called between two batches and may raise to stop."""

    def __init__(
        self, records: Records, chroma: ChromaProcess, place: CollectionSpace, batch: int, between: Callable[[], None]
    ) -> None:
        self._records, self._chroma, self._place, self._batch, self._between = records, chroma, place, batch, between

    def fill(self, name: str) -> None:
        """Add everything that is missing."""
        for organization_id in rows.list_organizations(self._records):
            self._write(name, organization_id, rows.list_owners(self._records, self._place, organization_id))

    def _write(self, name: str, organization_id: str, owner_ids: list[str]) -> None:
        for batch in split_into_batches(owner_ids, self._batch):
            self._between()
            entries = rows.read_entries(self._records, self._place, organization_id, batch)
            for start in range(0, len(entries), self._batch):
                self._chroma.ask("write", name, entries[start : start + self._batch])

    def apply(self, name: str, lines: Iterable[Outbox]) -> None:
        """Bring everything that these lines of the change feed name up to date with the records."""
        changed: dict[str, dict[str, None]] = {}
        above: dict[str, None] = {}
        for line in lines:
            if line.entity == self._place.owner.table:
                changed.setdefault(line.organization_id, {})[line.entity_id] = None
            elif affects_descendants(line):
                above[line.organization_id] = None
        for organization_id in above:
            self.compare(name, organization_id)
        for organization_id, owner_ids in changed.items():
            for batch in split_into_batches(list(owner_ids), self._batch):
                self._between()
                entries = rows.read_entries(self._records, self._place, organization_id, batch)
                self._chroma.ask("replace", name, organization_id, batch, entries)

    def compare_all(self, name: str) -> None:
        for organization_id in rows.list_organizations(self._records):
            self.compare(name, organization_id)

    def compare(self, name: str, organization_id: str) -> None:
        """Remove entries of an organization that the records do not have, and add the missing ones."""
        held = set(self._chroma.ask("ids", name, organization_id))  # first: what is added later is not left over
        wanted = rows.list_chunk_ids(self._records, self._place, organization_id)
        for batch in split_into_batches(sorted(held - wanted), self._batch):
            self._between()
            self._chroma.ask("remove", name, batch)
        self._write(name, organization_id, sorted({parse_owner_id(one) for one in wanted - held}))

    def prove(self, name: str, catch_up: Callable[[], object], compare: Callable[[], object]) -> None:
        """Damaged unless the collection holds as much as the records do and finds what it must.

        `catch_up` tells it what it has not been told; if it is wrong after that, `compare` compares it with the
        records. If anything is committed from before either until the end, nothing can be said.
        """
        wrong = None
        for bring_up in (catch_up, compare):
            has_moved = self._watch_feed()
            bring_up()
            wrong = self._wrong(name)
            if wrong is None or has_moved():
                return
        raise Damaged(wrong)

    def _watch_feed(self) -> Callable[[], bool]:
        """Return a function that says whether anything has been committed since this call.

        Positions do not tell: that of PostgreSQL stands still while an older transaction runs. Lines do.
        """
        head = self._records.head()
        seen = [line.sequence for line in self._records.feed(head).lines]

        def has_moved() -> bool:
            return [line.sequence for line in self._records.feed(head, limit=len(seen) + 1).lines] != seen

        return has_moved

    def _wrong(self, name: str) -> str | None:
        """What a collection lacks or has too much, if there is anything."""
        held, wanted = self._chroma.ask("count", name), rows.count_all(self._records, self._place)
        if held != wanted:
            return f"Chroma holds {held} chunks in {name} where there are {wanted}"
        samples = rows.read_sample(self._records, self._place, _SAMPLES)
        found = 0
        for organization_id, entry in samples:
            where = {"organization_id": organization_id}
            nearest: list[Match] = self._chroma.ask("nearest", name, entry.vector, 1, where)
            found += bool(nearest) and nearest[0].distance <= _SAME
        if found < _FOUND_SHARE * len(samples):
            return f"Chroma finds {found} of {len(samples)} chunks of {name} by their own vectors"
        return None

    def judge(self, query: ChromaQuery, wanted: int, found: Sequence[Match], real: Mapping[str, Vector]) -> None:
        """Damaged if an answer cannot be right: distances that are not those of our vectors, or too few.

        A server that was started again on a damaged index says nothing of it.
        """
        length = float(np.linalg.norm(query.vector)) or 1.0
        for one in found:
            vector = real.get(one.id)
            if vector is not None:
                similarity = float(vector @ query.vector) / (length * (float(np.linalg.norm(vector)) or 1.0))
                if not abs(1.0 - similarity - one.distance) <= _SAME:
                    raise Damaged("Chroma has other vectors than the records")
        if len(found) < wanted and not query.where and not query.where_document:
            there = rows.count_entries(self._records, self._place, query.organization_id, query.users)
            if len(found) < _FOUND_SHARE * min(there, wanted):
                raise Damaged(f"Chroma finds {len(found)} chunks where there are {there}")
