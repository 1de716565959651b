"""Encode a session's working memory as a hash and a list, and decode it.

The hash has a field for each column of the session that has a value; `scope`, `state` and `client` of its context; and
the entry's header. Each item of the list is a message in JSON. Both parts name the generation in which they were
written, so that a hash and a list from different writes are not combined. Both are sealed (`seal.py`), because other
programs can write to Redis.
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
_COLUMNS = {_FIELDS.get(column.name, column.name): column.name for column in derive_columns(Session)}
_TEXT_COLUMNS = {column.name for column in derive_columns(Session) if column.kind in (Kind.TEXT, Kind.TIME)}
_CONTEXT_FIELDS = ("scope", "state", "client")


class EntryHeader(NamedTuple):
    """The state of the session when its entry was written, and the expected list of messages.

    The list belongs to the same `generation` and begins with `last_message`. A list shorter than `limit` has all
    messages of the session; a list of that length may have been cut. `newest_code` is the seal code of the newest
    message, which covers all messages before it.
    """

    stamp: Stamp
    generation: str
    last_message: str
    limit: int
    newest_code: str


_HEADER_FIELDS = ("stamp", "owners", "generation", "last_message", "limit", "newest_code")
# The maximum size of an entry. A hundred messages of the maximum length, by default settings, are smaller.
_MAX_CHARACTERS = 256_000_000


def encode_hash(session: Session, header: EntryHeader) -> dict[str, str]:
    """Return the fields of the hash of a session."""
    values = session.model_dump(mode="json")
    context = {name: session.context[name] for name in _CONTEXT_FIELDS if name in session.context}
    return {
        **{name: _encode(column, value) for name, column in _COLUMNS.items() if (value := values[column]) is not None},
        **{name: value if isinstance(value, str) else encode_json(value) for name, value in context.items()},
        "stamp": header.stamp.row,
        "owners": encode_json(dict(header.stamp.owners)),
        "generation": header.generation,
        "last_message": header.last_message,
        "limit": str(header.limit),
        "newest_code": header.newest_code,
    }


def encode_item(message: Message, generation: str, before: str) -> str:
    """Return a message as JSON; `before` is the seal code of the previous message."""
    return encode_json({**message.model_dump(mode="json"), "generation": generation, "before": before})


def read_header(fields: Mapping[str, str], key: str, seal: Seal) -> EntryHeader | None:
    """Return the header in a hash; None if there is no hash, or its seal is wrong."""
    if sum(map(len, fields.values())) > _MAX_CHARACTERS or not seal.has_sealed_fields(key, fields):
        return None
    try:
        stamp, owners, generation, last_message, limit, newest_code = (fields[name] for name in _HEADER_FIELDS)
        return EntryHeader(Stamp(stamp, json.loads(owners)), generation, last_message, int(limit), newest_code)
    except (ValueError, KeyError):
        return None


def read_items(
    items: Sequence[str], key: str, header: EntryHeader, needed: int, seal: Seal
) -> list[dict[str, Any]] | None:
    """Return the messages of a list, newest first; None if a seal is wrong or a message is missing.

    `needed` is the number of messages that the caller needs, if the session has that many.
    """
    if sum(map(len, items)) > _MAX_CHARACTERS:
        return None
    messages, code = [], header.newest_code
    for item in items:
        document = seal.open_item(key, item, code)
        if document is None:
            return None
        message = json.loads(document)
        code = message.pop("before")
        messages.append(message)
    is_cut = code != ""
    return None if is_cut and len(items) < min(header.limit, needed) else messages


def decode_entry(
    session_key: SessionKey, keys: Keys, fields: Mapping[str, str], items: Sequence[str], needed: int, seal: Seal
) -> WorkingMemory | None:
    """Return the cached session, or None if it cannot be used.

    It cannot be used if the two parts are of different writes or of another session, if a seal is wrong, or if fewer
    messages than needed were cached.
    """
    header = read_header(fields, keys.session, seal)
    if header is None or header.limit <= len(items) < needed:
        return None
    try:
        messages = read_items(items, keys.history, header, needed, seal)
        if messages is None:
            return None
        session = Session.model_validate(
            {column: _decode(column, fields[name]) for name, column in _COLUMNS.items() if name in fields}
        )
        generations = {message.pop("generation") for message in messages}
        history = tuple(Message.model_validate(message) for message in messages)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError, ValidationError):
        return None
    newest = history[0].id if history else ""
    is_consistent = newest == header.last_message and generations <= {header.generation}
    ids = (session_key.organization, session_key.session)
    is_of_session = {(message.organization_id, message.session_id) for message in history} <= {ids}
    if not is_consistent or not is_of_session or (session.organization_id, session.id) != ids:
        return None
    return WorkingMemory(session, history, header.stamp)


def _encode(column: str, value: Any) -> str:
    return str(value) if column in _TEXT_COLUMNS else encode_json(value)


def _decode(column: str, text: str) -> Any:
    return text if column in _TEXT_COLUMNS else json.loads(text)
