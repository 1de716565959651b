"""Chunks cover the text, fit the model, and break where a reader would."""

import random
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everhold.adapters.minilm import weights
from everhold.adapters.minilm.embedder import MiniLM
from everhold.errors import InvalidInput
from everhold.ports.tokenizer import Tokenizer
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.text.chunking import Span, split_into_chunks

ALPHABETS = st.sampled_from(
    ["ab .!?\n", "word. Éé\u0301", "한국어 안녕", "東京。！ abc", "กาแฟดี ", "😀👍🏽 x", "[UNK] [SEP]"]
)
TEXTS = st.one_of(
    st.text(max_size=400),
    ALPHABETS.flatmap(lambda alphabet: st.text(alphabet, max_size=900)),
    st.lists(
        st.sampled_from(["Dogs bark.", "한국어", "กาแฟ", "x" * 120, "a\u0301", "ﬁ", "東京", "…", "\n\n"]), max_size=90
    ).map(" ".join),
)


# How often each character may be tokenised: once as part of the whole text, and a few times as part of chunks.
MAX_PASSES = 3


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> MiniLM:
    folder = tmp_path_factory.mktemp("minilm")
    return MiniLM(None, data=folder, cache=folder)


class LetterTokenizer:
    """One token for each character but space."""

    special_tokens = 0

    def offsets(self, text: str) -> list[tuple[int, int]]:
        return [(index, index + 1) for index, character in enumerate(text) if not character.isspace()]


def check_chunks(text: str, tokenizer: Tokenizer, limit: int, overlap: int) -> None:
    spans = split_into_chunks(text, tokenizer, limit=limit, overlap=overlap)
    covered = set().union(*(range(span.start, span.end) for span in spans)) if spans else set()
    assert all(index in covered for index, character in enumerate(text) if not character.isspace())
    for span in spans:
        assert text[span.start : span.end].strip() == text[span.start : span.end] != ""
        assert len(tokenizer.offsets(text[span.start : span.end])) <= limit - tokenizer.special_tokens
    for first, second in pairwise(spans):
        assert first.start < second.start
        assert first.end < second.end


@given(text=TEXTS, limit=st.integers(10, 80), overlap=st.integers(0, 4))
@settings(max_examples=300)
def test_chunks_cover_the_text_and_fit_with_words_as_tokens(text: str, limit: int, overlap: int) -> None:
    check_chunks(text, FakeEmbedder(), limit, overlap)


@given(text=TEXTS, limit=st.integers(10, 80), overlap=st.integers(0, 4))
@settings(max_examples=300)
def test_chunks_cover_the_text_and_fit_with_the_model_s_tokens(
    minilm: MiniLM, text: str, limit: int, overlap: int
) -> None:
    check_chunks(text, minilm, limit, overlap)


def test_every_character_has_at_most_as_many_tokens_as_bytes(minilm: MiniLM) -> None:
    """The short cut for short texts relies on this. Counting characters would be wrong: 한 is three tokens."""
    normalizer = minilm._tokenizer.normalizer
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code < 0xE000:
            character = chr(code)
            assert len(normalizer.normalize_str(character).replace(" ", "")) <= len(character.encode())
    assert len(minilm.offsets("한")) == 3


def test_a_short_text_is_one_chunk_and_is_not_tokenised() -> None:
    class Untouchable:
        special_tokens = 2

        def offsets(self, text: str) -> list[tuple[int, int]]:
            raise AssertionError(text)

    assert split_into_chunks("  A short text.\n", Untouchable()) == [Span(2, 15)]
    assert split_into_chunks("x" * 510, Untouchable()) == [Span(0, 510)]
    with pytest.raises(AssertionError):
        split_into_chunks("한" * 171, Untouchable())


@pytest.mark.parametrize("blank", ["", " ", "\n\t \u3000"])
def test_a_blank_text_has_no_chunks(blank: str) -> None:
    assert split_into_chunks(blank, FakeEmbedder()) == []


def list_texts(text: str, tokenizer: Tokenizer, limit: int, overlap: int) -> list[str]:
    return [text[span.start : span.end] for span in split_into_chunks(text, tokenizer, limit=limit, overlap=overlap)]


