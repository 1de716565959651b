"""Assertions for the rules by which OpenAI and Anthropic accept the messages of a prompt."""

import json
import re
from typing import Any

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_openai(messages: list[dict[str, Any]]) -> None:
    """Fail for messages that OpenAI's chat completions would refuse."""
    open_ids: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in open_ids, "a tool message must answer an earlier call"
            open_ids.remove(message["tool_call_id"])
            assert isinstance(message["content"], str)
            continue
        assert not open_ids, f"the calls {open_ids} have no return directly after them"
        assert message["role"] in ("system", "user", "assistant")
        calls = message.get("tool_calls", [])
        assert message["content"] or calls, "a message says something"
        assert calls == [] or message["role"] == "assistant"
        if "name" in message:
            assert re.fullmatch(r"[^\s<|\\/>]{1,64}", message["name"])
        for call in calls:
            assert call["type"] == "function"
            assert len(call["id"]) <= 40
            assert _TOOL_NAME.fullmatch(call["function"]["name"])
            assert isinstance(call["function"]["arguments"], str)
            open_ids.append(call["id"])
        for part in message["content"] if isinstance(message["content"], list) else []:
            allowed = ("text", "image_url", "file", "input_audio") if message["role"] == "user" else ("text",)
            assert part["type"] in allowed
    assert not open_ids, f"the calls {open_ids} have no return"
    json.dumps(messages)


def check_anthropic(rendered: dict[str, Any]) -> None:
    """Fail for messages that Anthropic's Messages API would refuse."""
    messages = rendered["messages"]
    assert rendered.keys() <= {"system", "messages"}
    assert rendered.get("system", "text")
    roles = [message["role"] for message in messages]
    assert roles == [("user", "assistant")[index % 2] for index in range(len(roles))], "roles alternate; a user begins"
    open_ids: list[str] = []
    used_ids: list[str] = []
    for message in messages:
        blocks = message["content"]
        assert blocks, "a message says something"
        returns = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(returns) == sorted(open_ids), "the next message has the returns of all calls"
        assert all(block["type"] == "tool_result" for block in blocks[: len(returns)]), "returns come first"
        open_ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
        used_ids += open_ids
        for block in blocks:
            _check_block(block, message["role"])
    assert not open_ids, f"the calls {open_ids} have no return"
    assert len(used_ids) == len(set(used_ids)), "ids of calls are unique"
    json.dumps(rendered)


def _check_block(block: dict[str, Any], role: str) -> None:
    match block["type"]:
        case "text":
            assert block["text"].strip()
            assert block["text"] == block["text"].rstrip()
        case "tool_use":
            assert role == "assistant"
            assert re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"])
            assert _TOOL_NAME.fullmatch(block["name"])
            assert isinstance(block["input"], dict)
        case "tool_result":
            assert role == "user"
            assert block.get("content", True)
        case "thinking":
            assert role == "assistant"
            assert block["signature"]
        case kind:
            assert kind in ("image", "document")
            assert role == "user"
            assert block["source"]["type"] in ("url", "base64")
