"""Judging the candidates of a recall together: updates, explicit evidence, few candidates, and bounds."""

from typing import Any

import numpy as np
import pytest

from everhold.recall.asked_attribute import AskedAttribute
from everhold.recall.intent import Intent
from everhold.recall.judging import (
    FEW_CANDIDATES,
    MAX_JUDGED,
    ONE_AMONG_FEW,
    ONE_ANSWER,
    SEVERAL_AMONG_FEW,
    SEVERAL_ANSWERS,
    WEIGHTS,
    Judgement,
    Verdict,
    choose_chance,
    find_bounds,
    judge,
)
from everhold.recall.measures import (
    GROUPS,
    QUESTION_MEASURES,
    ROWS,
    UPDATE_ROWS,
    Candidates,
    QuestionProfile,
    measure_fit,
    measure_shares,
)
from everhold.recall.question import Question
from everhold.recall.signals import DAY
from everhold.recall.text_features import CHANGE

SIZE = MAX_JUDGED
NOW = 1000 * DAY


def make_candidates(**changed: Any) -> Candidates:
    """Make candidates: the first fits best; the second is a year newer and has nearly the same text."""
    generator = np.random.default_rng(3)
    vectors = generator.normal(size=(SIZE, 16)).astype(np.float32)
    vectors[1] = vectors[0]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    similarity = np.linspace(0.25, 0.05, SIZE)
    similarity[:2] = 0.6, 0.5
    when = np.full(SIZE, 100 * DAY)
    when[1] = 465 * DAY
    totals = np.linspace(-2.0, -6.0, SIZE)
    totals[:2] = 1.5, 1.0
    features = np.zeros(SIZE, np.int64)
    features[1] = CHANGE
    zeros = np.zeros(SIZE)
    holds = np.zeros((2, SIZE))
    holds[0, :2] = 1.0
    candidates = Candidates(
        totals=totals, signal_log_odds=totals, explicit=zeros, similarity=similarity, dates=zeros,
        features=features,
        when=when, asks=zeros, vectors=vectors, anchor=zeros, contrary=zeros, preference=zeros,
        evidence=np.zeros((SIZE, 4)), rare=np.full(SIZE, frozenset(), object), holds=holds,
    )  # fmt: skip
    return candidates._replace(**changed)


def make_profile(intent: Intent = Intent(asked=AskedAttribute(1))) -> QuestionProfile:  # noqa: B008
    shares = np.array([[0.5, 0.5], [0.5, 0.5]])
    traits = np.zeros((len(QUESTION_MEASURES), 1))
    return QuestionProfile(intent, shares, None, 2, 2, traits, timed=False, anchored=False, now=NOW)


def test_a_newer_candidate_that_says_the_same_takes_the_first_place() -> None:
    judgement = judge(make_candidates(), make_profile())
    assert judgement.chain == [0, 1]
    assert judgement.totals[1] == max(judgement.totals)
    old, new = (Verdict(judgement, index, [f"m{number}" for number in range(SIZE)]) for index in (0, 1))
    assert (old.outdated_by, old.updates, new.updates, new.outdated_by) == ("m1", None, "m0", None)
    assert Verdict(judgement, 5, [""] * SIZE).updates is None


def state_attribute(**evidence: tuple[float, float, float, float]) -> Candidates:
    """Make candidates: the second has only one thing in common with the first, the attribute that both state."""
    vectors = make_candidates().vectors.copy()
    vectors[1] = vectors[2]
    similarity = make_candidates().similarity.copy()
    similarity[1] = 0.1
    evidence_table = np.zeros((SIZE, 4))
    for index, name in enumerate(("old", "new")):
        evidence_table[index] = evidence.get(name, (0.0, 0.0, 0.0, 0.0))
    return make_candidates(vectors=vectors, similarity=similarity, evidence=evidence_table)


def test_a_newer_candidate_that_states_the_attribute_takes_the_first_place() -> None:
    old, new = (1.0, 0.75, 0.0, 1.0), (1.0, 1.0, 0.0, 1.0)
    assert judge(state_attribute(), make_profile()).chain == [0]
    judgement = judge(state_attribute(old=old, new=new), make_profile())
    assert judgement.chain == [0, 1]
    assert judgement.totals[1] == max(judgement.totals)


