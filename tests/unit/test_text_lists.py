"""The widths of texts are those that Rich gives them, which is imported only for unusual letters."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len, chop_cells

from everhold.interfaces.cli.text_lists import ListEntry, Paragraph, StyledText, TextList, measure_width

USUAL = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x2FF, exclude_categories=["Cc", "Cf", "Zs"]))


@given(st.text() | USUAL)
def test_a_text_is_as_wide_as_rich_says(text: str) -> None:
    assert measure_width(text) == cell_len(text)


@given(USUAL.filter(bool), st.integers(min_value=1, max_value=30))
def test_a_word_is_cut_where_rich_cuts_it(word: str, width: int) -> None:
    items = [ListEntry((Paragraph((StyledText(word),)),))]
    assert TextList(items).make_text(width).splitlines() == chop_cells(word, width)
