"""Which kept memories hold no longer, because a newer one states something else in their place."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

from everhold.facts import Statement
from everhold.facts.conflicts import ENDED_BY, ONE_TIME, compare_statements
from everhold.model import Memory, Scope
from everhold.model.scope import SHORT_TERM
from everhold.ports.records import Records
from everhold.remember.draft import Draft
from everhold.remember.duplicates import Duplicates, has_ended
from everhold.remember.reading import ReadingOptions, find_event_time, format_attribute, load_statement
from everhold.remember.supersession import make_ending
from everhold.schema.conditions import make_equalities
from everhold.schema.operations import Op, Where
from everhold.text.terms import extract_terms, fold

_ENDING, _SHORTEST = 2, 3
"""How many letters of a stem its word may spell otherwise, and how many a probe has at least."""


_SHARED_BY_RIVALS = ("user_id", "project_id", "agent_id", "namespace")


class Rival(NamedTuple):
    """A memory that holds, and what it states."""

    memory: Memory
    statement: Statement


class Replacement(NamedTuple):
    """Memories whose place another takes, and what it is about."""

    olds: tuple[Memory, ...]
    heir: Memory
    attribute: str


class WritePlan(NamedTuple):
    """What a write does with its drafts.

    `drafts` are stored as they are here. `known` maps a draft to the memory that already says it, `retries` are those
    that must change nothing, `ended` are memories whose words may be stored again, `replaced` is what ends.
    """

    drafts: list[Draft]
    known: dict[str, str]
    ended: tuple[str, ...]
    replaced: tuple[Replacement, ...] = ()
    retries: frozenset[str] = frozenset()


def plan_write(
    records: Records, scope: Scope, drafts: Sequence[Draft], twins: Duplicates, reading: ReadingOptions, now: datetime
) -> WritePlan:
    """Goes through the drafts in their order; each may end what was said before it, here or in the store."""
    kept = [one for one in drafts if one.source_id not in twins.known]  # a message kept already has told its facts
    stating = [one for one in kept if one.statement is not None]
    if not reading.resolve or not stating:
        return WritePlan(kept, twins.known, twins.ended, retries=twins.retries)
    walk = _Planner(kept, twins, _find_rivals(records, scope, stating, reading.zone, now), now)
    for one in stating:
        walk.add_draft(one)
    return walk.make_plan()


class _Planner:
    """What stands at each step through the drafts of one write."""

    def __init__(self, drafts: Sequence[Draft], twins: Duplicates, rivals: Iterable[Rival], now: datetime) -> None:
        self._drafts, self._now = drafts, now
        # a retry with the caller's own id has the id of the stored memory
        self._fresh = {one.memory.id for one in drafts if twins.known.get(one.memory.id) != one.memory.id}
        self._known, self._ended = dict(twins.known), list(twins.ended)
        self._rivals: dict[tuple[str | None, str, str], dict[str, Rival]] = defaultdict(dict)
        self._changes: dict[str, dict[str, Any]] = defaultdict(dict)
        self._replaced: dict[str, Replacement] = {}
        self._gone: dict[str, str] = {}
        """Maps the id of each memory replaced in this write to the id of its heir."""
        self._again: dict[str, str] = {}
        """Maps each superseded id to the id of the memory that restates it."""
        self._retries = twins.retries
        for rival in rivals:
            self._add(rival)

    def _add(self, rival: Rival) -> None:
        self._rivals[_find_rival_group(rival.memory, format_attribute(rival.statement))][rival.memory.id] = rival

    def add_draft(self, one: Draft) -> None:
        statement, memory = one.statement, one.memory
        if statement is None or self._is_known(memory.id):
            return
        if memory.is_current_at(self._now) and statement.attribute not in ONE_TIME:
            rivals = [
                rival
                for name in _list_ended_attributes(statement)
                for rival in self._rivals[_find_rival_group(memory, name)].values()
            ]
            contested = [rival for rival in rivals if _is_contradicted(rival.statement, statement)]
            later = [end for rival in contested if (end := _find_later_start(rival, memory, statement)) is not None]
            if later:
                self._make_history(memory, min(later))
                return
            if contested:
                self._replace([rival.memory for rival in contested], memory, statement)
        self._add(Rival(memory, statement))

    def _is_known(self, memory_id: str) -> bool:
        """Return whether a standing memory says the same. What a replaced memory said counts as new."""
        twin = self._known.get(memory_id)
        if memory_id in self._retries:  # it was stored once, so it changes nothing now
            return True
        while twin in self._again:
            twin = self._known[memory_id] = self._again[twin]
        if twin is None or twin not in self._gone:
            return twin is not None
        del self._known[memory_id]
        self._again[twin] = memory_id
        if twin in self._fresh:
            self._changes[twin]["hash"] = None
        else:
            self._ended.append(twin)
            self._count_version(twin)
        return False

    def _count_version(self, old_id: str) -> None:
        """Freeing its words changes a memory once more before it is ended."""
        heir_id = self._gone[old_id]
        done = self._replaced[heir_id]
        olds = tuple(old.evolve(version=old.version + 1) if old.id == old_id else old for old in done.olds)
        self._replaced[heir_id] = done._replace(olds=olds)

    def _make_history(self, memory: Memory, end: datetime) -> None:
        if memory.valid_to is None or memory.valid_to > end:
            self._changes[memory.id]["valid_to"] = max(end, memory.valid_from or end)

    def _replace(self, olds: Sequence[Memory], heir: Memory, statement: Statement) -> None:
        self._replaced[heir.id] = Replacement(tuple(olds), heir, statement.attribute)
        for old in olds:
            self._gone[old.id] = heir.id
            del self._rivals[_find_rival_group(old, str(old.attribute))][old.id]
            if old.id in self._fresh:
                self._changes[old.id].update(make_ending(old, heir, self._now, find_start(heir)))

    def make_plan(self) -> WritePlan:
        drafts = [
            one._replace(memory=one.memory.evolve(**self._changes[one.memory.id]))
            if one.memory.id in self._changes
            else one
            for one in self._drafts
        ]
        replaced = tuple(self._replaced.values())
        return WritePlan(drafts, self._known, tuple(self._ended), replaced, self._retries)


def find_start(heir: Memory) -> datetime:
    """From when on a memory stands in others' place, where it does not say since when it holds."""
    return heir.occurred_at or heir.created_at


