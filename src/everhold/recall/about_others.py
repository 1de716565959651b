"""Find candidates that state what a user asks about themselves, but of somebody else: a person or the assistant."""

import re
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from everhold.model import Memory, Scope
from everhold.model.memory import REPEATABLE_KINDS
from everhold.ports.records import Records
from everhold.recall.asked_attribute import AskedAttribute, states_of_others, states_of_speaker
from everhold.recall.image import Image
from everhold.recall.scoring import ImageView, Scored
from everhold.recall.text_reading import read_text
from everhold.schema.operations import Op, Where
from everhold.text.lazy_pattern import lazy_pattern
from everhold.text.own_name import is_assistant, put_in_first_person

_ADDRESSES = lazy_pattern(r"\b(?:you|your|yours|u)\b", re.IGNORECASE)
_SPEAKS_OF_SELF = lazy_pattern(r"\b(?:I|my|mine|myself)\b|\bi['’]", re.IGNORECASE)
_SPEAKS_OF_USER = lazy_pattern(r"\b(?:I|me|my|mine|myself|we|us|our)\b", re.IGNORECASE)
_USER_ROLE = "user"


# A question about the assistant itself, not "Do you know …?" or "What do you have on …?".
_ASKS_ASSISTANT = lazy_pattern(
    r"\b(?:are|were|do|did|have) you\b(?! (?:know|remember|recall|think|have|got|see|seen|tell|say|said|find|found|mean"
    r"|suggest|recommend|keep|store|stored|understand|sure|able|going|aware)\b)|\byour\b",
    re.IGNORECASE,
)
_ADDRESSED = (
    (lazy_pattern(r"\bare you\b", re.IGNORECASE), "am I"),
    (lazy_pattern(r"\byours?\b", re.IGNORECASE), "my"),
    (lazy_pattern(r"\byou\b", re.IGNORECASE), "I"),
)


def turn_to_assistant(query: str) -> str | None:
    """Return a question about the assistant as the assistant would ask it of itself; None for any other question."""
    if "you" not in query.lower() or _SPEAKS_OF_USER.search(query) or not _ASKS_ASSISTANT.search(query):
        return None
    for pattern, word in _ADDRESSED:
        query = pattern.sub(word, query)
    return query


def find_about_user(records: Records, scope: Scope, scored: Sequence[Scored], asked: AskedAttribute) -> frozenset[str]:
    """Return the ids of the candidates by which the user states the attribute that is asked of the assistant."""
    memory_ids = [
        candidate.owner_id for candidate in scored if candidate.kind == "memory" and not _is_by_assistant(candidate)
    ]
    message_ids = [candidate.owner_id for candidate in scored if candidate.kind == "message"]
    texts = read_texts(records, scope, memory_ids) if memory_ids else {}
    if message_ids:
        from everhold.model import Message  # most recalls search memories only

        where = [Where("id", Op.IN, message_ids), Where("role", Op.EQ, _USER_ROLE)]
        texts |= {key: text or "" for key, text in records.columns(Message, scope.organization, ("id", "text"), where)}
    return frozenset(key for key, text in texts.items() if states_of_speaker(read_text(text), asked))


def read_texts(records: Records, scope: Scope, memory_ids: Sequence[str]) -> dict[str, str]:
    """Return the texts of memories by their ids. In a user's own scope, the user's name in them becomes "I"."""
    rows = records.columns(Memory, scope.organization, ("id", "text", "content"), [Where("id", Op.IN, memory_ids)])
    return {memory_id: put_in_first_person(text, scope.user, content) for memory_id, text, content in rows}


def find_about_others(
    records: Records, scope: Scope, scored: Sequence[Scored], asked: AskedAttribute
) -> frozenset[str]:
    """Return the ids of the candidates that state the attribute asked for, but not of the user."""
    plain = [candidate for candidate in scored if candidate.is_plain]
    turn_ids = [
        candidate.owner_id for candidate in scored if candidate.kind == "memory" and _is_by_assistant(candidate)
    ]
    message_ids = [candidate.owner_id for candidate in scored if candidate.kind == "message"]
    return frozenset(
        [
            *(candidate.owner_id for candidate in plain if _is_about_others(candidate, asked)),
            *(_find_turns(records, scope, turn_ids, asked) if turn_ids else ()),
            *(_find_messages(records, scope, message_ids, asked) if message_ids else ()),
        ]
    )


def _is_about_others(candidate: Scored, asked: AskedAttribute) -> bool:
    """Return whether a plain memory was read for its statements, and states the attribute only of other persons."""
    reading = candidate.image.readings.get(candidate.row)
    return reading is not None and states_of_others(reading, asked)


def _is_by_assistant(candidate: Scored) -> bool:
    image = candidate.image
    return image.column("speaker")[candidate.row] in image.compute_once("assistants", _find_assistants)


def _find_assistants(image: Image) -> frozenset[int]:
    """Return the codes of the speakers that are assistants. The image keeps them until it changes."""
    return frozenset(image.code("speaker", name) for name in image.speakers.values() if is_assistant(name))


def _find_turns(records: Records, scope: Scope, ids: Sequence[str], asked: AskedAttribute) -> Iterator[str]:
    where = [Where("id", Op.IN, list(ids)), Where("kind", Op.IN, sorted(REPEATABLE_KINDS))]
    for memory_id, text in records.columns(Memory, scope.organization, ("id", "text"), where):
        if _is_about_speaker(text, asked):
            yield memory_id


def _find_messages(records: Records, scope: Scope, ids: Sequence[str], asked: AskedAttribute) -> Iterator[str]:
    from everhold.model import Message  # most recalls search memories only

    columns = ("id", "text", "role", "name")
    for message_id, text, role, name in records.columns(
        Message, scope.organization, columns, [Where("id", Op.IN, list(ids))]
    ):
        if (role != _USER_ROLE or is_assistant(name)) and text and _is_about_speaker(text, asked):
            yield message_id


def _is_about_speaker(text: str, asked: AskedAttribute) -> bool:
    """Return whether a text states the attribute asked for of its speaker, and nothing of the person spoken to."""
    speaks_of_self = _SPEAKS_OF_SELF.search(text) and not _ADDRESSES.search(text)
    return bool(speaks_of_self) and states_of_speaker(read_text(text), asked)


def leave_out(image_view: ImageView, owner_ids: Collection[str]) -> ImageView:
    """Return an image view in which the rows of these owners are not eligible."""
    image = image_view.image
    rows = [row for row, owner in enumerate(image.owners) if owner in owner_ids]
    if not rows:
        return image_view
    eligible = np.ones(image.size, np.bool_) if image_view.eligible is None else image_view.eligible.copy()
    eligible[rows] = False
    return image_view._replace(eligible=eligible)
