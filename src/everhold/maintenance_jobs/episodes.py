"""The job that summarises sessions."""

from everhold.episodes.listing import find_stale
from everhold.episodes.pipeline import update_session
from everhold.maintenance.pipeline import Counts, JobRun
from everhold.parts import Parts


def count_stale_episodes(parts: Parts) -> Counts:
    return {"sessions": sum(1 for _ in find_stale(parts.episode_deps))}


def build_episodes(parts: Parts, run: JobRun) -> None:
    for session in find_stale(parts.episode_deps):
        for count in update_session(parts.episode_deps, session):
            run.add("messages", count)
        run.counts["sessions"] += 1
