"""Ids may hold any printable character, and no two scopes share rows, even if their ids hold separators."""

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from everhold import Everhold, View, clock
from everhold.adapters.chroma.search import make_chunk_id, parse_owner_id
from everhold.adapters.dynamodb.items import encode_key
from everhold.adapters.files.blobs import _name_folder
from everhold.adapters.redis.keys import make_keys
from everhold.model.fields import ID_LENGTH, is_id
from everhold.ports.session_cache import SessionKey
from everhold.recall.cursor import HitPlace, decode_hit_place, decode_page, encode_hit_place, encode_page
from everhold.schema.operations import Page
from tests.engines import Store

PIECES = (*"abx/#%: {}=-_~.'\"\\", "%2F", "%23", "日本", "🧠")
IDS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join).filter(is_id)
PAIRS = st.tuples(IDS, IDS)
CHARACTERS = st.characters(categories=("L", "N", "P", "S", "M", "Zs"))
ANY_ID = st.text(CHARACTERS, min_size=1, max_size=ID_LENGTH).filter(is_id)
NEIGHBOURS = (("x", "a/b"), ("x/a", "b")), (("x", "a#b"), ("x#a", "b")), (("x", "a:b"), ("x:a", "b"))
LONGEST = "🧠" * ID_LENGTH
MOMENT = clock.from_micros(1_700_000_000_000_000)
FEW_EXAMPLES = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])


def check_separation(engine: Everhold, pairs: tuple[tuple[str, str], ...]) -> None:
    """Write through each scope, then check that each scope reads only its own rows."""
    views: dict[tuple[str, str], View] = {
        (organization, user): engine.scope(organization=organization, user=user, session=user)
        for organization, user in pairs
    }
    for scope_ids, view in views.items():
        view.remember(f"I am {scope_ids}", id=scope_ids[1])
        view.say(f"I am {scope_ids}", id=scope_ids[1])  # the same id and text again is a retry
    for scope_ids, view in views.items():
        without_session = engine.scope(organization=scope_ids[0], user=scope_ids[1])
        for reader in (view, without_session):
            assert [memory.text for memory in reader.list()] == [f"I am {scope_ids}"]
            assert [hit.memory.text for hit in reader.recall("I am", minimum=0)] == [f"I am {scope_ids}"]
        assert view.get(scope_ids[1]).user_id == scope_ids[1]
        assert [message.text for message in view.messages()] == [f"I am {scope_ids}"]
        assert [message.text for message in view.session().history] == [f"I am {scope_ids}"]


@pytest.fixture
def any_engine(any_store: Store) -> Everhold:
    return any_store.open()


@FEW_EXAMPLES
@given(PAIRS, PAIRS)
@example(*NEIGHBOURS[0])
@example(*NEIGHBOURS[1])
@example(("org", LONGEST), ("org", LONGEST[:-1]))
def test_two_scopes_share_no_rows(any_engine: Everhold, first: tuple[str, str], second: tuple[str, str]) -> None:
    check_separation(any_engine, (first, second))


@pytest.fixture
def redis_engine(sqlite_store: Store, valkey_server: Any) -> Everhold:
    valkey_server.client().flushall()
    return sqlite_store.open(sessions=valkey_server.url)


@FEW_EXAMPLES
@given(PAIRS, PAIRS)
@example(*NEIGHBOURS[0])
@example(*NEIGHBOURS[2])
def test_two_scopes_share_no_rows_in_redis(
    redis_engine: Everhold, first: tuple[str, str], second: tuple[str, str]
) -> None:
    check_separation(redis_engine, (first, second))


@given(PAIRS, PAIRS)
@example(*NEIGHBOURS[0])
def test_names_made_of_ids_are_different_for_different_ids(first: tuple[str, str], second: tuple[str, str]) -> None:
    if first == second:
        return
    assert encode_key(first) != encode_key(second)
    assert not set(make_keys("p", SessionKey(*first)).all[:2]) & set(make_keys("p", SessionKey(*second)).all[:2])
    assert make_chunk_id(*first, 0, 0) != make_chunk_id(*second, 0, 0)
    assert first[0] == second[0] or _name_folder(first[0]) != _name_folder(second[0])


@given(ANY_ID)
@example(LONGEST)
def test_ids_pass_through_names_and_cursors(name: str) -> None:
    assert parse_owner_id(make_chunk_id("org/x", name, 3, 4)) == name
    hit_place = HitPlace((0.5, name, "message"), (name,))
    assert decode_hit_place(encode_hit_place(hit_place)) == hit_place
    page = Page(MOMENT, ("o", name))
    assert decode_page(encode_page(page), "o") == page
    assert len(encode_page(page)) <= 2_000
