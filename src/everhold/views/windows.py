"""The verb that builds the next prompt of a conversation."""

import functools
from collections.abc import Sequence

import everhold
from everhold import clock
from everhold.arguments.checks import (
    Body,
    Budget,
    HitCount,
    Identifier,
    MinimumScore,
    Only,
    Question,
    WindowStrategy,
)
from everhold.arguments.verbs import check_verbs, log_as
from everhold.model import Memory, Message, Session
from everhold.recall.filters import check_include
from everhold.recall.pipeline import recall
from everhold.recall.request import Request
from everhold.sessions.archive import require_readable_session
from everhold.sessions.recorded import read_recorded
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView


@check_verbs
class WindowVerbs(ScopedView):
    """The prompt for the next turn of the session that the scope names."""

    @log_as("search")
    def window(
        self,
        question: Question | None = None,
        *,
        budget: Budget = 4000,
        strategy: WindowStrategy = "adaptive",
        system: Body | None = None,
        conversation: Identifier | None = None,
        k: HitCount = 10,
        minimum: MinimumScore | None = None,
        include: str | Sequence[str] = (),
        only: Only | None = None,
        timezone: str | None = None,
    ) -> "everhold.Window":
        """Return the next prompt of the scope's session, or of one conversation in it.

        It has at most `budget` tokens, including the `system` text. The strategy "truncate" keeps the last turns.
        "summarise" also adds a summary of the turns that were left out. "adaptive" also adds pinned and core memories,
        and the messages and memories that are recalled for the question. Without a question, the user's last message is
        the question, so store it with `say` before. `k`, `minimum`, `include` and `only` are as for `recall`.
        """
        from everhold.context.providers import ContextSource, choose_zone, make_core_providers
        from everhold.context.window_pipeline import WindowRequest, WindowSource, build_window
        from everhold.recall.pinned import list_pinned

        records, scope, included = self._parts.records, self._narrow(only), check_include(include)
        zone, now = choose_zone(records, scope, timezone, self._parts.settings.timezone), clock.now()
        context = ContextSource(records, scope, now, zone)
        session = require_readable_session(self._parts.session_deps, self.scope)
        source = WindowSource(
            context,
            session,
            0 if conversation is not None else self._count_messages(session),
            lambda limit, last: read_recorded(records, self.scope, limit, after=last, conversation=conversation),
            lambda limit: read_recorded(records, self.scope, limit, oldest_first=True, conversation=conversation),
            functools.partial(self._summarise_before, session, conversation),
            make_core_providers(context, lambda: list_pinned(records, scope, included, now)),
            functools.partial(self._recall_records, only, included, k, minimum),
        )
        window = build_window(source, WindowRequest(question, budget, strategy, system), self._parts.count_tokens)
        summary = {"strategy": strategy, "budget": budget, "messages": len(window.messages), "k": k}
        self._log_call("search", summary, [memory.id for memory in window.memories])
        return window

    def _count_messages(self, session: Session) -> int:
        """Return the number of messages of a session, including deleted ones; 0 if the scope may not read all of
        them."""
        pairs = ((self.scope.user, session.user_id), (self.scope.agent, session.agent_id))
        is_own = all(scope_value in (None, owner) for scope_value, owner in pairs)
        return session.last_position + 1 if is_own and session.last_position is not None else 0

    def _recall_records(
        self, only: Only | None, included: tuple[str, ...], k: int, minimum: float | None, question: str
    ) -> list[Memory | Message]:
        request = Request(question, k, minimum=minimum, include=included, among=("memory", "message"))
        hits = recall(self._parts.find_recall_deps(), self._narrow(only), request)
        return [hit.record for hit in hits if isinstance(hit.record, Memory | Message)]

    def _summarise_before(self, session: Session, conversation: str | None, first: Message, budget: int) -> str:
        from everhold.episodes.reading import summarise_before

        deps, scope = self._parts.episode_deps, self.scope

        def make_summary() -> str:
            return summarise_before(deps, scope, session, first.created_at, budget, conversation).text

        return self._parts.summaries.get_or_make(scope, session, conversation, first, budget, make_summary)


class AsyncWindowVerbs(AsyncFacade):
    """The verbs of `WindowVerbs`, awaited."""

    window = Awaited(WindowVerbs.window)
