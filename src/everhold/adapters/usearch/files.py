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
from everhold.adapters.usearch.base import EXACT, GRAPH, Base, Owners, empty_index
from everhold.adapters.usearch.rows import Place
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

    def __init__(self, folder: Path, place: Place) -> None:
        self._folder = folder
        self._place = place
        self._name = place.file_name

    @property
    def note_path(self) -> Path:
        return self._folder / f"{self._name}.json"

    def data_paths(self, generation: str) -> tuple[Path, Path]:
        """Where the vectors and their owners are."""
        return self._folder / f"{self._name}.{generation}.usearch", self._folder / f"{self._name}.{generation}.owners"

    def open(self) -> tuple[Base, Position] | None:
        """The index as it was last saved, mapped; None if there is none or it is not what was saved."""
        note = self._note()
        if note is None:
            return None
        paths = self.data_paths(note.generation)
        try:
            whole = [path.stat().st_size for path in paths] == note.sizes
            if not whole or [_digest(path) for path in paths] != note.digests:
                return None
            return self._mapped(note), Position(note.sequence, note.entity_id)
        except (OSError, RuntimeError):
            return None

    def _mapped(self, note: Note) -> Base:
        vectors, owners = self.data_paths(note.generation)
        shape = EXACT if note.exact else GRAPH
        index = empty_index(shape, note.dimensions)
        index.view(vectors)
        index.expansion_search = shape.expansion_search
        return Base(shape, index, Owners.mapped(owners), note.generation)

    def loaded(self, base: Base) -> Any:
        """A saved index in memory, where it may be changed; None if its files have gone."""
        if base.generation is None:
            return None
        index = empty_index(base.shape, self._place.dimensions)
        try:
            index.load(self.data_paths(base.generation)[0])
        except (OSError, RuntimeError):
            return None
        index.expansion_add, index.expansion_search = base.shape.expansion_add, base.shape.expansion_search
        return index

    def save(self, base: Base, position: Position) -> Base:
        """The same index, mapped from the files it is now saved in; as given if it cannot be saved."""
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
            return self._mapped(note)
        except (OSError, RuntimeError, InvalidInput):
            for path in paths:
                with suppress(OSError):
                    path.unlink()
            return base

    def _describe(self, base: Base, position: Position, generation: str) -> Note:
        paths = self.data_paths(generation)
        return Note(
            generation=generation,
            model=self._place.space.model,
            dimensions=self._place.dimensions,
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
        mine = (note.format, note.model, note.dimensions) == (FORMAT, self._place.space.model, self._place.dimensions)
        return note if mine else None

    def _replace_note(self, note: Note) -> None:
        write_private(self.note_path, json.dumps(asdict(note)).encode(), overwrite=True)

    def _sweep(self, replaced: set[str], generation: str) -> None:
        """Removes the generation before, and what writers that were killed have left."""
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
