"""The sections and items of a context, and the finished context."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from everhold.model import Memory

PINNED, BLOCKS, SUMMARY, TURNS, RECALLED = "pinned", "blocks", "summary", "turns", "recalled"

# The share of the budget that each section is guaranteed, in the order in which sections are shown.
SHARES = {PINNED: 0.15, BLOCKS: 0.2, SUMMARY: 0.1, TURNS: 0.25, RECALLED: 0.3}

# The order in which sections use the tokens that others leave; sections with other names come last.
FLOW = (RECALLED, TURNS, PINNED, BLOCKS, SUMMARY)

TITLES = {
    PINNED: "Pinned",
    BLOCKS: "Core memory",
    SUMMARY: "Summary of this session",
    TURNS: "Recent turns of this session",
    RECALLED: "Recalled for the question",
}


@dataclass(frozen=True)
class Item:
    """One entry of a section. `at` is shown as a date in its own time zone, with `has_minute` also the time of day."""

    text: str
    memory: Memory | None = None
    at: datetime | None = None
    provenance: str | None = None
    has_minute: bool = False


@dataclass(frozen=True)
class Section:
    """Items of one kind, best first, and the share of the budget that they are guaranteed.

    With `oldest_first`, items are passed newest first and shown oldest first, and equal texts are all shown, because
    people repeat themselves.
    """

    name: str
    title: str
    share: float
    items: Sequence[Item] = ()
    oldest_first: bool = False


def name_owners(sections: Sequence[Section]) -> list[Section]:
    """Return the sections with the user of each memory in its source, if they hold memories of several users."""
    memories = [item.memory for section in sections for item in section.items if item.memory is not None]
    if len({memory.user_id for memory in memories} - {None}) < 2:
        return list(sections)
    return [replace(section, items=[_name_owner(item) for item in section.items]) for section in sections]


def _name_owner(item: Item) -> Item:
    if item.memory is None or item.memory.user_id is None:
        return item
    owner = f"of user {item.memory.user_id}"
    return replace(item, provenance=f"{owner}, {item.provenance}" if item.provenance else owner)


# Returns one section. A section without items is not shown.
Provider = Callable[[], Section]

# Returns the number of tokens of a text.
Counter = Callable[[str], int]


@dataclass(frozen=True)
class SectionUse:
    """The use of the budget by a section: its tokens with the heading, and how many items are shown and left out.

    An item that another section shows does not count as left out. `cut` says that the only item is shortened.
    """

    name: str
    title: str
    tokens: int
    shown: int
    left_out: int
    cut: bool = False


@dataclass(frozen=True)
class Context:
    """A text for a prompt, its number of tokens, and the memories in it, in their order."""

    text: str
    tokens: int
    memories: tuple[Memory, ...] = ()
    sections: tuple[SectionUse, ...] = ()

    def __str__(self) -> str:
        return self.text
