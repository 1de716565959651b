"""Nearest vectors for stores without a vector index: one index per search space of a user or an organization."""

import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from everhold.ports.embedder import Vector
from everhold.ports.records import Records
from everhold.ports.search_space import SearchSpace

if TYPE_CHECKING:
    from everhold.adapters.usearch.index import SpaceIndex
    from everhold.adapters.usearch.rows import IndexSpace


class UsearchVectors:
    """Finds candidates with usearch: exactly up to `exact_up_to` chunks, with an HNSW graph above."""

    def __init__(self, records: Records, folder: Path, *, exact_up_to: int = 100_000) -> None:
        self._records = records
        self._folder = folder
        self._exact_up_to = exact_up_to
        self._indexes: dict[IndexSpace, SpaceIndex] = {}
        self._lock = threading.Lock()

    def find_by_vector(self, space: SearchSpace, vector: Vector, limit: int) -> list[str]:
        from everhold.adapters.usearch.rows import IndexSpace  # most scopes need no index

        user_groups = [None] if space.users is None else [(user,) for user in dict.fromkeys(space.users)]
        matches = [
            match
            for users in user_groups
            for match in self.index(IndexSpace(space._replace(users=users), len(vector))).find_nearest(vector, limit)
        ]
        best = sorted(matches, key=lambda match: (-match.score, match.owner_id))[:limit]
        return list(dict.fromkeys(match.owner_id for match in best))

    def index(self, index_space: "IndexSpace") -> "SpaceIndex":
        """Return the index of one space. It is built at its first search."""
        # Imported here, because most scopes are small enough for a search in memory and need no index.
        from everhold.adapters.usearch.files import IndexFiles
        from everhold.adapters.usearch.index import SpaceIndex

        with self._lock:
            index = self._indexes.get(index_space)
            if index is None:
                files = IndexFiles(self._folder, index_space)
                index = self._indexes[index_space] = SpaceIndex(self._records, index_space, files, self._exact_up_to)
            return index

    def find_problems(self) -> list[str]:
        """Return why indexes could not be rebuilt. The current ones keep answering."""
        errors = [index.failure for index in list(self._indexes.values()) if index.failure is not None]
        return [f"the vector index could not be built: {error!r}; recall uses the previous one" for error in errors]

    def settle(self) -> None:
        """Wait until no work is running in the background."""
        for index in list(self._indexes.values()):
            index.settle()

    def drop_files(self) -> None:
        """Delete every index file. An index is built again from the records at the next query."""
        with self._lock:
            indexes, self._indexes = self._indexes, {}
        for index in indexes.values():
            index.close()
        for path in self._folder.glob("*") if self._folder.is_dir() else ():
            with suppress(OSError):  # another process may have deleted it
                path.unlink()

    def close(self) -> None:
        """Stop the work in the background. Unfinished work starts again when the store is next opened."""
        for index in list(self._indexes.values()):
            index.close()
