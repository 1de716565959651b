"""Consolidate the memories of one owner at a time, as part of maintenance.

    merge near-duplicates → settle or list contradictions → relate memories → write and withdraw reflections

Every change is one commit and one entry of the journal, under the id of the run. A memory that another
writer changes during the run is left for the next run.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial

from everhold import clock
from everhold.errors import AlreadyExists, BrokenReference, NotFound, StaleVersion
from everhold.remember.contradictions import find_contradictions, settle
from everhold.remember.deps import WriteDeps
from everhold.remember.evidence import read_evidence
from everhold.remember.merge import merge_group, plan_merges
from everhold.remember.owners import Owner, find_undone_pairs
from everhold.remember.reflections import plan_reflections, withdraw, write_reflection
from everhold.remember.shared_names import find_shared_names, relate_pair

# The name under which a change is counted, and the function that makes it. The function returns False if it found
# nothing to change.
_Step = tuple[str, Callable[[], object]]


def consolidate(deps: WriteDeps, owner: Owner) -> Iterator[str]:
    """Consolidate an owner's memories and yield the name of each change after its commit."""
    for plan in (_plan_merges, _plan_contradictions, _plan_relations, _plan_reflections):
        for name, make_change in plan(deps, owner, clock.now()):
            try:
                is_done = make_change() is not False
            except (StaleVersion, NotFound, AlreadyExists, BrokenReference):
                continue  # another writer has changed or forgotten one of the memories
            if is_done:
                yield name


def count_steps(deps: WriteDeps, owner: Owner) -> Mapping[str, int]:
    """Return how many changes of each kind `consolidate` would make now."""
    now = clock.now()
    plans = (_plan_merges, _plan_contradictions, _plan_relations, _plan_reflections)
    return Counter(name for plan in plans for name, _ in plan(deps, owner, now))


def _plan_merges(deps: WriteDeps, owner: Owner, now: datetime) -> Iterator[_Step]:
    undone_pairs = find_undone_pairs(deps.records, owner, "merge")
    groups, _ = plan_merges(deps, owner.scope, owner.conditions, undone_pairs)
    for group in groups:
        yield "merges", partial(merge_group, deps, owner.scope, group)


def _plan_contradictions(deps: WriteDeps, owner: Owner, now: datetime) -> Iterator[_Step]:
    for contradiction in find_contradictions(deps, owner, now):
        name = "replaced" if contradiction.reason is None else "conflicts"
        yield name, partial(settle, deps, owner, contradiction)


def _plan_relations(deps: WriteDeps, owner: Owner, now: datetime) -> Iterator[_Step]:
    evidence = read_evidence(deps.records, owner, deps.reading.zone, now)
    for pair in find_shared_names(deps.records, owner, evidence):
        yield "relations", partial(relate_pair, deps, owner, pair)


def _plan_reflections(deps: WriteDeps, owner: Owner, now: datetime) -> Iterator[_Step]:
    evidence = read_evidence(deps.records, owner, deps.reading.zone, now)
    plan = plan_reflections(deps.records, owner, evidence, now, deps.text_bytes)
    for reflection in plan.fresh:
        yield "reflections", partial(write_reflection, deps, owner, *reflection)
    if plan.stale:
        yield "withdrawn", partial(withdraw, deps, owner, plan.stale)
