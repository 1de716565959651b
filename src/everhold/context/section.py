"""The sections and items of a context, and the finished context."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from everhold.model import Memory
from everhold.model.base import cut_text

PINNED, BLOCKS, SUMMARY, TURNS, RECALLED = "pinned", "blocks", "summary", "turns", "recalled"

# The share of the budget that each section may always use, in the order in which the sections are shown.
SHARES = {PINNED: 0.15, BLOCKS: 0.2, SUMMARY: 0.1, TURNS: 0.25, RECALLED: 0.3}

# The order in which sections may use leftover tokens. Sections with other names come last.
LEFTOVER_ORDER = (RECALLED, TURNS, PINNED, BLOCKS, SUMMARY)

TITLES = {
    PINNED: "Pinned",
    BLOCKS: "Core memory",
    SUMMARY: "Summary of this session",
    TURNS: "Recent turns of this session",
    RECALLED: "Recalled for the question",
}


@dataclass(frozen=True)
class Item:
    """One entry of a section.

    `provenance` says where the text comes from. `at` is shown as a date in its own time zone, with the time of day if
    `has_time` is true.
    """

    text: str
    memory: Memory | None = None
    at: datetime | None = None
    provenance: str | None = None
    has_time: bool = False


@dataclass(frozen=True)
class Section:
    """Items of one kind, best first, and the share of the budget that they may always use.

    `oldest_first` is for the turns of a conversation, which are passed newest first and shown oldest first. Repeated
    texts are kept there, because people repeat themselves. Other sections show each text once.
    """

    name: str
    title: str
    share: float
    items: Sequence[Item] = ()
    oldest_first: bool = False


def add_owners(sections: Sequence[Section]) -> list[Section]:
    """Return the sections with each memory's user in its provenance, if the memories belong to several users."""
    memories = [item.memory for section in sections for item in section.items if item.memory is not None]
    if len({memory.user_id for memory in memories} - {None}) < 2:
        return list(sections)
    return [replace(section, items=[_add_owner(item) for item in section.items]) for section in sections]


def _add_owner(item: Item) -> Item:
    if item.memory is None or item.memory.user_id is None:
        return item
    owner = f"of user {item.memory.user_id}"
    return replace(item, provenance=f"{owner}, {item.provenance}" if item.provenance else owner)


# A function that makes one section. A section without items is not shown.
Provider = Callable[[], Section]

# A function that counts the tokens of a text.
Counter = Callable[[str], int]


@dataclass(frozen=True)
class SectionUse:
    """The share of the budget that a section uses.

    `tokens` includes the heading. `shown` and `left_out` are numbers of items; an item that another section shows does
    not count as left out. `cut` is true if no item fitted and one was shortened.
    """

    name: str
    title: str
    tokens: int
    shown: int
    left_out: int
    cut: bool = False


@dataclass(frozen=True)
class Context:
    """A text for a prompt, its number of tokens, and the memories in it, in the order of the text."""

    text: str
    tokens: int
    memories: tuple[Memory, ...] = ()
    sections: tuple[SectionUse, ...] = ()

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Context({cut_text(self.text)!r}, tokens={self.tokens}, memories={len(self.memories)})"
