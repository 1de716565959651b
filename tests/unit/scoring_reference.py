"""A slow reference for ranking: it scores one row after another in double precision, without arrays."""

import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from everhold.model.searchable import OWNER_COLUMNS
from everhold.ports.embedder import Vector, round_to_half_precision
from everhold.recall.image import CHUNK_COLUMNS, Image, ImageEntry
from everhold.recall.question import Question
from everhold.recall.recipe import Recipe

T0 = datetime(2024, 3, 1, tzinfo=UTC)
NOW = T0 + timedelta(days=45)
DAY = timedelta(days=1)
DIMENSIONS = 16
WORDS = [*(f"w{n}" for n in range(28)), "yesterday", "2023"]
SPEAKERS = (None, "Mia Moss", "Tom Reed")


class SmallThesaurus:
    """A few terms that mean nearly the same as another."""

    def find_similar(self, term: str) -> Sequence[tuple[str, float]]:
        number = WORDS.index(term) if term in WORDS else -1
        return [(WORDS[number - n], 0.9 - n / 8) for n in (1, 2, 3)] if number > 3 and number % 2 else []


THESAURUS = SmallThesaurus()


class ReferenceRow:
    """One chunk. The fields of its memory are the same for all chunks of one owner.

    With `in_sessions`, the memory may be a turn of a session, a fact of a turn, or superseded.
    """

    def __init__(self, rng: random.Random, owner: str, *, in_sessions: bool = False) -> None:
        self.owner = owner
        self.words = rng.choices(WORDS, k=rng.randint(0, 30)) + ["?"] * (rng.random() < 0.3)
        self.vector = make_vector(rng) if rng.random() < 0.9 else None
        owner_rng = random.Random(owner)
        self.importance = float(np.float32(owner_rng.random()))
        self.session = f"s{owner_rng.randrange(4)}" if in_sessions and owner_rng.random() < 0.7 else None
        self.when = T0 + timedelta(hours=owner_rng.randrange(1200))
        self.speaker = owner_rng.choice(SPEAKERS)
        self.alias = owner_rng.sample(WORDS[:8], k=2) if owner_rng.random() < 0.2 else None
        self.source = (
            f"m{owner_rng.randrange(9)}" if in_sessions and not self.session and owner_rng.random() < 0.4 else None
        )
        self.successor = (
            f"m{owner_rng.randrange(5)}" if in_sessions and owner_rng.random() < 0.2 and owner > "m5" else None
        )
        if in_sessions and owner in ("m0", "m1"):
            self.successor = "m4"
        self.is_event = bool(self.session) or owner_rng.random() < 0.6

    @property
    def entry(self) -> ImageEntry:
        memory: dict[str, Any] = dict.fromkeys(OWNER_COLUMNS) | {
            "id": self.owner, "importance": self.importance, "strength": 1.0,
            "created_at": NOW if self.is_event else self.when, "occurred_at": self.when if self.is_event else None,
            "kind": "fact" if self.source else "conversation", "session_id": self.session, "speaker": self.speaker,
            "aliases": [" ".join(self.alias)] if self.alias else [], "superseded_by": self.successor,
            "provenance": {"memory": self.source} if self.source else {},
        }  # fmt: skip
        packed = None if self.vector is None else self.vector.astype("<f2").tobytes()
        chunk: dict[str, Any] = dict.fromkeys(CHUNK_COLUMNS) | {
            "owner_id": self.owner, "terms": " ".join(self.words), "vector": packed, "known_from": T0,
        }  # fmt: skip
        return ImageEntry(tuple(chunk[name] for name in CHUNK_COLUMNS), tuple(memory[name] for name in OWNER_COLUMNS))


def make_vector(rng: random.Random) -> Vector:
    raw = np.asarray([[rng.gauss(0, 1) for _ in range(DIMENSIONS)]])
    vector: Vector = round_to_half_precision(raw / np.linalg.norm(raw))[0]
    return vector


