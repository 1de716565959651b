"""Assemble a context from its providers, within a budget of tokens.

providers → sections → entries within each share → further entries within the whole budget → fence → final count
"""

from collections.abc import Sequence

from everhold.context import fence
from everhold.context.section import LEFTOVER_ORDER, Context, Counter, Provider, SectionUse, add_owners
from everhold.context.selection import ContextEntry, SectionDraft, make_draft, select
from everhold.model import Memory

# The chosen entries of each draft, best first, in the order of the drafts.
ChosenEntries = tuple[tuple[ContextEntry, ...], ...]


def assemble(providers: Sequence[Provider], budget: int, counter: Counter) -> Context:
    """Return the best items of the providers in at most `budget` tokens, including headings and fence."""
    room = max(0, budget - fence.count_fence_tokens(counter))
    sections = add_owners([provider() for provider in providers])
    drafts = [draft for section in sections if (draft := make_draft(section, room, counter)).entries]
    chosen_entries = _choose_within_shares(drafts, room, counter)
    chosen_entries = _share_leftover(drafts, chosen_entries, room, counter)
    while any(chosen_entries):
        text = fence.make_fence(_make_body(drafts, chosen_entries))
        tokens = counter(text)
        if tokens <= budget:
            return Context(text, tokens, _list_memories(drafts, chosen_entries), _list_uses(drafts, chosen_entries))
        chosen_entries = _drop_last(chosen_entries)  # the whole text may have more tokens than the sum of its lines
    return Context("", 0, (), _list_uses(drafts, chosen_entries))


def _choose_within_shares(drafts: Sequence[SectionDraft], room: int, counter: Counter) -> ChosenEntries:
    """Choose the entries of each section within its share. An entry of two sections is shown in the first of them."""
    chosen_entries: ChosenEntries = ((),) * len(drafts)
    for index, draft in enumerate(drafts):
        tokens_left = room - _count_spent(drafts, chosen_entries)
        allowance = min(tokens_left, int(draft.section.share * room))
        chosen_entries = _choose_again(drafts, chosen_entries, index, allowance, counter)
    return chosen_entries


def _share_leftover(
    drafts: Sequence[SectionDraft], chosen_entries: ChosenEntries, room: int, counter: Counter
) -> ChosenEntries:
    """Choose again with the unused tokens, one section after the other in the order of LEFTOVER_ORDER."""
    for index in sorted(range(len(drafts)), key=lambda index: _get_leftover_order(drafts[index])):
        tokens_left = room - _count_spent(drafts, chosen_entries)
        allowance = drafts[index].tokens(chosen_entries[index]) + tokens_left
        chosen_entries = _choose_again(drafts, chosen_entries, index, allowance, counter)
    return chosen_entries


def _choose_again(
    drafts: Sequence[SectionDraft], chosen_entries: ChosenEntries, index: int, allowance: int, counter: Counter
) -> ChosenEntries:
    selected = select(drafts[index], allowance, _collect_other_keys(chosen_entries, index), counter)
    return (*chosen_entries[:index], selected, *chosen_entries[index + 1 :])


def _drop_last(chosen_entries: ChosenEntries) -> ChosenEntries:
    last = max(index for index, entries in enumerate(chosen_entries) if entries)
    return (*chosen_entries[:last], chosen_entries[last][:-1], *chosen_entries[last + 1 :])


def _get_leftover_order(draft: SectionDraft) -> int:
    name = draft.section.name
    return LEFTOVER_ORDER.index(name) if name in LEFTOVER_ORDER else len(LEFTOVER_ORDER)


def _count_spent(drafts: Sequence[SectionDraft], chosen_entries: ChosenEntries) -> int:
    return sum(draft.tokens(entries) for draft, entries in zip(drafts, chosen_entries, strict=True))


def _collect_other_keys(chosen_entries: ChosenEntries, own_index: int) -> set[str]:
    return {
        key
        for index, entries in enumerate(chosen_entries)
        if index != own_index
        for entry in entries
        for key in entry.keys
    }


def _make_body(drafts: Sequence[SectionDraft], chosen_entries: ChosenEntries) -> str:
    lines: list[str] = []
    for draft, entries in zip(drafts, _order_entries(drafts, chosen_entries), strict=True):
        if entries:
            lines += [draft.heading, *(entry.line for entry in entries)]
    return "\n".join(lines)


def _order_entries(drafts: Sequence[SectionDraft], chosen_entries: ChosenEntries) -> ChosenEntries:
    pairs = zip(drafts, chosen_entries, strict=True)
    return tuple(entries[::-1] if draft.section.oldest_first else entries for draft, entries in pairs)


def _list_memories(drafts: Sequence[SectionDraft], chosen_entries: ChosenEntries) -> tuple[Memory, ...]:
    items = [entry.item for entries in _order_entries(drafts, chosen_entries) for entry in entries]
    return tuple(item.memory for item in items if item.memory is not None)


def _list_uses(drafts: Sequence[SectionDraft], chosen_entries: ChosenEntries) -> tuple[SectionUse, ...]:
    uses = []
    for index, (draft, entries) in enumerate(zip(drafts, chosen_entries, strict=True)):
        section = draft.section
        is_cut = any(entry.cut for entry in entries)
        left_out = _count_left_out(draft, entries, _collect_other_keys(chosen_entries, index))
        uses.append(SectionUse(section.name, section.title, draft.tokens(entries), len(entries), left_out, is_cut))
    return tuple(uses)


def _count_left_out(draft: SectionDraft, entries: Sequence[ContextEntry], elsewhere: set[str]) -> int:
    """Return the number of entries of a draft that no section shows."""
    not_elsewhere = [entry for entry in draft.entries if elsewhere.isdisjoint(entry.keys)]
    if draft.section.oldest_first:  # repeated turns are separate entries in such a section
        return len(not_elsewhere) - len(entries)
    shown_keys = {key for entry in entries for key in entry.keys}
    return sum(shown_keys.isdisjoint(entry.keys) for entry in not_elsewhere)
