"""Read the content of a message: a text, a list of parts, or an object, as providers write them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from everhold.errors import InvalidInput

# The keys under which providers put the parts of a message, or of a tool's return.
_PART_KEYS = ("content", "parts")


def read_content(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a message, with the `text` read from `content` if there is no text.

    A `content` that is a list or an object stays as it is. A message without a name gets its `sender_id` as its name.
    """
    fields = dict(values)
    content = fields.get("content")
    if isinstance(content, str):
        if fields.get("text"):
            raise InvalidInput(
                "the message has a text, and a content that is a text", remedy="pass the text, or the content"
            )
        fields["text"] = fields.pop("content")
    elif content and not fields.get("text"):
        fields["text"] = "\n".join(_find_texts(content)) or None
    if fields.get("sender_id") and not fields.get("name"):
        fields["name"] = fields["sender_id"]
    return fields


def _find_texts(content: Any) -> Iterator[str]:
    """Yield the texts of a content in order: strings, the `text` of objects, and the texts of their parts."""
    # A stack instead of recursion, because the depth of a content is checked only when the message is validated.
    stack = [content]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            if part.strip():
                yield part
        elif isinstance(part, Mapping):
            text = part.get("text")
            inner_parts = [part[key] for key in _PART_KEYS if key in part]
            stack += [*reversed(inner_parts), *([text] if isinstance(text, str) else [])]
        elif isinstance(part, Sequence) and not isinstance(part, bytes | bytearray):
            stack += reversed(part)
