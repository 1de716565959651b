"""A session's working memory as a hash and a list, and back.

The hash has a field for each column of the session that has a value, `scope`, `state` and `client` out of its context,
the id of its last message, what the entry was made from, and the most messages that its writers keep. Each item of the
list is a message in JSON. Both name the generation they were written in, so that a hash and a list of different times
are told apart.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from recollect.model import Message, Session
from recollect.ports.session_cache import Place, Stamp, Working
from recollect.schema.codec import json_text
from recollect.schema.table import Kind, columns_of

_FIELDS = {"id": "session_id", "topic": "current_topic"}
_COLUMNS = {_FIELDS.get(one.name, one.name): one.name for one in columns_of(Session)}
_AS_TEXT = {one.name for one in columns_of(Session) if one.kind in (Kind.TEXT, Kind.TIME)}
_OF_CONTEXT = ("scope", "state", "client")


class Mark(NamedTuple):
    """What an entry was made from, which list belongs to it, the newest message in that, and where it was cut.

    A list shorter than `limit` is all that was said; one as long may have been cut.
    """

    stamp: Stamp
    generation: str
    last_message: str
    limit: int


MARK = ("stamp", "owners", "generation", "last_message", "limit")


def to_hash(session: Session, mark: Mark) -> dict[str, str]:
    values = session.model_dump(mode="json")
    context = {name: session.context[name] for name in _OF_CONTEXT if name in session.context}
    return {
        **{name: _text(one, value) for name, one in _COLUMNS.items() if (value := values[one]) is not None},
        **{name: value if isinstance(value, str) else json_text(value) for name, value in context.items()},
        "stamp": mark.stamp.row,
        "owners": json_text(dict(mark.stamp.owners)),
        "generation": mark.generation,
        "last_message": mark.last_message,
        "limit": str(mark.limit),
    }


def to_item(message: Message, generation: str) -> str:
    return json_text({**message.model_dump(mode="json"), "generation": generation})


def mark_of(values: Sequence[str | None]) -> Mark | None:
    """What the fields `MARK` of a hash say; None if there is none, or none of ours."""
    stamp, owners, generation, last_message, limit = values
    try:
        made_from = Stamp(stamp or "", json.loads(owners or ""))
        return Mark(made_from, generation or "", last_message or "", int(limit or ""))
    except ValueError:
        return None


def from_parts(place: Place, fields: Mapping[str, str], items: Sequence[str], wanted: int) -> Working | None:
    """The entry, or None if the two parts are not of one state, or not of this place, or not ours, or if there may be
    more of the wanted messages than were kept."""
    mark = mark_of([fields.get(name) for name in MARK])
    if mark is None or mark.limit <= len(items) < wanted:
        return None
    try:
        session = Session.model_validate(
            {column: _value(column, fields[name]) for name, column in _COLUMNS.items() if name in fields}
        )
        said = [json.loads(item) for item in items]
        generations = {one.pop("generation") for one in said}
        history = tuple(Message.model_validate(one) for one in said)
    except (ValueError, KeyError, AttributeError, TypeError, ValidationError):
        return None
    newest = history[0].id if history else ""
    of_one_state = newest == mark.last_message and generations <= {mark.generation}
    of_place = {(one.organization_id, one.session_id) for one in history} <= {(place.organization, place.session)}
    if not of_one_state or not of_place or (session.organization_id, session.id) != (place.organization, place.session):
        return None
    return Working(session, history, mark.stamp)


def _text(column: str, value: Any) -> str:
    return str(value) if column in _AS_TEXT else json_text(value)


def _value(column: str, text: str) -> Any:
    return text if column in _AS_TEXT else json.loads(text)
