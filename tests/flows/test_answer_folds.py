"""Measuring each life with weights fitted to the others: the same hits as recall, and no life is fitted to itself."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold
from everhold.errors import InvalidInput
from everhold.evaluation import answer_folds
from everhold.evaluation.answer_fitting import Example, fit_weights
from everhold.evaluation.answer_folds import cross_validate
from everhold.evaluation.lives import Life, read_lives
from everhold.evaluation.questions import evaluate
from everhold.recall import judging

LIVES_FOLDER = Path(__file__).resolve().parents[1] / "lives"


@pytest.fixture(scope="module")
def lives() -> list[Life]:
    """Three lives with a third of their questions each."""
    names = ("a-teacher", "c-retiree", "f-scientist")
    full_lives = read_lives([LIVES_FOLDER / f"{name}.json" for name in names])
    return [life.model_copy(update={"questions": life.questions[::3]}) for life in full_lives]


def test_cross_validation_gives_the_same_hits_as_recall(lives: list[Life], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_folds, "fit_weights", lambda *_: judging.FITTED)
    with Everhold.open("memory://") as engine:
        folds = cross_validate(engine, lives[:2])
    recalled = evaluate(lives[:2], lambda: Everhold.open("memory://"))
    assert folds.as_json() == recalled.as_json()


def test_each_life_is_asked_with_weights_fitted_to_the_others(
    lives: list[Life], monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted_to: list[set[str]] = []
    persona_of = {question.q: life.name for life in lives for question in life.questions}

    def fit(examples: Sequence[Example], *rest: Any) -> dict[str, Any]:
        fitted_to.append({persona_of[example.life_question.q] for example in examples})
        return fit_weights(examples, *rest)

    monkeypatch.setattr(answer_folds, "fit_weights", fit)
    with Everhold.open("memory://") as engine:
        report = cross_validate(engine, lives)
    names = {life.name for life in lives}
    assert fitted_to == [names - {life.name} for life in lives]
    assert report.overall["questions"] == sum(len(life.questions) for life in lives)
    assert report.overall["top1"] > 0.4


def test_one_life_is_too_few_for_cross_validation(lives: list[Life]) -> None:
    with Everhold.open("memory://") as engine, pytest.raises(InvalidInput, match="at least 2 lives; got 1"):
        cross_validate(engine, lives[:1])


def test_only_the_named_parts_are_fitted(lives: list[Life]) -> None:
    with Everhold.open("memory://") as engine:
        examples = list(answer_folds.ask_questions(engine, lives[0]))
    fitted = fit_weights(examples, (), ["chance"])
    unfitted = {name: value for name, value in judging.FITTED.items() if name not in ("chance", "base")}
    assert {name: fitted[name] for name in unfitted} == unfitted
    assert fitted["chance"] != judging.FITTED["chance"]
    assert fitted["chance"].keys() == judging.FITTED["chance"].keys()
