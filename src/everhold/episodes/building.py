"""Make an episode from messages."""

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Any

from everhold.episodes.boundaries import EpisodeMessage
from everhold.episodes.ids import make_episode_id
from everhold.episodes.periods import list_periods
from everhold.episodes.quotes import Quote, render_episode
from everhold.facts.reading import read_statements
from everhold.model import Episode, Message, Session
from everhold.model.episode import EPISODE, SESSION
from everhold.text.summaries import CountTokens, Extract, summarise

# The maximum length of a summary as a share of the tokens of its messages.
SUMMARY_SHARE = 0.24
# In tokens. Every summary may be at least this long, so that a short episode is quoted whole.
SHORT_SUMMARY = 32

MAX_FACTS = 8
MAX_PARTICIPANTS = 20
# In characters. A longer message is a document, which is not read for facts.
_MAX_FACT_TEXT = 4_000
# The number of topics in the name of an episode.
_NAME_TOPICS = 3
_MAX_NAME = 255
# Messages with these roles are quoted only if an episode has no other messages.
_ROLES_QUOTED_LAST = ("tool", "system")
# The keys of a quote for its owners, and the columns of a message and a session that they come from.
_OWNERS = {"user": "user_id", "agent": "agent_id"}


def make_episode(
    session: Session,
    messages: Sequence[EpisodeMessage],
    number: int,
    count_tokens: CountTokens,
    zone: tzinfo,
    now: datetime,
    *,
    is_active: bool,
) -> Episode:
    """Return the episode that consists of these consecutive messages of a session."""
    first, last = messages[0].message, messages[-1].message
    periods = [period.make_id(session) for period in list_periods(messages[0].day)]
    return Episode.build_unchecked(
        {
            **make_owner_values(session, now),
            "id": make_episode_id(session.id, EPISODE, number),
            "session_id": session.id,
            "span_from": first.created_at,
            "span_to": last.created_at,
            "level": EPISODE,
            "number": number,
            "parent_ids": [make_episode_id(session.id, SESSION), *periods],
            **summarise_messages(session, messages, count_tokens, zone),
            "first_message_id": first.id,
            "last_message_id": last.id,
            "is_active": is_active,
        }
    )


def summarise_messages(
    session: Session, messages: Sequence[EpisodeMessage], count_tokens: CountTokens, zone: tzinfo
) -> dict[str, Any]:
    """Return the values of an episode that depend on its messages: name, summary, quotes, topics, facts and counts."""
    tokens = sum(item.tokens for item in messages)
    budget = compute_budget(tokens)
    quotable = _choose_quotable([item.message for item in messages])
    participants = list(dict.fromkeys(name_speaker(item.message) for item in messages))[:MAX_PARTICIPANTS]
    extract = summarise([message.text or "" for message in quotable], budget, count_tokens, ignored=participants)
    quotes = [
        _make_quote(session, quotable[sentence.source], sentence.text, sentence.worth) for sentence in extract.sentences
    ]
    quotes, topics, summary = _shorten_to_budget(quotes, extract, budget, count_tokens)
    return {
        "name": ", ".join(topics[:_NAME_TOPICS])[:_MAX_NAME] or None,
        "summary": summary,
        "quotes": quotes,
        "topics": topics,
        "key_facts": _read_facts(quotable, zone),
        "participants": participants,
        "message_count": len(messages),
        "token_count": tokens,
    }


def make_owner_values(session: Session, now: datetime) -> dict[str, Any]:
    """Return the values of an episode for its owner and its times."""
    return {
        "organization_id": session.organization_id,
        "user_id": session.user_id,
        "project_id": session.project_id,
        "agent_id": session.agent_id,
        "created_at": now,
        "updated_at": now,
        "metadata": {},
    }


def compute_budget(tokens: int) -> int:
    """Return the maximum number of tokens of a summary of messages with this number of tokens."""
    return max(int(tokens * SUMMARY_SHARE), SHORT_SUMMARY)


def name_speaker(message: Message) -> str:
    """Return the name of the speaker of a message, or the sender's id, or the role."""
    return message.name or message.sender_id or message.role


def _choose_quotable(messages: Sequence[Message]) -> list[Message]:
    """Return the messages that a summary may quote. Messages of tools and the system are a last resort."""
    with_text = [message for message in messages if message.text and message.text.strip()]
    of_people = [message for message in with_text if message.role not in _ROLES_QUOTED_LAST]
    return of_people or with_text


def _make_quote(session: Session, message: Message, text: str, worth: float) -> Quote:
    owners = {
        name: message.__dict__[column]
        for name, column in _OWNERS.items()
        if message.__dict__[column] != session.__dict__[column]
    }
    if message.conversation_id is not None:
        owners["conversation"] = message.conversation_id
    return {
        "message": message.id,
        "text": text,
        "speaker": name_speaker(message),
        "at": message.created_at.isoformat(),
        "worth": round(worth, 4),
        **owners,
    }


def _shorten_to_budget(
    quotes: list[Quote], extract: Extract, budget: int, count_tokens: CountTokens
) -> tuple[list[Quote], list[str], str]:
    """Return the quotes, topics and summary, shortened to the budget.

    At least one quote is kept, even if the summary then exceeds the budget.
    """
    topics = list(extract.topics)
    summary = render_episode(quotes, topics)
    while (excess := count_tokens(summary) - budget) > 0 and (topics or len(quotes) > 1):
        if topics:
            # A topic is one word, which has about two tokens. Several are removed at once, because counting is slow.
            del topics[-max(1, excess // 2) :]
        else:
            quotes.remove(min(quotes, key=lambda quote: float(quote["worth"])))
        summary = render_episode(quotes, topics)
    return quotes, topics, summary


def _read_facts(messages: Sequence[Message], zone: tzinfo) -> list[dict[str, str]]:
    facts: dict[str, dict[str, str]] = {}
    for message in messages:
        if message.role != "user" or not message.text or len(message.text) > _MAX_FACT_TEXT:
            continue
        for statement in read_statements(message.text, speaker=message.name, now=message.created_at, zone=zone):
            facts.setdefault(statement.text, {"message": message.id, "text": statement.text})
    return list(facts.values())[:MAX_FACTS]
