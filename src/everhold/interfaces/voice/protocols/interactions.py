"""Interactions of a session and its summary, as the contextual and the unified services had them."""

from collections.abc import Sequence
from typing import Any, Literal

from everhold import Message, View
from everhold.errors import NotFound
from everhold.interfaces.voice.protocols.fields import cut_to_tokens, describe_value, format_epoch
from everhold.interfaces.voice.service import VoiceService

DECISION = "decision"
DEFAULT_TOKENS = 1000
# What speaks in an interaction of a type; other types are roles themselves.
_ROLES = {"user_query": "user", "system_response": "assistant", "query": "user", "response": "assistant"}
_SPOKEN = ("user_query", "system_response")
_LATEST = 50
_MAX_ROLE = 50


def limit_to_session(view: View) -> Literal["session"] | None:
    """Return the argument `only` that limits a verb to the view's session, if it has one."""
    return None if view.scope.session is None else "session"


def find_user(session_id: str) -> str:
    """Return the user that an id such as "alice_2026-05-01" names, or "default"."""
    return session_id.rpartition("_")[0] or "default"


def add_interaction(
    service: VoiceService, session_id: str, kind: str, content: Any, metadata: dict[str, Any]
) -> Message:
    """Store an interaction as the next message of a session, which begins with it if it does not exist."""
    role = _ROLES.get(kind, kind)[:_MAX_ROLE]
    values = {**metadata, "type": kind}

    def say(view: View) -> Message:
        return view.say(describe_value(content), role=role, metadata=values)

    return service.begin_or_use_session(session_id, find_user(session_id), say)


def record_decision(service: VoiceService, session_id: str, decision: Any) -> None:
    """Store a decision as a memory of a session."""
    service.begin_or_use_session(
        session_id, find_user(session_id), lambda view: view.remember(describe_value(decision), tags=[DECISION])
    )


def clear_messages(view: View) -> int:
    """Delete the messages of a view's session; return how many there were."""
    count = 0
    while page := view.messages(limit=1000):
        for message in page:
            view.delete_message(message.id)
        count += len(page)
    return count


def summarise_session(service: VoiceService, session_id: str, max_tokens: int) -> dict[str, Any]:
    """Return the summary of a session: its code, conversation, errors and decisions, each within the budget."""
    try:
        return service.use_session(session_id, lambda view: _summarise(view, max_tokens))
    except NotFound:
        return {"code_context": "", "conversation_summary": "", "errors_encountered": [], "key_decisions": []}


def _summarise(view: View, max_tokens: int) -> dict[str, Any]:
    messages = view.messages(limit=_LATEST)
    half = max(1, max_tokens // 2)
    summary: dict[str, Any] = {"last_updated": format_epoch(view.session().session.last_active)}
    if code := _find_texts(messages, "code"):
        summary["code_context"] = cut_to_tokens("\n\n".join(code), half)
    if any(message.metadata.get("type") in _SPOKEN for message in messages):
        summary["conversation_summary"] = view.summary(budget=half, only="session").text
    summary["errors_encountered"] = [cut_to_tokens(text, 50) for text in _find_texts(messages, "error")]
    decisions = view.list(tags=DECISION, only="session", oldest_first=True)
    summary["key_decisions"] = [
        {"timestamp": format_epoch(memory.created_at), "decision": memory.text} for memory in decisions
    ]
    return summary


def _find_texts(messages: Sequence[Message], kind: str) -> list[str]:
    return [message.text or "" for message in messages if message.metadata.get("type") == kind]
