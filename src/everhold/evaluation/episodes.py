"""Measure whether the found episodes belong to the sessions with the evidence, on data in the format of LoCoMo."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from everhold.engine import Everhold
from everhold.evaluation.locomo import EvaluatedConversation, find_asking_time
from everhold.model import Episode
from everhold.views.view import View

# How many different sessions an answer may be looked for in.
SESSIONS = 10
_MAX_HITS = 200
_PAGE = 100


@dataclass
class EpisodeTally:
    """The results of one conversation, or of several together."""

    questions: int = 0
    share_total: float = 0.0
    episodes: int = 0
    message_tokens: int = 0
    summary_tokens: int = 0

    def add(self, other: "EpisodeTally") -> None:
        for name, value in other.__dict__.items():
            setattr(self, name, getattr(self, name) + value)

    def as_json(self) -> dict[str, Any]:
        return {
            "questions": self.questions,
            f"sessions@{SESSIONS}": round(self.share_total / self.questions, 4) if self.questions else 0.0,
            "episodes": self.episodes,
            "message_tokens": self.message_tokens,
            "summary_tokens": self.summary_tokens,
            "summary_share": round(self.summary_tokens / self.message_tokens, 4) if self.message_tokens else 0.0,
        }


@dataclass
class EpisodeReport:
    """The results overall and by conversation."""

    overall: EpisodeTally = field(default_factory=EpisodeTally)
    conversations: dict[str, EpisodeTally] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        by_conversation = {name: tally.as_json() for name, tally in self.conversations.items()}
        return {**self.overall.as_json(), "by_conversation": by_conversation}


def evaluate(
    engine: Everhold, conversations: Sequence[EvaluatedConversation], progress: Callable[[int], None] = lambda _: None
) -> EpisodeReport:
    """Store the conversations as messages, and ask their questions among the episodes of the first level."""
    report = EpisodeReport()
    for conversation in conversations:
        _store_messages(engine, conversation, progress)
        view = engine.scope(user=conversation.id)
        tally = EpisodeTally()
        _count_tokens(engine, view, tally)
        _ask(view, conversation, tally, progress)
        report.conversations[conversation.id] = tally
        report.overall.add(tally)
    return report


def count_steps(conversations: Sequence[EvaluatedConversation]) -> int:
    """Return how many messages are stored and questions asked."""
    return sum(len(conversation.turns) + len(conversation.questions) for conversation in conversations)


def _store_messages(engine: Everhold, conversation: EvaluatedConversation, progress: Callable[[int], None]) -> None:
    for session, turns in groupby(conversation.turns, key=lambda turn: turn.session):
        view = engine.scope(user=conversation.id, session=_name_session(conversation, session))
        for turn in turns:
            view.say(turn.text or "(silence)", name=turn.speaker, created_at=turn.at)
            progress(1)


def _name_session(conversation: EvaluatedConversation, session: int) -> str:
    return f"{conversation.id}-{session}"


def _count_tokens(engine: Everhold, view: View, tally: EpisodeTally) -> None:
    cursor = None
    while True:
        page = view.episodes(limit=_PAGE, cursor=cursor)
        tally.episodes += len(page)
        tally.message_tokens += sum(episode.token_count for episode in page)
        tally.summary_tokens += sum(engine.tokens(episode.summary) for episode in page)
        cursor = page.cursor
        if cursor is None:
            return


def _ask(view: View, conversation: EvaluatedConversation, tally: EpisodeTally, progress: Callable[[int], None]) -> None:
    asked_at, sessions = find_asking_time(conversation), {turn.id: turn.session for turn in conversation.turns}
    for question in conversation.questions:
        evidence = {_name_session(conversation, sessions[turn]) for turn in question.evidence if turn in sessions}
        if evidence:
            hits = view.recall(
                question.text, among="episode", where={"level": 1}, k=_MAX_HITS, minimum=0, asked_at=asked_at
            )
            episodes = [hit.record for hit in hits if isinstance(hit.record, Episode)]
            first_sessions = list(dict.fromkeys(episode.session_id for episode in episodes))[:SESSIONS]
            tally.questions += 1
            tally.share_total += len(evidence.intersection(first_sessions)) / len(evidence)
        progress(1)
