"""The maintenance jobs of an engine, in the order in which they run.

To add a job, write a `preview` that counts what there is to do and a `perform` that does it, and add a `MaintenanceJob`
to `JOBS`. A job that changes memories writes through `parts.journal_under(run.run_id)`, so that `undo_run` can undo it.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from everhold import clock
from everhold.access import chain
from everhold.errors import EverholdError
from everhold.maintenance import extraction, outbox, purge
from everhold.maintenance.extraction import Extracted
from everhold.maintenance.filling import Filling
from everhold.maintenance.pipeline import Counts, JobRun, MaintenanceJob
from everhold.maintenance.purge import PurgeWork
from everhold.maintenance.reembedding import Reembedding
from everhold.maintenance_jobs import aging, archiving, consolidating, encrypting, episodes, uploads, workspaces
from everhold.maintenance_jobs.aging import find_purge_time
from everhold.model import Message, Scope
from everhold.parts import Parts
from everhold.ports.erasure import count_unclean_purges, maintain_files
from everhold.ports.leases import LONG_DURATION
from everhold.remember import forget
from everhold.schema.operations import Operation
from everhold.sessions import working
from everhold.sessions.archive import put_back_archives
from everhold.sql_views.installing import PresetViews, find_outdated, renew_views
from everhold.views.view import View

_TRIM_BATCH = 500  # lines of the change feed in one commit
_WAIT_SECONDS = 0.5  # between two reports of progress, and two checks of the time limit


# the access log


def _count_open_lines(parts: Parts) -> Counts:
    return {"log lines": parts.access.waiting + chain.count_unsealed(parts.records)}


def _seal_log(parts: Parts, run: JobRun) -> None:
    parts.access.flush()
    run.add("log lines", chain.seal(parts.records, parts.heads))


# interrupted forget jobs


def _count_unforgotten(parts: Parts) -> Counts:
    return {"memories": forget.count_unforgotten(parts.records)}


def _resume_forget_jobs(parts: Parts, run: JobRun) -> None:
    forget.resume_all(parts.write_deps, partial(run.add, "memories"))


# what has expired, and what was deleted


def _count_expired(parts: Parts) -> Counts:
    return purge.count_expired(parts.records, find_purge_time(parts))


def _count_deleted(parts: Parts) -> Counts:
    return purge.count_deleted(parts.records, find_purge_time(parts))


def _purge_expired(parts: Parts, run: JobRun) -> None:
    purge.purge_expired(_make_purge(parts, run))


def _purge_deleted(parts: Parts, run: JobRun) -> None:
    purge.purge_deleted(_make_purge(parts, run))


def _erase_derived(parts: Parts, messages: Sequence[Message], now: datetime) -> list[Operation]:
    """Return the operations that erase the memories and the quotes in episodes that come from purged messages."""
    operations = forget.make_message_eraser(parts.write_deps)(messages, now)
    return [*operations, *parts.update_episodes(messages, now, are_restored=False)]


def _make_purge(parts: Parts, run: JobRun) -> PurgeWork:
    return PurgeWork(
        parts.records,
        find_purge_time(parts),
        clock.now(),
        run.commit,
        run.add,
        erase=forget.make_eraser(parts.write_deps),
        erase_derived=partial(_erase_derived, parts),
        put_back=partial(put_back_archives, parts.session_deps),
        interface=parts.settings.interface,
    )


# the change feed


def _count_trimmable(parts: Parts) -> Counts:
    return {"outbox": outbox.count_trimmable(parts.records, now=clock.now())}


def _trim_outbox(parts: Parts, run: JobRun) -> None:
    batch = min(_TRIM_BATCH, parts.records.traits.commit_limit - 3)  # the rest is for the lease and `note_trimmed`
    outbox.trim(parts.records, run.commit, now=clock.now(), batch=batch, progress=partial(run.add, "outbox"))


# a change of the embedding model


def _list_embedding_threads(parts: Parts) -> list[Reembedding | Filling]:
    """Return the engine's threads that embed in the background: for a new first model, and for models beside it."""
    change = [] if parts.reembedding is None else [parts.reembedding]
    return [*change, *(model.filling for model in parts.beside.values())]


