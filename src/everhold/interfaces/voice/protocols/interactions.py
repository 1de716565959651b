"""Interactions of a session and its summary, as the contextual and the unified services had them."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from everhold import Message, View
from everhold.errors import NotFound
from everhold.importers.session_names import find_session_user
from everhold.interfaces.voice.protocols.fields import cut_to_tokens, describe_value, format_epoch
from everhold.interfaces.voice.protocols.profiles import find_user
from everhold.interfaces.voice.service import VoiceService
from everhold.model.fields import is_id

T = TypeVar("T")

DECISION = "decision"
DEFAULT_TOKENS = 1000
# The role of the speaker in interactions of these types. Any other type is used as the role.
_ROLES = {"user_query": "user", "system_response": "assistant", "query": "user", "response": "assistant"}
_SPOKEN_TYPES = ("user_query", "system_response")
_MAX_MESSAGES = 50
_MAX_ERROR_TOKENS = 50
_MAX_ROLE_LENGTH = 50


def limit_to_session(view: View) -> Literal["session"] | None:
    """Return the argument `only` that limits a verb to the view's session, if it has one."""
    return None if view.scope.session is None else "session"


class SessionName(NamedTuple):
    """The session that a request names, and its user if the request names one."""

    session_id: str
    user: str | None = None


def _find_user(service: VoiceService, name: SessionName) -> str:
    """Return the user that an id such as "alice_2026-05-01" begins with, or "default"."""
    if name.user is not None:
        return name.user

    def is_known(user: str) -> bool:
        return is_id(user) and find_user(service, user) is not None

    return find_session_user(name.session_id, is_known) or "default"


def _begin_or_use(service: VoiceService, name: SessionName, act: Callable[[View], T]) -> T:
    return service.begin_or_use_session(name.session_id, lambda: _find_user(service, name), act)


def add_interaction(
    service: VoiceService, name: SessionName, kind: str, content: Any, metadata: dict[str, Any]
) -> Message:
    """Store an interaction as the next message of a session, which begins with it if it does not exist."""
    role = _ROLES.get(kind, kind)[:_MAX_ROLE_LENGTH]
    message_metadata = {**metadata, "type": kind}

    def say(view: View) -> Message:
        return view.say(describe_value(content), role=role, metadata=message_metadata)

    return _begin_or_use(service, name, say)


def record_decision(service: VoiceService, name: SessionName, decision: Any) -> None:
    """Store a decision as a memory of a session."""
    _begin_or_use(service, name, lambda view: view.remember(describe_value(decision), tags=[DECISION]))


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
    messages = view.messages(limit=_MAX_MESSAGES)
    half = max(1, max_tokens // 2)
    summary: dict[str, Any] = {"last_updated": format_epoch(view.session().session.last_active)}
    if code_texts := _find_texts(messages, "code"):
        summary["code_context"] = cut_to_tokens("\n\n".join(code_texts), half)
    if any(message.metadata.get("type") in _SPOKEN_TYPES for message in messages):
        summary["conversation_summary"] = view.summary(budget=half, only="session").text
    summary["errors_encountered"] = [cut_to_tokens(text, _MAX_ERROR_TOKENS) for text in _find_texts(messages, "error")]
    decisions = view.list(tags=DECISION, only="session", oldest_first=True)
    summary["key_decisions"] = [
        {"timestamp": format_epoch(memory.created_at), "decision": memory.text} for memory in decisions
    ]
    return summary


def _find_texts(messages: Sequence[Message], kind: str) -> list[str]:
    return [message.text or "" for message in messages if message.metadata.get("type") == kind]
