"""Cursors: a place in an order is encoded and decoded unchanged, and any other text is refused."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.errors import InvalidInput
from everhold.recall.cursor import HitPlace, decode_hit_place, decode_page, encode_hit_place, encode_page
from everhold.schema.operations import Page

IDS = st.text(st.characters(exclude_categories=["Z", "C"], exclude_characters="/"), min_size=1, max_size=40)


@given(st.floats(-2, 2), IDS, st.lists(IDS, max_size=3))
def test_places_among_hits_round_trip(score: float, owner: str, seen_ids: list[str]) -> None:
    place = HitPlace((score, owner, "memory"), tuple(seen_ids))
    assert decode_hit_place(encode_hit_place(place)) == place


@given(st.datetimes(timezones=st.just(UTC)), IDS)
def test_pages_round_trip(moment: datetime, last: str) -> None:
    page = decode_page(encode_page(Page(moment, ("acme", last))), "bolt")
    assert page == Page(moment, ("bolt", last)), "a cursor was accepted for another organization"


@given(st.text(max_size=60))
def test_other_texts_are_refused(text: str) -> None:
    for decode in (decode_hit_place, lambda cursor: decode_page(cursor, "acme")):
        try:
            decode(text)
        except InvalidInput as error:
            assert "pass the value from the previous page" in str(error)  # noqa: PT017


def test_cursors_of_different_kinds_are_not_mixed_up() -> None:
    page_cursor = encode_page(Page(datetime(2024, 1, 1, tzinfo=UTC), ("acme", "m")))
    hit_cursor = encode_hit_place(HitPlace((-0.5, "m", "memory")))
    with pytest.raises(InvalidInput):
        decode_page(hit_cursor, "acme")
    with pytest.raises(InvalidInput):
        decode_hit_place(page_cursor)


def test_a_cursor_can_be_part_of_a_url() -> None:
    cursor = encode_hit_place(HitPlace((0.123456, "ม?&/+=" * 9, "memory")))
    assert cursor.replace("-", "").replace("_", "").isalnum()
