"""The verbs on episodes, which are summaries of messages."""

from datetime import datetime
from functools import partial

import everhold
from everhold.arguments.checks import Budget, Cursor, Identifier, Only, PageSize
from everhold.arguments.verbs import check_verbs, log_as
from everhold.sessions.archive import put_back_messages
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView


@check_verbs
class EpisodeVerbs(ScopedView):
    """The verbs on summaries of the scope's messages. Episodes are brought up to date before they are read."""

    @log_as("read")
    def episodes(
        self,
        *,
        level: str = "episode",
        after: datetime | None = None,
        before: datetime | None = None,
        only: Only | None = None,
        limit: PageSize = 50,
        cursor: Cursor | None = None,
    ) -> "everhold.Episodes":
        """Return the scope's episodes, newest first.

        `level` is "episode", "section", "chapter", "session", "day", "week", "month" or "year". `after` and `before`
        limit the episodes to a span of time, and `only="session"` to the view's session.
        """
        from everhold.episodes.listing import list_episodes, read_level, update_scope

        scope, number, deps = self._narrow(only), read_level(level), self._parts.episode_deps
        update_scope(deps, scope)
        page = list_episodes(deps, scope, level=number, after=after, before=before, limit=limit, cursor=cursor)
        self._log_call("read", {"episodes": len(page)})
        return page

    @log_as("read")
    def episode(self, episode_id: Identifier) -> "everhold.EpisodeDetails":
        """Return an episode with its sources: messages, or for a rollup the episodes of the level below."""
        from everhold.episodes.listing import read_details, require_episode

        deps = self._parts.episode_deps
        put_back = partial(put_back_messages, self._parts.session_deps)
        details = read_details(deps, require_episode(deps, self.scope, episode_id), put_back)
        self._log_call("read", {"messages": len(details.messages)})
        return details

    @log_as("read")
    def summary(
        self,
        after: datetime | None = None,
        before: datetime | None = None,
        *,
        budget: Budget = 400,
        only: Only | None = None,
    ) -> "everhold.SpanSummary":
        """Return a summary of the messages from `after` up to `before`, or of all, in at most `budget` tokens.

        The summary consists of quotes, each with its message. A longer span does not make it longer.
        """
        from everhold.episodes.listing import update_scope
        from everhold.episodes.spans import summarise_span

        scope, deps = self._narrow(only), self._parts.episode_deps
        update_scope(deps, scope)
        summary = summarise_span(deps, scope, after, before, budget)
        self._log_call("read", {"quotes": len(summary.quotes), "budget": budget})
        return summary


class AsyncEpisodeVerbs(AsyncFacade):
    """The verbs of `EpisodeVerbs`, awaited."""

    episodes = Awaited(EpisodeVerbs.episodes)
    episode = Awaited(EpisodeVerbs.episode)
    summary = Awaited(EpisodeVerbs.summary)
