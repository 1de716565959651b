"""Split the messages of a session into episodes, one message after the other.

Whether a message begins an episode depends on the messages before it alone. So the result does not depend on how many
messages are read at once, and an episode that is complete never changes because something is said later.
"""

from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from typing import NamedTuple

import numpy as np

from everhold.model import Message
from everhold.model.vectors import Vector

# A pause after which people usually talk about something else.
PAUSE = timedelta(minutes=30)
# A topic shift is looked for after so many messages: a few short ones do not tell what a topic is.
MIN_MESSAGES = 6
# Limits for the size of an episode, so that its summary has a fixed size.
MAX_MESSAGES = 32
MAX_TOKENS = 1500
# A message whose cosine with the episode's mean vector is below this is about something else.
TOPIC_LIKENESS = 0.25


class EpisodeMessage(NamedTuple):
    """A message with what decides where an episode begins."""

    message: Message
    tokens: int
    day: date
    vector: Vector | None = None


def split_into_episodes(messages: Iterable[EpisodeMessage]) -> Iterator[list[EpisodeMessage]]:
    """Yield the messages of each episode; the last one may still grow."""
    group: list[EpisodeMessage] = []
    tokens, total = 0, None
    for item in messages:
        if group and _begins_episode(group, tokens, total, item):
            yield group
            group, tokens, total = [], 0, None
        group.append(item)
        tokens += item.tokens
        if item.vector is not None:
            total = item.vector if total is None else total + item.vector
    if group:
        yield group


def _begins_episode(group: list[EpisodeMessage], tokens: int, total: Vector | None, item: EpisodeMessage) -> bool:
    last = group[-1]
    return (
        item.day != last.day
        or item.message.created_at - last.message.created_at > PAUSE
        or item.message.conversation_id != last.message.conversation_id
        or len(group) >= MAX_MESSAGES
        or tokens + item.tokens > MAX_TOKENS
        or (len(group) >= MIN_MESSAGES and _is_other_topic(total, item.vector))
    )


def _is_other_topic(total: Vector | None, vector: Vector | None) -> bool:
    if total is None or vector is None or len(total) != len(vector):
        return False
    length = float(np.sqrt(total.dot(total)))
    return length > 0 and float(total.dot(vector)) / length < TOPIC_LIKENESS
