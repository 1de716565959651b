"""What is searched for one part of an organization: vectors, terms and the columns that masks need, in memory.

An image is derived from memory and chunk rows and can be thrown away at any time. It holds one row per chunk.
Rows are only ever appended; replacing a memory kills its old rows, and dead rows are squeezed out when there are many.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect import clock
from recollect.recall.postings import Postings

NEVER = np.iinfo(np.int64).max
ALWAYS = np.iinfo(np.int64).min
MEMORY_COLUMNS = (
    "id", "kind", "scope", "project_id", "user_id", "agent_id", "session_id", "importance", "created_at", "expires_at",
    "valid_from", "valid_to", "superseded_at",
)  # fmt: skip
CHUNK_COLUMNS = ("owner_id", "terms", "vector", "known_from", "known_to")
CODED = ("kind", "scope", "project_id", "user_id", "agent_id", "session_id")
_TIMES: Mapping[str, int] = {
    "created_at": ALWAYS, "known_from": ALWAYS, "known_to": NEVER, "expires_at": NEVER, "valid_from": ALWAYS,
    "valid_to": NEVER, "superseded_at": NEVER,
}  # fmt: skip
_BOUNDS = ("known_to", "expires_at", "valid_from", "valid_to", "superseded_at")
_SQUEEZE_SHARE = 0.25
_SQUEEZE_LEAST = 1024
_SPARE = 1.125

Mask = NDArray[np.bool_]


class Entry(NamedTuple):
    """One chunk and the memory it belongs to, as the values of CHUNK_COLUMNS and MEMORY_COLUMNS."""

    chunk: tuple[Any, ...]
    memory: tuple[Any, ...]


class Image:
    """The searchable rows of one user, of an organization's shared memories, or of a whole organization."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.size = 0
        self.alive_rows = 0
        self.owners: list[str] = []
        self.postings = Postings()
        self._dated = False
        self._damping = (-1, 0.0, 0.0, np.zeros(0, np.float32))
        self._codes: dict[str, dict[Any, int]] = {name: {None: 0} for name in CODED}
        self._arrays: dict[str, NDArray[Any]] = {
            "vector": np.zeros((0, dimensions), np.float32),
            "owner": np.zeros(0, np.int64),
            "alive": np.zeros(0, np.bool_),
            "length": np.zeros(0, np.int32),
            "importance": np.zeros(0, np.float32),
            "dated": np.zeros(0, np.bool_),
            **{name: np.zeros(0, np.int32) for name in CODED},
            **{name: np.zeros(0, np.int64) for name in _TIMES},
        }

    def column(self, name: str) -> NDArray[Any]:
        return self._arrays[name][: self.size]

    @property
    def vectors(self) -> NDArray[np.float32]:
        return self._arrays["vector"][: self.size]

    def damping(self, base: float, per_term: float) -> NDArray[np.float32]:
        """How much each row's length holds its terms back; worked out once until rows are added."""
        size, kept_base, kept_per_term, made = self._damping
        if (size, kept_base, kept_per_term) != (self.size, base, per_term):
            made = self.column("length") * np.float32(per_term) + np.float32(base)
            self._damping = (self.size, base, per_term, made)
        return made

    @property
    def plain(self) -> bool:
        """Whether every row is alive and holds at any time, so that no mask is needed."""
        return self.alive_rows == self.size and not self._dated

    def code(self, name: str, value: Any) -> int:
        """The number that stands for a value in a coded column, or one that no row has."""
        return self._codes[name].get(value, -1)

    @property
    def size_in_bytes(self) -> int:
        """Roughly what the image takes in memory."""
        return sum(array.nbytes for array in self._arrays.values()) + self.postings.size_in_bytes + 95 * self.size

    def replace(self, owner_ids: Iterable[str], entries: Sequence[Entry]) -> None:
        """Forgets these memories and takes these entries in."""
        self.kill(owner_ids)
        self.extend(entries)
        dead = self.size - self.alive_rows
        if dead > _SQUEEZE_LEAST and dead > _SQUEEZE_SHARE * self.size:
            self._squeeze()

    def kill(self, owner_ids: Iterable[str]) -> None:
        alive, numbers = self.column("alive"), self.column("owner")
        for owner_id in owner_ids:
            for row in np.flatnonzero(numbers == hash(owner_id)):
                if alive[row] and self.owners[row] == owner_id:
                    alive[row] = False
                    self.alive_rows -= 1

    def load(self, blocks: Iterable[Sequence[Entry]], expected: int) -> None:
        """Takes in many entries, a block at a time."""
        self._reserve(expected)
        start = self.size
        lengths = self.postings.load(self._take(block) for block in blocks)
        self.column("length")[start:] = lengths

    def extend(self, entries: Sequence[Entry]) -> None:
        start = self.size
        terms = self._take(entries)
        self.column("length")[start:] = self.postings.extend(terms)

    def _take(self, entries: Sequence[Entry]) -> Sequence[str]:
        """Adds a row per entry, all but its terms, which it returns."""
        if not entries:
            return ()
        start, self.size = self.size, self.size + len(entries)
        self._reserve(self.size)
        self.alive_rows += len(entries)
        part = slice(start, self.size)
        chunks = dict(zip(CHUNK_COLUMNS, zip(*(entry.chunk for entry in entries), strict=True), strict=True))
        memories = dict(zip(MEMORY_COLUMNS, zip(*(entry.memory for entry in entries), strict=True), strict=True))
        arrays = self._arrays
        arrays["vector"][part] = self._unpacked(chunks["vector"])
        self.owners += memories["id"]
        arrays["owner"][part] = [hash(owner_id) for owner_id in memories["id"]]
        arrays["alive"][part] = True
        arrays["importance"][part] = memories["importance"]
        for name in CODED:
            codes = self._codes[name]
            arrays[name][part] = [codes.setdefault(value, len(codes)) for value in memories[name]]
        for name, absent in _TIMES.items():
            values = (chunks if name in chunks else memories)[name]
            arrays[name][part] = [absent if value is None else clock.micros(value) for value in values]
        arrays["dated"][part] = np.logical_or.reduce([arrays[name][part] != _TIMES[name] for name in _BOUNDS])
        self._dated = self._dated or bool(arrays["dated"][part].any())
        return chunks["terms"]

    def _unpacked(self, vectors: Sequence[bytes | None]) -> NDArray[np.float16]:
        blank = bytes(2 * self.dimensions)
        packed = b"".join(blank if vector is None else vector for vector in vectors)
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
        """Rebuilds the arrays and the postings without the dead rows."""
        kept = np.flatnonzero(self.column("alive")).astype(np.int32)
        texts = self.postings.documents(kept)
        self._arrays = {name: array[kept] for name, array in self._arrays.items()}
        self.owners = [self.owners[row] for row in kept]
        self.size = self.alive_rows = len(kept)
        self._damping = (-1, 0.0, 0.0, np.zeros(0, np.float32))
        self.postings = Postings()
        self.postings.extend(texts)
