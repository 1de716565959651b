"""Consolidate the memories of one owner at a time, while nothing else needs doing.

    near-duplicates are merged → contradictions are settled or listed → relations are found → reflections are written

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

# What is counted, and the function that does it. It returns False if there was nothing to do after all.
_Step = tuple[str, Callable[[], object]]


def consolidate(deps: WriteDeps, owner: Owner) -> Iterator[str]:
    """Consolidate an owner's memories; yield after each commit what was done."""
    for plan in (_plan_merges, _plan_contradictions, _plan_relations, _plan_reflections):
        for what, act in plan(deps, owner, clock.now()):
            try:
                is_done = act() is not False
            except (StaleVersion, NotFound, AlreadyExists, BrokenReference):
                continue  # someone has changed or forgotten one of the memories
            if is_done:
                yield what


def count_steps(deps: WriteDeps, owner: Owner) -> Mapping[str, int]:
    """Return how many changes of each kind `consolidate` would make now."""
    now = clock.now()
    plans = (_plan_merges, _plan_contradictions, _plan_relations, _plan_reflections)
    return Counter(what for plan in plans for what, _ in plan(deps, owner, now))


def _plan_merges(deps: WriteDeps, owner: Owner, now: datetime) -> Iterator[_Step]:
    kept_apart = find_undone_pairs(deps.records, owner, "merge")
    groups, _ = plan_merges(deps, owner.scope, owner.conditions, kept_apart)
    for group in groups:
        yield "merges", partial(merge_group, deps, owner.scope, group)


def _plan_contradictions(deps: WriteDeps, owner: Owner, now: datetime) -> Iterator[_Step]:
    for item in find_contradictions(deps, owner, now):
        what = "replaced" if item.reason is None else "conflicts"
        yield what, partial(settle, deps, owner, item)


def _plan_relations(deps: WriteDeps, owner: Owner, now: datetime) -> Iterator[_Step]:
    evidence = read_evidence(deps.records, owner, deps.reading.zone, now)
    for pair in find_shared_names(deps.records, owner, evidence):
        yield "relations", partial(relate_pair, deps, owner, pair)


def _plan_reflections(deps: WriteDeps, owner: Owner, now: datetime) -> Iterator[_Step]:
    evidence = read_evidence(deps.records, owner, deps.reading.zone, now)
    plan = plan_reflections(deps.records, owner, evidence, now, deps.text_bytes)
    for fresh in plan.fresh:
        yield "reflections", partial(write_reflection, deps, owner, *fresh)
    if plan.stale:
        yield "withdrawn", partial(withdraw, deps, owner, plan.stale)
