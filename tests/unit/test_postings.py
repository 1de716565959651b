"""The inverted index gives the same rows as a plain dictionary, however it was extended."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everhold.recall import postings
from everhold.recall.postings import Postings

WORDS = [f"w{n}" for n in range(12)]
DOCUMENTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), max_size=12)


class PlainIndex:
    """A slow reference: which rows contain a term, and how often."""

    def __init__(self) -> None:
        self.rows: list[Counter[str]] = []

    def extend(self, documents: list[str]) -> list[int]:
        self.rows += [Counter(document.split()) for document in documents]
        return [len(document.split()) for document in documents]

    def find(self, term: str) -> list[tuple[int, int]]:
        return [(row, counts[term]) for row, counts in enumerate(self.rows) if counts[term]]


def assert_same(index: Postings, plain: PlainIndex) -> None:
    for word in [*WORDS, "never"]:
        rows = index.find(word)
        assert list(zip(rows.rows.tolist(), rows.counts.tolist(), strict=True)) == plain.find(word), word
        assert (rows.rows.dtype, rows.counts.dtype) == (np.int32, np.float32)


@settings(max_examples=60)
@given(batches=st.lists(DOCUMENTS, max_size=8), merge_after=st.sampled_from([0, 1, 3, 10, 1000]))
def test_the_index_equals_a_dictionary(batches: list[list[str]], merge_after: int) -> None:
    with pytest.MonkeyPatch.context() as context:
        context.setattr(postings, "_MERGE_AFTER", merge_after)
        context.setattr(postings, "_MERGE_SHARE", 0.0)
        index, plain = Postings(), PlainIndex()
        for batch in batches:
            assert index.extend(batch).tolist() == plain.extend(batch)
            assert_same(index, plain)
        row_numbers = np.arange(0, len(plain.rows), 2, dtype=np.int32)
        documents = [Counter(text.split()) for text in index.documents(row_numbers)]
        assert documents == [plain.rows[row] for row in row_numbers]


def test_a_large_index_equals_a_dictionary() -> None:
    rng = np.random.default_rng(5)
    index, plain = Postings(), PlainIndex()
    for size in (3000, 1, 1, 50, 2000, 3, 1):
        documents = [" ".join(rng.choice(WORDS, size=rng.integers(0, 20))) for _ in range(size)]
        assert index.extend(documents).tolist() == plain.extend(documents)
    assert_same(index, plain)
    assert index.size_in_bytes > 0


def test_a_term_can_occur_70000_times() -> None:
    index = Postings()
    lengths = index.extend(["a " * 70_000, "a"])
    assert lengths.tolist() == [70_000, 1]
    assert index.find("a").counts.tolist() == [70_000, 1]
    index.extend(["b"] * 5000)
    assert index.find("a").counts.tolist() == [70_000, 1]


def test_an_empty_index_has_no_rows() -> None:
    index = Postings()
    assert index.extend([]).tolist() == []
    assert index.find("a").rows.tolist() == []
    assert index.documents(np.empty(0, np.int32)) == []