def _count_unembedded(parts: Parts) -> Counts:
    reports = [thread.progress for thread in _list_embedding_threads(parts)]
    return {"memories": sum(progress.total - progress.done for progress in reports)}


def _finish_embedding(parts: Parts, run: JobRun) -> None:
    """Wait for the engine's embedding threads."""
    for thread in _list_embedding_threads(parts):
        done = thread.progress.done
        while not thread.wait(_WAIT_SECONDS):
            if isinstance(thread.failure, EverholdError):
                raise thread.failure
            done_before, done = done, thread.progress.done
            run.counter.total = thread.progress.total  # the thread may have counted its work only now
            run.add("memories", done - done_before)
        run.add("memories", thread.progress.done - done)


# the store's files


def _count_unclean_files(parts: Parts) -> Counts:
    return {"purges": count_unclean_purges(parts.records)}


def _maintain_files(parts: Parts, run: JobRun) -> None:
    purges = count_unclean_purges(parts.records)
    if maintain_files(parts.records, parts.recall_deps.candidates.drop_files):
        run.add("purges", purges)
    else:
        run.leave({"purges": purges})


# cached sessions


def _count_stale_sessions(parts: Parts) -> Counts:
    return {"sessions": len(working.find_stale(parts.session_deps))}


def _clean_session_cache(parts: Parts, run: JobRun) -> None:
    run.add("sessions", working.remove_stale(parts.session_deps))


# SQL views that another version of Everhold created


def _count_outdated_views(parts: Parts) -> Counts:
    return {"presets": len(_find_outdated_views(parts))}


def _renew_views(parts: Parts, run: JobRun) -> None:
    views = parts.find_sql_views()
    for preset in _find_outdated_views(parts):
        assert views is not None
        renew_views(views, preset.preset)
        run.add("presets")


def _find_outdated_views(parts: Parts) -> list[PresetViews]:
    views = parts.find_sql_views()
    return find_outdated(views) if views is not None and views.can_change else []


# facts read by a language model


def _count_unread(parts: Parts) -> Counts:
    return {} if parts.language_model is None else {"messages": extraction.count_unread(parts.records)}


def _extract_facts(parts: Parts, run: JobRun) -> None:
    llm_settings, language_model = parts.settings.llm, parts.language_model
    if llm_settings is None or language_model is None:
        return
    remember = partial(_remember, parts.journal_under(run.run_id))
    for batch in extraction.extract_batches(parts.records, language_model, remember, llm_settings.batch):
        run.counts.update({"facts": batch.kept, "refused": batch.refused})
        run.add("messages", batch.read)


def extract_facts(parts: Parts) -> Extracted:
    """Read unread messages with the language model of the settings and return the counts; without one, do nothing."""
    llm_settings, language_model = parts.settings.llm, parts.language_model
    if llm_settings is None or language_model is None:
        return Extracted()
    return extraction.extract(parts.records, language_model, partial(_remember, parts), llm_settings.batch)


def _remember(parts: Parts, scope: Scope, items: Sequence[Any]) -> None:
    View(parts, scope).remember_many(items)


