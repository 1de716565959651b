"""Measure recall on data in the format of LoCoMo: how much of the evidence for each question is found."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from everhold.engine import Everhold
from everhold.errors import InvalidInput
from everhold.recall.hit import Hit
from everhold.recall.recipe import HYBRID, Recipe
from everhold.remember.draft import MemoryInput
from everhold.text.date_words import MONTHS

_EVIDENCE = re.compile(r"D:?(\d+):0*(\d+)")
_SESSION = re.compile(r"session_(\d+)")
_TIME = re.compile(r"(\d{1,2}):(\d{2})\s*([ap]m)\s+on\s+(\d{1,2})\s+([a-z]+),?\s+(\d{4})", re.IGNORECASE)
# Recall is measured among this many of the best turns.
CUTS = (5, 10, 25)
# The number of hits that an agent would get as context.
CONTEXT_HITS = 10
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}


class LocomoTurn(NamedTuple):
    """One message of a conversation. `text` includes the caption of the message's picture, if any."""

    id: str
    session: int
    speaker: str
    text: str
    at: datetime | None


class LocomoQuestion(NamedTuple):
    """A question, and the turns that contain the evidence for its answer."""

    text: str
    evidence: tuple[str, ...]
    category: int


class EvaluatedConversation(NamedTuple):
    """A conversation over several sessions and the questions asked about it."""

    id: str
    turns: tuple[LocomoTurn, ...]
    questions: tuple[LocomoQuestion, ...]


def read(path: Path) -> list[EvaluatedConversation]:
    """Return the conversations of a file in the format of LoCoMo."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise InvalidInput(f"there is no file {path}", remedy="name a LoCoMo-shaped JSON file") from error
    except ValueError as error:
        raise InvalidInput(f"{path} is not JSON ({error})", remedy="name a LoCoMo-shaped JSON file") from error
    if not isinstance(document, list):
        raise InvalidInput(
            f"{path} holds {type(document).__name__}, not a list of conversations", remedy="see docs/evaluation.md"
        )
    return [_parse_conversation(path, number, entry) for number, entry in enumerate(document, 1)]


def _parse_conversation(path: Path, number: int, entry: Any) -> EvaluatedConversation:
    try:
        name = str(entry.get("sample_id") or f"conversation-{number}")
        turns, questions = _parse_turns(entry["conversation"]), _parse_questions(entry["qa"])
        return EvaluatedConversation(name, tuple(turns), tuple(questions))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidInput(
            f"conversation {number} of {path} is not in the shape of LoCoMo ({type(error).__name__}: {error})",
            remedy="see docs/evaluation.md",
        ) from error


def _parse_turns(sessions: dict[str, Any]) -> Iterator[LocomoTurn]:
    numbers = sorted(int(match[1]) for key in sessions if (match := _SESSION.fullmatch(key)))
    for session in numbers:
        start = _parse_time(sessions.get(f"session_{session}_date_time"))
        for position, turn in enumerate(sessions[f"session_{session}"] or ()):
            at = start + timedelta(seconds=position) if start else None
            yield LocomoTurn(turn["dia_id"], session, turn["speaker"], _make_text(turn), at)


def _make_text(turn: dict[str, Any]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['text']} [picture: {caption}]".strip() if caption else turn["text"]


def _parse_time(written: str | None) -> datetime | None:
    """Return a session's time, which LoCoMo writes as "1:56 pm on 8 May, 2023", as a time in UTC: it names no zone."""
    match = _TIME.search(written or "")
    if match is None:
        return None
    hour, minute, half, day, month, year = match.groups()
    hours = int(hour) % 12 + (12 if half.lower() == "pm" else 0)
    return datetime(int(year), MONTHS[month.lower()], int(day), hours, int(minute), tzinfo=UTC)


def _parse_questions(entries: list[dict[str, Any]]) -> Iterator[LocomoQuestion]:
    for entry in entries:
        evidence = [
            f"D{session}:{turn}" for text in entry.get("evidence") or () for session, turn in _EVIDENCE.findall(text)
        ]
        yield LocomoQuestion(entry["question"], tuple(dict.fromkeys(evidence)), int(entry["category"]))


