"""Lists of values that belong to a user, as jarvis and the MainPC build kept them: one memory per value.

They have the kind "interaction", because a list may hold the same value twice, and a tag that names the list. The
value itself is in the memory's content, and its words are the memory's text. Imported lists have the same tags, and
more specific kinds.
"""

from collections.abc import Sequence
from typing import Any

from everhold import Memory
from everhold.interfaces.voice.protocols.fields import MAX_ITEMS, describe_value
from everhold.interfaces.voice.service import VoiceService

KIND = "interaction"
_LISTED_KINDS = (KIND, "observation", "context", "plan")
REMINDERS = "reminder"
_VALUE = "value"


def add_entry(service: VoiceService, user: str, tag: str, value: Any) -> Memory:
    """Store a value at the end of one of a user's lists."""
    return service.view(user=user).remember(describe_value(value), kind=KIND, tags=[tag], content={_VALUE: value})


def list_entries(service: VoiceService, user: str, tag: str, limit: int = MAX_ITEMS) -> Sequence[Memory]:
    """Return the last entries of one of a user's lists, oldest first."""
    newest = service.view(user=user).list(kind=_LISTED_KINDS, tags=tag, limit=limit)
    return list(newest)[::-1]


def clear_entries(service: VoiceService, user: str, tag: str) -> int:
    """Forget all entries of one of a user's lists; return how many there were."""
    return service.view(user=user).forget_where(kind=_LISTED_KINDS, tags=tag).count


def get_value(memory: Memory) -> Any:
    """Return the value of an entry."""
    return memory.content.get(_VALUE, memory.content or memory.text)  # an imported object is the content itself


def announce_reminder(service: VoiceService, user: str, reminder: Any) -> None:
    """Send a reminder to the subscribers of the topic "reminder" if its type is "reminder"."""
    if not isinstance(reminder, dict) or reminder.get("type") != "reminder":
        return
    text, emotion = reminder.get("text") or "You have a new reminder.", reminder.get("emotion") or "neutral"
    service.broadcast(
        "reminder", {"type": "reminder", "text": text, "user": user, "emotion": emotion, "proactive": True}
    )
