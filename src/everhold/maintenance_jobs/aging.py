"""The jobs that age memories, by decay and pruning, and the job that deletes old runs of maintenance."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from everhold import clock
from everhold.maintenance import decay, pipeline, prune
from everhold.maintenance.aging import AgingRules
from everhold.maintenance.decay import DecayWork
from everhold.maintenance.pipeline import Counts, JobRun
from everhold.maintenance.prune import PruneRules, PruneWork
from everhold.model import Change, Memory, Scope
from everhold.model.memory import compute_importance
from everhold.parts import Parts
from everhold.remember.forget import make_hiding
from everhold.remember.journal import find_undone_ids, make_change
from everhold.remember.versions import make_version_check
from everhold.schema.operations import Operation

_BATCH = 500  # rows in one commit


def _make_aging_rules(parts: Parts) -> AgingRules:
    settings = parts.settings.maintenance
    half_life = timedelta(days=settings.half_life_days) if settings.decay else None
    return AgingRules(half_life, compute_importance(settings.exempt_priority))


def count_decaying(parts: Parts) -> Counts:
    return {"memories": decay.count_decaying(parts.records, _make_aging_rules(parts), clock.now())}


def perform_decay(parts: Parts, run: JobRun) -> None:
    journal = partial(_make_journal_entry, run)
    interface, add = parts.settings.interface, partial(run.add, "memories")
    decay.decay(
        DecayWork(parts.records, _make_aging_rules(parts), clock.now(), run.commit, add, journal, interface=interface)
    )


def _make_journal_entry(
    run: JobRun,
    scope: Scope,
    kind: str,
    memory_ids: Sequence[str],
    now: datetime,
    before: dict[str, Any],
    after: dict[str, Any],
) -> Change:
    return make_change(scope, kind, memory_ids, now, None, before=before, after=after, run_id=run.run_id)


def _make_prune_rules(parts: Parts) -> PruneRules:
    settings, days = parts.settings.maintenance, parts.settings.maintenance.prune_after_days
    return PruneRules(
        _make_aging_rules(parts),
        idle=None if days is None else timedelta(days=days),
        weight=settings.prune_below,
        max_memories=settings.max_memories,
        max_bytes=None if settings.max_megabytes is None else int(settings.max_megabytes * 1_000_000),
    )


def _find_undone_prunings(parts: Parts, organization: str) -> set[str]:
    """Return the ids of the organization's memories whose pruning was undone."""
    return find_undone_ids(parts.records, organization, "forget")


def count_prunable(parts: Parts) -> Counts:
    rules = _make_prune_rules(parts)
    return {"memories": prune.count_prunable(parts.records, rules, clock.now(), partial(_find_undone_prunings, parts))}


def perform_pruning(parts: Parts, run: JobRun) -> None:
    rules = _make_prune_rules(parts)
    if rules.is_off:
        return
    deps = parts.journal_under(run.run_id).write_deps

    def hide(memory: Memory, now: datetime, reason: str) -> list[Operation]:
        scope = Scope(organization=memory.organization_id, user=memory.user_id)
        # If the memory is changed at the same time, the commit must fail.
        return [*make_version_check(memory, memory.version, now), *make_hiding(deps, scope, [memory], now, reason)]

    prune.prune(
        PruneWork(
            parts.records,
            rules,
            clock.now(),
            run.try_commit,
            partial(run.add, "memories"),
            hide,
            partial(_find_undone_prunings, parts),
        )
    )


def find_purge_time(parts: Parts) -> datetime:
    """Return the time up to which what was deleted, has expired or has run is purged."""
    return clock.now() - timedelta(days=parts.settings.grace_days)


def count_old_runs(parts: Parts) -> Counts:
    before = find_purge_time(parts)
    return {
        "runs": pipeline.count_old_runs(parts.records, before),
        "changes": decay.count_old_entries(parts.records, before),
    }


def drop_old_runs(parts: Parts, run: JobRun) -> None:
    records, before = parts.records, find_purge_time(parts)
    batch = min(_BATCH, records.traits.commit_limit - 1)  # one operation is the lease's
    pipeline.drop_old_runs(records, before, run.commit, partial(run.add, "runs"), batch=batch)
    decay.drop_old_entries(records, before, run.commit, partial(run.add, "changes"), batch=batch)
