"""Find the stored memories that a new memory replaces, because it states something else about the same attribute."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

from everhold.facts.conflicts import ENDED_BY, ONE_TIME, compare_statements
from everhold.facts.statement import Statement
from everhold.model import Memory, Scope
from everhold.model.scope import SHORT_TERM
from everhold.ports.records import Records
from everhold.remember.deps import ReadingOptions
from everhold.remember.draft import Draft
from everhold.remember.duplicates import Duplicates, has_ended
from everhold.remember.reading import find_event_time, format_attribute, load_statement
from everhold.remember.supersession import make_ending
from everhold.schema.conditions import make_equalities
from everhold.schema.operations import Op, Where
from everhold.text.terms import extract_terms, fold

# A probe is a stem without its last letters, which may differ from the word in a text. These are the number of letters
# that it leaves out, and the minimum number of letters that it keeps.
_DROPPED_LETTERS, _MIN_PROBE_LETTERS = 2, 3

# The columns in which a memory and the one that it replaces must agree.
_SHARED_BY_RIVALS = ("user_id", "project_id", "agent_id", "namespace")


class Rival(NamedTuple):
    """A current memory that a new one may replace, and its statement."""

    memory: Memory
    statement: Statement


class Replacement(NamedTuple):
    """The memories that a successor supersedes, and the attribute of its statement."""

    old_memories: tuple[Memory, ...]
    successor: Memory
    attribute: str


class WritePlan(NamedTuple):
    """The plan of a write for its drafts.

    `drafts` have the values to store. `duplicate_ids` maps a draft's id to the id of the memory with the same content.
    `ended_ids` are the ids of memories whose text may be stored again. `replacements` are the memories that the write
    supersedes. `retried_ids` are the ids of the drafts that must change nothing.
    """

    drafts: list[Draft]
    duplicate_ids: dict[str, str]
    ended_ids: tuple[str, ...]
    replacements: tuple[Replacement, ...] = ()
    retried_ids: frozenset[str] = frozenset()


def plan_write(
    records: Records,
    scope: Scope,
    drafts: Sequence[Draft],
    duplicates: Duplicates,
    reading: ReadingOptions,
    now: datetime,
) -> WritePlan:
    """Return the plan of a write; each draft may replace stored memories and earlier drafts."""
    # If a message is stored already, its facts were stored with it.
    unstored_drafts = [draft for draft in drafts if draft.source_id not in duplicates.duplicate_ids]
    stating_drafts = [draft for draft in unstored_drafts if draft.statement is not None]
    if not reading.resolve or not stating_drafts:
        return WritePlan(
            unstored_drafts, duplicates.duplicate_ids, duplicates.ended_ids, retried_ids=duplicates.retried_ids
        )
    planner = _Planner(
        unstored_drafts, duplicates, _find_rivals(records, scope, stating_drafts, reading.zone, now), now
    )
    for draft in stating_drafts:
        planner.add_draft(draft)
    return planner.make_plan()


class _Planner:
    """Plans a write, one draft after the other."""

    def __init__(self, drafts: Sequence[Draft], duplicates: Duplicates, rivals: Iterable[Rival], now: datetime) -> None:
        self._drafts, self._now = drafts, now
        # A retry with an id from the caller has the same id as the stored memory, and is not new.
        self._added_ids = {
            draft.memory.id for draft in drafts if duplicates.duplicate_ids.get(draft.memory.id) != draft.memory.id
        }
        self._duplicate_ids, self._ended_ids = dict(duplicates.duplicate_ids), list(duplicates.ended_ids)
        self._rivals: dict[tuple[str | None, str, str], dict[str, Rival]] = defaultdict(dict)
        self._changes: dict[str, dict[str, Any]] = defaultdict(dict)
        self._replacements: dict[str, Replacement] = {}
        self._successor_ids: dict[str, str] = {}
        """Maps the id of each memory replaced in this write to the id of its successor."""
        self._restating_ids: dict[str, str] = {}
        """Maps each superseded id to the id of the memory that restates it."""
        self._retried_ids = duplicates.retried_ids
        for rival in rivals:
            self._add(rival)

    def _add(self, rival: Rival) -> None:
        self._rivals[_find_rival_group(rival.memory, format_attribute(rival.statement))][rival.memory.id] = rival

    def add_draft(self, draft: Draft) -> None:
        """Add a draft. It replaces the rivals that it contradicts, or becomes history if one of them is later."""
        statement, memory = draft.statement, draft.memory
        if statement is None or self._is_known(memory.id):
            return
        if memory.is_current_at(self._now) and statement.attribute not in ONE_TIME:
            rivals = [
                rival
                for name in list_ended_attributes(statement)
                for rival in self._rivals[_find_rival_group(memory, name)].values()
            ]
            contradicted = [rival for rival in rivals if is_contradicted(rival.statement, statement)]
            later_starts = [
                start for rival in contradicted if (start := find_later_start(rival, memory, statement)) is not None
            ]
            if later_starts:
                self._make_history(memory, min(later_starts))
                return
            if contradicted:
                self._replace([rival.memory for rival in contradicted], memory, statement)
        self._add(Rival(memory, statement))

    def _is_known(self, memory_id: str) -> bool:
        """Return whether a current memory has the same content. Memories that this write replaces do not count."""
        duplicate_id = self._duplicate_ids.get(memory_id)
        if memory_id in self._retried_ids:  # it was stored by an earlier call, so it changes nothing now
            return True
        while duplicate_id in self._restating_ids:
            duplicate_id = self._duplicate_ids[memory_id] = self._restating_ids[duplicate_id]
        if duplicate_id is None or duplicate_id not in self._successor_ids:
            return duplicate_id is not None
        del self._duplicate_ids[memory_id]
        self._restating_ids[duplicate_id] = memory_id
        if duplicate_id in self._added_ids:
            self._changes[duplicate_id]["hash"] = None
        else:
            self._ended_ids.append(duplicate_id)
            self._count_version(duplicate_id)
        return False

    def _count_version(self, old_id: str) -> None:
        """Increase the expected version of a replaced memory, because releasing its hash increases the version."""
        successor_id = self._successor_ids[old_id]
        replacement = self._replacements[successor_id]
        old_memories = tuple(
            old.evolve(version=old.version + 1) if old.id == old_id else old for old in replacement.old_memories
        )
        self._replacements[successor_id] = replacement._replace(old_memories=old_memories)

    def _make_history(self, memory: Memory, end: datetime) -> None:
        """End the validity of a draft about an earlier time at the time when the later rival begins."""
        if memory.valid_to is None or memory.valid_to > end:
            self._changes[memory.id]["valid_to"] = max(end, memory.valid_from or end)

    def _replace(self, old_memories: Sequence[Memory], successor: Memory, statement: Statement) -> None:
        self._replacements[successor.id] = Replacement(tuple(old_memories), successor, statement.attribute)
        for old in old_memories:
            self._successor_ids[old.id] = successor.id
            del self._rivals[_find_rival_group(old, str(old.attribute))][old.id]
            if old.id in self._added_ids:
                self._changes[old.id].update(make_ending(old, successor, self._now, find_start(successor)))

    def make_plan(self) -> WritePlan:
        """Return the plan for all drafts that were added."""
        drafts = [
            draft._replace(memory=draft.memory.evolve(**self._changes[draft.memory.id]))
            if draft.memory.id in self._changes
            else draft
            for draft in self._drafts
        ]
        replacements = tuple(self._replacements.values())
        return WritePlan(drafts, self._duplicate_ids, tuple(self._ended_ids), replacements, self._retried_ids)


def find_start(successor: Memory) -> datetime:
    """Return the time from which a memory without a `valid_from` replaces others."""
    return successor.occurred_at or successor.created_at


def _find_rival_group(memory: Memory, attribute: str) -> tuple[str | None, str, str]:
    """Return the key that two memories must share if one is to replace the other."""
    # The other dimensions are not in the key, because all drafts of a write and the memories read for them share them.
    return find_rival_session(memory), memory.namespace, attribute


def find_rival_session(memory: Memory) -> str | None:
    """Return the session that the rivals of a memory must have, or None if they may be of any session.

    A user's statement in one session replaces the same user's statement in another, except for short-term notes.
    """
    return memory.session_id if _is_session_bound(memory) else None


def _is_session_bound(memory: Memory) -> bool:
    """Return whether a memory belongs to its session: it has no user, or it is a short-term note."""
    return memory.user_id is None or memory.namespace == SHORT_TERM


def list_ended_attributes(statement: Statement) -> list[str]:
    """Return the values of the `attribute` column whose memories a statement may end."""
    attributes = (statement.attribute, *ENDED_BY.get(statement.attribute, ()))
    return [f"{statement.subject}/{attribute}" for attribute in attributes]


def is_contradicted(old: Statement, new: Statement) -> bool:
    """Return whether the statements cannot both be true, regardless of the times that they name."""
    return compare_statements(replace(old, valid_from=None), replace(new, valid_from=None)) == "replaces"


def find_later_start(old: Rival, memory: Memory, statement: Statement) -> datetime | None:
    """Return when a stored memory begins, if that is after the time of the new memory; otherwise None."""
    old_start = old.memory.valid_from or old.statement.valid_from
    successor_start = memory.valid_from or statement.valid_from
    if old_start and successor_start:
        return old_start if old_start > successor_start else None
    starts = (old_start, find_event_time(old.memory))
    return min((start for start in starts if start and start > find_event_time(memory)), default=None)


def _find_rivals(records: Records, scope: Scope, drafts: Sequence[Draft], zone: tzinfo, now: datetime) -> list[Rival]:
    """Return the current memories of the same owner about the same attributes, which the drafts may replace."""
    statements_by_group: dict[tuple[str | None, str], list[tuple[Memory, Statement]]] = defaultdict(list)
    for draft in drafts:
        if draft.statement is not None and draft.statement.attribute not in ONE_TIME:
            statements_by_group[find_rival_session(draft.memory), draft.memory.namespace].append(
                (draft.memory, draft.statement)
            )
    candidate_ids: list[str] = []
    for statements in statements_by_group.values():
        candidate_ids += _find_candidate_ids(records, scope, statements)
    memories = records.get(Memory, scope.organization, candidate_ids).values() if candidate_ids else ()
    # Sorted by id below, so that the plan does not depend on the store's order of rows.
    current_memories = [memory for memory in memories if memory.attribute is not None and not has_ended(memory, now)]
    memories_with_statements = (
        (memory, load_statement(memory, zone)) for memory in sorted(current_memories, key=lambda memory: memory.id)
    )
    return [
        Rival(memory, statement)
        for memory, statement in memories_with_statements
        if statement and format_attribute(statement) == memory.attribute
    ]


def _find_candidate_ids(records: Records, scope: Scope, statements: Sequence[tuple[Memory, Statement]]) -> list[str]:
    memory = statements[0][0]
    probes: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for _, statement in statements:
        for name in list_ended_attributes(statement):
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
    """Return word beginnings, most of which a text must contain to be replaced; none if any text may be replaced."""
    # The probes exclude rows by their text alone, before whole memories are loaded and parsed.
    # What somebody eats may end a diet, whose name has none of these words.
    words = (
        () if statement.exclusive or statement.attribute == "eats" else extract_terms(statement.value.partition(",")[0])
    )
    return tuple(word[: max(_MIN_PROBE_LETTERS, len(word) - _DROPPED_LETTERS)] for word in words)


def _has_probe(probes: set[tuple[str, ...]], text: str) -> bool:
    folded = text.lower() if text.isascii() else fold(text)
    return any(not probe or sum(beginning in folded for beginning in probe) > len(probe) // 2 for probe in probes)
