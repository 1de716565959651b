"""Small scopes cut out of lives."""

from pathlib import Path

from everhold.evaluation.lives import NO_ANSWER, read_lives
from everhold.evaluation.small_scopes import SCOPES_PER_QUESTION, SIZES, cut_lives

LIVES = sorted((Path(__file__).resolve().parent.parent / "lives").glob("*.json"))


def test_a_scope_contains_the_whole_answer_or_no_part_of_it() -> None:
    [life] = read_lives(LIVES[:1])
    scopes = cut_lives([life])
    assert len(scopes) == SCOPES_PER_QUESTION * len(life.questions)
    assert len({scope.persona for scope in scopes}) == len(scopes)
    originals = {question.id: question for question in life.questions}
    for scope in scopes:
        [question] = scope.questions
        original = originals[question.id]
        memory_ids = {memory.id for memory in scope.memories}
        answer_ids = {*original.right, *original.stale}
        if question.type == NO_ANSWER:
            assert not question.expect
            assert memory_ids.isdisjoint(answer_ids)
        else:
            assert question == original
            assert answer_ids <= memory_ids
        assert len(memory_ids) <= max(*SIZES, len(answer_ids) + 2)
    answered = sum(bool(scope.questions[0].expect) for scope in scopes)
    assert 0 < answered < len(scopes)


def test_scopes_are_the_same_each_time() -> None:
    lives = read_lives(LIVES[:1])
    assert cut_lives(lives) == cut_lives(lives)
