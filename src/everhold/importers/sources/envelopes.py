"""Read requests to the memory orchestrator and its replies, from a log or a captured reply.

A request is {"action", "session_id", "payload", "request_id", "timestamp"}, or {"action", "data"} in the later
service. A reply is {"status", "action", "request_id", "data", "timestamp"}. A file has a list of them, one per line,
or a single one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from everhold.importers.rows import FileRow, iterate_rows, list_sample_rows
from everhold.importers.source import BadRow, ImportInput, ImportSource, LeftOut, RowDraft, Sample, SourceItem
from everhold.importers.values import add_other_fields, load_json, read_object

_CREATING_ACTIONS = ("create", "add_memory", "batch_add_memories", "batch_create")
_SESSION_ACTIONS = ("create_session",)
_LISTS = ("memories", "results", "entries", "items")
_MEMORY_FIELDS = ("memory_id", "id", "session_id", "user_id", "memory_type", "type", "content", "text_content", "text",
                  "source_agent", "created_at", "timestamp", "expires_at", "priority", "importance", "tags", "metadata",
                  "embedding", "memory_tier", "similarity", "score", "is_active")  # fmt: skip
_ENVELOPE_FIELDS = ("action", "session_id", "payload", "request_id", "timestamp", "data", "status", "error")


def detect(sample: Sample) -> float:
    rows = list_sample_rows(sample)[:3]
    if sample.outline is not None and not isinstance(sample.outline, list) and len(sample.lines) < 2:
        rows = [sample.outline]
    return 0.93 if rows and all(_is_envelope(row) for row in rows) else 0.0


def _is_envelope(row: Mapping[str, Any]) -> bool:
    bodies = (row.get("payload"), row.get("data"))
    has_body = any(isinstance(body, dict | list) for body in bodies) or "error" in row
    return isinstance(row.get("action"), str) and has_body


def read(import_input: ImportInput) -> Iterator[SourceItem]:
    reply_ids = _collect_reply_ids(import_input)
    for row in iterate_rows(import_input.files, _ENVELOPE_FIELDS):
        if row.fields is None or not _is_envelope(row.fields):
            reason = row.reason or "the row is neither a request nor a reply"
            yield BadRow("envelopes", row.place, reason, row.fields or row.value)
        elif "status" in row.fields:
            yield from _read_reply(row, row.fields)
        else:
            yield from _read_request(row, row.fields, reply_ids)


def _collect_reply_ids(import_input: ImportInput) -> dict[str, Any]:
    """Return what the orchestrator named in its reply to each request: the id of a memory or of a session."""
    reply_ids: dict[str, Any] = {}
    for row in iterate_rows(import_input.files, _ENVELOPE_FIELDS):
        fields = row.fields or {}
        data = fields.get("data")
        if "status" in fields and fields.get("request_id") and isinstance(data, dict):
            reply_ids[str(fields["request_id"])] = data.get("memory_id") or data.get("session_id")
    return reply_ids


def _read_request(row: FileRow, fields: Mapping[str, Any], reply_ids: Mapping[str, Any]) -> Iterator[SourceItem]:
    action, body = str(fields["action"]), fields.get("payload") or fields.get("data")
    stored_id = reply_ids.get(str(fields.get("request_id")))
    envelope_values = {"session_id": fields.get("session_id"), "created_at": fields.get("timestamp")}
    if action in _SESSION_ACTIONS and isinstance(body, dict):
        yield _draft_session(row.place, {**envelope_values, **body, "session_id": body.get("session_id") or stored_id})
    elif action in _CREATING_ACTIONS:
        memories = _list_memories(body)
        for number, memory in enumerate(memories):
            reply_id = {"memory_id": stored_id} if stored_id and len(memories) == 1 else {}
            yield _draft_memory(f"{row.place} [{number}]", {**_drop_empty(envelope_values), **reply_id, **memory})
    else:
        yield LeftOut("requests", f"a request to {action} stores nothing")


def _read_reply(row: FileRow, fields: Mapping[str, Any]) -> Iterator[SourceItem]:
    if fields.get("error") and not fields.get("data"):
        yield LeftOut("replies", "a reply with an error")
        return
    memories = [memory for memory in _list_memories(fields.get("data")) if memory.get("content") is not None]
    for number, memory in enumerate(memories):
        yield _draft_memory(f"{row.place} [{number}]", memory)
    if not memories:
        yield LeftOut("replies", "a reply without memories")


def _list_memories(body: Any) -> list[dict[str, Any]]:
    if isinstance(body, dict):
        memories = next((body[name] for name in _LISTS if isinstance(body.get(name), list)), None)
        body = memories if memories is not None else [body["memory"] if isinstance(body.get("memory"), dict) else body]
    return [item for item in body if isinstance(item, dict)] if isinstance(body, list) else []


def _draft_session(place: str, fields: Mapping[str, Any]) -> RowDraft:
    values = {
        "id": fields.get("session_id"),
        "user": fields.get("user_id"),
        "created_at": fields.get("created_at"),
        "session_type": fields.get("session_type"),
        "metadata": fields.get("metadata"),
    }
    return RowDraft("session", "create_session", place, values)


def _draft_memory(place: str, fields: Mapping[str, Any]) -> SourceItem:
    if fields.get("is_active") is False:
        return LeftOut("memories", "deleted in the old system (is_active is false)")
    content, metadata = load_json(fields.get("content")), read_object(fields.get("metadata"))
    values = {
        "id": fields.get("memory_id") or fields.get("id"),
        "session": fields.get("session_id"),
        "user": fields.get("user_id") or metadata.get("user_id"),
        "kind": fields.get("memory_type") or fields.get("type"),
        "content": content if isinstance(content, dict) else None,
        "text": fields.get("text_content") or (None if isinstance(content, dict) else content) or fields.get("text"),
        "source_agent": fields.get("source_agent") or metadata.get("agent_id"),
        "created_at": fields.get("created_at") or fields.get("timestamp"),
        "expires_at": fields.get("expires_at"),
        "priority": fields.get("priority"),
        "importance": fields.get("importance"),
        "level": fields.get("memory_tier"),
        "tags": fields.get("tags"),
        "vector": fields.get("embedding"),
        "metadata": add_other_fields(metadata, fields, _MEMORY_FIELDS),
    }
    return RowDraft("memory", "memories", place, values)


def _drop_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


SOURCE = ImportSource("orchestrator-messages", "requests to the memory orchestrator and its replies", detect, read)
