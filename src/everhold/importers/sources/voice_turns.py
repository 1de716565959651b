"""Read the turns that voice assistants keep in one field of a conversation: objects, pairs, lists or a text."""

import re
from collections.abc import Mapping
from typing import Any

from everhold.importers.values import add_other_fields, describe, load_json

TIME_NAMES = ("timestamp", "created_at", "time", "at", "date")
_TEXT_NAMES = ("content", "text", "message", "body")
_ROLE_NAMES = ("role", "speaker", "sender", "type")
_ROLES = {"user": "user", "human": "user", "user_query": "user", "query": "user", "question": "user",
          "user_input": "user", "prompt": "user", "assistant": "assistant", "ai": "assistant", "bot": "assistant",
          "agent": "assistant", "response": "assistant", "system_response": "assistant", "answer": "assistant",
          "reply": "assistant", "system": "system", "tool": "tool"}  # fmt: skip
_SPOKEN_LINE = re.compile(rf"(?P<role>{'|'.join(_ROLES)})\s*:\s*(?P<text>.*)", re.IGNORECASE)
_PAIR_LENGTH = 2


def list_turns(value: Any) -> list[Any]:
    """Return the turns of a history, each for `describe_turn`."""
    history = load_json(value)
    if isinstance(history, str):
        return _split_text(history)
    if not history:
        return []
    turns = history if isinstance(history, list) else [history]
    return [part for turn in turns for part in _split_turn(load_json(turn))]


def _split_text(text: str) -> list[Any]:
    """Return the turns of a text in which each begins with its speaker; the text itself if it begins without one."""
    turns: list[dict[str, Any]] = []
    for line in text.splitlines():
        match = _SPOKEN_LINE.match(line.strip())
        if match is not None:
            turns.append({"role": match["role"], "content": match["text"]})
        elif turns:
            turns[-1]["content"] += f"\n{line}"
        elif line.strip():
            return [text]
    return turns


def _split_turn(turn: Any) -> list[Any]:
    """Return the turns of an object that holds a question with its answer, or the turn itself."""
    if not isinstance(turn, dict) or any(turn.get(name) for name in _TEXT_NAMES):
        return [turn]
    speakers = [name for name in turn if isinstance(name, str) and name.lower() in _ROLES and turn[name]]
    if not speakers:
        return [turn]
    other_fields = {name: value for name, value in turn.items() if name not in speakers}
    return [{**other_fields, "role": name, "content": turn[name]} for name in speakers]


def describe_turn(turn: Any) -> dict[str, Any]:
    """Return role, text, time and metadata of a turn."""
    turn = load_json(turn)
    if isinstance(turn, list) and len(turn) >= _PAIR_LENGTH and str(turn[0]).lower() in _ROLES:
        turn = {"role": turn[0], "content": turn[1], "timestamp": turn[2] if len(turn) > _PAIR_LENGTH else None}
    if not isinstance(turn, Mapping):
        return {"role": "user", "text": describe(turn)}
    text = next((turn[name] for name in _TEXT_NAMES if turn.get(name)), None)
    role = str(next((turn[name] for name in _ROLE_NAMES if turn.get(name)), "user"))
    known_names = (*_TEXT_NAMES, *_ROLE_NAMES, *TIME_NAMES, "metadata", "id", "message_id")
    return {
        "id": turn.get("id") or turn.get("message_id"),
        "role": _ROLES.get(role.lower(), role),
        "text": describe(text if text is not None else ""),
        "created_at": next((turn[name] for name in TIME_NAMES if turn.get(name)), None),
        "metadata": add_other_fields(turn.get("metadata"), turn, known_names) or None,
    }
