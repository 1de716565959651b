"""The MainPC build of the contextual memory: a list of contexts per user, reminders and a profile."""

from typing import Any

from everhold.errors import InvalidInput
from everhold.interfaces.voice.protocols.base import Document, VoiceProtocol, report_reason
from everhold.interfaces.voice.protocols.contextual import describe_health
from everhold.interfaces.voice.protocols.entries import (
    REMINDERS,
    add_entry,
    announce_reminder,
    clear_entries,
    get_value,
    list_entries,
)
from everhold.interfaces.voice.protocols.fields import (
    format_epoch,
    read_list,
    read_object,
    read_text,
    require_text,
    require_value,
)
from everhold.interfaces.voice.protocols.profiles import get_profile as read_profile
from everhold.interfaces.voice.protocols.profiles import update_profile as change_profile
from everhold.interfaces.voice.service import VoiceService

_CONTEXTS = "context"
_MAX_CONTEXTS = 100


def _read_user(request: Document) -> str:
    return read_text(request, "user_id", "default_user")


def add_context(service: VoiceService, request: Document) -> dict[str, Any]:
    add_entry(service, _read_user(request), _CONTEXTS, require_value(request, "context"))
    return {"status": "ok"}


def get_context(service: VoiceService, request: Document) -> dict[str, Any]:
    return {"status": "ok", "context": _list_contexts(service, request)}


def _list_contexts(service: VoiceService, request: Document) -> list[dict[str, Any]]:
    entries = list_entries(service, _read_user(request), _CONTEXTS, _MAX_CONTEXTS)
    return [{"timestamp": format_epoch(entry.created_at), "context": get_value(entry)} for entry in entries]


def clear_context(service: VoiceService, request: Document) -> dict[str, Any]:
    clear_entries(service, _read_user(request), _CONTEXTS)
    return {"status": "ok"}


def search_memory(service: VoiceService, request: Document) -> dict[str, Any]:
    """Return the contexts that contain a keyword; if no context does, those that recall finds for it."""
    user, keyword = _read_user(request), require_text(request, "keyword")
    entries = list_entries(service, user, _CONTEXTS)
    matching = [entry for entry in entries if keyword.casefold() in f"{entry.text} {get_value(entry)}".casefold()]
    if not matching:
        hits = service.view(user=user).recall(keyword, tags=_CONTEXTS)
        matching = [hit.memory for hit in hits]
    results = [{"timestamp": format_epoch(entry.created_at), "context": get_value(entry)} for entry in matching]
    return {"status": "ok", "results": results}


def add_reminder(service: VoiceService, request: Document) -> dict[str, Any]:
    user, reminder = _read_user(request), require_value(request, "reminder")
    add_entry(service, user, REMINDERS, reminder)
    announce_reminder(service, user, reminder)
    return {"status": "ok"}


def list_reminders(service: VoiceService, request: Document) -> dict[str, Any]:
    return {"status": "ok", "reminders": _read_reminders(service, _read_user(request))}


def _read_reminders(service: VoiceService, user: str) -> list[Any]:
    return [get_value(entry) for entry in list_entries(service, user, REMINDERS)]


def delete_reminder(service: VoiceService, request: Document) -> dict[str, Any]:
    user, index = _read_user(request), request.get("index")
    entries = list_entries(service, user, REMINDERS)
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(entries):
        raise InvalidInput("Invalid reminder index", value=index, remedy=f"send 0 to {len(entries) - 1}")
    service.view(user=user).forget(entries[index].id)
    return {"status": "ok"}


def delete_all_reminders(service: VoiceService, request: Document) -> dict[str, Any]:
    clear_entries(service, _read_user(request), REMINDERS)
    return {"status": "ok"}


def get_profile(service: VoiceService, request: Document) -> dict[str, Any]:
    user = _read_user(request)
    return {"status": "ok", "profile": {**read_profile(service, user), "reminders": _read_reminders(service, user)}}


def update_profile(service: VoiceService, request: Document) -> dict[str, Any]:
    """Change a profile. Clients that send a whole profile back also send its reminders, which replace the list."""
    user, updates = _read_user(request), read_object(request, "updates")
    if "reminders" in updates:
        reminders = read_list(updates, "reminders")
        if reminders != _read_reminders(service, user):
            clear_entries(service, user, REMINDERS)
            for reminder in reminders:
                add_entry(service, user, REMINDERS, reminder)
    change_profile(service, user, {name: value for name, value in updates.items() if name != "reminders"})
    return {"status": "ok"}


def check_health(service: VoiceService, request: Document) -> dict[str, Any]:
    return {**describe_health(service, "contextual_memory"), "status": "success", "agent": "contextual_memory"}


_ACTIONS = {
    "add_context": add_context,
    "get_context": get_context,
    "clear_context": clear_context,
    "add_reminder": add_reminder,
    "list_reminders": list_reminders,
    "delete_reminder": delete_reminder,
    "delete_all_reminders": delete_all_reminders,
    "get_profile": get_profile,
    "update_profile": update_profile,
    "search_memory": search_memory,
    "health_check": check_health,
}
CONTEXTUAL_MAINPC = VoiceProtocol("contextual-mainpc", _ACTIONS, report_reason)
