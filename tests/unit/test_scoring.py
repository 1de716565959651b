"""Ranking gives the same result as a slow reference in double precision, for images of any layout."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from everhold import clock
from everhold.ports.search_indexes import Statistics
from everhold.recall.question import Question
from everhold.recall.recipe import HYBRID, RECIPES, Recipe
from everhold.recall.scoring import ImageView, PreparedQuestion, Scored, count_statistics, rank
from everhold.recall.signals import find_similar_rows
from tests.unit.scoring_reference import (
    DAY,
    NOW,
    T0,
    THESAURUS,
    WORDS,
    ReferenceRanking,
    ReferenceRow,
    ScopedRow,
    build_image,
    find_turn,
    make_vector,
)

ALL = Recipe(
    "all",
    {
        "meaning.own": 0.9, "meaning.near": 0.8, "meaning.around": -0.7, "meaning.session": 0.6, "voice.own": 0.5,
        "voice.near": 0.4, "voice.around": 0.35, "voice.session": -0.3, "words.own": 1.1, "words.often": 1.2,
        "words.before": 0.75, "words.around": -0.65, "words.wide": 0.55, "similar": 1.3, "date": 1.4, "timed": 0.45,
        "when": 0.25, "speaker": 0.85, "asking": -0.95, "answering": 0.15, "name": 1.5, "importance": 0.95,
        "recency": 1.05, "session": 0.65,
    },
    base=-1.5, turn_base=-0.5, calibrated=True, lead=0.7, max_lead=0.3,
)  # fmt: skip
TESTED_RECIPES = {**RECIPES, "all": ALL}


def make_view(rows: Sequence[ReferenceRow]) -> ImageView:
    return ImageView(build_image(rows), None, None)


def make_question(rng: random.Random) -> Question:
    """Make a question of random words; it may be about a speaker, a time or a name."""
    words = tuple(dict.fromkeys([*rng.choices(WORDS, k=rng.randint(0, 6)), "unheard"]))
    query_vector = make_vector(rng) if rng.random() < 0.9 else None
    named = rng.random() < 0.6
    start = T0 + rng.randrange(40) * DAY
    span = (clock.micros(start), clock.micros(start + rng.choice([1, 7, 30]) * DAY))
    return Question(
        words,
        query_vector,
        make_vector(rng) if named and query_vector is not None else query_vector,
        ("Mia Moss",) if named else (),
        (span,) if rng.random() < 0.5 else (),
        when=rng.random() < 0.5,
        words=frozenset(words),
        session=rng.choice([None, "s1", "s2", "elsewhere"]),
    )


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", TESTED_RECIPES)
@pytest.mark.parametrize("seed", range(5))
def test_ranking_equals_the_reference(seed: int, name: str, masked: bool) -> None:
    rng, recipe = random.Random(seed), TESTED_RECIPES[name]
    count = [0, 1, 9, 60, 200][seed]
    rows = [ReferenceRow(rng, f"m{rng.randrange(max(1, count // 2))}", in_sessions=seed % 2 == 0) for _ in range(count)]
    inside = [not masked or rng.random() < 0.7 for _ in rows]
    scoped_rows = [
        ScopedRow(row, is_inside, is_inside and (not masked or rng.random() < 0.7))
        for row, is_inside in zip(rows, inside, strict=True)
    ]
    parts = [scoped_rows[: count // 2], scoped_rows[count // 2 :]]
    image_views = []
    for part in parts:
        masks = (
            np.array([[scoped.covered, scoped.eligible] for scoped in part], bool).reshape(-1, 2).T
            if masked
            else (None, None)
        )
        image_views.append(ImageView(build_image([scoped.row for scoped in part]), *masks))
    for _ in range(3):
        question = make_question(rng)
        reference = ReferenceRanking(parts, question, recipe).rank()
        for limit in (1, 3, 50, 1000):
            hits = rank(image_views, PreparedQuestion(question, recipe, clock.micros(NOW), THESAURUS), limit)
            assert_same_ranking(hits, reference[:limit], dict(reference))


def assert_same_ranking(hits: list[Scored], expected: list[tuple[str, float]], scores: dict[str, float]) -> None:
    assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], abs=4e-6)
    for scored in hits:
        assert scored.score == pytest.approx(scores[scored.owner_id], abs=4e-6)
    assert len({hit.owner_id for hit in hits}) == len(hits)
    assert [hit.rank for hit in hits] == sorted(hit.rank for hit in hits)


@pytest.mark.parametrize("recipe", [replace(HYBRID, lead=0.0), replace(ALL, lead=0.0)], ids=lambda recipe: recipe.name)
def test_the_place_of_a_row_does_not_matter(recipe: Recipe) -> None:
    """A row has exactly the same score in a large or small image, first or last. Conversations stay whole."""
    rng = random.Random(4)
    rows = [ReferenceRow(rng, f"m{n}", in_sessions=n < 80) for n in range(700)]
    for row in rows:
        row.successor = row.source = None
    question = make_question(rng)
    prepared = PreparedQuestion(question, recipe, clock.micros(NOW), THESAURUS)
    statistics = count_statistics([make_view(rows)], question.terms)
    expected_scores = {hit.owner_id: hit.score for hit in rank([make_view(rows)], prepared, 700)}
    assert len(expected_scores) == 700
    rng.shuffle(rows)
    for size in (1, 2, 7, 64, 620):
        session_rows = [row for row in rows if row.session == f"s{size % 4}"]
        selected_rows = session_rows + [row for row in rows if row.session is None][:size]
        rng.shuffle(selected_rows)
        hits = rank([make_view(selected_rows)], prepared, len(selected_rows), statistics)
        assert {hit.owner_id: hit.score for hit in hits} == {
            row.owner: expected_scores[row.owner] for row in selected_rows
        }


@pytest.mark.parametrize("recipe", TESTED_RECIPES.values(), ids=lambda recipe: recipe.name)
def test_contributions_add_up_to_the_score(recipe: Recipe) -> None:
    rng = random.Random(8)
    rows = [ReferenceRow(rng, f"m{n}", in_sessions=True) for n in range(120)]
    assert any(row.successor for row in rows)
    names: set[str] = set()
    for question in (make_question(rng) for _ in range(5)):
        for hit in rank([make_view(rows)], PreparedQuestion(question, recipe, clock.micros(NOW), THESAURUS), 120):
            why, row = hit.why("image"), rows[hit.row]
            assert recipe.score(why.base + sum(why.contributions.values())) == pytest.approx(hit.score, abs=1e-5)
            assert (why.contributions.get("turn", 0.0) != 0.0) == (
                find_turn(row, rows) is not None and recipe.turn_base != 0.0
            )
            assert set(why.matched) == set(question.terms) & set(row.words)
            names |= why.contributions.keys()
    folded = recipe.weights_for(threads=True, voiced=False)  # some questions name no speaker
    expected = {*recipe.weights, *folded} | ({"turn", "replaced", "lead"} if recipe.calibrated else set())
    assert names == {name for name in expected if recipe.weights.get(name) != 0.0}


def test_a_successor_is_found_by_the_memory_that_it_replaced() -> None:
    """This works through a chain of replacements, and also if the replaced memory itself may not be returned."""
    rng = random.Random(3)
    rows = [ReferenceRow(rng, f"m{n}") for n in range(20)]
    near, between, last = rows[3], rows[7], rows[12]
    query_vector = near.vector if near.vector is not None else make_vector(rng)
    near.vector = query_vector
    for row in rows[:3]:
        row.vector = -query_vector
    between.vector = last.vector = -query_vector
    prepared = PreparedQuestion(Question((), query_vector), HYBRID, clock.micros(NOW))
    assert last.owner in [hit.owner_id for hit in rank([make_view(rows)], prepared, 20)][-5:]
    near.successor, between.successor = between.owner, last.owner
    mask = np.array([row.successor is None for row in rows])
    hits = rank([ImageView(build_image(rows), None, mask)], prepared, 20)
    assert hits[0].owner_id == last.owner
    assert hits[0].why("image").contributions["replaced"] > 0
    assert {near.owner, between.owner}.isdisjoint(hit.owner_id for hit in hits)


def test_a_strong_hit_raises_the_memories_related_to_it() -> None:
    recipe = Recipe("test", {"words.own": 4.0}, base=-1.0, calibrated=True, related_loss=0.5, successor_loss=0.25)
    rows = [ReferenceRow(random.Random(n), f"m{n}") for n in range(6)]
    for row in rows:
        row.words = []
    rows[0].words, rows[1].words = ["strong"], ["weak"]
    image = build_image(rows)
    image.links = {"m0": frozenset({"m2"}), "m1": frozenset({"m3"}), "m2": frozenset({"m0"})}

    def rank_totals(eligible: list[bool] | None, *terms: str) -> dict[str, float]:
        prepared = PreparedQuestion(Question(terms, None), recipe)
        mask = None if eligible is None else np.array(eligible)
        return {
            hit.owner_id: round(compute_log_odds(hit.score), 3)
            for hit in rank([ImageView(image, None, mask)], prepared, 9)
        }

    assert rank_totals(None, "strong") == {"m0": 3.0, "m2": 2.5, "m1": -1.0, "m3": -1.0, "m4": -1.0, "m5": -1.0}
    assert rank_totals(None, "weak", *(f"other{n}" for n in range(3)))["m3"] == -1.0, (
        "a weak hit raised a related memory"
    )
    assert rank_totals([False, True, True, True, True, True], "strong")["m2"] == -1.0, (
        "a hit that may not be returned raised a related memory"
    )
    rows[0].successor = "m2"
    image = build_image(rows)
    image.links = {"m4": frozenset({"m2"}), "m2": frozenset({"m4"})}
    assert rank_totals([False, True, True, True, True, True], "strong") == {
        "m2": 2.75, "m4": 2.25, "m1": -1.0, "m3": -1.0, "m5": -1.0,
    }  # fmt: skip


def compute_log_odds(score: float) -> float:
    return math.log(score / (1 - score))


def measure_lead(rows: list[ReferenceRow], limit: int) -> float:
    """Return how much the best hit gains per unit of its distance to the next hit."""
    recipe = Recipe("test", {"words.own": 4.0}, base=-1.0, calibrated=True, lead=0.5, max_lead=9.0, unrelated=1.5)
    best = rank([make_view(rows)], PreparedQuestion(Question(("one",), None), recipe), limit)[0]
    lead = best.why("image").contributions.get("lead", 0.0)
    assert compute_log_odds(best.score) == pytest.approx(3.0 + lead, abs=0.01)
    return lead / recipe.lead


def test_the_best_hit_gains_by_its_distance_to_the_next() -> None:
    rows = [ReferenceRow(random.Random(n), owner) for n, owner in enumerate([*["long"] * 40, "next"])]
    for row in rows[:-1]:
        row.words = ["one"]
    rows[-1].words = []
    for limit in (1, 2, 9):
        assert measure_lead(rows, limit) == pytest.approx(4.0), "however few are asked for"
    assert measure_lead(rows[:-1], 5) == pytest.approx(2.5), "alone, beside one that is unrelated"
    rows[-1].words = ["one"]
    assert measure_lead(rows, 5) == 0.0
    for first, second in (("next", "long"), ("long", "next")):
        for row in rows:
            row.source = second if row.owner == first else None
        assert measure_lead(rows, 5) == pytest.approx(2.5), "a fact and its message are not each other's rivals"


def test_a_misspelled_word_counts_like_the_word() -> None:
    rng = random.Random(5)
    rows = [ReferenceRow(rng, f"m{n}") for n in range(10)]
    rows[4].words, rows[6].words = ["kitchen"], ["kitchens", "garden"]
    rows[8].words = ["kitchin"]
    recipe = Recipe("words", {"words.own": 1.0})
    hits = rank([make_view(rows)], PreparedQuestion(Question(("ktichen",), None), recipe), 10)
    assert [(hit.owner_id, hit.score) for hit in hits][:2] == [("m4", 1.0), ("m0", 0.0)]
    hits = rank([make_view(rows)], PreparedQuestion(Question(("kitchan",), None), recipe), 10)
    assert [hit.owner_id for hit in hits if hit.score] == ["m4", "m8"], "all words that may be meant"
    assert hits[0].why("image").matched == ("kitchan",)


def test_enough_memories_are_found_among_many_rows_of_few() -> None:
    """The best rows may all belong to the same memory; still `limit` memories are found."""
    rng = random.Random(2)
    near = make_vector(rng)
    rows = []
    for number in range(300):
        row = ReferenceRow(rng, "long")
        row.vector = near
        rows.append(row)
        if number % 10 == 0:
            rows.append(ReferenceRow(rng, f"m{number}"))
    hits = rank([make_view(rows)], PreparedQuestion(Question((), near), HYBRID), 20)
    assert len(hits) == 20
    assert hits[0].owner_id == "long"


def test_statistics_of_a_scope_are_counted() -> None:
    rng = random.Random(6)
    rows = [ReferenceRow(rng, f"m{n}") for n in range(50)]
    mask = np.array([n % 3 == 0 for n in range(50)])
    statistics = count_statistics([ImageView(build_image(rows), mask, None), make_view(rows[:5])], ["w1", "never"])
    counted = [row for n, row in enumerate(rows) if n % 3 == 0] + rows[:5]
    assert statistics == Statistics(len(counted), {"w1": sum("w1" in row.words for row in counted), "never": 0})


def test_hits_with_equal_scores_are_ordered_by_id() -> None:
    rng = random.Random(1)
    row = ReferenceRow(rng, "x")
    rows = []
    for name in ("c", "a", "b", "d"):
        twin = ReferenceRow(rng, name)
        twin.words, twin.vector, twin.importance = row.words, row.vector, row.importance
        twin.when, twin.alias, twin.speaker = row.when, None, None
        rows.append(twin)
    hits = rank(
        [make_view(rows)],
        PreparedQuestion(Question(tuple(set(row.words)), row.vector), HYBRID, clock.micros(NOW)),
        3,
    )
    assert [hit.owner_id for hit in hits] == ["a", "b", "c"]


def test_rows_of_similar_words_follow_the_image() -> None:
    """These rows are cached between questions, and computed again after a row was added."""
    rng = random.Random(7)
    row, similar_row = ReferenceRow(rng, "m0"), ReferenceRow(rng, "m1")
    row.words, similar_row.words = ["w0"], ["w4"]
    image = build_image([row])
    assert find_similar_rows(image, "w5", THESAURUS) == []
    image.extend([similar_row.entry])
    [(rows, similarity)] = find_similar_rows(image, "w5", THESAURUS)
    assert rows.tolist() == [1]
    assert similarity == pytest.approx(0.9 - 1 / 8)
    assert find_similar_rows(image, "w5", THESAURUS) is find_similar_rows(image, "w5", THESAURUS)
