"""Split the messages of a session into episodes, one message after the other.

Whether a message begins an episode depends only on the messages before it. So the result does not depend on how many
messages are read at once, and later messages never change a complete episode.
"""

from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from typing import NamedTuple

import numpy as np

from everhold.model import Message
from everhold.model.vectors import Vector

# A longer pause begins an episode, because people then usually talk about something else.
PAUSE = timedelta(minutes=30)
# The minimum number of messages before a change of topic is detected: fewer messages do not show what the topic is.
MIN_MESSAGES = 6
# The maximum size of an episode, which also limits the size of its summary.
MAX_MESSAGES = 32
MAX_TOKENS = 1500
# A message whose cosine similarity with the mean vector of the episode is lower begins another topic.
MIN_TOPIC_SIMILARITY = 0.25


class EpisodeMessage(NamedTuple):
    """A message with the values that decide whether it begins an episode."""

    message: Message
    tokens: int
    day: date
    vector: Vector | None = None


def split_into_episodes(messages: Iterable[EpisodeMessage]) -> Iterator[list[EpisodeMessage]]:
    """Yield the messages of each episode; the last one may still grow."""
    group: list[EpisodeMessage] = []
    tokens, vector_sum = 0, None
    for item in messages:
        if group and _begins_episode(group, tokens, vector_sum, item):
            yield group
            group, tokens, vector_sum = [], 0, None
        group.append(item)
        tokens += item.tokens
        if item.vector is not None:
            vector_sum = item.vector if vector_sum is None else vector_sum + item.vector
    if group:
        yield group


def _begins_episode(group: list[EpisodeMessage], tokens: int, vector_sum: Vector | None, item: EpisodeMessage) -> bool:
    last = group[-1]
    return (
        item.day != last.day
        or item.message.created_at - last.message.created_at > PAUSE
        or item.message.conversation_id != last.message.conversation_id
        or len(group) >= MAX_MESSAGES
        or tokens + item.tokens > MAX_TOKENS
        or (len(group) >= MIN_MESSAGES and _is_other_topic(vector_sum, item.vector))
    )


def _is_other_topic(vector_sum: Vector | None, vector: Vector | None) -> bool:
    if vector_sum is None or vector is None or len(vector_sum) != len(vector):
        return False
    length = float(np.sqrt(vector_sum.dot(vector_sum)))
    return length > 0 and float(vector_sum.dot(vector)) / length < MIN_TOPIC_SIMILARITY
