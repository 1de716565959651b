"""Read the vectors of a Chroma collection from its index files, which are written by hnswlib.

`header.bin` has the offsets of the vector and the label in each element of `data_level0.bin`. `index_metadata.pickle`
has the labels of the documents.
"""

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from everhold.importers.files import ForeignFiles
from everhold.importers.pickled_values import read_labels
from everhold.model.fields import MAX_DIMENSIONS

_HEADER, _DATA, _LABELS = FILES = ("header.bin", "data_level0.bin", "index_metadata.pickle")
# The fields of the header: version, offset of level 0, limit and number of elements, bytes of an element, offset of its
# label and of its vector. The rest of the header is used only by the search.
_HEADER_FORMAT = struct.Struct("<i6QiI3QdQ")
_FLOAT_BYTES, _LABEL_BYTES = 4, 8
_MAX_ELEMENT_BYTES = 1_000_000
# The maximum size of the file of labels, which is read into memory. It is enough for about half a million documents.
_MAX_LABEL_BYTES = 16_000_000


class _Layout(NamedTuple):
    """The offsets of the vector and the label in each element."""

    elements: int
    element_bytes: int
    label_at: int
    vector_at: int


class IndexVectors:
    """The vectors of one index, by the ids of their documents."""

    def __init__(self, file: BinaryIO, layout: _Layout, labels: Mapping[str, int]) -> None:
        self._file, self._layout, self._labels = file, layout, labels
        self._element_numbers = dict(self._locate_elements())

    def find(self, document_id: str) -> bytes | None:
        """Return the vector of a document as little-endian float32 numbers; None if the index has none."""
        element_number = self._element_numbers.get(self._labels.get(document_id, -1))
        if element_number is None:
            return None
        self._file.seek(element_number * self._layout.element_bytes + self._layout.vector_at)
        return self._file.read(self._layout.label_at - self._layout.vector_at)

    def _locate_elements(self) -> Iterator[tuple[int, int]]:
        """Yield each label with the number of its element. The labels of deleted elements belong to no document."""
        labels = set(self._labels.values())
        for number in range(self._layout.elements):
            element = self._file.read(self._layout.element_bytes)
            label = int.from_bytes(element[self._layout.label_at :], "little")
            if label in labels:
                yield label, number


@contextmanager
def open_index(files: ForeignFiles, folder: str) -> Iterator[IndexVectors]:
    """Open the index files in a folder of the input. Raise ValueError if they cannot be read."""
    with files.open(folder + _HEADER) as file:
        layout = _read_layout(file.read(_HEADER_FORMAT.size + 1))
    with files.open(folder + _LABELS) as file:
        data = file.read(_MAX_LABEL_BYTES + 1)
    if len(data) > _MAX_LABEL_BYTES:
        raise ValueError(f"its labels have more than {_MAX_LABEL_BYTES:,} bytes")
    with files.open(folder + _DATA) as file:
        if file.seek(0, 2) < layout.elements * layout.element_bytes:
            raise ValueError("the index is cut off")
        file.seek(0)
        yield IndexVectors(file, layout, read_labels(data))


def _read_layout(header: bytes) -> _Layout:
    if len(header) != _HEADER_FORMAT.size:
        raise ValueError("the header of the index is of another version")
    _, _, _, elements, element_bytes, label_at, vector_at, *_ = _HEADER_FORMAT.unpack(header)
    vector_bytes = label_at - vector_at
    is_sound = (
        element_bytes == label_at + _LABEL_BYTES <= _MAX_ELEMENT_BYTES
        and 0 < vector_bytes <= MAX_DIMENSIONS * _FLOAT_BYTES
        and vector_bytes % _FLOAT_BYTES == 0
    )
    if not is_sound:
        raise ValueError("the header of the index is damaged")
    return _Layout(elements, element_bytes, label_at, vector_at)
