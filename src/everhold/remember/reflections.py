"""Write reflections: memories about what came up on several days, which quote the memories and messages that say it.

A reflection quotes its sources and names them: memories by `derived_from` relationships, messages in its provenance. It
is purged when one of them is purged (`remember/erasure.py`) and withdrawn when too few of them are left.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from everhold import clock
from everhold.facts.conflicts import ONE_TIME
from everhold.model import Change, Memory, Scope
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.memory import REFLECTIONS
from everhold.ports.records import Records
from everhold.remember.chunks import make_chunks
from everhold.remember.deps import WriteDeps
from everhold.remember.draft import make_draft
from everhold.remember.evidence import REFLECTION, Evidence, PatternScope
from everhold.remember.journal import find_undone_ids, make_change
from everhold.remember.link import make_relationship
from everhold.remember.owners import Owner
from everhold.remember.pipeline import make_additions
from everhold.schema.operations import Hide, Op, Operation, Put, Where
from everhold.text.date_words import is_trigger
from everhold.text.terms import extract_terms

# Something that came up on fewer days may have done so by chance.
MIN_DAYS = 3

# A name in more than this share of an owner's evidence is not a pattern. With fewer than _MIN_ITEMS items, the share
# means nothing and is not checked.
_MAX_SHARE, _MIN_ITEMS = 0.5, 12
_MAX_SOURCES = 12
_MAX_QUOTES = 3
_MAX_QUOTE_LENGTH = 160
_MAX_REFLECTIONS = 20  # in one run, for one owner
_CONFIDENCE = 0.6
_DIGEST_BYTES = 16


class Pattern(NamedTuple):
    """Something that came up on several days. `key` identifies it, and `label` is its name in the reflection."""

    pattern_scope: PatternScope
    key: str
    label: str
    evidence: tuple[Evidence, ...]

    @property
    def days(self) -> list[date]:
        return sorted({item.day for item in self.evidence})


class ReflectionPlan(NamedTuple):
    """The reflections to write, each with those that it replaces, and those to withdraw without replacement."""

    fresh: tuple[tuple[Memory, Pattern, tuple[Memory, ...]], ...]
    stale: tuple[Memory, ...]


# finding patterns


def find_patterns(evidence: Sequence[Evidence]) -> list[Pattern]:
    """Return the patterns in the evidence, those that came up on most days first."""
    groups: dict[tuple[PatternScope, str], list[Evidence]] = defaultdict(list)
    for item in evidence:
        for key in _list_keys(item):
            groups[item.pattern_scope, key].append(item)
    keys_by_sources: dict[tuple[PatternScope, tuple[str, ...]], list[tuple[str, list[Evidence]]]] = defaultdict(list)
    for (pattern_scope, key), items in groups.items():
        distinct_items = _drop_repeats(items)
        days = {item.day for item in distinct_items}
        if len(days) >= MIN_DAYS and not _is_too_frequent(key, distinct_items, len(evidence)):
            source_ids = tuple(sorted(item.id for item in distinct_items))
            keys_by_sources[pattern_scope, source_ids].append((key, distinct_items))
    # Keys with the same sources are one pattern: "Anna" and "Berg" that are always said together are one name.
    patterns = [
        _make_pattern(pattern_scope, keyed_items) for (pattern_scope, _), keyed_items in keys_by_sources.items()
    ]
    return sorted(patterns, key=lambda pattern: (-len(pattern.days), pattern.key))


def _list_keys(item: Evidence) -> Iterator[str]:
    for name in item.names:
        yield f"name:{name}"
    if item.attribute is not None and item.attribute.rpartition("/")[2] not in ONE_TIME:
        yield f"attribute:{item.attribute}"
    terms = [term for term in extract_terms(item.text) if not is_trigger(term) and not term.isdigit()]
    if len(terms) > 1:
        yield f"said:{' '.join(terms)}"


def _drop_repeats(items: Iterable[Evidence]) -> list[Evidence]:
    """Return the first of the items with the same text and day, such as a message and the fact read from it."""
    return list({(item.day, item.text): item for item in reversed(list(items))}.values())[::-1]


def _is_too_frequent(key: str, items: Sequence[Evidence], total: int) -> bool:
    return key.startswith("name:") and total >= _MIN_ITEMS and len(items) > total * _MAX_SHARE


def _make_pattern(pattern_scope: PatternScope, keyed_items: Sequence[tuple[str, list[Evidence]]]) -> Pattern:
    evidence = keyed_items[0][1]
    keys = sorted(key for key, _ in keyed_items)
    name_keys = {key.partition(":")[2] for key in keys if key.startswith("name:")}
    if name_keys:
        label = " ".join(name for key, name in evidence[0].names.items() if key in name_keys)
    elif keys[0].startswith("attribute:"):
        label = keys[0].partition(":")[2].replace("/", " ").replace("_", " ")
    else:
        label = f"“{_shorten_quote(evidence[0].text)}”"
    return Pattern(pattern_scope, "+".join(keys), label, tuple(evidence))


# planning


def plan_reflections(
    records: Records, owner: Owner, evidence: Sequence[Evidence], now: datetime, text_bytes: int
) -> ReflectionPlan:
    """Return the reflections to write and to withdraw. One that a person forgot or undid is not written again."""
    where = [*owner.conditions, Where("kind", Op.EQ, REFLECTION), Where("provenance.pattern", Op.NE, None)]
    stored = records.scan(Memory, owner.organization, where, deleted=True)
    visible_reflections = {memory.id: memory for memory in stored if not memory.is_deleted}
    refused_patterns = _find_refused(records, owner, stored)
    undone_ids = find_undone_ids(records, owner.organization, "remember")
    planned_reflections, needed_ids = [], set()
    for pattern in find_patterns(evidence):
        reflection = _draft_reflection(owner, pattern, now, text_bytes)
        needed_ids.add(reflection.id)
        is_refused = (pattern.pattern_scope, pattern.key) in refused_patterns or reflection.id in undone_ids
        if reflection.id not in visible_reflections and not is_refused:
            earlier_reflections = tuple(
                memory
                for memory in visible_reflections.values()
                if _identify(memory) == (pattern.pattern_scope, pattern.key)
            )
            needed_ids.update(memory.id for memory in earlier_reflections)
            planned_reflections.append((reflection, pattern, earlier_reflections))
    stale_reflections = [memory for memory in visible_reflections.values() if memory.id not in needed_ids]
    return ReflectionPlan(tuple(planned_reflections[:_MAX_REFLECTIONS]), tuple(stale_reflections))


def _identify(memory: Memory) -> tuple[PatternScope, str]:
    pattern_scope = PatternScope(memory.project_id, memory.agent_id, None if memory.user_id else memory.session_id)
    return pattern_scope, str(memory.pattern)


def _find_refused(records: Records, owner: Owner, stored: Iterable[Memory]) -> set[tuple[PatternScope, str]]:
    """Return the patterns whose reflection was forgotten by a person, not withdrawn by maintenance."""
    where = [*owner.conditions, Where("kind", Op.EQ, "forget"), Where("run_id", Op.NE, None)]
    withdrawn_deletion_ids = {
        before.get("deletion_id") for (before,) in records.columns(Change, owner.organization, ("before",), where)
    }
    return {
        _identify(memory) for memory in stored if memory.is_deleted and memory.deletion_id not in withdrawn_deletion_ids
    }


def _draft_reflection(owner: Owner, pattern: Pattern, now: datetime, text_bytes: int) -> Memory:
    """Return the memory that states a pattern and names the memories, messages and episodes that it quotes."""
    sources = _choose_spread(pattern.evidence, _MAX_SOURCES)
    provenance: dict[str, Any] = {"pattern": pattern.key, "days": len(pattern.days)}
    for name, values in (
        ("memories", [item.memory_id for item in sources]),
        ("quoted_messages", [item.message_id for item in sources]),
        ("episodes", [item.episode_id for item in sources]),
    ):
        if ids := list(dict.fromkeys(value for value in values if value is not None)):
            provenance[name] = ids
    scope = pattern.pattern_scope
    # The identity is part of the ids of stored reflections, so its form must stay the same.
    place = f"Place(project_id={scope.project_id!r}, agent_id={scope.agent_id!r}, session_id={scope.session_id!r})"
    owner_text = f"Owner(organization={owner.organization!r}, user_id={owner.user_id!r})"
    identity = "\x1f".join(
        [owner_text, place, pattern.key, *(part for item in sources for part in (item.id, item.text))]
    )
    fields = {
        # The same sources always make the same id, so that a repeated run changes nothing and recognises an undone
        # reflection.
        "id": f"mem_{hashlib.blake2b(identity.encode(), digest_size=_DIGEST_BYTES).hexdigest()}",
        "kind": REFLECTION,
        "namespace": REFLECTIONS,
        "text": _format_text(pattern),
        "confidence": _CONFIDENCE,
        "provenance": provenance,
    }
    return make_draft(_make_scope(owner, pattern.pattern_scope), fields, now, text_bytes).memory


def _make_scope(owner: Owner, pattern_scope: PatternScope) -> Scope:
    return owner.scope.narrow(
        project=pattern_scope.project_id, agent=pattern_scope.agent_id, session=pattern_scope.session_id
    )


def _format_text(pattern: Pattern) -> str:
    days = pattern.days
    quotes = " · ".join(f"“{_shorten_quote(item.text)}”" for item in _choose_spread(pattern.evidence, _MAX_QUOTES))
    first, last = _format_day(days[0]), _format_day(days[-1])
    return f"{pattern.label} came up on {len(days)} days between {first} and {last}: {quotes}"


def _choose_spread(items: Sequence[Evidence], count: int) -> list[Evidence]:
    """Return at most `count` of the items, evenly spread from the first to the last."""
    if len(items) <= count:
        return list(items)
    return [items[round(index * (len(items) - 1) / (count - 1))] for index in range(count)]


def _shorten_quote(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_QUOTE_LENGTH else f"{line[:_MAX_QUOTE_LENGTH].rpartition(' ')[0]} …"


def _format_day(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


# writing


def write_reflection(
    deps: WriteDeps, owner: Owner, reflection: Memory, pattern: Pattern, earlier_reflections: Sequence[Memory]
) -> None:
    """Store a reflection with links to its sources, and hide the earlier ones that it replaces.

    Raise BrokenReference if a source was purged.
    """
    scope, now = _make_scope(owner, pattern.pattern_scope), reflection.created_at
    draft = make_draft(scope, reflection.text, now, deps.text_bytes)._replace(memory=reflection)
    links = [
        Put(make_relationship(scope, reflection.id, memory_id, "derived_from", now))
        for memory_id in reflection.provenance.get("memories", ())
    ]
    chunks = make_chunks([reflection], deps.chunking)[0]
    deps.records.commit(
        [*make_additions(deps, scope, draft, chunks, now), *links, *_make_withdrawal(deps, owner, earlier_reflections)]
    )


def withdraw(deps: WriteDeps, owner: Owner, memories: Sequence[Memory]) -> None:
    """Hide reflections of patterns that the evidence no longer shows."""
    if memories:
        deps.records.commit(_make_withdrawal(deps, owner, memories))


def _make_withdrawal(deps: WriteDeps, owner: Owner, memories: Sequence[Memory]) -> list[Operation]:
    if not memories:
        return []
    now, deletion_id = clock.now(), clock.make_id("del")
    operations: list[Operation] = []
    for memory in memories:
        request = {"memory": memory.id, "hard": False}
        line = make_access_line(owner.scope, "delete", now, request, memory_id=memory.id, interface=deps.interface)
        hide = Hide(Memory, (owner.organization, memory.id), deletion_id, now)
        operations += [hide, Put(line), Put(make_announcement(memory, "delete"))]
    ids, before = [memory.id for memory in memories], {"deletion_id": deletion_id}
    entry = make_change(
        owner.scope, "forget", ids, now, "its sources have changed", before=before, after={}, run_id=deps.run_id
    )
    return [*operations, Put(entry)]
