"""The jobs that summarise sessions."""

from everhold.episodes.listing import find_stale_sessions
from everhold.episodes.retelling import list_unread_episodes, retell_episodes
from everhold.episodes.updating import update_session
from everhold.maintenance.pipeline import Counts, JobRun
from everhold.parts import Parts


def count_stale_episodes(parts: Parts) -> Counts:
    return {"sessions": sum(1 for _ in find_stale_sessions(parts.episode_deps))}


def build_episodes(parts: Parts, run: JobRun) -> None:
    for session in find_stale_sessions(parts.episode_deps):
        for count in update_session(parts.episode_deps, session):
            run.add("messages", count)
        run.counts["sessions"] += 1


def count_unread_episodes(parts: Parts) -> Counts:
    return {} if parts.language_model is None else {"episodes": len(list_unread_episodes(parts.episode_deps))}


def retell(parts: Parts, run: JobRun) -> None:
    if parts.language_model is None:
        return
    for is_accepted in retell_episodes(parts.episode_deps, parts.language_model):
        run.counts["refused"] += not is_accepted
        run.add("episodes")
