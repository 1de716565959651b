"""An in-memory index of one search space: vectors, terms, and the columns that filters need.

An image is derived from chunks and their owners, and can be dropped at any time. It has one row per chunk. Rows are
only appended: replacing an owner marks its old rows as dead, and dead rows are removed when there are many.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold import clock
from everhold.model.memory import REPEATABLE_KINDS
from everhold.model.searchable import OWNER_COLUMNS
from everhold.recall.postings import Postings
from everhold.recall.question import map_speaker_names
from everhold.recall.text_features import find_features, find_row_features
from everhold.recall.text_reading import TextReading
from everhold.recall.threads import Threads
from everhold.text.terms import extract_terms

NEVER = np.iinfo(np.int64).max
ALWAYS = np.iinfo(np.int64).min
CHUNK_COLUMNS = ("owner_id", "terms", "vector", "known_from", "known_to")
CODED = ("kind", "reach", "project_id", "user_id", "agent_id", "session_id", "speaker")
_TIMES: Mapping[str, int] = {
    "created_at": ALWAYS, "known_from": ALWAYS, "known_to": NEVER, "expires_at": NEVER, "valid_from": ALWAYS,
    "valid_to": NEVER, "superseded_at": NEVER, "occurred_at": ALWAYS,
}  # fmt: skip
_BOUNDS = ("known_to", "expires_at", "valid_from", "valid_to", "superseded_at")
_SQUEEZE_SHARE = 0.25
_SQUEEZE_LEAST = 1024
_SPARE = 1.125

Mask = NDArray[np.bool_]


class ImageEntry(NamedTuple):
    """One chunk and the record that owns it, as the values of CHUNK_COLUMNS and OWNER_COLUMNS."""

    chunk: tuple[Any, ...]
    owner: tuple[Any, ...]


class Image:
    """The searchable rows of one kind: one user's, those without a user, or a whole organization's."""

    def __init__(self, dimensions: int, kind: str = "memory") -> None:
        self.dimensions = dimensions
        self.kind = kind
        self.size = 0
        self.alive_rows = 0
        self.owners: list[str] = []
        self.postings = Postings()
        self.successors: dict[str, str] = {}
        self.links: dict[str, frozenset[str]] = {}
        self.sources: dict[str, str] = {}
        self._aliases: dict[str, tuple[frozenset[str], ...]] = {}
        # What the texts of judged rows state (text_reading.py), by row.
        self.readings: dict[int, TextReading] = {}
        self._dated = False
        self._cached: dict[str, tuple[Any, Any]] = {}
        self._codes: dict[str, dict[Any, int]] = {name: {None: 0} for name in CODED}
        self._arrays: dict[str, NDArray[Any]] = {
            "vector": np.zeros((0, dimensions), np.float32),
            "owner": np.zeros(0, np.int64),
            "alive": np.zeros(0, np.bool_),
            "length": np.zeros(0, np.int32),
            "importance": np.zeros(0, np.float32),
            "dated": np.zeros(0, np.bool_),
            "blank": np.zeros(0, np.bool_),
            "when": np.zeros(0, np.int64),
            "features": np.zeros(0, np.uint8),
            **{name: np.zeros(0, np.int32) for name in CODED},
            **{name: np.zeros(0, np.int64) for name in _TIMES},
        }

    def column(self, name: str) -> NDArray[Any]:
        return self._arrays[name][: self.size]

    @property
    def vectors(self) -> NDArray[np.float32]:
        return self._arrays["vector"][: self.size]

    def compute_once(self, name: str, make: Callable[["Image"], Any], inputs: Any = None) -> Any:
        """Return what `make` computes from the image. The result is cached until `inputs` or the rows change."""
        known = self._cached.get(name)
        if known is None or known[0] != inputs:
            known = self._cached[name] = (inputs, make(self))
        return known[1]

    def compute_damping(self, base: float, per_term: float) -> NDArray[np.float32]:
        """Return the length normalisation of BM25 for each row."""

        def make(image: Image) -> NDArray[np.float32]:
            return image.column("length") * np.float32(per_term) + np.float32(base)

        damping: NDArray[np.float32] = self.compute_once("damping", make, (base, per_term))
        return damping

    @property
    def threads(self) -> Threads | None:
        """The turns of conversations, if there are any."""
        threads: Threads | None = self.compute_once("threads", _find_threads)
        return threads

    @property
    def has_blanks(self) -> bool:
        """Whether some rows have no vector."""
        has_blanks: bool = self.compute_once("has blanks", lambda image: bool(image.column("blank").any()))
        return has_blanks

    @property
    def speakers(self) -> dict[str, str]:
        """The full names of speakers by each name they are known by."""
        if len(self._codes["speaker"]) == 1:
            return {}
        names = [name for name in self._codes["speaker"] if name is not None]
        speakers: dict[str, str] = self.compute_once("speakers", lambda _: map_speaker_names(names))
        return speakers

    @property
    def aliases(self) -> list[tuple[frozenset[str], int]]:
        """The terms of each alias, with a row of its memory."""
        if not self._aliases:
            return []
        aliases: list[tuple[frozenset[str], int]] = self.compute_once("aliases", _list_aliases)
        return aliases

    @property
    def plain(self) -> bool:
        """Whether every row is alive and no row has a limited time of validity, so that no mask is needed."""
        return self.alive_rows == self.size and not self._dated

    def code(self, name: str, value: Any) -> int:
        """Return the code of a value in a coded column; -1 if no row has the value."""
        return self._codes[name].get(value, -1)

    @property
    def size_in_bytes(self) -> int:
        """The approximate memory use."""
        return sum(array.nbytes for array in self._arrays.values()) + self.postings.size_in_bytes + 95 * self.size

    def replace(self, owner_ids: Iterable[str], entries: Sequence[ImageEntry]) -> None:
        """Remove these owners and add these entries."""
        self.kill(owner_ids)
        self.extend(entries)
        dead = self.size - self.alive_rows
        if dead > _SQUEEZE_LEAST and dead > _SQUEEZE_SHARE * self.size:
            self._squeeze()

    def kill(self, owner_ids: Iterable[str]) -> None:
        alive, numbers = self.column("alive"), self.column("owner")
        self._cached.clear()
        for owner_id in owner_ids:
            for row in np.flatnonzero(numbers == hash(owner_id)):
                if alive[row] and self.owners[row] == owner_id:
                    alive[row] = False
                    self.readings.pop(int(row), None)
                    self.alive_rows -= 1

    def link(self, owner_ids: Iterable[str], related: Mapping[str, Collection[str]]) -> None:
        """Set the related memories of each of these memories. A memory that is not in `related` has none."""
        self._cached.pop("links", None)
        for owner_id in owner_ids:
            _set_or_drop(self.links, owner_id, frozenset(related.get(owner_id, ())) or None)

    def load(self, blocks: Iterable[Sequence[ImageEntry]], expected: int) -> None:
        """Add many entries, one block at a time."""
        self._reserve(expected)
        start = self.size
        lengths = self.postings.load(self._append_rows(block) for block in blocks)
        self.column("length")[start:] = lengths
        self.column("features")[:] = find_row_features(self.postings, self.size)

    def extend(self, entries: Sequence[ImageEntry]) -> None:
        start = self.size
        documents = self._append_rows(entries)
        self.column("length")[start:] = self.postings.extend(documents)
        self.column("features")[start:] = [find_features(document) for document in documents]

    def _append_rows(self, entries: Sequence[ImageEntry]) -> Sequence[str]:
        """Add a row for each entry, and return the terms of each entry, which are not added to the postings yet."""
        if not entries:
            return ()
        self._cached.clear()
        start, self.size = self.size, self.size + len(entries)
        self._reserve(self.size)
        self.alive_rows += len(entries)
        part = slice(start, self.size)
        chunks = dict(zip(CHUNK_COLUMNS, zip(*(entry.chunk for entry in entries), strict=True), strict=True))
        owners = dict(zip(OWNER_COLUMNS, zip(*(entry.owner for entry in entries), strict=True), strict=True))
        arrays = self._arrays
        arrays["vector"][part] = self._unpack_vectors(chunks["vector"])
        arrays["blank"][part] = [vector is None for vector in chunks["vector"]]
        self.owners += owners["id"]
        arrays["owner"][part] = [hash(owner_id) for owner_id in owners["id"]]
        arrays["alive"][part] = True
        arrays["importance"][part] = np.multiply(owners["importance"], owners["strength"])
        for name in CODED:
            arrays[name][part] = _encode_values(owners[name], self._codes[name])
        for name, absent in _TIMES.items():
            values = (chunks if name in chunks else owners)[name]
            arrays[name][part] = _convert_times(values, absent)
        arrays["when"][part] = np.where(
            arrays["occurred_at"][part] == ALWAYS, arrays["created_at"][part], arrays["occurred_at"][part]
        )
        self._note_names(owners)
        arrays["dated"][part] = np.logical_or.reduce([arrays[name][part] != _TIMES[name] for name in _BOUNDS])
        self._dated = self._dated or bool(arrays["dated"][part].any())
        return chunks["terms"]

    def _note_names(self, owners: Mapping[str, Sequence[Any]]) -> None:
        """Keep the values that few memories have: a successor, aliases, and the message that a fact was derived
        from."""
        columns = [owners[name] for name in ("id", "superseded_by", "aliases", "provenance")]
        if not (self.successors or self._aliases or self.sources or any(map(any, columns[1:]))):
            return
        for owner_id, successor, aliases, provenance in zip(*columns, strict=True):
            _set_or_drop(self.successors, owner_id, successor)
            _set_or_drop(
                self._aliases,
                owner_id,
                tuple(frozenset(extract_terms(alias)) for alias in aliases) if aliases else None,
            )
            source = provenance.get("memory") if provenance else None
            _set_or_drop(self.sources, owner_id, source if isinstance(source, str) else None)

    def _unpack_vectors(self, vectors: Sequence[bytes | None]) -> NDArray[np.float16]:
        """Return the vectors as one matrix, with zeros for a vector that is absent or damaged."""
        size = 2 * self.dimensions
        blank = bytes(size)
        packed = b"".join(blank if vector is None or len(vector) != size else vector for vector in vectors)
        return np.frombuffer(packed, "<f2").reshape(-1, self.dimensions)

    def _reserve(self, size: int) -> None:
        room = len(self._arrays["alive"])
        if size <= room:
            return
        room = size if room == 0 else max(size, int(room * _SPARE))
        for name, array in self._arrays.items():
            grown = np.zeros((room, *array.shape[1:]), array.dtype)
            grown[: len(array)] = array
            self._arrays[name] = grown

    def _squeeze(self) -> None:
        """Rebuild the arrays and the postings without the dead rows."""
        kept = np.flatnonzero(self.column("alive")).astype(np.int32)
        texts = self.postings.documents(kept)
        self._arrays = {name: array[kept] for name, array in self._arrays.items()}
        self.owners = [self.owners[row] for row in kept]
        self.size = self.alive_rows = len(kept)
        self._cached.clear()
        self.readings.clear()
        self.postings = Postings()
        self.postings.extend(texts)


def _encode_values(values: Sequence[Any], codes: dict[Any, int]) -> NDArray[np.int64]:
    """Return the code of each value. New values get new codes, which are added to `codes`."""
    for value in dict.fromkeys(values):
        codes.setdefault(value, len(codes))
    return np.fromiter(map(codes.__getitem__, values), np.int64, len(values))


def _convert_times(values: Sequence[datetime | None], absent: int) -> int | list[int]:
    """Return each time in microseconds, with `absent` for None; only the number `absent` if all times are None."""
    if not any(values):
        return absent
    return [absent if value is None else clock.micros(value) for value in values]


def _set_or_drop(kept: dict[str, Any], name: str, value: Any) -> None:
    if value is not None:
        kept[name] = value
    elif kept:
        kept.pop(name, None)


def _find_threads(image: Image) -> Threads | None:
    spoken = np.isin(image.column("kind"), [image.code("kind", kind) for kind in REPEATABLE_KINDS])
    rows = np.flatnonzero(spoken & image.column("alive") & (image.column("session_id") > 0))
    if not len(rows):
        return None
    names = np.array([image.owners[row] for row in rows])
    order = np.lexsort((rows, names, image.column("when")[rows], image.column("session_id")[rows]))
    turns = rows[order]
    return Threads(turns, image.column("session_id")[turns], image.size, _find_fact_rows(image, turns))


def _find_fact_rows(image: Image, turns: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return pairs: the row of a fact, and the row of the turn that the fact was derived from."""
    if not image.sources:
        return []
    turn_rows = {image.owners[row]: row for row in turns.tolist()}
    alive = np.flatnonzero(image.column("alive")).tolist()
    sources = ((row, image.sources.get(image.owners[row])) for row in alive)
    return [(row, turn_rows[source]) for row, source in sources if source in turn_rows]


def _list_aliases(image: Image) -> list[tuple[frozenset[str], int]]:
    aliases = []
    for row in np.flatnonzero(image.column("alive")).tolist():
        aliases += [(alias, row) for alias in image._aliases.get(image.owners[row], ()) if alias]
    return aliases
