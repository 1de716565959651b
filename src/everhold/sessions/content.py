"""Read the content of a message: a text, a list of parts, or an object, as providers write them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from everhold.errors import InvalidInput

# The keys under which providers put the parts of a message, or of a tool's return.
_PART_KEYS = ("content", "parts")


def read_content(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a message with its text: the text itself, a content that is a text, or that of the parts.

    A list or an object stays in `content` as it is. A message that names its sender and no name is named after it.
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
    """Yield the texts of a content, in their order: texts themselves, `text` of an object, and those of its parts."""
    waiting = [content]
    # Without recursion: the depth of a content is checked only when the message is validated.
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if part.strip():
                yield part
        elif isinstance(part, Mapping):
            text = part.get("text")
            inner = [part[key] for key in _PART_KEYS if key in part]
            waiting += [*reversed(inner), *([text] if isinstance(text, str) else [])]
        elif isinstance(part, Sequence) and not isinstance(part, bytes | bytearray):
            waiting += reversed(part)
