"""A language model that does not answer: the wait and the number of waiting questions are limited."""

import threading

import pytest

from everhold.ask.language_model.calling import BoundedModel, ModelCalls
from everhold.errors import ModelError, ModelUnavailable


class HangingModel:
    """A model that answers only after the test releases it."""

    name = "hanging"

    def __init__(self) -> None:
        self.released = threading.Event()
        self.calls = 0

    def complete(self, prompt: str) -> str:
        self.calls += 1
        self.released.wait()
        return prompt.upper()


def test_the_number_of_waiting_questions_is_limited() -> None:
    model = HangingModel()
    bounded = BoundedModel(model)
    for _ in range(4):
        with pytest.raises(ModelUnavailable, match=r"did not answer within 0\.01 seconds"):
            bounded.complete("a", 0.01)
    with pytest.raises(ModelUnavailable, match="4 questions wait for the model 'hanging'"):
        bounded.complete("a", 0.01)
    assert model.calls == 4
    model.released.set()
    while True:  # until the first of the four has ended
        try:
            assert bounded.complete("b", 10) == "B"
            break
        except ModelUnavailable:
            continue


def test_calls_for_one_question_share_its_time_limit() -> None:
    model = HangingModel()
    calls = ModelCalls(BoundedModel(model), 0.05, len)
    for _ in range(2):
        with pytest.raises(ModelUnavailable):
            calls.ask("abc")
    assert [(prompt.tokens, prompt.answer_tokens) for prompt in calls.prompts] == [(3, None), (3, None)]
    model.released.set()


def test_an_error_of_the_model_is_raised() -> None:
    class Broken(HangingModel):
        def complete(self, prompt: str) -> str:
            raise ModelError("refused", remedy="none")

    with pytest.raises(ModelError, match="refused"):
        BoundedModel(Broken()).complete("a", 1)
