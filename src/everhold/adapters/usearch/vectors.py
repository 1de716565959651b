"""Nearest vectors for stores that have none: one index file per image, or whole organization, and model."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from everhold.adapters.usearch.files import IndexFiles
from everhold.adapters.usearch.index import PlaceIndex
from everhold.adapters.usearch.rows import Place
from everhold.ports.embedder import Vector
from everhold.ports.records import Records


class UsearchVectors:
    """Proposes by usearch: exactly up to a number of chunks, by an HNSW graph above it."""

    def __init__(self, records: Records, folder: Path, *, exact_up_to: int = 100_000) -> None:
        self._records = records
        self._folder = folder
        self._exact_up_to = exact_up_to
        self._indexes: dict[Place, PlaceIndex] = {}
        self._lock = threading.Lock()

    def by_vector(
        self, organization_id: str, images: Sequence[str] | None, model: str, vector: Vector, limit: int
    ) -> list[str]:
        places = [None] if images is None else list(dict.fromkeys(images))
        found = [
            one
            for image in places
            for one in self.index(Place(organization_id, image, model, len(vector))).nearest(vector, limit)
        ]
        best = sorted(found, key=lambda one: (-one.score, one.owner_id))[:limit]
        return list(dict.fromkeys(one.owner_id for one in best))

    def index(self, place: Place) -> PlaceIndex:
        """The index of one place, built when first asked something."""
        with self._lock:
            held = self._indexes.get(place)
            if held is None:
                files = IndexFiles(self._folder, place)
                held = self._indexes[place] = PlaceIndex(self._records, place, files, self._exact_up_to)
            return held

    def problems(self) -> list[str]:
        """Return why indexes could not be rebuilt. The current ones keep answering."""
        failed = [index.failure for index in list(self._indexes.values()) if index.failure is not None]
        return [f"the vector index could not be built: {error!r}; recall uses the previous one" for error in failed]

    def settle(self) -> None:
        """Waits until nothing goes on in the background."""
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
        """Ends what goes on in the background. What was not finished begins again when next opened."""
        for index in list(self._indexes.values()):
            index.close()
