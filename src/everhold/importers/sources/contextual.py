"""Read the files of contextual_memory: sessions with summaries, contexts per user, and user profiles.

Two programs wrote a `contextual_memory_store.json`, in different formats. The archive of the unified agent,
`memory_store.json`, has the format of the first program.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from everhold.importers.session_names import find_dated_user, find_session_user
from everhold.importers.source import BadRow, ImportInput, ImportSource, RowDraft, Sample, SourceItem, are_mostly
from everhold.importers.values import add_other_fields, describe
from everhold.json_streams import JsonStream

FindUser = Callable[[str], str | None]

_MAX_USERS = 100_000
_INTERACTION_FIELDS = ("timestamp", "type", "interaction_type", "role", "content", "metadata")
_ROLES = {"user_query": "user", "query": "user", "user": "user", "system_response": "assistant",
          "response": "assistant", "assistant": "assistant"}  # fmt: skip
_TIME_NAMES = ("timestamp", "created_at", "created")
# The parts of a profile that are not in the user's profile: fields of a user, and memories.
_OWN_FIELDS = ("name", "preferences", "reminders")
_PROFILE_FIELDS = ("name", "preferences", "taught_commands", "reminders")


def detect_sessions(sample: Sample) -> float:
    outline = sample.outline
    if not isinstance(outline, dict) or not isinstance(outline.get("sessions"), dict):
        return 0.0
    lists = [items for items in outline["sessions"].values() if isinstance(items, list)]
    rows = [item for items in lists for item in items[:3]]
    if rows and not are_mostly(rows, _is_interaction):
        return 0.0
    return 0.9 if rows or isinstance(outline.get("summaries"), dict) else 0.0


def _is_interaction(row: Any) -> bool:
    return isinstance(row, dict) and ({"timestamp", "type"} <= row.keys() or "content" in row)


def read_sessions(import_input: ImportInput) -> Iterator[SourceItem]:
    users = {*import_input.known_users, *islice(_list_dated_users(import_input), _MAX_USERS)}
    find_user = partial(find_session_user, is_known=users.__contains__)
    with import_input.files.open_json() as stream:
        for name in stream.iterate_members():
            if name == "sessions" and stream.peek() == "{":
                yield from _read_session_lists(stream, find_user)
            elif name == "summaries" and stream.peek() == "{":
                yield from _read_summaries(stream, find_user)
            else:
                stream.skip_value()
        stream.require_end()


def _list_dated_users(import_input: ImportInput) -> Iterator[str]:
    """Yield the users of sessions that are named after a day, who may have other sessions too."""
    with import_input.files.open_json() as stream:
        for name in stream.iterate_members():
            if name not in ("sessions", "summaries") or stream.peek() != "{":
                stream.skip_value()
                continue
            for session_id in stream.iterate_members():
                stream.skip_value()
                if user := find_dated_user(session_id):
                    yield user


def _read_session_lists(stream: JsonStream, find_user: FindUser) -> Iterator[SourceItem]:
    """Yield the sessions of a file, each followed by its messages."""
    for session_id in stream.iterate_members():
        items = stream.read_value()
        if not isinstance(items, list):
            yield BadRow("sessions", f"sessions {session_id!r:.80}", "the session is not a list", items)
            continue
        session = _describe_session(session_id, find_user(session_id), items)
        yield RowDraft("session", "sessions", f"sessions {session_id!r:.80}", session)
        # The newest comes first in the file, and messages are stored oldest first.
        for index in range(len(items) - 1, -1, -1):
            place = f"sessions {session_id!r:.80} [{index}]"
            item = items[index]
            if isinstance(item, dict):
                yield RowDraft("message", "sessions", place, _describe_interaction(session_id, item))
            else:
                yield BadRow("sessions", place, "the interaction is not an object", item, "message")


def _describe_session(session_id: str, user: str | None, items: list[Any]) -> dict[str, Any]:
    times = [item.get("timestamp") for item in items if isinstance(item, dict)]
    return {
        "id": session_id,
        "user": user,
        # The writer takes the time of the first message: that of the last item, unless somebody sorted the file.
        "created_at": None,
        "updated_at": times[0] if times else None,
        "metadata": {"project": session_id[len(user) + 1 :]} if user else None,
    }


def _describe_interaction(session_id: str, item: Mapping[str, Any]) -> dict[str, Any]:
    kind = item.get("type") or item.get("interaction_type") or item.get("role")
    return {
        "session": session_id,
        "role": _ROLES.get(str(kind), "system"),
        "text": item.get("content"),
        "created_at": item.get("timestamp"),
        "metadata": {**add_other_fields(item.get("metadata"), item, _INTERACTION_FIELDS), "type": kind},
    }


def _read_summaries(stream: JsonStream, find_user: FindUser) -> Iterator[SourceItem]:
    """Yield the memories in a summary. They are about the session, and belong to the session's user."""
    for session_id in stream.iterate_members():
        summary = stream.read_value()
        place = f"summaries {session_id!r:.80}"
        if not isinstance(summary, dict):
            yield BadRow("summaries", place, "the summary is not an object", summary)
            continue
        common_fields = {"session": session_id, "user": find_user(session_id), "tags": ["summary"]}
        updated_at = summary.get("last_updated")
        for field, kind in (("conversation_summary", "context"), ("code_context", "resource")):
            if summary.get(field):
                values = {**common_fields, "text": summary[field], "kind": kind, "created_at": updated_at}
                yield RowDraft("memory", "summaries", f"{place} {field}", values)
        for field, kind, tag in (("errors_encountered", "observation", "error"), ("key_decisions", "plan", "decision")):
            items = summary.get(field)
            for index, item in enumerate(items if isinstance(items, list) else []):
                fields = item if isinstance(item, dict) else {"text": item}
                text = fields.get("decision") or fields.get("error") or describe(fields)
                created_at = fields.get("timestamp", updated_at)
                values = {
                    **common_fields,
                    "text": text,
                    "kind": kind,
                    "tags": [tag],
                    "content": fields,
                    "created_at": created_at,
                }
                yield RowDraft("memory", "summaries", f"{place} {field}[{index}]", values)