JOBS: tuple[MaintenanceJob[Parts], ...] = (
    # The jobs "log" and "sessions" have no lease, because every process writes its own lines and cleans its own cache.
    MaintenanceJob("log", "Write the access log's waiting lines and seal it.", _count_open_lines, _seal_log),
    MaintenanceJob(
        "forget",
        "Finish interrupted forget jobs.",
        _count_unforgotten,
        _resume_forget_jobs,
        lease="forget",
        lease_duration=LONG_DURATION,
    ),
    MaintenanceJob(
        "expire",
        "Purge what expired longer ago than the grace period.",
        _count_expired,
        _purge_expired,
        lease="purge",
    ),
    MaintenanceJob(
        "purge",
        "Purge what was deleted longer ago than the grace period.",
        _count_deleted,
        _purge_deleted,
        lease="purge",
    ),
    # Consolidation adds and removes memories, so pruning follows and leaves no more than the rules allow.
    MaintenanceJob(
        "consolidate",
        "Merge duplicates, settle or list conflicts, relate memories, and write reflections.",
        consolidating.count_changes,
        consolidating.consolidate_memories,
        lease="consolidate",
        lease_duration=LONG_DURATION,
    ),
    MaintenanceJob(
        "decay",
        "Weaken memories that are not used, and strengthen those that are.",
        aging.count_decaying,
        aging.perform_decay,
        lease="decay",
    ),
    MaintenanceJob(
        "prune",
        "Hide memories by the rules for pruning, if there are any.",
        aging.count_prunable,
        aging.perform_pruning,
        lease="prune",
    ),
    MaintenanceJob(
        "runs",
        "Remove runs of maintenance after the grace period, with the decay that they journalled.",
        aging.count_old_runs,
        aging.drop_old_runs,
        lease="runs",
    ),
    MaintenanceJob("outbox", "Trim the change feed to a week.", _count_trimmable, _trim_outbox, lease="outbox"),
    # No lease here: embedding takes a lease for each organization.
    MaintenanceJob("reembed", "Finish embedding memories by a new model.", _count_unembedded, _finish_embedding),
    # Encryption comes before "files", which removes the traces of the plain rows from the store's files.
    MaintenanceJob(
        "encrypt",
        "Encrypt rows that are plain or have old keys.",
        encrypting.count_outdated_rows,
        encrypting.encrypt_rows,
        lease="encrypt",
    ),
    MaintenanceJob(
        "files",
        "Remove traces of purged rows from files and give free space back.",
        _count_unclean_files,
        _maintain_files,
        lease="files",
        lease_duration=LONG_DURATION,
    ),
    MaintenanceJob(
        "sessions",
        "Remove sessions that no longer exist from the session cache.",
        _count_stale_sessions,
        _clean_session_cache,
    ),
    # Episodes come before archiving, which moves the messages out of their table.
    MaintenanceJob(
        "episodes",
        "Summarise what was said in sessions.",
        episodes.count_stale_episodes,
        episodes.build_episodes,
        lease="episodes",
    ),
    MaintenanceJob(
        "archive",
        "Move the messages of archived sessions to cold storage.",
        archiving.count_archivable,
        archiving.archive_sessions,
        lease="archive",
    ),
    # Workspaces come after purging, because a purge may remove the last row that names a content.
    MaintenanceJob(
        "workspaces",
        "Delete contents and folders of workspaces that nothing names any more.",
        workspaces.count_garbage,
        workspaces.collect_garbage,
        lease="workspaces",
        lease_duration=LONG_DURATION,
    ),
    MaintenanceJob(
        "uploads",
        "Delete the files of interrupted uploads and of purged sources.",
        uploads.count_leftovers,
        uploads.delete_leftovers,
        lease="uploads",
        lease_duration=LONG_DURATION,
    ),
    MaintenanceJob(
        "views",
        "Create SQL views again that another version of Everhold created.",
        _count_outdated_views,
        _renew_views,
        lease="views",
    ),
    # The jobs with a language model come last, so that a slow model does not delay the other jobs.
    MaintenanceJob(
        "retell",
        "Let the language model write the summaries of episodes, if there is one.",
        episodes.count_unread_episodes,
        episodes.retell,
        lease="retell",
        lease_duration=LONG_DURATION,
    ),
    MaintenanceJob(
        "extract",
        "Read facts from messages with the language model, if there is one.",
        _count_unread,
        _extract_facts,
        lease=extraction.LEASE,
        lease_duration=LONG_DURATION,
    ),
)
