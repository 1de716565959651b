"""Fill a collection from the records, and compare it with them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from everhold.adapters.chroma import rows
from everhold.adapters.chroma.connection import ChromaProcess
from everhold.adapters.chroma.failures import Damaged
from everhold.adapters.chroma.rows import CollectionSpace
from everhold.adapters.chroma.search import ChromaQuery, Match, parse_organization_id, parse_owner_id
from everhold.batches import split_into_batches
from everhold.model.announcement import affects_descendants
from everhold.model.change_feed import Outbox
from everhold.ports.embedder import Vector
from everhold.ports.records import Records

_SAMPLES = 16  # entries that a check searches by their own vectors
# HNSW is approximate, so a search need not find every entry.
_MIN_FOUND_SHARE = 0.9
# The maximum cosine distance between a vector and its copy in Chroma.
_SAME_DISTANCE = 0.01
# In a larger collection, unreachable entries are not looked for, because that takes a second and other searches wait.
_MAX_SEARCHED = 100_000


class Content:
    """The content of one space's collections. `check_lease` is called before each batch and may raise to stop."""

    def __init__(
        self,
        records: Records,
        chroma: ChromaProcess,
        space: CollectionSpace,
        batch: int,
        check_lease: Callable[[], None],
    ) -> None:
        self._records = records
        self._chroma = chroma
        self._space = space
        self._batch = batch
        self._check_lease = check_lease

    def fill(self, name: str) -> None:
        """Add all missing entries."""
        for organization_id in rows.list_organizations(self._records):
            self._write(name, organization_id, rows.list_owners(self._records, self._space, organization_id))

    def _write(self, name: str, organization_id: str, owner_ids: list[str]) -> None:
        for batch in split_into_batches(owner_ids, self._batch):
            self._check_lease()
            entries = rows.read_entries(self._records, self._space, organization_id, batch)
            for start in range(0, len(entries), self._batch):
                self._chroma.ask("write", name, entries[start : start + self._batch])

    def apply(self, name: str, lines: Iterable[Outbox]) -> None:
        """Write the current state of every owner that these lines of the change feed name."""
        changed: dict[str, dict[str, None]] = {}
        organizations_to_compare: dict[str, None] = {}
        for line in lines:
            if line.entity == self._space.owner.table:
                changed.setdefault(line.organization_id, {})[line.entity_id] = None
            elif affects_descendants(line):
                organizations_to_compare[line.organization_id] = None
        for organization_id in organizations_to_compare:
            self.compare(name, organization_id)
        for organization_id, owner_ids in changed.items():
            self.rewrite(name, organization_id, list(owner_ids))

    def rewrite(self, name: str, organization_id: str, owner_ids: Sequence[str]) -> None:
        """Replace the entries of these owners by their current chunks."""
        for batch in split_into_batches(list(owner_ids), self._batch):
            self._check_lease()
            entries = rows.read_entries(self._records, self._space, organization_id, batch)
            self._chroma.ask("replace", name, organization_id, batch, entries)

    def rewrite_unreachable(self, name: str) -> None:
        """Write every entry again that no search finds. Raise Damaged if they are many.

        When entries are deleted and added, HNSW may lose the links to an entry. Writing it again links it again.
        """
        count = self._chroma.ask("count", name)
        if count > _MAX_SEARCHED:
            return
        entry_ids = self._chroma.ask("find_unreachable", name, self._space.dimensions)
        if len(entry_ids) > (1 - _MIN_FOUND_SHARE) * count:
            raise Damaged(f"Chroma does not find {len(entry_ids)} of {count} chunks of {name}")
        owners: dict[str, set[str]] = {}
        for entry_id in entry_ids:
            owners.setdefault(parse_organization_id(entry_id), set()).add(parse_owner_id(entry_id))
        for organization_id, owner_ids in owners.items():
            self.rewrite(name, organization_id, sorted(owner_ids))

    def compare_all(self, name: str) -> None:
        for organization_id in rows.list_organizations(self._records):
            self.compare(name, organization_id)

    def compare(self, name: str, organization_id: str) -> None:
        """Remove entries of an organization that the records do not have, and add the missing ones."""
        # Read Chroma first: a chunk that is added between the two reads must not be removed.
        stored = set(self._chroma.ask("list_ids", name, organization_id))
        expected = rows.list_chunk_ids(self._records, self._space, organization_id)
        for batch in split_into_batches(sorted(stored - expected), self._batch):
            self._check_lease()
            self._chroma.ask("remove", name, batch)
        self._write(name, organization_id, sorted({parse_owner_id(chunk) for chunk in expected - stored}))

    def verify(self, name: str, catch_up: Callable[[], object], compare: Callable[[], object]) -> None:
        """Raise Damaged unless the collection has as many chunks as the records, and finds a sample of them.

        `catch_up` applies the new lines of the feed. If a difference remains, `compare` compares every chunk. If
        anything is committed during the check, a difference does not prove damage, and the collection is accepted.
        """
        difference = None
        for bring_up_to_date in (catch_up, compare):
            has_moved = self._watch_feed()
            bring_up_to_date()
            difference = self._find_difference(name)
            if difference is None or has_moved():
                return
        raise Damaged(difference)

    def _watch_feed(self) -> Callable[[], bool]:
        """Return a function that returns whether anything has been committed since this call.

        It compares lines, not positions: in PostgreSQL the position does not move while an older transaction runs.
        """
        head = self._records.head()
        lines_before = [line.sequence for line in self._records.feed(head).lines]

        def has_moved() -> bool:
            lines_now = self._records.feed(head, limit=len(lines_before) + 1).lines
            return [line.sequence for line in lines_now] != lines_before

        return has_moved

    def _find_difference(self, name: str) -> str | None:
        """Return how a collection differs from the records; None if it does not."""
        stored, expected = self._chroma.ask("count", name), rows.count_all(self._records, self._space)
        if stored != expected:
            return f"Chroma has {stored} chunks in {name}, but the store has {expected}"
        samples = rows.read_sample(self._records, self._space, _SAMPLES)
        found_count = 0
        for organization_id, entry in samples:
            where = {"organization_id": organization_id}
            nearest: list[Match] = self._chroma.ask("nearest", name, entry.vector, 1, where)
            found_count += bool(nearest) and nearest[0].distance <= _SAME_DISTANCE
        if found_count < _MIN_FOUND_SHARE * len(samples):
            return f"Chroma finds {found_count} of {len(samples)} chunks of {name} by their own vectors"
        return None

    def check_matches(
        self, query: ChromaQuery, limit: int, matches: Sequence[Match], confirmed_vectors: Mapping[str, Vector]
    ) -> list[str]:
        """Return the owners of chunks that a result lacks, although it should have every chunk of the scope.

        `confirmed_vectors` are the vectors that the records have for the matches, by chunk id.

        Raise Damaged if a result cannot be right: wrong distances, or too few matches. A server that was restarted with
        a damaged index does not report an error.
        """
        length = float(np.linalg.norm(query.vector)) or 1.0
        for match in matches:
            vector = confirmed_vectors.get(match.id)
            if vector is not None:
                similarity = float(vector @ query.vector) / (length * (float(np.linalg.norm(vector)) or 1.0))
                if not abs(1.0 - similarity - match.distance) <= _SAME_DISTANCE:
                    raise Damaged("Chroma has other vectors than the store")
        if len(matches) >= limit or query.where or query.where_document:
            return []
        expected = rows.count_entries(self._records, self._space, query.organization_id, query.users)
        if len(matches) < _MIN_FOUND_SHARE * min(expected.total(), limit):
            raise Damaged(f"Chroma finds {len(matches)} chunks, but the store has {expected.total()}")
        return list(expected - Counter(map(parse_owner_id, confirmed_vectors))) if expected.total() <= limit else []
