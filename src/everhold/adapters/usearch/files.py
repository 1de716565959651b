"""Index files: written whole under a name of their own, made valid by a note that is replaced at once.

The note (JSON) names the two data files of its generation, with their sizes and digests, and says how far the feed had
been followed. Whatever does not agree with it in every byte is not read: usearch would follow a damaged graph
anywhere. Everything here can be deleted at any time and is rebuilt from the records.
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
_LEFT_OVER_SECONDS = 3600


@dataclass(frozen=True)
class Position:
    """How far the feed has been followed, and whose line stood there: another store's feed has another."""

    sequence: int
    entity_id: str | None


@dataclass(frozen=True)
class Note:
    """What is said beside the data files of one generation."""

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
    """The files of one place."""

    def __init__(self, folder: Path, index_space: IndexSpace) -> None:
        self._folder = folder
        self._space = index_space
        self._name = index_space.file_name

    @property
    def note_path(self) -> Path:
        return self._folder / f"{self._name}.json"

    def data_paths(self, generation: str) -> tuple[Path, Path]:
        """Return the paths of the vectors and of their owners."""
        return self._folder / f"{self._name}.{generation}.usearch", self._folder / f"{self._name}.{generation}.owners"

    def open(self) -> tuple[Base, Position] | None:
        """Map the index that was saved last; None if there is none or it is damaged."""
        note = self._note()
        if note is None:
            return None
        paths = self.data_paths(note.generation)
        try:
            whole = [path.stat().st_size for path in paths] == note.sizes
            if not whole or [_digest(path) for path in paths] != note.digests:
                return None
            return self._map_files(note), Position(note.sequence, note.entity_id)
        except (OSError, RuntimeError):
            return None

    def _map_files(self, note: Note) -> Base:
        vectors, owners = self.data_paths(note.generation)
        shape = EXACT if note.exact else GRAPH
        index = make_empty_index(shape, note.dimensions)
        index.view(vectors)
        index.expansion_search = shape.expansion_search
        return Base(shape, index, Owners.map_file(owners), note.generation)

    def load_for_change(self, base: Base) -> Any:
        """Load a saved index into memory, where it may be changed; None if its files are gone."""
        if base.generation is None:
            return None
        index = make_empty_index(base.shape, self._space.dimensions)
        try:
            index.load(self.data_paths(base.generation)[0])
        except (OSError, RuntimeError):
            return None
        index.expansion_add, index.expansion_search = base.shape.expansion_add, base.shape.expansion_search
        return index

    def save(self, base: Base, position: Position) -> Base:
        """Save an index and return it mapped from its files. If it cannot be saved, return it as it is."""
        before = self._note()
        generation = clock.make_id("idx")
        paths = self.data_paths(generation)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _create(paths[0])  # usearch would make a file that others can read
            base.index.save(paths[0])
            write_private(paths[1], bytes(base.owners.content), overwrite=False)
            note = self._describe(base, position, generation)
            self._replace_note(note)
            self._sweep({before.generation} if before else set(), generation)
            return self._map_files(note)
        except (OSError, RuntimeError, InvalidInput):
            for path in paths:
                with suppress(OSError):
                    path.unlink()
            return base

    def _describe(self, base: Base, position: Position, generation: str) -> Note:
        paths = self.data_paths(generation)
        return Note(
            generation=generation,
            model=self._space.space.model,
            dimensions=self._space.dimensions,
            count=base.size,
            exact=base.shape.exact,
            sequence=position.sequence,
            entity_id=position.entity_id,
            sizes=[path.stat().st_size for path in paths],
            digests=[_digest(path) for path in paths],
        )

    def _note(self) -> Note | None:
        try:
            note = Note(**json.loads(self.note_path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        mine = (note.format, note.model, note.dimensions) == (FORMAT, self._space.space.model, self._space.dimensions)
        return note if mine else None

    def _replace_note(self, note: Note) -> None:
        write_private(self.note_path, json.dumps(asdict(note)).encode(), overwrite=True)

    def _sweep(self, replaced: set[str], generation: str) -> None:
        """Remove the previous generation, and files that killed writers have left."""
        for path in self._folder.glob(f"{self._name}.*.*"):
            named = path.name.split(".")[1]
            with suppress(OSError):  # another process may be quicker
                age = clock.now().timestamp() - path.stat().st_mtime
                if named != generation and (named in replaced or age > _LEFT_OVER_SECONDS):
                    path.unlink()


def _create(path: Path) -> None:
    """Create an empty file that only its owner can read."""
    write_private(path, b"", overwrite=False)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