def ingest(engine: Everhold, conversation: EvaluatedConversation) -> dict[str, str]:
    """Store every turn as a memory of a user named after the conversation; return the turn id of each memory id."""
    turn_ids: dict[str, str] = {}
    for session, group in groupby(conversation.turns, key=lambda turn: turn.session):
        view = engine.scope(user=conversation.id, session=f"{conversation.id}-{session}")
        turns = list(group)
        memories = view.remember_many(map(_make_memory, turns))
        turn_ids |= {memory.id: turn.id for memory, turn in zip(memories, turns, strict=True)}
    return turn_ids


def _make_memory(turn: LocomoTurn) -> MemoryInput:
    return {
        "text": turn.text or "(silence)", "kind": "conversation", "speaker": turn.speaker, "occurred_at": turn.at,
    }  # fmt: skip


def find_asking_time(conversation: EvaluatedConversation) -> datetime | None:
    """Return a time after the last session, at which the questions are asked."""
    times = [turn.at for turn in conversation.turns if turn.at]
    return max(times) + timedelta(days=1) if times else None


def find_turns(hits: Iterable[Hit], turn_ids: Mapping[str, str]) -> list[str]:
    """Return the ids of the turns among the hits, best first; a derived fact counts as the turn it is from."""
    turns = (turn_ids.get(hit.memory.id) or turn_ids.get(hit.memory.provenance.get("memory", "")) for hit in hits)
    return list(dict.fromkeys(turn for turn in turns if turn))


@dataclass
class Tally:
    """Sums over questions: shares of the evidence found, and the reciprocal rank of the first evidence."""

    questions: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def add(self, evidence: Sequence[str], turns: Sequence[str]) -> None:
        """Count one question.

        `evidence` are the turns with the answer; `turns` are those that recall returned, best first.
        """
        self.questions += 1
        for k in CUTS:
            share = len(set(evidence) & set(turns[:k])) / len(evidence)
            self.sums[f"r@{k}"] = self.sums.get(f"r@{k}", 0.0) + share
        first_rank = next((rank for rank, turn in enumerate(turns, 1) if turn in evidence), 0)
        self.sums["mrr"] = self.sums.get("mrr", 0.0) + (1 / first_rank if first_rank else 0.0)

    def as_json(self) -> dict[str, float]:
        means = {name: round(total / self.questions, 4) for name, total in self.sums.items()}
        return {"questions": self.questions, **means}


@dataclass
class LocomoReport:
    """The results overall and by category of question, and the tokens of the context that an agent would get."""

    overall: Tally = field(default_factory=Tally)
    categories: dict[int, Tally] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        by_category = {
            CATEGORIES.get(number, str(number)): tally.as_json() for number, tally in sorted(self.categories.items())
        }
        tokens = round(sum(self.tokens) / len(self.tokens), 1) if self.tokens else 0.0
        return {**self.overall.as_json(), "by_category": by_category, "context_tokens": tokens}


def evaluate(
    engine: Everhold,
    conversations: Sequence[EvaluatedConversation],
    recipe_for: Callable[[EvaluatedConversation], str | Recipe] = lambda _: HYBRID,
    progress: Callable[[int], None] | None = None,
) -> LocomoReport:
    """Store the conversations and ask their questions through the public verbs, with no minimum score."""
    report = LocomoReport()
    for conversation in conversations:
        ask(engine, conversation, ingest(engine, conversation), recipe_for(conversation), report, progress)
    return report


def ask(
    engine: Everhold,
    conversation: EvaluatedConversation,
    turn_ids: Mapping[str, str],
    recipe: str | Recipe,
    report: LocomoReport,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Ask the questions of a stored conversation, and add to the report how much of their evidence is found."""
    view, now = engine.scope(user=conversation.id), find_asking_time(conversation)
    for question in conversation.questions:
        if question.evidence:
            hits = view.recall(question.text, k=2 * max(CUTS), minimum=0, recipe=recipe, asked_at=now)
            turns = find_turns(hits, turn_ids)
            for tally in (report.overall, report.categories.setdefault(question.category, Tally())):
                tally.add(question.evidence, turns)
            report.tokens.append(engine.tokens("\n".join(hit.memory.text for hit in hits[:CONTEXT_HITS])))
        if progress:
            progress(1)
