"""Recall: order, `why`, pages, limits, recipes and reach."""

import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from everhold import Everhold, View
from everhold.errors import EmptyQuery, InvalidInput
from everhold.recall.recipe import HYBRID, RECIPES
from tests.engines import Store, fetch_all_pages, ranking, texts

SUBJECTS = ("tea", "coffee", "rain", "music", "bread", "paint", "stone", "river")


def remember_notes(view: View, count: int = 120) -> None:
    view.remember_many(
        {
            "text": f"Note {number} is about {SUBJECTS[number % 8]} and {SUBJECTS[(number // 8) % 8]}",
            "kind": ("fact", "plan", "conversation")[number % 3],
            "priority": number % 10 + 1,
            "tags": [f"t{number % 4}"],
        }
        for number in range(count)
    )


def test_the_best_come_first(alice: View) -> None:
    alice.remember_many(["Prefers backend work over design", "Has two cats", "Went to Chiang Mai in May"])
    question = "what does she prefer, backend or design work?"
    hits = alice.recall(question, minimum=0)
    assert hits[0].memory.text == "Prefers backend work over design"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len(hits) == 3
    assert hits[0].score > hits[1].score + 0.2
    assert texts(alice.recall(question)) == ["Prefers backend work over design"]


def test_k_limits_the_hits_and_a_cursor_continues(alice: View) -> None:
    remember_notes(alice)
    all_hits = ranking(alice.recall("tea and coffee notes", k=1000, minimum=0))
    assert len(all_hits) == 120
    for k in (1, 7, 40, 119, 120):
        pages = fetch_all_pages(lambda cursor, k=k: alice.recall("tea and coffee notes", k=k, minimum=0, cursor=cursor))
        assert [len(page) for page in pages[:-1]] == [k] * (len(pages) - 1)
        assert [hit for page in pages for hit in ranking(page)] == all_hits, k


def test_pages_of_equal_scores_lose_nothing(alice: View) -> None:
    """Hits with equal scores are ordered by id, so a border between two pages neither drops nor repeats a hit."""
    alice.remember_many({"text": "Ping", "kind": "conversation"} for _ in range(30))
    all_hits = ranking(alice.recall("ping", k=100, recipe="words"))
    assert len(all_hits) == 30
    assert len({score for _, score in all_hits}) == 1
    assert all_hits == sorted(all_hits)
    pages = fetch_all_pages(lambda cursor: alice.recall("ping", k=4, recipe="words", cursor=cursor))
    assert [hit for page in pages for hit in ranking(page)] == all_hits


def test_pages_repeat_no_message(alice: View) -> None:
    """A later page does not return a hit that repeats a hit of an earlier page in other words."""
    alice.remember_many({"text": f"Tea with {SUBJECTS[n % 4]}", "kind": "conversation"} for n in range(12))
    all_hits = ranking(alice.recall("tea", minimum=0))
    assert len(all_hits) == 4
    pages = fetch_all_pages(lambda cursor: alice.recall("tea", k=1, minimum=0, cursor=cursor))
    assert [hit for page in pages for hit in ranking(page)] == all_hits


def test_pages_repeat_nothing_while_others_write(alice: View) -> None:
    remember_notes(alice, 30)
    first = alice.recall("tea", k=10, minimum=0)
    alice.forget(first[9].memory.id)
    late = alice.remember("tea tea tea tea")
    pages = fetch_all_pages(lambda cursor: alice.recall("tea", k=10, minimum=0, cursor=cursor or first.cursor))
    later_ids = [hit.memory.id for page in pages for hit in page if hit.memory.id != late.id]
    assert len(set(later_ids)) == len(later_ids) == 20
    assert not set(later_ids) & {hit.memory.id for hit in first}


@pytest.mark.parametrize("cursor", ["", "nonsense", "!!", "e30", "WzFd", "[1, 2]", "é", "a" * 5000])
def test_an_invalid_cursor_is_refused(sqlite_store: Store, cursor: str) -> None:
    alice = sqlite_store.open().scope(user="alice")
    alice.remember("x")
    if cursor == "":
        assert len(alice.recall("x", cursor=cursor, minimum=0)) == 1
        return
    with pytest.raises(InvalidInput, match="cursor"):
        alice.recall("x", cursor=cursor)
    with pytest.raises(InvalidInput, match="cursor"):
        alice.list(cursor=cursor)