def test_a_newer_candidate_about_another_person_outdates_nothing() -> None:
    old, about_another = (1.0, 0.75, 0.0, 1.0), (0.0, 0.0, 1.0, 1.0)
    evidence = state_attribute(old=old, new=about_another).evidence
    assert judge(make_candidates(), make_profile()).chain == [0, 1]
    similarity = make_candidates().similarity.copy()
    similarity[1] = 0.3
    vectors = make_candidates().vectors.copy()
    vectors[1] = 0.7 * vectors[0] + 0.7 * vectors[2]
    judgement = judge(make_candidates(evidence=evidence, similarity=similarity, vectors=vectors), make_profile())
    assert judgement.chain == [0]


def test_an_older_candidate_outdates_nothing() -> None:
    when = make_candidates().when.copy()
    when[1] = 50 * DAY
    judgement = judge(make_candidates(when=when), make_profile())
    assert judgement.chain == [0]
    assert judgement.totals[0] == max(judgement.totals)


def test_a_question_about_the_past_keeps_the_old_one_first() -> None:
    vectors = make_candidates().vectors.copy()
    vectors[1] = 0.6 * vectors[0] + 0.8 * vectors[2]  # a similarity of 0.6, as two texts on one topic have
    profiles = (make_profile(), make_profile(Intent(past=True, happened=True)))
    present, past = (judge(make_candidates(vectors=vectors), profile) for profile in profiles)
    assert past.totals[0] - past.totals[1] > present.totals[0] - present.totals[1]


def test_a_question_that_repeats_a_memory_means_that_memory() -> None:
    similarity = make_candidates().similarity.copy()
    similarity[0] = 0.97
    assert judge(make_candidates(similarity=similarity), make_profile()).chain == [0]


def test_explicit_evidence_lifts_no_higher_than_the_signals() -> None:
    explicit, signal_log_odds = np.zeros(SIZE), make_candidates().totals.copy()
    totals = make_candidates().totals.copy()
    explicit[7], signal_log_odds[7], totals[7] = 9.0, 0.5, 2.0
    plain = judge(make_candidates(totals=totals), make_profile())
    lifted = judge(make_candidates(totals=totals, explicit=explicit, signal_log_odds=signal_log_odds), make_profile())
    assert lifted.totals[7] == pytest.approx(0.5)
    assert plain.totals[7] < 0.5


def test_a_candidate_linked_to_the_best_stays_behind_it() -> None:
    explicit, signal_log_odds, totals = np.zeros(SIZE), np.full(SIZE, 5.0), make_candidates().totals.copy()
    explicit[7], totals[7] = 9.0, totals[0] - 1.0
    linked = judge(make_candidates(totals=totals, explicit=explicit, signal_log_odds=signal_log_odds), make_profile())
    unlinked = judge(make_candidates(totals=totals, signal_log_odds=signal_log_odds), make_profile())
    assert unlinked.totals[7] <= linked.totals[7] < linked.totals[0]


@pytest.mark.parametrize("size", [1, 2, FEW_CANDIDATES, FEW_CANDIDATES + 4, MAX_JUDGED])
def test_the_weights_depend_on_the_number_of_candidates(size: int) -> None:
    candidates = Candidates(*(column[:size] for column in make_candidates()[:-1]), make_candidates().holds[:, :size])
    judgement = judge(candidates, make_profile())
    assert judgement.chance.weights.tolist() == choose_chance(WEIGHTS, size).weights.tolist()
    low, high = sorted((WEIGHTS.chance.base, WEIGHTS.chance_among_few.base))
    expected = {FEW_CANDIDATES: WEIGHTS.chance_among_few.base, MAX_JUDGED: WEIGHTS.chance.base}
    assert judgement.chance.base == expected.get(size, judgement.chance.base)
    assert low <= judgement.chance.base <= high
    assert size == 1 or int(np.argmax(judgement.totals)) == 1, (
        "the update did not come first with every number of candidates"
    )


