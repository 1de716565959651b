"""Read what an owner's memories and episodes say, and on which day, as evidence for relations and reflections."""

from collections.abc import Iterator
from datetime import date, datetime, tzinfo
from typing import NamedTuple

from everhold.model import Episode, Memory, User
from everhold.model.episode import EPISODE
from everhold.model.memory import REPEATABLE_KINDS, VAULT
from everhold.model.scope import SHORT_TERM
from everhold.ports.records import Records
from everhold.remember.duplicates import ENDS, has_past
from everhold.remember.owners import Owner
from everhold.schema.operations import Op, Where
from everhold.text.names import find_names
from everhold.text.terms import fold

REFLECTION = "reflection"
# In characters. A longer memory is a document, which says too much to be evidence of a single pattern.
_MAX_LENGTH = 400

_COLUMNS = ("id", "text", "kind", "attribute", "project_id", "agent_id", "session_id", "namespace", "occurred_at",
            "created_at", *ENDS)  # fmt: skip


class PatternScope(NamedTuple):
    """The dimensions that memories must share to be evidence of the same pattern."""

    project_id: str | None
    agent_id: str | None
    session_id: str | None


class Evidence(NamedTuple):
    """One thing that was said, in a memory or in a message that an episode quotes.

    `names` maps each folded name in the text to the name as it is written there.
    """

    pattern_scope: PatternScope
    day: date
    text: str
    names: dict[str, str]
    memory_id: str | None = None
    attribute: str | None = None
    message_id: str | None = None
    episode_id: str | None = None

    @property
    def id(self) -> str:
        return self.memory_id or self.message_id or ""


def read_evidence(records: Records, owner: Owner, zone: tzinfo, now: datetime) -> list[Evidence]:
    """Return what an owner's current memories and episodes say, oldest first, with the names in each."""
    evidence = [*_read_memories(records, owner, zone, now), *_read_quotes(records, owner, zone)]
    evidence.sort(key=lambda item: (item.day, item.id))
    own_names = _find_own_names(records, owner)
    items_with_names = zip(evidence, find_names(item.text for item in evidence), strict=True)
    return [
        item._replace(names={key: name for key, name in names.items() if key not in own_names})
        for item, names in items_with_names
    ]


def _read_memories(records: Records, owner: Owner, zone: tzinfo, now: datetime) -> Iterator[Evidence]:
    """Yield the evidence in an owner's memories, without documents, short-term notes, reflections and vaults."""
    for row in records.columns(Memory, owner.organization, _COLUMNS, owner.conditions):
        values = dict(zip(_COLUMNS, row, strict=True))
        if values["kind"] in (*REPEATABLE_KINDS, REFLECTION, VAULT) or values["namespace"] == SHORT_TERM:
            continue
        if not values["text"] or len(values["text"]) > _MAX_LENGTH or has_past([values[name] for name in ENDS], now):
            continue
        yield Evidence(
            # A memory of a user outlives its session; one without a user belongs to its session.
            PatternScope(values["project_id"], values["agent_id"], None if owner.user_id else values["session_id"]),
            (values["occurred_at"] or values["created_at"]).astimezone(zone).date(),
            values["text"],
            {},
            memory_id=values["id"],
            attribute=values["attribute"],
        )


def _read_quotes(records: Records, owner: Owner, zone: tzinfo) -> Iterator[Evidence]:
    """Yield the quotes in a user's episodes; none without a user, because such episodes may quote several users."""
    if owner.user_id is None:
        return
    columns = ("id", "project_id", "agent_id", "quotes")
    where = [*owner.conditions, Where("level", Op.EQ, EPISODE)]
    for episode_id, project_id, agent_id, quotes in records.columns(Episode, owner.organization, columns, where):
        for quote in quotes:
            yield Evidence(
                PatternScope(project_id, agent_id, None),
                datetime.fromisoformat(quote["at"]).astimezone(zone).date(),
                quote["text"],
                {},
                message_id=quote["message"],
                episode_id=episode_id,
            )


def _find_own_names(records: Records, owner: Owner) -> set[str]:
    """Return the folded names of the user. Nearly every memory has them, so they say nothing about a pattern."""
    if owner.user_id is None:
        return set()
    user = records.get(User, owner.organization, [owner.user_id]).get(owner.user_id)
    words = f"{owner.user_id} {user.name if user is not None and user.name else ''}"
    return {fold(word) for word in words.split()}
