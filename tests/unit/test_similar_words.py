"""Similar words by the real model: the right ones, cached, rebuilt if damaged."""

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from everhold.adapters.minilm import MiniLM, similar_words, weights
from everhold.adapters.minilm.similar_words import Pairs, SimilarWords
from everhold.errors import ModelDamaged
from everhold.ports.thesaurus import NO_THESAURUS, Thesaurus
from everhold.text.terms import STOP_WORDS, extract_terms

# All tests run in one process, because they share a model that takes seconds to prepare.
pytestmark = [pytest.mark.model, pytest.mark.xdist_group("similar words")]

# The number of each word in the model's vocabulary. `find_similar` does not need it.
EMPTY_VOCABULARY: dict[str, int] = {}


@pytest.fixture(scope="module")
def model() -> Path:
    return weights.find_folder(None, data=Path("/nonexistent"))


@pytest.fixture(scope="module")
def word_cache(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that holds the words."""
    cache = tmp_path_factory.mktemp("cache")
    SimilarWords(model, cache, EMPTY_VOCABULARY.get).find_similar("kid")
    return cache


@pytest.fixture(scope="module")
def thesaurus(model: Path, word_cache: Path) -> Thesaurus:
    return SimilarWords(model, word_cache, EMPTY_VOCABULARY.get)


@pytest.fixture
def forbid_building(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> Pairs:
        raise AssertionError

    monkeypatch.setattr(similar_words, "build", refuse)


def extract_term(word: str) -> str:
    (term,) = extract_terms(word)
    return term


def find_only_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def is_same(first: Thesaurus, second: Thesaurus) -> bool:
    """Return whether both give the same answers, up to rounding: matrix products differ in the last bits."""
    return dict(first.find_similar("kid")) == pytest.approx(dict(second.find_similar("kid")), abs=1e-5)


def read_all_terms(model: Path) -> set[str]:
    return {extract_term(word) for word in similar_words._read_common_words(model)}


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("kids", "children"),
        ("children", "kids"),
        ("painting", "painter"),
        ("painted", "artwork"),
        ("pets", "dog"),
        ("job", "career"),
        ("car", "vehicle"),
    ],
)
def test_words_of_similar_meaning_are_similar(thesaurus: Thesaurus, word: str, other: str) -> None:
    assert dict(thesaurus.find_similar(extract_term(word)))[extract_term(other)] > 0.25


@pytest.mark.parametrize(("word", "other"), [("kids", "engine"), ("painting", "salary"), ("pets", "invoice")])
def test_words_of_other_meaning_are_not_similar(thesaurus: Thesaurus, word: str, other: str) -> None:
    assert extract_term(other) not in dict(thesaurus.find_similar(extract_term(word)))


def test_a_nearer_word_has_a_higher_similarity(thesaurus: Thesaurus) -> None:
    similarities = dict(thesaurus.find_similar(extract_term("kids")))
    children, teenagers, students = map(extract_term, ("children", "teenagers", "students"))
    assert similarities[children] > similarities[teenagers] > similarities[students]


@pytest.mark.parametrize("term", ["", "zzz", "กาแฟ", "kids", "the", "e2e", "##ing", "Kid"])
def test_an_unknown_term_has_no_similar_words(thesaurus: Thesaurus, term: str) -> None:
    assert list(thesaurus.find_similar(term)) == []


def test_similar_words_are_unique_sorted_and_have_similarities_between_0_and_1(
    thesaurus: Thesaurus, model: Path
) -> None:
    terms = read_all_terms(model)
    assert len(terms) > 5000
    for term in terms:
        pairs = thesaurus.find_similar(term)
        similar_terms = [other for other, _ in pairs]
        similarities = [similarity for _, similarity in pairs]
        assert term not in similar_terms
        assert len(set(similar_terms)) == len(similar_terms)
        assert terms.issuperset(similar_terms)
        assert similarities == sorted(similarities, reverse=True)
        assert all(0 < similarity < 1 for similarity in similarities)


def test_only_whole_common_content_words_are_compared(model: Path) -> None:
    words = similar_words._read_common_words(model)
    assert {"children", "painter", "dog"} <= set(words)
    assert not STOP_WORDS & set(words)
    assert all(word.isascii() and word.isalpha() and len(word) > 2 for word in words)
    # The ids of common words; lower ones are punctuation, higher ones rare words.
    assert all(1996 <= number < 12_000 for number in words.values())


def test_a_second_question_returns_the_same_list(thesaurus: Thesaurus) -> None:
    assert thesaurus.find_similar("kid") is thesaurus.find_similar("kid")


@pytest.mark.usefixtures("forbid_building")
def test_a_second_start_takes_the_words_from_the_cache(model: Path, word_cache: Path, thesaurus: Thesaurus) -> None:
    assert SimilarWords(model, word_cache, EMPTY_VOCABULARY.get).find_similar("kid") == thesaurus.find_similar("kid")


def test_the_cached_file_is_for_its_owner_only_and_names_its_origin(word_cache: Path) -> None:
    file = find_only_file(word_cache)
    assert file.name == f"all-MiniLM-L6-v2-53aa51172d142c89-similar-{similar_words.FORMAT}.words"
    assert file.stat().st_mode & 0o777 == 0o600


def cut_off(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [cut_off, flip_a_bit])
def test_a_damaged_cached_file_is_built_again(
    model: Path,
    word_cache: Path,
    tmp_path: Path,
    thesaurus: Thesaurus,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], None],
) -> None:
    file = tmp_path / find_only_file(word_cache).name
    shutil.copy(find_only_file(word_cache), file)
    damage(file)
    assert is_same(SimilarWords(model, tmp_path, EMPTY_VOCABULARY.get), thesaurus)
    assert f"{file} of similar words is damaged" in caplog.text
    caplog.clear()
    assert is_same(SimilarWords(model, tmp_path, EMPTY_VOCABULARY.get), thesaurus)
    assert caplog.text == ""


def test_a_cache_that_cannot_be_written_costs_time_but_nothing_else(
    model: Path, tmp_path: Path, thesaurus: Thesaurus, caplog: pytest.LogCaptureFixture
) -> None:
    missing_folder = tmp_path / "gone"
    assert is_same(SimilarWords(model, missing_folder, EMPTY_VOCABULARY.get), thesaurus)
    assert "cannot be written" in caplog.text
    assert not missing_folder.exists()


def test_other_weights_than_the_published_ones_are_refused_and_not_cached(model: Path, tmp_path: Path) -> None:
    other, cache = tmp_path / "model", tmp_path / "cache"
    other.mkdir()
    cache.mkdir()
    shutil.copy(model / weights.TOKENIZER, other)
    (other / weights.TENSORS).write_bytes(b"other weights")
    with pytest.raises(ModelDamaged, match=r"model\.safetensors.*sha256"):
        SimilarWords(other, cache, EMPTY_VOCABULARY.get).find_similar("kid")
    assert list(cache.iterdir()) == []


def test_threads_that_ask_first_at_once_build_once(
    model: Path, thesaurus: Thesaurus, monkeypatch: pytest.MonkeyPatch
) -> None:
    built_folders: list[Path] = []
    build = similar_words.build

    def count_builds(folder: Path) -> Pairs:
        built_folders.append(folder)
        return build(folder)

    monkeypatch.setattr(similar_words, "build", count_builds)
    shared = SimilarWords(model, None, EMPTY_VOCABULARY.get)
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(shared.find_similar, ["kid"] * 4))
    assert built_folders == [model]
    assert answers == [shared.find_similar("kid")] * 4
    assert is_same(shared, thesaurus)


def test_the_model_gives_its_thesaurus_and_reads_it_only_when_asked(tmp_path: Path, thesaurus: Thesaurus) -> None:
    model_thesaurus = MiniLM(None, data=tmp_path, cache=tmp_path).thesaurus
    assert list(tmp_path.rglob("*.words")) == []
    assert is_same(model_thesaurus, thesaurus)
    assert [file.parent for file in tmp_path.rglob("*.words")] == [tmp_path / "minilm"]


def test_the_empty_thesaurus_has_no_similar_words() -> None:
    assert list(NO_THESAURUS.find_similar("kid")) == []
