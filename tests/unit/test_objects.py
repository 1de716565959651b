"""Public objects have a short repr, and pages of results are sequences."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from everhold import AsyncEverhold, Everhold, View, settings
from everhold.model.page import ResultPage
from everhold.parts import Parts
from everhold.testing.fake_embedder import FakeEmbedder

LONG_TEXT = "I live in Porto, " + "near the river, " * 20


@pytest.fixture
def engine() -> Iterator[Everhold]:
    with Everhold.open("memory://", embedder=FakeEmbedder()) as engine:
        yield engine


@pytest.fixture
def alice(engine: Everhold) -> View:
    alice = engine.scope(user="alice", project="x", session="s1")
    alice.remember("I live in Porto", kind="fact", id="m1")
    alice.remember(LONG_TEXT, kind="fact", id="m2")
    alice.say("What is new?", id="t1")
    alice.say("Nothing\nmuch", role="assistant", id="t2")
    engine.create_user("alice")
    engine.create_user("bob")
    return alice


def test_a_repr_is_one_short_line_that_names_the_scope(engine: Everhold, alice: View) -> None:
    scope = "user='alice', project='x', session='s1'"
    assert repr(engine) == "Everhold('memory://')"
    assert repr(alice) == f"View({scope})"
    assert repr(engine.scope(organization="acme")) == "View(organization='acme')"
    assert repr(alice.scope) == f"Scope({scope})"
    assert repr(alice.get("m1")) == f"Memory('I live in Porto', kind='fact', {scope}, id='m1')"
    assert repr(alice.get("m2")) == f"Memory({LONG_TEXT[:59] + '…'!r}, kind='fact', {scope}, id='m2')"
    assert repr(alice.messages()) == f"Messages(2: Message('Nothing\\nmuch', role='assistant', {scope}, id='t2'), …)"
    assert repr(alice.list(kind="plan")) == "Listing(0)"
    [hit] = hits = alice.recall("Where do I live?", k=1, where={"id": "m1"})
    assert repr(hit) == f"Hit({hit.score:.2f}, 'I live in Porto')"
    assert repr(hits) == f"Hits(1: {hit!r})"
    [turn] = alice.recall("What is new?", k=1, among="message")
    assert repr(alice.session()) == f"WorkingMemory(Session({scope.rpartition(',')[0]}, id='s1'), messages=2)"
    assert repr(engine.list_users()) == "AccountPage(2: User('alice', id='alice'), …)"
    reason = alice.why_not("m1", "Where do I live?")
    assert repr(reason) == f"WhyNot({reason.memory!r}, 'it came back, at place {reason.place}')"
    assert repr(alice.context("Where do I live?", budget=50))[:9] + "…" == "Context('…"
    assert len(repr(alice.context("Where do I live?", budget=50))) < 120
    assert repr(engine.doctor()) == "Report('in_memory', memories=2, problems=0)"
    assert repr(turn) == f"Hit({turn.score:.2f}, 'What is new?', kind='message')"


def test_a_repr_hides_the_password_of_a_store() -> None:
    parts = SimpleNamespace(settings=settings.load("postgresql://me:hidden@host/memories"))
    assert repr(Everhold(cast(Parts, parts))) == "Everhold('postgresql://me:***@host/memories')"


def test_awaited_objects_have_the_same_reprs() -> None:
    async def flow() -> None:
        opening = AsyncEverhold.open("memory://", embedder=FakeEmbedder())
        assert repr(opening) == "OpeningEngine('memory://')"
        async with opening as engine:
            assert repr(engine) == "AsyncEverhold('memory://')"
            assert repr(engine.scope(user="alice")) == "AsyncView(user='alice')"

    asyncio.run(flow())


def test_every_page_is_a_sequence(engine: Everhold, alice: View) -> None:
    hits, memories, messages, users = (
        alice.recall("Where do I live?", minimum=0),
        alice.list(),
        alice.messages(),
        engine.list_users(),
    )
    fields = (hits.hits, memories.memories, messages.messages, users.rows)
    pages: tuple[ResultPage[object], ...] = (hits, memories, messages, users)
    for page, items in zip(pages, fields, strict=True):
        assert len(page) == len(items) == 2
        assert (*page,) == items
        assert (page[0], page[-1]) == (items[0], items[1])
        assert page[:1] == items[:1]
        assert items[1] in page
        assert (*reversed(page),) == items[::-1]
        assert page
    assert not alice.list(kind="plan")
    assert not engine.list_users(deleted=True)
