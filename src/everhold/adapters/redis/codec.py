"""A session's working memory as a hash and a list, and back.

The hash has a field for each column of the session that has a value, `scope`, `state` and `client` out of its context,
the id of its last message, what the entry was made from, and the most messages that its writers keep. Each item of the
list is a message in JSON. Both name the generation they were written in, so that a hash and a list of different times
are told apart, and both are sealed (`seal.py`): what other programs write is not trusted.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from everhold.adapters.redis.keys import Keys
from everhold.adapters.redis.seal import Seal
from everhold.model import Message, Session
from everhold.ports.session_cache import SessionKey, Stamp, WorkingMemory
from everhold.schema.codec import encode_json
from everhold.schema.table import Kind, derive_columns

_FIELDS = {"id": "session_id", "topic": "current_topic"}
_COLUMNS = {_FIELDS.get(one.name, one.name): one.name for one in derive_columns(Session)}
_AS_TEXT = {one.name for one in derive_columns(Session) if one.kind in (Kind.TEXT, Kind.TIME)}
_OF_CONTEXT = ("scope", "state", "client")


class Mark(NamedTuple):
    """What an entry was made from, which list belongs to it, the newest message in that, and where it was cut.

    A list shorter than `limit` is all that was said; one as long may have been cut. `newest_code` seals the newest
    message, and with it all before it.
    """

    stamp: Stamp
    generation: str
    last_message: str
    limit: int
    newest_code: str


_MARK = ("stamp", "owners", "generation", "last_message", "limit", "newest_code")
# In one entry; a hundred messages of the longest text that the settings allow by default have fewer.
_MAX_CHARACTERS = 256_000_000


def to_hash(session: Session, mark: Mark) -> dict[str, str]:
    values = session.model_dump(mode="json")
    context = {name: session.context[name] for name in _OF_CONTEXT if name in session.context}
    return {
        **{name: _text(one, value) for name, one in _COLUMNS.items() if (value := values[one]) is not None},
        **{name: value if isinstance(value, str) else encode_json(value) for name, value in context.items()},
        "stamp": mark.stamp.row,
        "owners": encode_json(dict(mark.stamp.owners)),
        "generation": mark.generation,
        "last_message": mark.last_message,
        "limit": str(mark.limit),
        "newest_code": mark.newest_code,
    }


def to_item(message: Message, generation: str, before: str) -> str:
    """Return a message as JSON; `before` is the code of the message before it."""
    return encode_json({**message.model_dump(mode="json"), "generation": generation, "before": before})


def read_mark(fields: Mapping[str, str], key: str, seal: Seal) -> Mark | None:
    """Return the mark that a hash holds; None if there is no hash, or its seal is wrong."""
    if sum(map(len, fields.values())) > _MAX_CHARACTERS or not seal.has_sealed_fields(key, fields):
        return None
    try:
        stamp, owners, generation, last_message, limit, newest_code = (fields[name] for name in _MARK)
        return Mark(Stamp(stamp, json.loads(owners)), generation, last_message, int(limit), newest_code)
    except (ValueError, KeyError):
        return None


def read_items(items: Sequence[str], key: str, mark: Mark, wanted: int, seal: Seal) -> list[dict[str, Any]] | None:
    """Return the messages of a list, newest first; None if a seal is wrong or a message is missing."""
    if sum(map(len, items)) > _MAX_CHARACTERS:
        return None
    messages, code = [], mark.newest_code
    for item in items:
        document = seal.open_item(key, item, code)
        if document is None:
            return None
        message = json.loads(document)
        code = message.pop("before")
        messages.append(message)
    is_cut = code != ""
    return None if is_cut and len(items) < min(mark.limit, wanted) else messages


def from_parts(
    place: SessionKey, keys: Keys, fields: Mapping[str, str], items: Sequence[str], wanted: int, seal: Seal
) -> WorkingMemory | None:
    """Return the cached session, or None if it cannot be used.

    That is so if the two parts are of different states or of another session, if a seal is wrong, or if fewer messages
    than wanted were cached.
    """
    mark = read_mark(fields, keys.session, seal)
    if mark is None or mark.limit <= len(items) < wanted:
        return None
    try:
        messages = read_items(items, keys.history, mark, wanted, seal)
        if messages is None:
            return None
        session = Session.model_validate(
            {column: _value(column, fields[name]) for name, column in _COLUMNS.items() if name in fields}
        )
        generations = {message.pop("generation") for message in messages}
        history = tuple(Message.model_validate(message) for message in messages)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError, ValidationError):
        return None
    newest = history[0].id if history else ""
    of_one_state = newest == mark.last_message and generations <= {mark.generation}
    of_place = {(one.organization_id, one.session_id) for one in history} <= {(place.organization, place.session)}
    if not of_one_state or not of_place or (session.organization_id, session.id) != (place.organization, place.session):
        return None
    return WorkingMemory(session, history, mark.stamp)


def _text(column: str, value: Any) -> str:
    return str(value) if column in _AS_TEXT else encode_json(value)


def _value(column: str, text: str) -> Any:
    return text if column in _AS_TEXT else json.loads(text)