@pytest.mark.parametrize(
    ("sentences", "joiner"),
    [
        (
            [
                "Dogs bark at night!",
                "Cats do not.",
                "Do fish sleep?",
                "Birds sing early…",
                'He said "no."',
                "It is 3.14.",
            ],
            " ",
        ),
        (["犬は夜に吠えます。", "猫は？", "魚は水の中で眠る！", "「鳥。」", "そして終わり。"], ""),
        (["no mark at all", "only new lines", "between these lines"], "\n"),
    ],
)
def test_chunks_break_after_sentences(sentences: list[str], joiner: str) -> None:
    chunks = list_texts(joiner.join(sentences), LetterTokenizer(), limit=20, overlap=0)
    assert len(chunks) > 1
    remaining = list(sentences)
    for piece in chunks:
        chunk_sentences = []
        while remaining and piece.startswith(joiner.join([*chunk_sentences, remaining[0]])):
            chunk_sentences.append(remaining.pop(0))
        assert piece == joiner.join(chunk_sentences)
    assert not remaining


def test_a_sentence_longer_than_a_chunk_breaks_between_words() -> None:
    words = [f"word{number}" for number in range(320)]
    chunks = list_texts(" ".join(words), FakeEmbedder(), limit=66, overlap=0)
    assert [word for piece in chunks for word in piece.split()] == words
    assert [len(piece.split()) for piece in chunks] == [64] * 5


def test_a_word_longer_than_a_chunk_breaks_anywhere() -> None:
    assert list_texts("x" * 100, LetterTokenizer(), limit=40, overlap=0) == ["x" * 40, "x" * 40, "x" * 20]


def test_neighbours_overlap_by_whole_sentences() -> None:
    sentences = [f"Sentence number {number} ends here." for number in range(40)]
    tokenizer = FakeEmbedder()
    text = " ".join(sentences)
    chunks = split_into_chunks(text, tokenizer, limit=62, overlap=15)
    for first, second in pairwise(chunks):
        shared = text[second.start : first.end]
        assert shared.startswith("Sentence")
        assert shared.count(".") == 2
        assert len(tokenizer.offsets(shared)) <= 15


def test_thai_without_spaces_is_cut_though_it_is_one_unknown_token(minilm: MiniLM) -> None:
    text = "วันนี้อากาศดีมากเราจึงไปเดินเล่น" * 400
    assert len(minilm.offsets(text)) == 1
    chunks = split_into_chunks(text, minilm)
    assert len(chunks) > 2
    assert max(span.end - span.start for span in chunks) < 5000


class CountingTokenizer:
    """A tokenizer that counts the characters it is given."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.characters = tokenizer, 0
        self.special_tokens = tokenizer.special_tokens

    def offsets(self, text: str) -> list[tuple[int, int]]:
        self.characters += len(text)
        return list(self.tokenizer.offsets(text))


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumped over it. " * 5_600,
        "." * 200_000,
        ".)" * 100_000,
        "a" * 200_000,
        " " * 200_000 + "x",
        "\n" * 200_000 + "x",
        "안녕하세요 " * 20_000,
        "".join(random.Random(7).choices("abc한東ก. é\u0301😀\n[]", k=100_000)),
    ],
    ids=["English", "dots", "dots and brackets", "one word", "spaces", "lines", "Korean", "mixed"],
)
def test_the_work_grows_with_the_length_of_the_text_alone(minilm: MiniLM, text: str) -> None:
    counting = CountingTokenizer(minilm)
    spans = split_into_chunks(text, counting)
    assert counting.characters <= MAX_PASSES * len(text)
    for span in spans[:100] + spans[-100:]:
        assert len(minilm.offsets(text[span.start : span.end])) <= 510


@pytest.mark.parametrize(("limit", "overlap"), [(5, 0), (512, 300), (512, -1)])
def test_impossible_sizes_are_refused(limit: int, overlap: int) -> None:
    with pytest.raises(InvalidInput, match=str(limit)):
        split_into_chunks("text", FakeEmbedder(), limit=limit, overlap=overlap)


def test_the_limit_of_the_tokenizer_file_is_not_applied(minilm: MiniLM) -> None:
    tokenizer_file = (Path(weights.find_folder(None, data=Path("/nonexistent"))) / weights.TOKENIZER).read_text()
    assert '"max_length":128' in tokenizer_file
    assert len(minilm.offsets("word " * 400)) == 400
