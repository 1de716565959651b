"""Ranking equals a plain reference in double precision, whatever the images look like."""

import math
import random
from datetime import UTC, datetime

import numpy as np
import pytest

from recollect.ports.candidates import Statistics
from recollect.ports.embedder import half_precision
from recollect.recall.image import CHUNK_COLUMNS, MEMORY_COLUMNS, Entry, Image
from recollect.recall.recipe import HYBRID, RECIPES, Recipe
from recollect.recall.scoring import Question, Sight, rank, statistics_of

T0 = datetime(2024, 1, 1, tzinfo=UTC)
DIMENSIONS = 16
WORDS = [f"w{n}" for n in range(30)]


class Row:
    """One chunk, plainly."""

    def __init__(self, chance: random.Random, owner: str) -> None:
        self.owner = owner
        self.words = chance.choices(WORDS, k=chance.randint(0, 30))
        raw = np.asarray([[chance.gauss(0, 1) for _ in range(DIMENSIONS)]])
        self.vector = half_precision(raw / np.linalg.norm(raw))[0] if chance.random() < 0.9 else None
        self.importance = float(np.float32(chance.random()))

    @property
    def entry(self) -> Entry:
        memory = dict.fromkeys(MEMORY_COLUMNS) | {"id": self.owner, "importance": self.importance, "created_at": T0}
        packed = None if self.vector is None else self.vector.astype("<f2").tobytes()
        chunk = dict.fromkeys(CHUNK_COLUMNS) | {
            "owner_id": self.owner, "terms": " ".join(self.words), "vector": packed, "known_from": T0,
        }  # fmt: skip
        return Entry(tuple(chunk[name] for name in CHUNK_COLUMNS), tuple(memory[name] for name in MEMORY_COLUMNS))


def reference(
    rows: list[tuple[Row, bool, bool]], question: Question, recipe: Recipe, limit: int
) -> list[tuple[str, float]]:
    """What `rank` means. Each row comes with whether the scope covers it and whether it may be returned."""
    covered = [row for row, inside, _ in rows if inside]
    holding = {term: sum(term in row.words for row in covered) for term in question.terms}
    rarity = {term: math.log(1 + (len(covered) - n + 0.5) / (n + 0.5)) for term, n in holding.items()}
    most = sum(rarity.values()) * (recipe.saturation + 1)
    best: dict[str, float] = {}
    for row, _, eligible in rows:
        if not eligible:
            continue
        likeness = 0.0
        if question.vector is not None and row.vector is not None:
            likeness = float(row.vector.astype(np.float64) @ question.vector.astype(np.float64))
        words = 0.0
        for term in question.terms:
            often = row.words.count(term)
            long = 1 - recipe.length_share + recipe.length_share * len(row.words) / recipe.usual_terms
            words += rarity[term] / most * often * (recipe.saturation + 1) / (often + recipe.saturation * long)
        total = likeness * recipe.meaning + words * recipe.words + row.importance * recipe.importance
        best[row.owner] = max(best.get(row.owner, -math.inf), total)
    return sorted(best.items(), key=lambda one: (-round(one[1], 5), one[0]))[:limit]


def image_of(rows: list[Row]) -> Image:
    image = Image(DIMENSIONS)
    image.extend([row.entry for row in rows])
    return image


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("masked", [False, True])
def test_like_the_reference(recipe: Recipe, seed: int, masked: bool) -> None:
    chance = random.Random(seed)
    count = chance.choice([0, 1, 5, 40, 400])
    rows = [Row(chance, f"m{chance.randrange(max(1, count // 2))}") for _ in range(count)]
    inside = [not masked or chance.random() < 0.7 for _ in rows]
    eligible = [one and (not masked or chance.random() < 0.7) for one in inside]
    asked = Row(chance, "question")
    question = Question(tuple(dict.fromkeys([*asked.words[:5], "unheard"])), asked.vector)
    half = count // 2
    sights = []
    for part in (slice(0, half), slice(half, None)):
        masks = (np.array(inside[part], bool), np.array(eligible[part], bool)) if masked else (None, None)
        sights.append(Sight(image_of(rows[part]), *masks))
    for limit in (1, 3, 50, 1000):
        expected = reference(list(zip(rows, inside, eligible, strict=True)), question, recipe, limit)
        found = rank(sights, question, recipe, limit)
        assert [one.score for one in found] == pytest.approx([score for _, score in expected], abs=2e-6)
        scores = dict(reference(list(zip(rows, inside, eligible, strict=True)), question, recipe, 10_000))
        for one in found:
            assert one.score == pytest.approx(scores[one.owner_id], abs=2e-6)
        assert len({one.owner_id for one in found}) == len(found)
        assert [one.rank for one in found] == sorted(one.rank for one in found)


