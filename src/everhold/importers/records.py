"""Make a checked record of each draft: ids, times, texts and JSON as the engine stores them."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from everhold.importers.ids import encode_id, hash_texts, name_memory
from everhold.importers.source import BadRow, RecordKind, RowDraft
from everhold.importers.times import TimeReader
from everhold.importers.values import describe, read_number, read_object, read_tags, read_vector

_TIME_FIELDS = ("created_at", "updated_at", "ended_at", "expires_at", "occurred_at")
_OBJECT_FIELDS = ("metadata", "context", "profile", "preferences")
_NUMBER_FIELDS = ("priority", "importance", "confidence")
_ID_FIELDS = ("user", "session", "agent", "source", "target", "conversation")
_MAX_NAME_LENGTH = 255
# The maximum number of sessions whose times are kept, for the rows in them that have no time.
_MAX_SESSIONS = 100_000
# The fields by which two rows without ids are distinguished.
_IDENTITY_FIELDS = ("session", "user", "agent", "role", "name", "kind", "text", "content", "created_at")


@dataclass(frozen=True)
class Record:
    """A checked row of another system, with our names and types of fields, ready for the writer."""

    kind: RecordKind
    draft: RowDraft
    values: Mapping[str, Any]

    bytes_left_out: Sequence[str] = ()
    """The columns with bytes that are no text, for which Everhold has no place."""

    def list_left_out(self) -> Iterator[tuple[str, str]]:
        """Yield the parts of the row that are not imported, each with the reason."""
        origin = self.draft.origin
        for name in self.bytes_left_out:
            yield f"{origin}.{name}", "the column holds bytes that are no text"
        if self.kind == "memory" and self.draft.fields.get("vector") is not None and self.values["vector"] is None:
            yield f"vectors of {origin}", "the vector could not be read and is computed again"

    def refuse(self, reason: str) -> BadRow:
        """Return the bad row for a record that cannot be stored."""
        draft = self.draft
        return BadRow(draft.origin, draft.place, reason, draft.fields, draft.kind)


@dataclass
class RecordReader:
    """Makes records of the drafts of one input, in their order."""

    source: str
    times: TimeReader
    default_time: datetime
    """The time for rows without a time, if their session has none either."""
    renamed_users: Mapping[str, str] = field(default_factory=dict)
    _current_session: str | None = None
    _last_time: datetime | None = None
    _session_times: dict[str, datetime] = field(default_factory=dict)
    _repeats: Counter[str] = field(default_factory=Counter)

    def read(self, draft: RowDraft) -> Record | BadRow:
        """Return the record of a draft, or a bad row with the reason if a value is invalid."""
        try:
            values = self._clean(draft)
            _CHECKS[draft.kind](self, draft, values)
        except ValueError as error:
            return BadRow(draft.origin, draft.place, str(error), draft.fields, draft.kind)
        except RecursionError:
            return BadRow(draft.origin, draft.place, "a value is nested too deeply", None, draft.kind)
        return Record(draft.kind, draft, values, self._drop_bytes(values))

    def _drop_bytes(self, values: dict[str, Any]) -> list[str]:
        """Remove bytes, such as vectors or pickles, from the metadata and the content, and return their names."""
        names = []
        for field_name in ("metadata", "content"):
            fields = values.get(field_name)
            if isinstance(fields, dict) and any(isinstance(value, bytes) for value in fields.values()):
                names += [name for name, value in fields.items() if isinstance(value, bytes)]
                values[field_name] = {name: value for name, value in fields.items() if not isinstance(value, bytes)}
        return names

    def _clean(self, draft: RowDraft) -> dict[str, Any]:
        """Return the fields that have a value, with times, ids and objects converted to the engine's types."""
        values = {name: value for name, value in draft.fields.items() if value is not None}
        for name, value in values.items():
            if isinstance(value, bytes) and name != "vector":
                raise ValueError(f"{name} is not text in UTF-8")
        user = values.get("user")
        if isinstance(user, str) and user in self.renamed_users:
            values["user"] = self.renamed_users[user]
        for name in _TIME_FIELDS:
            if name in values and (moment := self.times.read(values.pop(name))) is not None:
                values[name] = moment
        for name in _NUMBER_FIELDS:
            if isinstance(values.get(name), str):
                values[name] = read_number(name, values[name])
        for name in _OBJECT_FIELDS:
            if name in values:
                values[name] = read_object(values[name])
        for name in _ID_FIELDS:
            if name in values:
                values[name] = self._read_id(name, values.pop(name))
        return {name: value for name, value in values.items() if value is not None}

    def _read_id(self, name: str, value: Any) -> str | None:
        encoded = encode_id(value)
        if encoded is None and value not in ("", None):
            raise ValueError(f"{name} is {value!r:.60}, which is not an id")
        return encoded

    def _note_origin(self, draft: RowDraft, values: dict[str, Any]) -> None:
        """Set the id, and keep the original id, which may be different, in the metadata."""
        original = draft.fields.get("id")
        encoded_id = self._read_id("id", original)
        values["id"] = encoded_id or self._make_id(draft, values)
        import_metadata = {"source": self.source, **({"id": original} if encoded_id not in (None, original) else {})}
        values["metadata"] = {**values.get("metadata", {}), "imported": import_metadata}

    def _make_id(self, draft: RowDraft, values: Mapping[str, Any]) -> str:
        """Return an id that is the same at every import of the same row, independent of its position in the file."""
        digest = hash_texts(draft.kind, *(_make_hash_text(draft.fields.get(name)) for name in _IDENTITY_FIELDS))
        if draft.kind != "message":
            return f"imported-{digest}"
        # Two messages of a session without times may have the same text, such as "ok".
        self._repeats[digest] += 1
        count = self._repeats[digest]
        return f"imported-{digest}" if count == 1 else f"imported-{digest}-{count}"

    def check_user(self, draft: RowDraft, values: dict[str, Any]) -> None:
        values["id"] = values.pop("user", None)
        _require(values, "id", "the user has no id")

    def check_session(self, draft: RowDraft, values: dict[str, Any]) -> None:
        self._note_origin(draft, values)
        if draft.fields.get("id") in (None, ""):
            raise ValueError("the session has no id")
        started_at = values.get("created_at") or values.get("updated_at")
        if started_at is not None and len(self._session_times) < _MAX_SESSIONS:
            self._session_times.setdefault(values["id"], started_at)
        _cut_name(values, "title")
        _convert_to_text(values, "summary", "topic")

    def check_message(self, draft: RowDraft, values: dict[str, Any]) -> None:
        _require(values, "session", "the message has no session")
        if values["session"] != self._current_session:
            self._current_session, self._last_time = values["session"], None
            self._repeats.clear()
        self._note_origin(draft, values)
        values["role"] = str(values.get("role") or "user")
        values["created_at"] = values.get("created_at") or self._estimate_time(values["session"])
        self._last_time = values["created_at"]
        content = values.get("content")
        if "text" in values and not isinstance(values["text"], str):
            values["text"] = describe(values["text"])
        if not any(values.get(name) for name in ("text", "content", "tool_calls", "tool_returns")):
            raise ValueError("the message says nothing")
        if content is not None and not isinstance(content, list | dict | str):
            raise ValueError(f"content is {content!r:.60}")
        _cut_name(values, "name")

    def _estimate_time(self, session: str | None) -> datetime:
        """Return the time for a row without one: that of the row before it in its session, or of the session."""
        if session is None:
            return self.default_time
        last_time = self._last_time if session == self._current_session else None
        return last_time or self._session_times.get(session, self.default_time)

    def check_memory(self, draft: RowDraft, values: dict[str, Any]) -> None:
        self._note_origin(draft, values)
        content = values.get("content")
        if content is not None and not isinstance(content, dict):
            values["content"] = content = read_object(content)
        if not isinstance(values.get("text"), str) or not values["text"].strip():
            values["text"] = describe(values["text"] if values.get("text") else content or "")
        if not values["text"].strip():
            raise ValueError("the memory says nothing")
        tags, long_tags = read_tags(values.pop("tags", None))
        if long_tags:
            values["metadata"] = {**values["metadata"], "long_tags": long_tags}
        values["tags"] = tags
        # The time of storing is not the time of the event, so only an original time is set as `occurred_at`.
        if "created_at" in values:
            values.setdefault("occurred_at", values["created_at"])
            values.update(name_memory(values["id"], values["created_at"]))
        values.setdefault("created_at", self._estimate_time(values.get("session")))
        values.pop("updated_at", None)
        values["vector"] = read_vector(values.get("vector"))

    def check_relationship(self, draft: RowDraft, values: dict[str, Any]) -> None:
        _require(values, "source", "the relationship has no source")
        _require(values, "target", "the relationship has no target")
        values["type"] = str(values.get("type") or "related_to")
        if values["source"] == values["target"]:
            raise ValueError("the relationship leads from a memory to itself")
        if "created_at" in values:
            values["metadata"] = {**values.get("metadata", {}), "created_at": values["created_at"].isoformat()}

    def check_state(self, draft: RowDraft, values: dict[str, Any]) -> None:
        _require(values, "agent", "the state has no agent")
        if "state" not in values:
            raise ValueError("the agent has no state")
        import_metadata = {"source": self.source}
        import_metadata |= {name: values[name].isoformat() for name in ("created_at", "updated_at") if name in values}
        values["metadata"] = {**values.get("metadata", {}), "imported": import_metadata}

    def check_agent(self, draft: RowDraft, values: dict[str, Any]) -> None:
        _require(values, "name", "the agent has no name")


_CHECKS: Mapping[RecordKind, Callable[[RecordReader, RowDraft, dict[str, Any]], None]] = {
    "user": RecordReader.check_user,
    "session": RecordReader.check_session,
    "message": RecordReader.check_message,
    "memory": RecordReader.check_memory,
    "relationship": RecordReader.check_relationship,
    "state": RecordReader.check_state,
    "agent": RecordReader.check_agent,
}


def _require(values: Mapping[str, Any], name: str, reason: str) -> None:
    if not values.get(name):
        raise ValueError(reason)


def _cut_name(values: dict[str, Any], name: str) -> None:
    """Cut a name that is too long, and keep the whole name in the metadata."""
    text = values.get(name)
    if text is None:
        return
    text = describe(text)
    if len(text) > _MAX_NAME_LENGTH:
        values["metadata"] = {**values.get("metadata", {}), name: text}
        text = text[: _MAX_NAME_LENGTH - 1] + "…"
    values[name] = text
    if not text:
        del values[name]


def _convert_to_text(values: dict[str, Any], *names: str) -> None:
    for name in names:
        if name in values:
            values[name] = describe(values[name])


def _make_hash_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, default=str)
