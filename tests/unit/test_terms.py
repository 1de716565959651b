"""Terms: words are folded and stemmed; scripts without spaces are cut into pairs of characters."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.text.terms import STOP_WORDS, extract_terms, fold, normalise


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  \n", []),
        ("...!?", []),
        ("The quick brown foxes", ["quick", "brown", "fox"]),
        ("running runs RUN", ["run", "run", "run"]),
        ("What is it that you are?", []),
        ("don't", ["don"]),
        ("user_id", ["user", "id"]),
        ("v2.0.1", ["v2", "0", "1"]),
        ("C++", ["c"]),
        ("café CAFÉ cafe\u0301 cafe", ["cafe", "cafe", "cafe", "cafe"]),
        ("Straße STRASSE", ["strass", "strass"]),
        ("ＦＵＬＬ　ｗｉｄｔｈ", ["full", "width"]),
        ("ﬁle", ["file"]),
        ("İstanbul", ["istanbul"]),
        ("กาแฟ", ["กา", "าแ", "แฟ"]),
        ("ก", ["ก"]),
        ("東京", ["東", "京", "東京"]),
        ("東", ["東"]),
        ("タワー", ["タワ", "ワー"]),
        ("東京タワー", ["東", "京", "東京", "京タ", "タワ", "ワー"]),
        ("서울에서", ["서울", "울에", "에서"]),
        ("ABC東京xyz", ["abc", "東", "京", "東京", "xyz"]),
        ("चाय", ["चाय"]),
        ("москве", ["москве"]),
        ("caf\u00e9東", ["cafe", "東"]),
    ],
)
def test_texts_have_the_expected_terms(text: str, expected: list[str]) -> None:
    assert extract_terms(text) == expected


def test_every_stop_word_is_left_out() -> None:
    assert extract_terms(" ".join(STOP_WORDS)) == []
    assert extract_terms(" ".join(STOP_WORDS) + " é") == ["e"]


def test_a_part_of_a_word_shares_all_its_terms() -> None:
    for word, part in (
        ("ฉันชอบดื่มกาแฟเย็น", "กาแฟ"), ("東京都庁舎", "都庁"), ("커피를마셨다", "커피"), ("サーバー", "バー"),
    ):  # fmt: skip
        assert set(extract_terms(part)) <= set(extract_terms(word))


@given(st.text())
def test_terms_need_no_quoting_in_any_index(text: str) -> None:
    """A term has no space and no sign of a query language, and is never empty."""
    for term in extract_terms(text):
        assert term
        assert term.split() == [term]
        assert all(unicodedata.category(letter)[0] in "LNM" for letter in term), term


@given(st.text())
def test_terms_do_not_depend_on_form(text: str) -> None:
    assert extract_terms(unicodedata.normalize("NFD", text)) == extract_terms(unicodedata.normalize("NFC", text))


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_terms_do_not_depend_on_upper_case(text: str) -> None:
    assert extract_terms(text) == extract_terms(text.upper()) == extract_terms(text.lower())


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_an_ascii_text_has_the_same_terms_alone_and_beside_other_letters(text: str) -> None:
    assert extract_terms(text) == extract_terms(f"{text} ß")[:-1]


@given(st.text())
def test_folding_twice_is_folding_once(text: str) -> None:
    assert extract_terms(fold(text)) == extract_terms(text)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Likes tea", " likes   TEA. "), ("Likes tea...", "likes tea"), ("Café", "CAFE"), ("全角。", "全角"),
        ("a\nb\tc", "A B C"), ("Ｔｅａ", "tea"),
    ],
)  # fmt: skip
def test_texts_that_differ_in_form_normalise_to_the_same_text(left: str, right: str) -> None:
    assert normalise(left) == normalise(right)


@pytest.mark.parametrize(
    ("left", "right"), [("tea", "teas"), ("a b", "ab"), ("tea!", "tea"), ("1.5", "15"), ("กา", "ก")]
)
def test_different_texts_normalise_to_different_texts(left: str, right: str) -> None:
    assert normalise(left) != normalise(right)
