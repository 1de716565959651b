"""Summaries of conversations."""

from typing import Any, Final

from pydantic import Field

from everhold.model.base import Entity, cut_text
from everhold.model.fields import Count, Flag, Id, JsonList, Name, Text, Texts, Time
from everhold.model.scope import list_dimensions

# The levels of episodes. An episode of the first level summarises messages; an episode of a higher level summarises
# other episodes.
EPISODE: Final = 1
SECTION: Final = 2
CHAPTER: Final = 3
SESSION: Final = 4
DAY: Final = 5
WEEK: Final = 6
MONTH: Final = 7
YEAR: Final = 8
LEVEL_NAMES = {
    EPISODE: "episode", SECTION: "section", CHAPTER: "chapter", SESSION: "session", DAY: "day", WEEK: "week",
    MONTH: "month", YEAR: "year",
}  # fmt: skip


class Episode(Entity):
    """A summary of consecutive messages (level 1), of consecutive episodes, of a session, or of a period of time.

    A section has 16 episodes and a chapter 16 sections. Days, weeks, months and years belong to the users, projects and
    agents whose sessions they summarise, not to a session.
    """

    session_id: Id | None = None
    user_id: Id | None = None
    project_id: Id | None = None
    agent_id: Id | None = None
    span_from: Time
    span_to: Time
    level: Count = EPISODE
    number: Count = 0
    """The index of the episode among the episodes of the same level in the session, from 0."""
    parent_ids: Texts = Field(default_factory=list)
    """The ids of the rollups of the session and of the periods that the episode belongs to."""
    name: Name | None = None
    summary: Text
    quotes: JsonList = Field(default_factory=list)
    """The quotes of the summary: objects with `message` (an id), `text`, `speaker`, `at` and `worth`."""
    topics: Texts = Field(default_factory=list)
    key_facts: JsonList = Field(default_factory=list)
    """Facts from the messages: objects with `message` (an id) and `text`."""
    participants: Texts = Field(default_factory=list)
    first_message_id: Id | None = None
    last_message_id: Id | None = None
    message_count: Count = 0
    token_count: Count = 0
    """The number of tokens of the messages."""
    is_active: Flag = True
    """Whether the episode may still get more messages."""

    @property
    def level_name(self) -> str:
        return LEVEL_NAMES.get(self.level, str(self.level))

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        scope = list_dimensions(self.__dict__, "_id")
        return [(None, cut_text(self.summary)), ("level", self.level_name), *scope, ("id", self.id)]
