"""Messages and conversations in the shapes of several programming interfaces.

OpenAI's Chat and Responses interfaces, Anthropic, Gemini, and the training files of ShareGPT.
"""

from collections.abc import Mapping
from typing import Any

_FIELDS = ("name", "model", "tool_calls", "tool_call_id", "metadata", "id")
_CONTENT_FIELDS = ("content", "tool_calls", "parts", "function_call")
_ROLES = {"human": "user", "gpt": "assistant", "model": "assistant", "function": "tool"}
# Items of OpenAI's Responses interface.
RESPONSE_CALLS = ("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output")
UNSPOKEN_TYPES = (
    "reasoning", "item_reference", "web_search_call", "file_search_call", "computer_call", "mcp_list_tools",
    "code_interpreter_call", "image_generation_call",
)  # fmt: skip
_TEXT_PARTS = ("input_text", "output_text")


def is_message(value: Any) -> bool:
    """Return whether a value is a message, or another item of such a list."""
    if not isinstance(value, dict):
        return False
    if value.get("type") in RESPONSE_CALLS:
        return "call_id" in value
    if value.get("type") in UNSPOKEN_TYPES and "role" not in value:
        return True
    if isinstance(value.get("from"), str) and isinstance(value.get("value"), str):
        return True
    return isinstance(value.get("role"), str) and any(name in value for name in _CONTENT_FIELDS)


def find_conversation(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object whose messages are in "messages": of a request, a response, or a line of a batch."""
    response = value.get("response")
    for body in (value.get("body"), response.get("body") if isinstance(response, dict) else None):
        if isinstance(body, dict):
            return {"id": value.get("custom_id"), **find_conversation(body)}
    if isinstance(value.get("messages"), list):
        return value
    for name in ("contents", "conversations", "context"):  # SessionMemoryAgent's replies have "context"
        if isinstance(value.get(name), list):
            return {**value, "messages": value[name]}
    choices = value.get("choices")
    if isinstance(choices, list):
        # The others are alternatives to the first.
        messages = [choice.get("message") for choice in choices[:1] if isinstance(choice, dict)]
        return {**value, "messages": messages}
    request_input, output = value.get("input"), value.get("output")
    if isinstance(request_input, str):
        request_input = [{"role": "user", "content": request_input}]
    turns = [turn for items in (request_input, output) if isinstance(items, list) for turn in items]
    return {**value, "messages": turns, "system": value.get("instructions")}


def describe_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a message by our names."""
    kind = str(message.get("type"))
    if kind in RESPONSE_CALLS:
        return _describe_call(message, is_output=kind.endswith("_output"))
    values = {name: message[name] for name in _FIELDS if message.get(name) is not None}
    call = message.get("function_call")
    if isinstance(call, dict):
        values["tool_calls"] = [{"id": str(call.get("name")), "type": "function", "function": call}]
    role = str(message.get("role") or message.get("from") or "user")
    if role == "function":
        values.setdefault("tool_call_id", message.get("name"))
    names = ("content", "parts", "value")
    content = next((message[name] for name in names if message.get(name) is not None), None)
    if isinstance(content, list):
        content = [_describe_part(part) for part in content]
    key = "text" if isinstance(content, str) else "content"
    return {**values, "role": _ROLES.get(role, role), key: content}


def _describe_part(part: Any) -> Any:
    if isinstance(part, dict) and part.get("type") in _TEXT_PARTS:
        return {**part, "type": "text"}
    return part


def _describe_call(item: Mapping[str, Any], *, is_output: bool) -> dict[str, Any]:
    if is_output:
        output = item.get("output")
        key = "text" if isinstance(output, str) else "content"
        return {"id": item.get("id"), "role": "tool", "tool_call_id": item.get("call_id"), key: output}
    function = {"name": item.get("name"), "arguments": item.get("arguments") or item.get("input")}
    call = {"id": item.get("call_id"), "type": "function", "function": function}
    return {"id": item.get("id"), "role": "assistant", "tool_calls": [call]}