@pytest.mark.parametrize(
    "place", [[None, "x"], ["abc", "x"], [10**30, "x"], [5, "a\x00b"], [1.5, "x"], [5, "\ud800"], [5]]
)
def test_a_forged_cursor_of_a_listing_is_refused(engine: Everhold, place: list[object]) -> None:
    alice = engine.scope(user="alice")
    alice.remember("x")
    forged = base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")
    with pytest.raises(InvalidInput, match="cursor"):
        alice.list(cursor=forged)


def test_hits_below_the_minimum_score_are_left_out(alice: View) -> None:
    remember_notes(alice)
    all_hits = ranking(alice.recall("tea and coffee", k=1000, minimum=0))
    lowest = all_hits[17][1]
    assert ranking(alice.recall("tea and coffee", k=1000, minimum=lowest)) == [
        hit for hit in all_hits if hit[1] >= lowest
    ]
    assert ranking(alice.recall("tea and coffee", k=5, minimum=lowest)) == all_hits[:5]
    with pytest.raises(InvalidInput, match=r"minimum is 1\.5; pass a score from 0 to 1"):
        alice.recall("tea and coffee", minimum=1.5)
    admitted = sum(score >= lowest for _, score in all_hits)
    assert alice.recall("tea and coffee", k=admitted, minimum=lowest).cursor is None
    last = alice.recall("tea and coffee", k=admitted - 1, minimum=lowest)
    assert len(alice.recall("tea and coffee", minimum=lowest, cursor=last.cursor)) == 1
    for recipe in ("meaning", "words"):
        assert len(alice.recall("tea and coffee", k=1000, recipe=recipe)) == 120
    dissimilar = alice.recall("xylophone", k=1000, recipe="meaning")
    assert dissimilar[-1].score < 0
    assert ranking(alice.recall("xylophone", k=1000, recipe="meaning", minimum=-0.9)) == ranking(dissimilar)


def test_contributions_in_why_add_up_to_the_score(alice: View) -> None:
    remember_notes(alice)
    for recipe in ("hybrid", "meaning", "words"):
        for hit in alice.recall("note about tea, rain and bread", k=50, recipe=recipe):
            why = hit.why
            total = why.base + sum(why.contributions.values())
            assert RECIPES[recipe].score(total) == pytest.approx(hit.score, abs=1e-5)
            assert sum(why.by_retriever.values()) == pytest.approx(sum(why.contributions.values()), abs=1e-5)
            assert why.searched == "image"
            assert all(name in str(why) for name in why.by_retriever)
    hit = alice.recall("tea", k=1, minimum=0)[0]
    assert hit.why.matched == ("tea",)
    assert "shares tea" in str(hit.why)
    assert hit.why.base == HYBRID.base
    assert hit.why.contributions.get("importance", 0.0) == pytest.approx(
        HYBRID.weights["importance"] * hit.memory.importance, abs=1e-6
    )


def test_recipes_use_only_their_own_retrievers(alice: View) -> None:
    remember_notes(alice, 40)
    word_hits = alice.recall("tea", recipe="words", k=40)
    assert [("words" in hit.why.by_retriever, hit.score > 0) for hit in word_hits] == [
        ("tea" in hit.memory.text,) * 2 for hit in word_hits
    ]
    assert {name for hit in word_hits for name in hit.why.by_retriever} == {"words"}
    for hit in alice.recall("tea", recipe="meaning", k=40):
        assert hit.score == pytest.approx(hit.why.similarity, abs=1e-6)
        assert hit.why.by_retriever.keys() == {"meaning"}
    with pytest.raises(InvalidInput, match="no recipe 'word'; did you mean 'words'"):
        alice.recall("tea", recipe="word")


def test_importance_decides_between_equals(alice: View) -> None:
    low = alice.remember("Equal words", kind="conversation", priority=2)
    assert [hit.memory.id for hit in alice.recall("equal words")] == [low.id]
    high = alice.remember("Equal words", kind="conversation", priority=9)
    assert [hit.memory.id for hit in alice.recall("equal words")] == [high.id], "the same twice is one hit"


def test_a_long_memory_is_one_hit_by_its_best_part(alice: View) -> None:
    filler = "Nothing of note happened on this day. " * 200
    memory = alice.remember(f"{filler} The zebra escaped at midnight. {filler}")
    alice.remember("A lion slept")
    hits = alice.recall("zebra midnight", minimum=0)
    assert hits[0].memory.id == memory.id
    assert len(hits) == 2
    assert "zebra" in hits[0].why.matched