def _is_list_of(sample: Sample, field: str, *, is_named: bool) -> bool:
    outline = sample.outline
    if not isinstance(outline, dict) or not outline:
        return False
    if not are_mostly(outline.values(), lambda items: isinstance(items, list)):
        return False
    rows = [item for items in outline.values() if isinstance(items, list) for item in items[:3]]
    return are_mostly(rows, lambda row: _has_item(row, field, is_named)) if rows else is_named


def _has_item(row: Any, field: str, is_named: bool) -> bool:
    return isinstance(row, dict) and field in row and ("timestamp" in row or is_named)


def detect_user_lists(sample: Sample, field: str, stem: str) -> float:
    """Return how likely a file is {user: [{"timestamp": …, field: …}]}. One without rows is known by its name."""
    return 0.9 * _is_list_of(sample, field, is_named=stem in sample.name)


def detect_contexts(sample: Sample) -> float:
    return detect_user_lists(sample, "context", "contextual_memory")


def read_contexts(import_input: ImportInput) -> Iterator[SourceItem]:
    yield from read_user_lists(import_input, "contexts", "context", "context", tag="context")


def read_user_lists(import_input: ImportInput, origin: str, field: str, kind: str, tag: str) -> Iterator[SourceItem]:
    """Yield the memories of a file {user: [{"timestamp": …, field: …}]}, each of a kind.

    The voice gateway finds them by their tag, and reminders by "reminder".
    """
    with import_input.files.open_json() as stream:
        for user in stream.iterate_members():
            if stream.peek() != "[":
                yield BadRow(origin, f"{user!r:.80}", "the user has no list", stream.read_value())
                continue
            for index in stream.iterate_items():
                item, place = stream.read_value(), f"{user!r:.80} [{index}]"
                if isinstance(item, dict) and field in item:
                    yield RowDraft("memory", origin, place, _describe_item(user, item, field, kind, tag))
                else:
                    yield BadRow(origin, place, f"the item has no {field!r}", item, "memory")
        stream.require_end()


