"""One context, from providers to a text within its budget.

providers → sections → each within its share → what is left flows on → fenced → counted as a whole
"""

from collections.abc import Sequence

from everhold.context import fence
from everhold.context.section import FLOW, Context, Counter, Provider, SectionUse, name_owners
from everhold.context.selection import Draft, Entry, draft_of, select
from everhold.model import Memory

Chosen = tuple[tuple[Entry, ...], ...]
"""What is shown of each draft, the best first."""


def assemble(providers: Sequence[Provider], budget: int, counter: Counter) -> Context:
    """The best of what the providers give, in at most `budget` tokens, headings and fences included."""
    room = max(0, budget - fence.cost(counter))
    sections = name_owners([provider() for provider in providers])
    drafts = [draft for section in sections if (draft := draft_of(section, room, counter)).entries]
    chosen = _within_shares(drafts, room, counter)
    chosen = _flowed_on(drafts, chosen, room, counter)
    while any(chosen):
        text = fence.fenced(_body(drafts, chosen))
        tokens = counter(text)
        if tokens <= budget:
            return Context(text, tokens, _memories(drafts, chosen), _uses(drafts, chosen))
        chosen = _without_the_last(chosen)  # a tokenizer may count a whole higher than its lines
    return Context("", 0, (), _uses(drafts, chosen))


def _within_shares(drafts: Sequence[Draft], room: int, counter: Counter) -> Chosen:
    """What each section shows by itself; of two that hold the same, the first shows it."""
    chosen: Chosen = ((),) * len(drafts)
    for place, draft in enumerate(drafts):
        free = room - _spent(drafts, chosen)
        allowance = min(free, int(draft.section.share * room))
        chosen = _chosen_again(drafts, chosen, place, allowance, counter)
    return chosen


def _flowed_on(drafts: Sequence[Draft], chosen: Chosen, room: int, counter: Counter) -> Chosen:
    """What each section shows once it may, in its turn, use what nobody has used."""
    for place in sorted(range(len(drafts)), key=lambda place: _turn(drafts[place])):
        free = room - _spent(drafts, chosen)
        allowance = drafts[place].tokens(chosen[place]) + free
        chosen = _chosen_again(drafts, chosen, place, allowance, counter)
    return chosen


def _chosen_again(drafts: Sequence[Draft], chosen: Chosen, place: int, allowance: int, counter: Counter) -> Chosen:
    selected = select(drafts[place], allowance, _elsewhere(chosen, place), counter)
    return (*chosen[:place], selected, *chosen[place + 1 :])


def _without_the_last(chosen: Chosen) -> Chosen:
    last = max(place for place, entries in enumerate(chosen) if entries)
    return (*chosen[:last], chosen[last][:-1], *chosen[last + 1 :])


def _turn(draft: Draft) -> int:
    name = draft.section.name
    return FLOW.index(name) if name in FLOW else len(FLOW)


def _spent(drafts: Sequence[Draft], chosen: Chosen) -> int:
    return sum(draft.tokens(entries) for draft, entries in zip(drafts, chosen, strict=True))


def _elsewhere(chosen: Chosen, place: int) -> set[str]:
    return {key for number, entries in enumerate(chosen) if number != place for entry in entries for key in entry.keys}


def _body(drafts: Sequence[Draft], chosen: Chosen) -> str:
    lines: list[str] = []
    for draft, entries in zip(drafts, _as_shown(drafts, chosen), strict=True):
        if entries:
            lines += [draft.heading, *(entry.line for entry in entries)]
    return "\n".join(lines)


def _as_shown(drafts: Sequence[Draft], chosen: Chosen) -> Chosen:
    pairs = zip(drafts, chosen, strict=True)
    return tuple(entries[::-1] if draft.section.oldest_first else entries for draft, entries in pairs)


def _memories(drafts: Sequence[Draft], chosen: Chosen) -> tuple[Memory, ...]:
    items = [entry.item for entries in _as_shown(drafts, chosen) for entry in entries]
    return tuple(item.memory for item in items if item.memory is not None)


def _uses(drafts: Sequence[Draft], chosen: Chosen) -> tuple[SectionUse, ...]:
    uses = []
    for place, (draft, entries) in enumerate(zip(drafts, chosen, strict=True)):
        section = draft.section
        cut = any(entry.cut for entry in entries)
        left_out = _left_out(draft, entries, _elsewhere(chosen, place))
        uses.append(SectionUse(section.name, section.title, draft.tokens(entries), len(entries), left_out, cut))
    return tuple(uses)


def _left_out(draft: Draft, entries: Sequence[Entry], elsewhere: set[str]) -> int:
    """How many are told neither here nor elsewhere."""
    own = [entry for entry in draft.entries if elsewhere.isdisjoint(entry.keys)]
    if draft.section.oldest_first:
        return len(own) - len(entries)
    told = {key for entry in entries for key in entry.keys}
    return sum(told.isdisjoint(entry.keys) for entry in own)