def test_aliases_are_found(alice: View) -> None:
    alice.remember("Drinks a small strong coffee", aliases=["ristretto"])
    assert set(alice.recall("ristretto", minimum=0)[0].why.matched) == {"ristretto"}


def test_a_keyword_that_only_words_match_is_returned(engine: Everhold, alice: View) -> None:
    remember_notes(alice)
    alice.remember("Ticket XQ7719 was closed by the night shift after a long look at the logs of the mail relay")
    assert "XQ7719" in texts(alice.recall("XQ7719", k=1, minimum=0))[0]


def test_an_empty_store_answers_nothing(engine: Everhold) -> None:
    assert len(engine.scope(organization="nobody").recall("anything", minimum=0)) == 0
    assert engine.scope(organization="nobody").list().memories == ()


@pytest.mark.parametrize("query", ["", "   ", "\n\t"])
def test_an_empty_question_is_refused(sqlite_store: Store, query: str) -> None:
    with pytest.raises(EmptyQuery, match=r"ask something, or use list\(\)"):
        sqlite_store.open().scope(user="alice").recall(query)


@pytest.mark.parametrize("k", [0, -1, 1001])
def test_k_out_of_range_is_refused(sqlite_store: Store, k: int) -> None:
    with pytest.raises(InvalidInput, match=f"k is {k}; pass 1 to 1000"):
        sqlite_store.open().scope(user="alice").recall("x", k=k)


def test_a_question_of_noise_words_returns_nothing_by_default(alice: View) -> None:
    alice.remember("To be or not to be")
    for question in ("what is it", "?!"):
        assert texts(alice.recall(question, minimum=0)) == ["To be or not to be"]
        assert texts(alice.recall(question)) == [], "it asks for nothing"


# reach


def test_a_narrower_scope_sees_only_its_own_memories(engine: Everhold) -> None:
    wide = engine.scope(user="alice")
    work = engine.scope(user="alice", project="work")
    bot = engine.scope(user="alice", project="work", agent="bot", session="s1")
    wide.remember("Tea at home")
    work.remember("Tea at work")
    bot.remember("Tea with the bot")
    assert sorted(texts(wide.recall("tea", minimum=0))) == ["Tea at home", "Tea at work", "Tea with the bot"]
    assert sorted(texts(work.recall("tea", minimum=0))) == ["Tea at work", "Tea with the bot"]
    assert texts(bot.recall("tea", minimum=0)) == ["Tea with the bot"]
    assert sorted(texts(engine.scope(agent="bot").recall("tea", minimum=0))) == ["Tea with the bot"]
    assert texts(engine.scope(user="alice", project="elsewhere").recall("tea", minimum=0)) == []
    assert len(engine.scope().recall("tea", minimum=0)) == 3


def test_include_adds_memories_of_wider_scopes(engine: Everhold) -> None:
    engine.scope().remember("Tea is free for everybody")
    engine.scope(project="work").remember("Tea at work is on floor two")
    engine.scope(project="secret").remember("Tea in the vault")
    engine.scope(user="bob").remember("Tea of Bob")
    alice = engine.scope(user="alice", project="work")
    alice.remember("Tea of Alice")
    assert texts(alice.recall("tea", minimum=0)) == ["Tea of Alice"]
    assert sorted(texts(alice.recall("tea", include="organization", minimum=0))) == [
        "Tea is free for everybody",
        "Tea of Alice",
    ]
    assert sorted(texts(alice.recall("tea", include=["organization", "project"], minimum=0))) == [
        "Tea at work is on floor two", "Tea is free for everybody", "Tea of Alice",
    ]  # fmt: skip
    with pytest.raises(InvalidInput, match="include 'projects' is not a reach; did you mean 'project'"):
        alice.recall("tea", include="projects")


# counts


def test_access_is_counted_after_a_flush(engine: Everhold, alice: View) -> None:
    memory, other = alice.remember("Counted tea"), alice.remember("Stone")
    for _ in range(3):
        alice.recall("counted tea", k=1, minimum=0)
    alice.get(memory.id)
    engine.flush()
    stored = alice.get(memory.id)
    assert stored.access_count == 4
    assert stored.last_accessed is not None
    assert stored.last_accessed > memory.created_at
    assert stored.version == memory.version
    assert alice.get(other.id).access_count == 0


class LengthReranker:
    """Gives the longest text the highest score."""

    def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        return [len(text) / 1000 for text in texts]


class InvalidReranker:
    def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        return [2.0 for _ in texts]