class ScopedRow(NamedTuple):
    """A row, whether the scope covers it and whether it may be returned."""

    row: ReferenceRow
    covered: bool
    eligible: bool


def build_image(rows: Sequence[ReferenceRow]) -> Image:
    image = Image(DIMENSIONS)
    image.extend([row.entry for row in rows])
    return image


def find_turn(row: ReferenceRow, rows: list[ReferenceRow]) -> ReferenceRow | None:
    """Return the turn of a row; for a fact, the last of the turns from which it was derived."""
    if row.session is not None:
        return row
    turns = [other for other in rows if other.session is not None and other.owner == row.source]
    return turns[-1] if turns else None


def list_session_rows(row: ReferenceRow, rows: list[ReferenceRow]) -> list[ReferenceRow]:
    turns = [other for other in rows if other.session == row.session]
    return sorted(turns, key=lambda row: (row.when, row.owner))


class ReferenceRanking:
    """Computes what `rank` must return, one row after another."""

    def __init__(self, image_views: Sequence[Sequence[ScopedRow]], question: Question, recipe: Recipe) -> None:
        self.image_views, self.question, self.recipe = image_views, question, recipe
        covered = [scoped.row for image_view in image_views for scoped in image_view if scoped.covered]
        row_counts = {term: sum(term in row.words for row in covered) for term in question.terms}
        rarity = {
            term: math.log(1 + (len(covered) - count + 0.5) / (count + 0.5)) for term, count in row_counts.items()
        }
        self.weight = {term: value / (sum(rarity.values()) or 1) for term, value in rarity.items()}

    def rank(self) -> list[tuple[str, float]]:
        best: dict[str, float] = {}
        for image_view in self.image_views:
            rows = [scoped.row for scoped in image_view]
            for scoped, total in zip(image_view, self.compute_totals(rows), strict=True):
                if scoped.eligible:
                    best[scoped.row.owner] = max(best.get(scoped.row.owner, -math.inf), total)
        if self.recipe.lead:
            self.raise_best(best)
        scores = {owner: 1 / (1 + math.exp(-total)) for owner, total in best.items()}
        ranked = scores if self.recipe.calibrated else best
        return sorted(ranked.items(), key=lambda item: -item[1])

    def raise_best(self, best: dict[str, float]) -> None:
        """Raise the best score by its distance to the next row that is neither derived from the best nor its source."""
        order = sorted(best, key=lambda owner: -best[owner])
        source = {scoped.row.owner: scoped.row.source for image_view in self.image_views for scoped in image_view}
        if not order:
            return
        others = [best[owner] for owner in order[1:] if source[owner] != order[0] and source[order[0]] != owner]
        next_score = others[0] if others else self.recipe.base + self.recipe.unrelated
        best[order[0]] += self.recipe.lead * max(0.0, min(best[order[0]] - next_score, self.recipe.max_lead))

    def compute_totals(self, rows: list[ReferenceRow]) -> list[float]:
        """Return the total of each row; a successor has at least the total of a row that it replaces, less the loss."""
        totals = [self.compute_total(row, rows) for row in rows]
        raised = list(totals)
        successors = {row.owner: row.successor for row in rows if row.successor}
        for replaced, total in zip(rows, totals, strict=True):
            successor = replaced.successor
            while successor in successors:
                successor = successors[successor]
            for index, row in enumerate(rows):
                if self.recipe.calibrated and row.owner == successor:
                    raised[index] = max(raised[index], total - self.recipe.successor_loss)
        return raised

    def compute_total(self, row: ReferenceRow, rows: list[ReferenceRow]) -> float:
        total = self.recipe.base
        if self.recipe.looks_around and find_turn(row, rows) is not None:
            total += self.recipe.turn_base
        for name, weight in self.recipe.weights.items():
            kind, _, extent = name.partition(".")
            if extent:
                total += weight * self.score_extent(kind, extent, row, rows)
            else:
                total += weight * self.score_signal(name, row, rows)
        return total

    def score_extent(self, kind: str, extent: str, row: ReferenceRow, rows: list[ReferenceRow]) -> float:
        """Return the score of the row, or of an extent around its turn, such as the session."""
        turn = find_turn(row, rows)
        if extent in ("own", "often") or turn is None:
            return self.score_row(kind, extent, row)
        session = list_session_rows(turn, rows)
        if extent == "session":
            return max(self.score_row(kind, "own", turn) for turn in session)
        before, after = {"before": (3, 0), "near": (1, 1), "around": (3, 3), "wide": (6, 6)}[extent]
        index = session.index(turn)
        window = session[max(0, index - before) : index + after + 1]
        if kind == "words":
            window_words = {word for row in window for word in row.words}
            return sum(weight for term, weight in self.weight.items() if term in window_words)
        return sum(self.score_row(kind, "own", turn) for turn in window) / len(window)

    def score_row(self, kind: str, extent: str, row: ReferenceRow) -> float:
        if kind == "words":
            return sum(weight * self.score_term(row, term, extent) for term, weight in self.weight.items())
        query = self.question.voice if kind == "voice" else self.question.vector
        if query is None or row.vector is None:
            looks_at_words = any(name.startswith("words") for name in self.recipe.weights)
            return 0.6 * self.score_row("words", "own", row) if looks_at_words else 0.0
        return sum(float(x) * float(y) for x, y in zip(query, row.vector, strict=True))

    def score_term(self, row: ReferenceRow, term: str, extent: str) -> float:
        count = row.words.count(term)
        if extent != "often":
            return float(count > 0)
        share = self.recipe.length_share
        length_factor = 1 - share + share * len(row.words) / self.recipe.usual_terms
        return count / (count + self.recipe.saturation * length_factor)

    def score_signal(self, name: str, row: ReferenceRow, rows: list[ReferenceRow]) -> float:
        question = self.question
        match name:
            case "similar":
                return sum(weight * score_synonyms(term, row) for term, weight in self.weight.items())
            case "timed":
                return float("yesterday" in row.words or "2023" in row.words)
            case "when":
                return self.score_signal("timed", row, rows) if question.when else 0.0
            case "date":
                share = 1.0 if row.is_event else 0.2
                return share * max((score_time(row.when, *span) for span in question.times), default=0.0)
            case "speaker":
                return float((find_turn(row, rows) or row).speaker in question.speakers)
            case "asking":
                return float("?" in row.words)
            case "answering":
                return score_answering(row, rows)
            case "name":
                return float(row.alias is not None and set(row.alias) <= question.words)
            case "importance":
                return row.importance
            case "recency":
                return 30 / (30 + max(0, (NOW.date() - row.when.date()).days))
            case "session":
                return float(question.session is not None and row.session == question.session)
        raise AssertionError(name)


def score_synonyms(term: str, row: ReferenceRow) -> float:
    if term in row.words:
        return 1.0
    return max((similarity for other, similarity in THESAURUS.find_similar(term) if other in row.words), default=0.0)


def score_time(when: datetime, start: int, end: int) -> float:
    first, last = (datetime.fromtimestamp(moment / 1e6, UTC) for moment in (start, end))
    if last - first > 8 * DAY:
        return 0.5 if first <= when < last else 0.0
    if first <= when < last:
        return 1.0
    if last <= when < last + 14 * DAY:
        return 0.5
    return 0.2 if first - 3 * DAY <= when < first else 0.0


def score_answering(row: ReferenceRow, rows: list[ReferenceRow]) -> float:
    """Return 1 if the preceding turn of the same session is a question, otherwise 0."""
    turn = find_turn(row, rows)
    if turn is None:
        return 0.0
    session = list_session_rows(turn, rows)
    index = session.index(turn)
    return float(index > 0 and "?" in session[index - 1].words)
