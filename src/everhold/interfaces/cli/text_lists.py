"""Lists of texts that are wrapped to the width of the screen.

They are laid out here, so that a program that reads the output of a command need not wait until Rich is imported. Only
a terminal needs Rich, which prints the same lines in colour.
"""

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from everhold.interfaces.cli.numbers import read_number

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.measure import Measurement

_DEFAULT_WIDTH = 80
_GAP = "  "
# Below this character, the first that combines with the one before it, every printable character takes one column.
_FIRST_UNUSUAL_WIDTH = "\u0300"
_WORD = re.compile(r"\s*\S+\s*")


class StyledText(NamedTuple):
    """A part of a text in one style, by the names of Rich."""

    text: str
    style: str = ""


class Paragraph(NamedTuple):
    """A text of one or more lines, which are all indented."""

    spans: tuple[StyledText, ...]
    indent: int = 0


class ListEntry(NamedTuple):
    """An entry of a list: paragraphs, and on their left the labels in narrow columns that align with other entries."""

    paragraphs: tuple[Paragraph, ...]
    labels: tuple[str, ...] = ()


class TextList:
    """Items below each other."""

    def __init__(self, items: Sequence[ListEntry]) -> None:
        self._parts: tuple[Sequence[ListEntry], ...] = (items,)

    def __add__(self, other: "TextList") -> "TextList":
        combined = TextList(())
        combined._parts = (*self._parts, *other._parts)
        return combined

    def make_lines(self, width: int) -> Iterator[list[StyledText]]:
        """Yield the lines, each at most `width` wide if its labels leave room for a character."""
        for items in self._parts:
            widths = [max(map(measure_width, column)) for column in zip(*[item.labels for item in items], strict=True)]
            room = max(1, width - sum(column + len(_GAP) for column in widths))
            blank = [StyledText(" " * column + _GAP) for column in widths]
            for item in items:
                labels = [
                    StyledText(" " * (column - measure_width(label)) + label + _GAP, "bold")
                    for label, column in zip(item.labels, widths, strict=True)
                ]
                for paragraph in item.paragraphs:
                    for line in _wrap_paragraph(paragraph, room):
                        yield [*labels, *line]
                        labels = blank

    def make_text(self, width: int) -> str:
        """Return the lines as plain text."""
        lines = ("".join(span.text for span in line).rstrip() for line in self.make_lines(width))
        return "".join(f"{line}\n" for line in lines)

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.text import Text

        for line in self.make_lines(options.max_width):
            yield Text.assemble(*line, no_wrap=True, overflow="ignore")

    def __rich_measure__(self, console: "Console", options: "ConsoleOptions") -> "Measurement":
        from rich.measure import Measurement

        lines = self.make_text(options.max_width).splitlines()
        words = [word for line in lines for word in line.split()]
        return Measurement(max(map(measure_width, words), default=0), max(map(measure_width, lines), default=0))


def make_note(text: str, style: str = "dim") -> TextList:
    """Return a single paragraph without labels."""
    return TextList([ListEntry((Paragraph((StyledText(text, style),)),))])


def stack(parts: "Sequence[RenderableType]") -> "RenderableType":
    """Return parts below each other."""
    lists = [part for part in parts if isinstance(part, TextList)]
    if len(lists) == len(parts):
        return sum(lists[1:], lists[0])
    from rich.console import Group

    return Group(*parts)


def measure_width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if _has_usual_widths(text):
        return len(text)
    from rich.cells import cell_len  # has large tables, which few texts need

    return cell_len(text)


def _cut_word(word: str, width: int) -> list[str]:
    """Return a word in pieces that are at most `width` wide."""
    if _has_usual_widths(word):
        return [word[start : start + width] for start in range(0, len(word), width)]
    from rich.cells import chop_cells  # has large tables, which few texts need

    return chop_cells(word, width)


def _has_usual_widths(text: str) -> bool:
    return text.isprintable() and max(text, default="") < _FIRST_UNUSUAL_WIDTH


def find_output_width(columns: str | None) -> int:
    """Return the width of output that is not a terminal. `columns` is the environment variable of that name."""
    width = read_number(columns or "")
    if width:
        return width
    for descriptor in range(3):  # if one stream is a pipe, a different stream is often still the terminal
        try:
            width = os.get_terminal_size(descriptor).columns
        except OSError:
            continue
        if width:
            return width
    return _DEFAULT_WIDTH


def _wrap_paragraph(paragraph: Paragraph, width: int) -> Iterator[list[StyledText]]:
    room = max(1, width - paragraph.indent)
    indent = [StyledText(" " * paragraph.indent)] if paragraph.indent else []
    start = 0
    for line in "".join(span.text for span in paragraph.spans).split("\n"):
        for begin, end in _wrap_line(line, room):
            yield [*indent, *_cut_spans(paragraph.spans, start + begin, start + end)]
        start += len(line) + 1


def _cut_spans(spans: Sequence[StyledText], begin: int, end: int) -> Iterator[StyledText]:
    start = 0
    for text, style in spans:
        part = text[max(0, begin - start) : max(0, end - start)]
        if part:
            yield StyledText(part, style)
        start += len(text)


def _wrap_line(line: str, width: int) -> list[tuple[int, int]]:
    """Return the start and the end of each wrapped line, without spaces at its end. A word that is too long is cut."""
    breaks = [0]
    line_width = 0
    for match in _WORD.finditer(line):
        word = match[0]
        length = measure_width(word.rstrip())
        if line_width + length <= width:
            line_width += measure_width(word)
        elif length > width:
            pieces = _cut_word(word.rstrip(), width)
            position = match.start()
            for piece in pieces:
                breaks.append(position)
                position += len(piece)
            line_width = measure_width(pieces[-1]) + len(word) - len(word.rstrip())
        else:
            breaks.append(match.start())
            line_width = measure_width(word)
    breaks = list(dict.fromkeys(breaks))
    return [
        (begin, begin + len(line[begin:end].rstrip()))
        for begin, end in zip(breaks, [*breaks[1:], len(line)], strict=True)
    ]
