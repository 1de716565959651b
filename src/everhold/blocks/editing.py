"""Edit the text of a block: append, replace and rewrite lines.

Lines end with a line feed and are counted from 1. Other characters that Unicode calls line breaks are part of a line.
"""

from everhold.errors import Argument, InvalidInput, Remedy, format_value
from everhold.model import Block
from everhold.model.agent import describe_excess


def check_length(label: str, length: int, limit: int) -> None:
    """Raise InvalidInput if a block would hold more characters than its limit."""
    excess = describe_excess(label, length, limit)
    if excess is not None:
        raise InvalidInput.from_sentence(excess, length)


def append_text(block: Block, text: str) -> str:
    """Return the block's text with `text` appended on a new line."""
    needs_newline = bool(block.value) and not block.value.endswith("\n")
    return f"{block.value}\n{text}" if needs_newline else block.value + text


def replace_text(block: Block, old: str, new: str, *, every: bool) -> str:
    """Return the block's text with `old` replaced by `new`.

    Raise InvalidInput if `old` does not occur, or if it occurs more than once and `every` is false.
    """
    if not old:
        raise InvalidInput("old is empty", remedy="pass the text to replace")
    count = block.value.count(old)
    if not count:
        raise InvalidInput(
            f"block {block.label!r} does not contain {format_value(old)}",
            value=old,
            remedy="copy the text exactly as the block has it",
        )
    if count > 1 and not every:
        raise InvalidInput(
            f"block {block.label!r} contains {format_value(old)} {count} times",
            value=old,
            remedy=Remedy("pass more of the text around it, or {}", Argument("every", True)),
        )
    # The length is checked before the text is built: replacing many short texts by a long one could fill the memory.
    check_length(block.label, len(block.value) + count * (len(new) - len(old)), block.limit)
    return block.value.replace(old, new)


def split_lines(text: str) -> list[str]:
    """Return the lines of a text without their line feeds; an empty text has none."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def rewrite_lines(block: Block, first: int, last: int, text: str) -> str:
    """Return the block's text with the lines `first` to `last` replaced by `text`.

    An empty `text` deletes the lines. With `last` one less than `first`, `text` is inserted before line `first`.
    """
    lines = split_lines(block.value)
    if not 1 <= first <= last + 1 <= len(lines) + 1:
        raise InvalidInput(
            f"block {block.label!r} has {len(lines)} lines; it has no lines {first} to {last}",
            value=[first, last],
            remedy=f"pass lines from 1 to {len(lines)}; to insert before line {first}, pass {first} and {first - 1}"
            if 1 <= first <= len(lines) + 1
            else f"pass lines from 1 to {len(lines)}; to add lines at the end, pass {len(lines) + 1} and {len(lines)}",
        )
    lines[first - 1 : last] = split_lines(text)
    ending = "\n" if block.value.endswith("\n") and lines else ""
    return "\n".join(lines) + ending
