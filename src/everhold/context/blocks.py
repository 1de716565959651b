"""Render blocks as a section for an agent's prompt."""

from collections.abc import Sequence

from everhold.context.fence import make_fence, neutralise_marks
from everhold.context.lines import format_one_line, make_heading
from everhold.context.section import BLOCKS, TITLES
from everhold.model import Block


def render_blocks(blocks: Sequence[Block], *, numbered: bool = False) -> str:
    """Return blocks as fenced text: label, length and limit, description and value. Without blocks, return "".

    With `numbered`, each line of a value begins with its number, so that a model can name the lines to rewrite.
    """
    if not blocks:
        return ""
    entries = [line for block in blocks for line in _list_lines(block, numbered=numbered)]
    return make_fence("\n".join([make_heading(TITLES[BLOCKS]), *entries]))


def _list_lines(block: Block, *, numbered: bool) -> list[str]:
    """Return the lines of a block. Those of its value are indented, so that none looks like another block."""
    title = f"- {format_one_line(block.label)} ({len(block.value)}/{block.limit} characters)"
    if block.description:
        title += f": {format_one_line(block.description)}"
    lines = [neutralise_marks(title)]
    for number, line in enumerate(block.value.removesuffix("\n").split("\n") if block.value else [], 1):
        # A model may see a line break at other characters than "\n", such as U+2028. `splitlines` splits at these too.
        parts = line.splitlines() or [""]
        prefix = f"{number}: " if numbered else ""
        lines += [
            neutralise_marks(f"  {prefix}{parts[0]}".rstrip()),
            *(neutralise_marks(f"    {part}") for part in parts[1:]),
        ]
    return lines
