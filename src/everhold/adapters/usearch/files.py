"""The files of a vector index: two data files and a manifest.

Each save writes data files with new names (a generation) and then replaces the manifest, a JSON file, atomically. The
manifest has the sizes and digests of the data files and the position in the change feed. Data files that do not match
their digests are not read: usearch checks nothing, and a damaged graph makes it read arbitrary memory. All files can
be deleted at any time; the index is then built again from the records.
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from everhold import clock
from everhold.adapters.usearch.base import EXACT, GRAPH, Base, Owners, make_empty_index
from everhold.adapters.usearch.rows import IndexSpace
from everhold.errors import InvalidInput
from everhold.files import write_private

FORMAT = 1
# A process that was killed may leave data files that no manifest names. They are deleted at this age, because younger
# ones may belong to a process that is saving.
_ORPHAN_SECONDS = 3600


@dataclass(frozen=True)
class Position:
    """The position of an index in the change feed: the number of the last line it has read, and the entity of that
    line.

    The entity identifies the store: in the feed of another store, the line with this number has another entity.
    """

    sequence: int
    entity_id: str | None


@dataclass(frozen=True)
class IndexManifest:
    """The data files of one generation. `exact` says which kind of search the index is built for."""

    generation: str
    model: str
    dimensions: int
    count: int
    exact: bool
    sequence: int
    entity_id: str | None
    sizes: list[int]
    digests: list[str]
    format: int = FORMAT


class IndexFiles:
    """The files of one index space in a folder."""

    def __init__(self, folder: Path, index_space: IndexSpace) -> None:
        self._folder = folder
        self._space = index_space
        self._name = index_space.file_name

    @property
    def manifest_path(self) -> Path:
        return self._folder / f"{self._name}.json"

    def make_data_paths(self, generation: str) -> tuple[Path, Path]:
        """Return the paths of the file with the vectors and of the file with their owners."""
        return self._folder / f"{self._name}.{generation}.usearch", self._folder / f"{self._name}.{generation}.owners"

    def open(self) -> tuple[Base, Position] | None:
        """Map the index that was saved last, and return it with its position; None if it is missing or damaged."""
        manifest = self._read_manifest()
        if manifest is None:
            return None
        paths = self.make_data_paths(manifest.generation)
        try:
            # Sizes are compared first, because digests of large files take long.
            if [path.stat().st_size for path in paths] != manifest.sizes:
                return None
            if [_compute_digest(path) for path in paths] != manifest.digests:
                return None
            return self._map_files(manifest), Position(manifest.sequence, manifest.entity_id)
        except (OSError, RuntimeError):
            return None

    def _map_files(self, manifest: IndexManifest) -> Base:
        vectors_path, owners_path = self.make_data_paths(manifest.generation)
        shape = EXACT if manifest.exact else GRAPH
        index = make_empty_index(shape, manifest.dimensions)
        index.view(vectors_path)
        index.expansion_search = shape.expansion_search
        return Base(shape, index, Owners.map_file(owners_path), manifest.generation)

    def load_for_change(self, base: Base) -> Any:
        """Load a saved index into memory, because a mapped one cannot be changed; None if its files are gone."""
        if base.generation is None:
            return None
        index = make_empty_index(base.shape, self._space.dimensions)
        try:
            index.load(self.make_data_paths(base.generation)[0])
        except (OSError, RuntimeError):
            return None
        index.expansion_add, index.expansion_search = base.shape.expansion_add, base.shape.expansion_search
        return index

    def save(self, base: Base, position: Position) -> Base:
        """Save an index and return it mapped from its files.

        If it cannot be saved, return it unchanged: it is derived data and still answers from memory.
        """
        previous = self._read_manifest()
        generation = clock.make_id("idx")
        vectors_path, owners_path = self.make_data_paths(generation)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _create_private(vectors_path)  # otherwise usearch creates a file that other users can read
            base.index.save(vectors_path)
            write_private(owners_path, bytes(base.owners.content), overwrite=False)
            manifest = self._make_manifest(base, position, generation)
            # From here on, readers open the new generation.
            self._replace_manifest(manifest)
            self._delete_old_files({previous.generation} if previous else set(), generation)
            return self._map_files(manifest)
        except (OSError, RuntimeError, InvalidInput):
            for path in (vectors_path, owners_path):
                with suppress(OSError):
                    path.unlink()
            return base

    def _make_manifest(self, base: Base, position: Position, generation: str) -> IndexManifest:
        paths = self.make_data_paths(generation)
        return IndexManifest(
            generation=generation,
            model=self._space.space.model,
            dimensions=self._space.dimensions,
            count=base.size,
            exact=base.shape.is_exact,
            sequence=position.sequence,
            entity_id=position.entity_id,
            sizes=[path.stat().st_size for path in paths],
            digests=[_compute_digest(path) for path in paths],
        )

    def _read_manifest(self) -> IndexManifest | None:
        """Return the manifest; None if it is missing, damaged, or of another format or model."""
        try:
            manifest = IndexManifest(**json.loads(self.manifest_path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        expected = (FORMAT, self._space.space.model, self._space.dimensions)
        return manifest if (manifest.format, manifest.model, manifest.dimensions) == expected else None

    def _replace_manifest(self, manifest: IndexManifest) -> None:
        write_private(self.manifest_path, json.dumps(asdict(manifest)).encode(), overwrite=True)

    def _delete_old_files(self, replaced_generations: set[str], current_generation: str) -> None:
        """Delete the data files of replaced generations, and old files that killed processes left behind."""
        for path in self._folder.glob(f"{self._name}.*.*"):
            generation = path.name.split(".")[1]
            with suppress(OSError):  # another process may have deleted the file already
                age = clock.now().timestamp() - path.stat().st_mtime
                if generation != current_generation and (generation in replaced_generations or age > _ORPHAN_SECONDS):
                    path.unlink()


def _create_private(path: Path) -> None:
    """Create an empty file that only its owner can read."""
    write_private(path, b"", overwrite=False)


def _compute_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
