"""Select the items of a section that fit a number of tokens."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from everhold.context.cutting import CHARACTERS_PER_TOKEN, cut_after_sentence
from everhold.context.lines import make_entry, make_heading
from everhold.context.section import Counter, Item, Section
from everhold.text.terms import normalise


@dataclass(frozen=True)
class ContextEntry:
    """An item with its line and the tokens of the line. Two entries that share one of their `keys` are duplicates."""

    item: Item
    line: str
    tokens: int
    keys: frozenset[str]
    cut: bool = False


@dataclass(frozen=True)
class SectionDraft:
    """A section with all entries that could be shown, best first."""

    section: Section
    heading: str
    heading_tokens: int
    entries: tuple[ContextEntry, ...]

    def tokens(self, chosen_entries: Sequence[ContextEntry]) -> int:
        """Return the tokens of these entries and the heading, or 0 if there are no entries."""
        return self.heading_tokens + sum(entry.tokens for entry in chosen_entries) if chosen_entries else 0


def make_draft(section: Section, room: int, counter: Counter) -> SectionDraft:
    """Return a section with its heading and entries. An entry that cannot fit into `room` tokens is not counted."""
    heading = make_heading(section.title)
    entries = tuple(_make_entry(item, room, counter) for item in section.items if item.text.strip())
    return SectionDraft(section, heading, counter(heading + "\n"), entries)


def _make_entry(item: Item, room: int, counter: Counter) -> ContextEntry:
    line = make_entry(item)
    tokens = room + 1 if len(line) > room * CHARACTERS_PER_TOKEN else counter(line + "\n")
    keys = {f"text {normalise(item.text) or item.text}"}
    if item.memory is not None:
        keys.add(f"memory {item.memory.id}")
    return ContextEntry(item, line, tokens, frozenset(keys))


def select(draft: SectionDraft, allowance: int, elsewhere: Set[str], counter: Counter) -> tuple[ContextEntry, ...]:
    """Return the best entries that fit and are not shown elsewhere; if none fits, one that is cut to fit.

    `elsewhere` are the keys of the entries that other sections show.
    """
    tokens_left = allowance - draft.heading_tokens
    shown_keys = set(elsewhere)
    chosen_entries: list[ContextEntry] = []
    too_long: list[ContextEntry] = []
    for entry in draft.entries:
        if not shown_keys.isdisjoint(entry.keys):
            continue
        if entry.tokens > tokens_left:
            too_long.append(entry)
            continue
        chosen_entries.append(entry)
        tokens_left -= entry.tokens
        if not draft.section.oldest_first:
            shown_keys |= entry.keys
    return tuple(chosen_entries) if chosen_entries else _cut_first_fitting(too_long, tokens_left, counter)


def _cut_first_fitting(entries: Sequence[ContextEntry], tokens_left: int, counter: Counter) -> tuple[ContextEntry, ...]:
    for entry in entries if tokens_left > 0 else ():
        shorter = _cut_to_fit(entry, tokens_left, counter)
        if shorter is not None:
            return (shorter,)
    return ()


def _cut_to_fit(entry: ContextEntry, tokens_left: int, counter: Counter) -> ContextEntry | None:
    """Return the entry cut to as many sentences as fit; None if no sentence fits."""
    text = entry.item.text[: tokens_left * CHARACTERS_PER_TOKEN]

    def make_line(beginning: str) -> str:
        return make_entry(replace(entry.item, text=beginning))

    beginning = cut_after_sentence(text, lambda beginning: counter(make_line(beginning) + "\n") <= tokens_left)
    if beginning is None:
        return None
    line = make_line(beginning)
    return replace(entry, line=line, tokens=counter(line + "\n"), cut=True)