def _find_rival_group(memory: Memory, attribute: str) -> tuple[str | None, str, str]:
    """Where rivals meet. All drafts of a write and what is read for them differ in session and namespace only."""
    return _find_rival_session(memory), memory.namespace, attribute


def _find_rival_session(memory: Memory) -> str | None:
    """Return the session that rivals of a memory must share; None if rivals may be of any session.

    What a user says in one session replaces what the same user said in another, but for short-term notes.
    """
    return memory.session_id if _is_session_bound(memory) else None


def _is_session_bound(memory: Memory) -> bool:
    """Return whether a memory is its session's own: it has no user, or it is a short-term note."""
    return memory.user_id is None or memory.namespace == SHORT_TERM


def _list_ended_attributes(statement: Statement) -> list[str]:
    attributes = (statement.attribute, *ENDED_BY.get(statement.attribute, ()))
    return [f"{statement.subject}/{attribute}" for attribute in attributes]


def _is_contradicted(old: Statement, new: Statement) -> bool:
    """Whether both cannot hold at once, whatever the times they tell."""
    return compare_statements(replace(old, valid_from=None), replace(new, valid_from=None)) == "replaces"


def _find_later_start(old: Rival, memory: Memory, statement: Statement) -> datetime | None:
    """When the kept memory begins, if that is after what the new one tells: then the new one is history."""
    since_old = old.memory.valid_from or old.statement.valid_from
    since_new = memory.valid_from or statement.valid_from
    if since_old and since_new:
        return since_old if since_old > since_new else None
    starts = (since_old, find_event_time(old.memory))
    return min((start for start in starts if start and start > find_event_time(memory)), default=None)


def _find_rivals(records: Records, scope: Scope, drafts: Sequence[Draft], zone: tzinfo, now: datetime) -> list[Rival]:
    """The kept memories that hold and that the drafts may end: of the same dimensions, and about the same."""
    wanted: dict[tuple[str | None, str], list[tuple[Memory, Statement]]] = defaultdict(list)
    for one in drafts:
        if one.statement is not None and one.statement.attribute not in ONE_TIME:
            wanted[_find_rival_session(one.memory), one.memory.namespace].append((one.memory, one.statement))
    found: list[str] = []
    for stating in wanted.values():
        found += _find_candidate_ids(records, scope, stating)
    memories = records.get(Memory, scope.organization, found).values() if found else ()
    standing = [memory for memory in memories if memory.attribute is not None and not has_ended(memory, now)]
    parsed = ((memory, load_statement(memory, zone)) for memory in sorted(standing, key=lambda one: one.id))
    return [Rival(memory, told) for memory, told in parsed if told and format_attribute(told) == memory.attribute]


def _find_candidate_ids(records: Records, scope: Scope, stating: Sequence[tuple[Memory, Statement]]) -> list[str]:
    memory = stating[0][0]
    probes: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for _, statement in stating:
        for name in _list_ended_attributes(statement):
            probes[name].add(_make_probes(statement))
    where = [
        Where("attribute", Op.IN, list(probes)),
        Where("superseded_at", Op.EQ, None),
        *make_equalities({name: memory.__dict__[name] for name in _SHARED_BY_RIVALS}),
    ]
    if _is_session_bound(memory):
        where.append(Where("session_id", Op.EQ, memory.session_id))
    rows = records.columns(Memory, scope.organization, ("id", "attribute", "text"), where)
    return [memory_id for memory_id, name, text in rows if _has_probe(probes[name], text)]


def _make_probes(statement: Statement) -> tuple[str, ...]:
    """How words begin that mostly occur in any text that this statement can replace; none if any text may."""
    words = () if statement.exclusive else extract_terms(statement.value.partition(",")[0])
    return tuple(word[: max(_SHORTEST, len(word) - _ENDING)] for word in words)


def _has_probe(probes: set[tuple[str, ...]], text: str) -> bool:
    told = text.lower() if text.isascii() else fold(text)
    return any(not words or sum(word in told for word in words) > len(words) // 2 for words in probes)