def test_a_reranker_decides_the_order(alice: View) -> None:
    for text in ("Tea", "Tea with milk and a little honey", "Tea with milk"):
        alice.remember(text)
    hits = alice.recall("tea", reranker=LengthReranker(), k=2)
    assert [hit.memory.text for hit in hits] == ["Tea with milk and a little honey", "Tea with milk"]
    assert hits[0].score == 0.032
    assert hits[0].why.matched == ("tea",)
    assert hits.cursor is None
    assert len(alice.recall("tea", reranker=LengthReranker(), minimum=0.03)) == 1


def test_a_reranker_that_is_wrong_is_refused(alice: View) -> None:
    alice.remember("Tea")
    with pytest.raises(InvalidInput, match="one number from 0 to 1 for each text"):
        alice.recall("tea", reranker=InvalidReranker())
    with pytest.raises(InvalidInput, match="no further pages"):
        alice.recall("tea", reranker=LengthReranker(), cursor="x")


@pytest.mark.model
def test_typing_mistakes_are_corrected_and_existing_words_are_not() -> None:
    answers = {
        "What is Alice alergic to?": "Alice is allergic to nuts",
        "Which eror did the nightly job have?": "The nightly job failed with error 1146",
        "Where do we use mogodb?": "Sessions are kept in MongoDB",
        "What is written in typsecript?": "The frontend is written in TypeScript",
        "deadlin for tidewatter": "The deadline of the Tidewater project is Friday",
    }
    with Everhold.open("memory://") as engine:
        view = engine.scope(user="mia")
        view.remember_many([*answers.values(), "The ruin on the hill is closed"])
        for question, answer in answers.items():
            hits = view.recall(question)
            assert hits, question
            assert hits[0].memory.text == answer
        hits_for_rain = view.recall("Will it rain?", minimum=0)
        assert all(not hit.why.matched for hit in hits_for_rain)


def test_respellings_follow_what_is_remembered_and_forgotten(alice: View) -> None:
    def list_matched() -> list[str]:
        return [hit.memory.text for hit in alice.recall("Kadvelia", minimum=0) if hit.why.matched]

    alice.remember("The boiler is in the cellar")
    assert list_matched() == []
    kadwelia = alice.remember("Kadwelia repairs the boiler")
    assert list_matched() == ["Kadwelia repairs the boiler"]
    alice.remember("Kadvlia lives next door")
    assert sorted(list_matched()) == ["Kadvlia lives next door", "Kadwelia repairs the boiler"]
    alice.forget(kadwelia.id)
    assert list_matched() == ["Kadvlia lives next door"]


@pytest.mark.model
def test_a_time_may_be_given_by_an_event() -> None:
    with Everhold.open("memory://") as engine:
        view = engine.scope(user="mia")
        trip_start = datetime(2026, 6, 20, 9, tzinfo=UTC)
        view.remember("Left for the trip to Norway", occurred_at=trip_start)
        view.remember("Bought hiking boots", occurred_at=trip_start - timedelta(days=14))
        view.remember("Bought a winter coat", occurred_at=trip_start + timedelta(days=90))
        hits = view.recall("What did I buy two weeks before the trip to Norway?", minimum=0)
        scores = {hit.memory.text: hit.why.contributions.get("date", 0.0) for hit in hits}
        assert scores["Bought hiking boots"] > 0
        assert not scores["Bought a winter coat"]


@pytest.mark.parametrize(("timezone", "is_mango_first"), [("Asia/Bangkok", True), ("UTC", False)])
def test_times_in_questions_are_in_the_users_zone(store: Store, timezone: str, is_mango_first: bool) -> None:
    """18:30 UTC of the 4th is the 5th in Bangkok."""
    with store.open() as engine:
        engine.create_user("malee", timezone=timezone)
        view = engine.scope(user="malee")
        view.remember("Ate mango", occurred_at=datetime(2026, 5, 4, 18, 30, tzinfo=UTC))
        view.remember("Ate rice", occurred_at=datetime(2026, 5, 7, 3, tzinfo=UTC))
        asked_at = datetime(2026, 5, 9, 3, tzinfo=UTC)
        hits = view.recall("what did I eat on 5 May 2026?", minimum=0, asked_at=asked_at)
        date_scores = {hit.memory.text: hit.why.contributions.get("date", 0.0) for hit in hits}
        assert (date_scores["Ate mango"] > date_scores["Ate rice"]) is is_mango_first
