"""The job that moves the messages of ended sessions to cold storage."""

from collections.abc import Sequence
from functools import partial

from everhold import clock
from everhold.episodes.updating import update_session
from everhold.errors import StaleVersion
from everhold.maintenance.pipeline import Counts, JobRun
from everhold.model import Session
from everhold.parts import Parts
from everhold.schema.operations import Condition
from everhold.sessions.archive import put_back_archives_with_deleted_users
from everhold.sessions.archiving import archive_messages, make_archivable_conditions


def _make_conditions(parts: Parts) -> Sequence[Condition]:
    return make_archivable_conditions(clock.now(), parts.settings.archive_days)


def count_archivable(parts: Parts) -> Counts:
    files = parts.session_deps.find_archive_files()
    return {
        "sessions": parts.records.count(Session, None, _make_conditions(parts)),
        "files": 0 if files is None else len(files.find_unneeded()),
    }


def archive_sessions(parts: Parts, run: JobRun) -> None:
    put_back_archives_with_deleted_users(parts.session_deps)
    for session in parts.records.scan(Session, None, _make_conditions(parts)):
        try:
            _archive_session(parts, run, session)
        except StaleVersion:  # another process changed or read the session; the next run archives it
            if run.lease is not None and run.lease.is_lost:
                raise
    files = parts.session_deps.find_archive_files()
    if files is not None:
        files.sweep(partial(run.add, "files"))


def _archive_session(parts: Parts, run: JobRun, session: Session) -> None:
    # Recall finds an archived session by its episodes, so they must be complete.
    for _ in update_session(parts.episode_deps, session):
        run.check_time()
    for count in archive_messages(parts.session_deps, session, run.commit):
        run.add("messages", count)
    run.add("sessions")
