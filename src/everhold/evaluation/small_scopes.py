"""Small scopes cut out of lives: a question and a few memories, as a user has in the first days.

Recall must also be right among few memories, where even the best memory may be irrelevant. For each question, some
scopes contain the answer and some do not. In the latter, the right result is empty.
"""

import random
from collections.abc import Iterable, Iterator, Sequence

from everhold.evaluation.lives import NO_ANSWER, Life, LifeQuestion

# How many memories a scope has. A long list of answers may need more.
SIZES = (3, 5, 7, 9, 11, 13, 15, 18, 22)
SCOPES_PER_QUESTION = 3
# The share of scopes without the answer, for questions that have one.
_UNANSWERED_SHARE = 1 / 3
# How many memories that do not answer the question a scope has at least.
_MIN_OTHERS = 2


def cut_lives(lives: Iterable[Life]) -> list[Life]:
    """Return small scopes for all questions of these lives. They are the same each time."""
    return [scope for life in lives for scope in _cut_life(life)]


def _cut_life(life: Life) -> Iterator[Life]:
    rng = random.Random(life.name)
    for question in life.questions:
        for number in range(SCOPES_PER_QUESTION):
            is_unanswered = not question.expect or rng.random() < _UNANSWERED_SHARE
            memory_ids = _choose_memories(life, question, rng, is_unanswered=is_unanswered)
            yield life.model_copy(
                update={
                    "persona": f"{life.persona}-{question.id}-{number}",
                    "memories": tuple(memory for memory in life.memories if memory.id in memory_ids),
                    "questions": (_remove_answer(question) if is_unanswered else question,),
                }
            )


def _choose_memories(life: Life, question: LifeQuestion, rng: random.Random, *, is_unanswered: bool) -> set[str]:
    """Return the ids of the memories of a scope: those about the question, unless left out, and some others."""
    answer_ids = {*question.right, *question.stale}
    others = [memory.id for memory in life.memories if memory.id not in answer_ids]
    chosen: Sequence[str] = () if is_unanswered else sorted(answer_ids)
    other_count = max(rng.choice(SIZES) - len(chosen), _MIN_OTHERS)
    return {*chosen, *rng.sample(others, min(other_count, len(others)))}


def _remove_answer(question: LifeQuestion) -> LifeQuestion:
    return question.model_copy(update={"type": NO_ANSWER, "expect": (), "also_ok": (), "stale": ()})
