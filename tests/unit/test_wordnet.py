"""Synonyms from WordNet: they are found in its files, and link words of a question to names of tables."""

from pathlib import Path

import pytest

from everhold.adapters.sqlite_files.reader import read_tables
from everhold.adapters.wordnet import WordNetSynonyms, find_wordnet
from everhold.ask.profile.build import build_schema
from everhold.ask.reading import QuestionReader
from everhold.ask.values import ValueIndex
from tests.unit.ask_shop import TODAY, make_shop


@pytest.fixture(scope="module")
def wordnet() -> WordNetSynonyms:
    folder = find_wordnet()
    assert folder is not None
    return WordNetSynonyms(folder)


@pytest.mark.parametrize(
    ("word", "synonym"), [("nation", "country"), ("salaries", "wage"), ("purchased", "buy"), ("film", "movie")]
)
def test_a_word_has_its_synonyms(wordnet: WordNetSynonyms, word: str, synonym: str) -> None:
    similar = dict(wordnet.find_similar(word))
    assert similar[synonym] == 1.0
    assert word not in similar


def test_the_first_and_the_last_word_of_a_file_are_found(wordnet: WordNetSynonyms) -> None:
    folder = find_wordnet()
    assert folder is not None
    lines = [line for line in (folder / "index.noun").read_text("ascii").splitlines() if line[:1].isalpha()]
    for line in (lines[0], lines[-1]):
        assert wordnet._find_senses("noun", line.split()[0])


@pytest.mark.parametrize("word", ["", "a", "qqqq", "été", "not a word", "1", "-"])
def test_an_unknown_word_has_no_synonyms(wordnet: WordNetSynonyms, word: str) -> None:
    assert not wordnet.find_similar(word)


def test_a_synonym_finds_a_table_that_no_other_word_names(wordnet: WordNetSynonyms, tmp_path: Path) -> None:
    tables = read_tables(make_shop(tmp_path / "shop.sqlite"))
    schema, values = build_schema(tables), ValueIndex(tables)
    question = "How many patrons are there?"
    assert QuestionReader(schema, values).read(question, TODAY).best is None
    reading = QuestionReader(schema, values, synonyms=[wordnet]).read(question, TODAY).best
    assert reading is not None
    assert reading.sql == 'SELECT COUNT(*) FROM "customers"'
    assert reading.assumptions == ("'patrons' means customers",)
