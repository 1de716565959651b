"""Updates and look-alikes with the real model: the newest fact is the first hit, and look-alikes end no fact.

tests/fixtures/plain_updates.json has everyday statements of change, written before the rules were and not edited since;
tests/fixtures/updates.json has hard ones, most of which share no word with the question. Each pair has a user of its
own. The bars are a pair or two below the figures measured, because processors round vectors differently: raise one when
its figure rises.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from everhold import Everhold, View
from everhold.model import Memory

# All tests run in one process, because they share answers that take seconds to compute.
pytestmark = [pytest.mark.model, pytest.mark.xdist_group("updates")]

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
ASKED_AT = datetime(2025, 12, 1, 9, tzinfo=UTC)


class PairSet(NamedTuple):
    """The pairs and look-alikes of a fixture, and how many of them must pass."""

    pairs: list[dict[str, Any]]
    lookalikes: list[dict[str, Any]]
    new_on_top: int
    first_on_top: int


def read_pairs(name: str, new_on_top: int, first_on_top: int) -> PairSet:
    document = json.loads((FIXTURES / name).read_text("utf-8"))
    return PairSet(document["pairs"], document["lookalikes"], new_on_top, first_on_top)


PLAIN = read_pairs("plain_updates.json", new_on_top=71, first_on_top=34)
HARD = read_pairs("updates.json", new_on_top=58, first_on_top=37)
EACH_SET = pytest.mark.parametrize("pair_set", [PLAIN, HARD], ids=["plain", "hard"])


@dataclass(frozen=True)
class Answer:
    """The texts that a user stored, in order, and the first hit for the question."""

    stored: list[Memory]
    first_hit: str | None


@pytest.fixture(scope="module")
def engine() -> Iterator[Everhold]:
    with Everhold.open("memory://") as opened:
        yield opened


@pytest.fixture(scope="module")
def answers(engine: Everhold) -> dict[str, Answer]:
    """The answer to the question of each pair and look-alike, by its id."""
    stories: list[tuple[dict[str, Any], list[str]]] = []
    for pair_set in (PLAIN, HARD):
        stories += [(pair, [pair["old"], *pair["between"], pair["new"]]) for pair in pair_set.pairs]
        stories += [(pair, [pair["first"], pair["second"]]) for pair in pair_set.lookalikes]
    return {pair["id"]: tell_and_ask(engine.scope(user=pair["id"]), texts, pair["question"]) for pair, texts in stories}


def tell_and_ask(view: View, texts: list[str], question: str) -> Answer:
    """Remember the texts three months apart, the last one in October, and ask in December."""
    months = range(10 - 3 * (len(texts) - 1), 11, 3)
    memories = [
        view.remember(text, occurred_at=datetime(2025, month, 15, 18, tzinfo=UTC))
        for month, text in zip(months, texts, strict=True)
    ]
    hits = view.recall(question, asked_at=ASKED_AT)
    return Answer([view.get(memory.id) for memory in memories], hits[0].memory.text if hits else None)


def check_passed(pairs: list[dict[str, Any]], failed: list[str], bar: int) -> None:
    passed = len(pairs) - len(failed)
    assert passed >= bar, f"{passed} of {len(pairs)} pass; these fail: {' '.join(failed)}"


@EACH_SET
def test_there_are_enough_pairs(pair_set: PairSet) -> None:
    assert len(pair_set.pairs) >= 60
    assert len(pair_set.lookalikes) >= 40


def test_ids_of_pairs_are_unique() -> None:
    ids = [pair["id"] for pair_set in (PLAIN, HARD) for pair in (*pair_set.pairs, *pair_set.lookalikes)]
    assert len(set(ids)) == len(ids)


@EACH_SET
def test_the_newest_fact_is_the_first_hit(pair_set: PairSet, answers: dict[str, Answer]) -> None:
    failed = [pair["id"] for pair in pair_set.pairs if answers[pair["id"]].first_hit != pair["new"]]
    check_passed(pair_set.pairs, failed, pair_set.new_on_top)


@EACH_SET
def test_the_current_fact_is_the_first_hit(pair_set: PairSet, answers: dict[str, Answer]) -> None:
    failed = [pair["id"] for pair in pair_set.lookalikes if answers[pair["id"]].first_hit != pair["first"]]
    check_passed(pair_set.lookalikes, failed, pair_set.first_on_top)


@EACH_SET
def test_a_lookalike_supersedes_nothing(pair_set: PairSet, answers: dict[str, Answer]) -> None:
    lookalikes = pair_set.lookalikes
    failed = [pair["id"] for pair in lookalikes if any(memory.superseded_by for memory in answers[pair["id"]].stored)]
    check_passed(lookalikes, failed, len(lookalikes))
