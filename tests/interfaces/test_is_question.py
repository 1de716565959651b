"""The shell answers lines that are questions and stores other lines."""

import pytest

from everhold.interfaces.shared.questions import is_question


@pytest.mark.parametrize(
    "line",
    [
        "Rex?",
        "Rexはどこ？",
        "where do I live",
        "What's my dog called",
        "which documents expire soon",
        "Do I have a dog",
        "isn't it late",
        "does my dog bite",
        "Does Anna like tea",
        "did Jürgen call",
        "Do Anna and Ben like tea",
        "Will Anna come",
        "will Anna be late",
        "Is Anna allergic to nuts",
        "Has Anna been to Rome",
        "tell me about Rex",
        "whats my number",
        "isnt it late",
        "why so late",
        "list my allergies",
        "any news about the van",
        "I wonder where the bins are",
        "I forgot where the keys are",
    ],
)
def test_questions_are_recognised(line: str) -> None:
    assert is_question(line)


@pytest.mark.parametrize(
    "line",
    [
        "My dog is called Rex",
        "What I like is tea",
        "When I was young I lived in Rome",
        "do my taxes",
        "Do Yoga daily",
        "Is allergic to nuts",
        "Is German by birth",
        "Has Anna's number",
        "Was Mayor of Rome",
        "Can swim",
        "Will Smith called",
        "Will Turner is my boss",
        "May Lee is my doctor",
        "whatever happens, call Anna",
        "Who dares wins is Dad's motto",
        "Why I left Rome",
        "Find a new flat",
        "I want to learn Thai",
        "Anyone can join the club",
    ],
)
def test_statements_are_not_questions(line: str) -> None:
    assert not is_question(line)
