"""What a context is made of, and what it becomes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from everhold.model import Memory

PINNED, BLOCKS, SUMMARY, TURNS, RECALLED = "pinned", "blocks", "summary", "turns", "recalled"

SHARES = {PINNED: 0.15, BLOCKS: 0.2, SUMMARY: 0.1, TURNS: 0.25, RECALLED: 0.3}
"""How much of the budget each section may count on, in the order in which they are shown."""

FLOW = (RECALLED, TURNS, PINNED, BLOCKS, SUMMARY)
"""Who may first use what the others leave; sections of other names come after these."""

TITLES = {
    PINNED: "Pinned",
    BLOCKS: "Core memory",
    SUMMARY: "Summary of this session",
    TURNS: "Recent turns of this session",
    RECALLED: "Recalled for the question",
}


@dataclass(frozen=True)
class Item:
    """One thing to tell. The date of `at` is shown as its own zone has it."""

    text: str
    memory: Memory | None = None
    at: datetime | None = None
    provenance: str | None = None


@dataclass(frozen=True)
class Section:
    """Items of one sort, the best first, and the share of the budget they may count on.

    `oldest_first` says that items are given newest first and shown the other way round, and that two which say the
    same are two: people repeat themselves.
    """

    name: str
    title: str
    share: float
    items: Sequence[Item] = ()
    oldest_first: bool = False


def name_owners(sections: Sequence[Section]) -> list[Section]:
    """Return the sections with each memory's user named, if they hold memories of more than one user."""
    memories = [item.memory for section in sections for item in section.items if item.memory is not None]
    if len({memory.user_id for memory in memories} - {None}) < 2:
        return list(sections)
    return [replace(section, items=[_name_owner(item) for item in section.items]) for section in sections]


def _name_owner(item: Item) -> Item:
    if item.memory is None or item.memory.user_id is None:
        return item
    owner = f"of user {item.memory.user_id}"
    return replace(item, provenance=f"{owner}, {item.provenance}" if item.provenance else owner)


Provider = Callable[[], Section]
"""Gives one section; one without items contributes nothing."""

Counter = Callable[[str], int]
"""How many tokens a text has."""


@dataclass(frozen=True)
class SectionUse:
    """What became of a section: its tokens with its heading, how many items are shown and how many are left out.

    What another section shows is not left out. `cut` says that the only item shown is not whole.
    """

    name: str
    title: str
    tokens: int
    shown: int
    left_out: int
    cut: bool = False


@dataclass(frozen=True)
class Context:
    """A section for a prompt, how many tokens it has, and the memories it tells of, in their order."""

    text: str
    tokens: int
    memories: tuple[Memory, ...] = ()
    sections: tuple[SectionUse, ...] = ()

    def __str__(self) -> str:
        return self.text