def test_a_newer_candidate_about_another_thing_outdates_nothing() -> None:
    contrary = np.zeros(SIZE)
    contrary[1] = 1.0
    vectors = make_candidates().vectors.copy()
    vectors[1] = 0.5 * vectors[0] + 0.85 * vectors[2]
    assert judge(make_candidates(vectors=vectors), make_profile()).chain == [0, 1]
    assert judge(make_candidates(vectors=vectors, contrary=contrary), make_profile()).chain == [0]


@pytest.mark.parametrize("similarity_of_newer", [0.5, 0.1])
def test_explanations_add_up(similarity_of_newer: float) -> None:
    """This is also true if the newer candidate's own score is below that of the candidate that it replaces."""
    similarity = make_candidates().similarity.copy()
    similarity[1] = similarity_of_newer
    judgement = judge(make_candidates(similarity=similarity), make_profile())
    assert judgement.chain == [0, 1]
    assert judgement.update_shift.any() == (similarity_of_newer < 0.5)
    for index in range(SIZE):
        parts = Verdict(judgement, index, [""] * SIZE).explain()
        assert sum(parts.values()) + judgement.chance.base == pytest.approx(judgement.totals[index])


def test_every_measure_has_a_weight_and_a_group() -> None:
    is_weighed = (WEIGHTS.chance.weights != 0) | (WEIGHTS.chance_among_few.weights != 0)
    assert {name for name, row in ROWS.items() if is_weighed[row]} == set(GROUPS)
    is_used = is_weighed | (WEIGHTS.topic != 0)
    assert is_used.all()
    assert (WEIGHTS.update != 0).all()
    assert len(WEIGHTS.update) == len(UPDATE_ROWS)


def test_a_candidate_stands_out_among_low_similarities_as_among_high_ones() -> None:
    candidates = make_candidates()
    low = candidates._replace(similarity=candidates.similarity - 0.1)
    rows = []
    for variant in (candidates, low):
        table = measure_fit(variant, make_profile(), measure_shares(variant, make_profile()))
        rows.append(table[ROWS["stands_out"]])
    expected = (candidates.similarity - candidates.similarity.mean()) / candidates.similarity.std()
    assert rows[0] == pytest.approx(expected)
    assert rows[1] == pytest.approx(expected)


def test_equal_similarities_do_not_stand_out() -> None:
    equal = make_candidates(similarity=np.full(SIZE, 0.3))
    table = measure_fit(equal, make_profile(), measure_shares(equal, make_profile()))
    assert table[ROWS["stands_out"]] == pytest.approx(0.0)


def make_question(times: tuple[tuple[int, int], ...] = (), **intent: bool) -> Question:
    return Question((), None, times=times, intent=Intent(**intent))


def test_the_bounds_depend_on_the_question_and_the_best_score() -> None:
    single, several = make_question(), make_question(lists=True)
    assert find_bounds(single, MAX_JUDGED, 0.9) == ONE_ANSWER
    assert find_bounds(several, MAX_JUDGED, 0.9) == SEVERAL_ANSWERS
    assert find_bounds(several, MAX_JUDGED, 0.2) == ONE_ANSWER, "the best must be good enough"
    assert find_bounds(make_question(((0, DAY),), lists=True), MAX_JUDGED, 0.9) == ONE_ANSWER, (
        "the time is what they share"
    )
    assert ONE_ANSWER.find_minimum(0.9) == pytest.approx(0.36)
    assert ONE_ANSWER.find_minimum(0.4) == ONE_ANSWER.minimum


def test_few_candidates_have_bounds_of_their_own() -> None:
    assert find_bounds(make_question(), FEW_CANDIDATES, 0.9) == ONE_AMONG_FEW
    assert find_bounds(make_question(lists=True), FEW_CANDIDATES, 0.9) == SEVERAL_AMONG_FEW
    assert find_bounds(make_question(past=True), FEW_CANDIDATES, 0.9) == SEVERAL_AMONG_FEW, (
        "the old fact and its successor"
    )
    assert find_bounds(make_question(past=True), FEW_CANDIDATES, 0.2) == ONE_AMONG_FEW


def test_a_single_candidate_is_judged_too() -> None:
    candidates = Candidates(*(column[:1] for column in make_candidates()[:-1]), make_candidates().holds[:, :1])
    assert isinstance(judge(candidates, make_profile()), Judgement)