def _describe_item(user: str, item: Mapping[str, Any], field: str, kind: str, tag: str) -> dict[str, Any]:
    value = item[field]
    values = {"user": user, "created_at": item.get("timestamp"), "kind": kind, "text": describe(value), "tags": [tag]}
    if other_fields := add_other_fields(item.get("metadata"), item, ("timestamp", "metadata", field)):
        values["metadata"] = other_fields
    if isinstance(value, dict):
        values["content"] = value
        if value.get("type") == "reminder":
            values |= {"kind": "plan", "tags": [tag, "reminder"]}
    return values


def detect_profiles(sample: Sample) -> float:
    outline = sample.outline
    if not isinstance(outline, dict) or not outline:
        return 0.0
    profiles = [value for value in outline.values() if isinstance(value, dict)]
    has_profile_fields = any({"taught_commands", "reminders"} & profile.keys() for profile in profiles)
    has_profile_fields = has_profile_fields or "user_profile" in sample.name
    return 0.85 if has_profile_fields and are_mostly(outline.values(), _is_profile) else 0.0


def _is_profile(value: Any) -> bool:
    return isinstance(value, dict) and len(set(_PROFILE_FIELDS) & value.keys()) >= 2


def read_profiles(import_input: ImportInput) -> Iterator[SourceItem]:
    with import_input.files.open_json() as stream:
        for user in stream.iterate_members():
            profile, place = stream.read_value(), f"{user!r:.80}"
            if not isinstance(profile, dict):
                yield BadRow("profiles", place, "the profile is not an object", profile, "user")
                continue
            other_fields = {name: value for name, value in profile.items() if name not in _OWN_FIELDS}
            fields = {"user": user, "name": profile.get("name") or None, "preferences": profile.get("preferences")}
            yield RowDraft("user", "profiles", place, {**fields, "profile": other_fields})
            yield from _read_commands_and_reminders(user, profile, place)
        stream.require_end()


def _read_commands_and_reminders(user: str, profile: Mapping[str, Any], place: str) -> Iterator[SourceItem]:
    """Yield the taught commands and the reminders of a profile as memories."""
    commands = profile.get("taught_commands")
    for name, action in (commands if isinstance(commands, dict) else {}).items():
        text = f"When told {name!r}: {describe(action)}"
        content = {"command": name, "action": action}
        command = {"user": user, "kind": "procedural", "text": text, "content": content, "tags": ["command"]}
        yield RowDraft("memory", "taught_commands", f"{place} taught_commands {name!r:.80}", command)
    reminders = profile.get("reminders")
    for index, reminder in enumerate(reminders if isinstance(reminders, list) else []):
        times = [reminder.get(name) for name in _TIME_NAMES] if isinstance(reminder, dict) else []
        created_at = next((time for time in times if time), None)
        values = {
            "user": user,
            "kind": "plan",
            "text": describe(reminder),
            "tags": ["reminder"],
            "content": reminder if isinstance(reminder, dict) else None,
            "created_at": created_at,
        }
        yield RowDraft("memory", "reminders", f"{place} reminders[{index}]", values)


SESSIONS = ImportSource(
    "contextual", "contextual_memory_store.json or memory_store.json with sessions", detect_sessions, read_sessions
)
CONTEXTS = ImportSource(
    "contextual-users", "contextual_memory_store.json with a list per user", detect_contexts, read_contexts
)
PROFILES = ImportSource("user-profile", "user_profile.json", detect_profiles, read_profiles)
