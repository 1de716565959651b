"""Recipes: weights by name, weights that move to another retriever, scores, and recipes without a retriever."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.errors import InvalidInput
from everhold.recall.recipe import GROUPS, HYBRID, MEANING, RECIPES, WORDS, Recipe, get_recipe

WEIGHTS = {
    "meaning.own": 1.0, "meaning.near": 2.0, "meaning.session": 4.0, "voice.own": 8.0, "voice.near": 16.0,
    "words.own": 32.0, "words.often": 64.0, "words.wide": 128.0, "similar": 256.0, "answering": 512.0,
}  # fmt: skip
RECIPE = Recipe("powers", WEIGHTS, base=-1.0)
# The weights that never move to another signal.
UNMOVED = {"similar": 256.0, "answering": 512.0}


def test_with_neighbours_and_a_voice_all_weights_are_used() -> None:
    assert RECIPE.weights_for(threads=True, voiced=True) == WEIGHTS


def test_without_a_voice_its_weight_goes_to_the_question() -> None:
    assert RECIPE.weights_for(threads=True, voiced=False) == UNMOVED | {
        "meaning.own": 9.0, "meaning.near": 18.0, "meaning.session": 4.0,
        "words.own": 32.0, "words.often": 64.0, "words.wide": 128.0,
    }  # fmt: skip


def test_without_neighbours_their_weight_goes_to_the_row() -> None:
    words = {"words.own": 160.0, "words.often": 64.0}
    assert RECIPE.weights_for(threads=False, voiced=True) == UNMOVED | words | {"meaning.own": 7.0, "voice.own": 24.0}
    assert RECIPE.weights_for(threads=False, voiced=False) == UNMOVED | words | {"meaning.own": 31.0}


@pytest.mark.parametrize("recipe", [*RECIPES.values(), RECIPE], ids=lambda recipe: recipe.name)
def test_folding_loses_no_weight(recipe: Recipe) -> None:
    for threads in (False, True):
        for voiced in (False, True):
            folded = recipe.weights_for(threads=threads, voiced=voiced)
            assert sum(folded.values()) == pytest.approx(sum(recipe.weights.values()))
            assert recipe.weights_for(threads=threads, voiced=voiced) == folded, "the second time too"


@given(st.floats(-12, 12))
def test_a_calibrated_score_is_a_probability(total: float) -> None:
    score = HYBRID.score(total)
    assert 0 < score < 1
    assert score == pytest.approx(math.exp(total) / (1 + math.exp(total)), abs=1e-6)


def _find_total(step: int, ulps: int) -> float:
    """Return log odds whose probability is close to the middle between `step` and the next step of rounding."""
    chance = (step + 0.5) / 1e6
    total = math.log(chance / (1 - chance))
    for _ in range(abs(ulps)):
        total = math.nextafter(total, math.copysign(math.inf, ulps))
    return total


@given(st.floats(-30, 30) | st.builds(_find_total, st.integers(0, 999_999), st.integers(-4, 4)))
def test_a_calibrated_score_is_rounded_exactly(total: float) -> None:
    assert HYBRID.score_all([total, 0.0]) == [round(1 / (1 + math.exp(-total)), 6), 0.5]


def test_extreme_totals_give_scores_of_0_and_1() -> None:
    assert HYBRID.score(0.0) == 0.5
    assert [HYBRID.score(total) for total in (-1e9, -800.0, -50.0, 50.0, 1e9)] == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert HYBRID.score(-math.inf) == 0.0


@given(st.floats(-3, 3))
def test_a_plain_score_is_the_sum(total: float) -> None:
    assert MEANING.score(total) == WORDS.score(total) == round(total, 6)


@pytest.mark.parametrize("group", sorted(set(GROUPS.values())))
def test_a_recipe_can_leave_a_retriever_out(group: str) -> None:
    HYBRID.weights_for(threads=True, voiced=True)
    reduced = HYBRID.without(group)
    assert HYBRID.uses(group)
    assert not reduced.uses(group)
    assert {name for name in HYBRID.weights if name not in reduced.weights} == {
        name for name in HYBRID.weights if GROUPS[name.partition(".")[0]] == group
    }
    assert all(reduced.uses(other) for other in set(GROUPS.values()) - {group})
    assert reduced.weights_for(threads=True, voiced=True) == dict(reduced.weights), "not those of the whole recipe"
    assert (reduced.base, reduced.turn_base, reduced.calibrated, reduced.minimum) == (
        HYBRID.base, HYBRID.turn_base, HYBRID.calibrated, HYBRID.minimum,
    )  # fmt: skip


def test_each_recipe_uses_only_its_own_signals() -> None:
    assert HYBRID.looks_around
    assert 0 < HYBRID.minimum < 1
    assert 0 < HYBRID.share < 1
    for recipe, group in ((MEANING, "meaning"), (WORDS, "words")):
        assert [name for name in set(GROUPS.values()) if recipe.uses(name)] == [group]
        assert (recipe.looks_around, recipe.calibrated, recipe.minimum, recipe.share) == (False, False, 0.0, 0.0)
    assert not Recipe("nothing", {"name": 0.0}).uses("name")


def test_recipes_are_found_by_name() -> None:
    assert get_recipe("words") is WORDS
    assert get_recipe(RECIPE) is RECIPE
    with pytest.raises(InvalidInput, match="no recipe 'hybird'; did you mean 'hybrid'"):
        get_recipe("hybird")