def test_the_place_of_a_row_does_not_matter() -> None:
    """To the last digit: the same score in a large image, in a small one, first or last."""
    chance = random.Random(4)
    rows = [Row(chance, f"m{n}") for n in range(700)]
    asked = Row(chance, "question")
    question = Question(tuple(dict.fromkeys(asked.words[:6])), rows[0].vector)
    statistics = statistics_of([Sight(image_of(rows), None, None)], question.terms)
    whole = {one.owner_id: one.score for one in rank([Sight(image_of(rows), None, None)], question, HYBRID, 700)}
    assert len(whole) == 700
    chance.shuffle(rows)
    for size in (1, 2, 7, 64, 699):
        some = rank([Sight(image_of(rows[:size]), None, None)], question, HYBRID, size, statistics)
        assert {one.owner_id: one.score for one in some} == {row.owner: whole[row.owner] for row in rows[:size]}


def test_why_adds_up() -> None:
    chance = random.Random(8)
    rows = [Row(chance, f"m{n}") for n in range(100)]
    question = Question(tuple(WORDS[:4]), rows[0].vector)
    for one in rank([Sight(image_of(rows), None, None)], question, HYBRID, 100):
        why = one.why(HYBRID, "image")
        assert why.meaning + why.words + why.importance == pytest.approx(one.score, abs=2e-6)
        assert sum(why.matched.values()) == pytest.approx(why.words, abs=4e-6)
        words = next(row.words for row in rows if row.owner == one.owner_id)
        assert set(why.matched) == set(question.terms) & set(words)


def test_many_rows_of_few_memories() -> None:
    """The best rows may all belong to the same memory; still `limit` memories are found."""
    chance = random.Random(2)
    near = Row(chance, "long")
    near.vector = near.vector if near.vector is not None else Row(random.Random(3), "x").vector
    rows = []
    for n in range(300):
        row = Row(chance, "long")
        row.vector = near.vector
        rows.append(row)
        if n % 10 == 0:
            rows.append(Row(chance, f"m{n}"))
    found = rank([Sight(image_of(rows), None, None)], Question((), near.vector), HYBRID, 20)
    assert len(found) == 20
    assert found[0].owner_id == "long"


def test_statistics() -> None:
    chance = random.Random(6)
    rows = [Row(chance, f"m{n}") for n in range(50)]
    mask = np.array([n % 3 == 0 for n in range(50)])
    found = statistics_of([Sight(image_of(rows), mask, None), Sight(image_of(rows[:5]), None, None)], ["w1", "never"])
    counted = [row for n, row in enumerate(rows) if n % 3 == 0] + rows[:5]
    assert found == Statistics(len(counted), {"w1": sum("w1" in row.words for row in counted), "never": 0})


def test_equals_are_ordered_by_id() -> None:
    chance = random.Random(1)
    row = Row(chance, "x")
    rows = []
    for name in ("c", "a", "b", "d"):
        twin = Row(chance, name)
        twin.words, twin.vector, twin.importance = row.words, row.vector, row.importance
        rows.append(twin)
    found = rank([Sight(image_of(rows), None, None)], Question(tuple(set(row.words)), row.vector), HYBRID, 3)
    assert [one.owner_id for one in found] == ["a", "b", "c"]
