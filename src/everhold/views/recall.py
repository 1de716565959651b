"""The verbs that search memories: recall, context, why_not, timeline and overview."""

import functools
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ParamSpec, Unpack

import everhold
from everhold import clock
from everhold.arguments.checks import Budget, Cursor, HitCount, MemoryId, MinimumScore, Only, QueryVector, Question
from everhold.arguments.verbs import check_verbs, log_as
from everhold.model import Memory
from everhold.model.vectors import Vector, read_vector
from everhold.ports.reranker import Reranker
from everhold.recall.filters import FilterArguments, check_include, make_filter
from everhold.recall.hit import Hits
from everhold.recall.judging import MAX_JUDGED
from everhold.recall.kinds import check_among, check_namespaces
from everhold.recall.pipeline import recall
from everhold.recall.recipe import MEANING, WORDS, Recipe, get_recipe
from everhold.recall.request import RecallDeps, Request
from everhold.recall.reranking import recall_reranked
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView

P = ParamSpec("P")

MAX_OVERVIEW_ITEMS = 1000
# The minimum score of a recall by words. It is so low that one common word is enough.
_ANY_WORD = 1e-6


@check_verbs
class RecallVerbs(ScopedView):
    """Search of the scope's memories."""

    @log_as("search")
    def recall(
        self,
        query: Question,
        *,
        k: HitCount = 10,
        as_of: datetime | None = None,
        minimum: MinimumScore | None = None,
        include: str | Sequence[str] = (),
        only: Only | None = None,
        cursor: Cursor | None = None,
        recipe: str | Recipe = "hybrid",
        asked_at: datetime | None = None,
        reranker: Reranker | None = None,
        vector: QueryVector | None = None,
        model: str | None = None,
        among: str | Sequence[str] = "memory",
        namespace: str | Sequence[str] | None = None,
        include_superseded: bool = False,
        **filters: Unpack[FilterArguments],
    ) -> Hits:
        """Return the memories that answer a question, best first; none if no memory answers it.

        At most `k` hits are returned. `among` names other kinds of records to search, such as "message". `namespace`
        names one or more namespaces; the default is "long-term". `minimum` is the lowest score of a hit; the default is
        the recipe's minimum, and with 0 the best `k` memories are returned even if their scores are low. Times in the
        question, such as "yesterday", are relative to `asked_at`, by default now. A `reranker` reorders the best 50
        hits. `model` names the embedding model to search with, by default the first of the settings. `vector` is used
        instead of the question's vector; it must come from that model. The words of the question still count, but the
        question may be empty. A view with a user and a session searches everything that the user may see and ranks its
        own session higher; `only="session"` searches only that session. With `include_superseded`, superseded memories
        are searched too. Filters: kind, tags, where, after, before.
        """
        scope = self._narrow(only)
        recall_deps, own_vector = self._choose_recall_deps(model, vector)
        kinds, chosen_recipe = check_among(among), get_recipe(recipe)
        conditions, included = make_filter(**filters, among=kinds), check_include(include, kinds)
        namespaces = check_namespaces(namespace, kinds)
        request = Request(
            query, k, conditions, as_of, minimum, included, cursor, chosen_recipe, asked_at, own_vector, kinds,
            namespaces, include_superseded,
        )  # fmt: skip
        hits = recall_reranked(recall_deps, scope, request, reranker)
        summary = {"k": k, "hits": len(hits), "length": len(query)}
        self._log_call("search", summary, [hit.record.id for hit in hits if hit.kind == "memory"])
        return hits

    @log_as("search")
    def context(
        self,
        question: Question,
        *,
        budget: Budget = 1000,
        k: HitCount = 20,
        minimum: MinimumScore | None = None,
        include: str | Sequence[str] = (),
        only: Only | None = None,
        timezone: str | None = None,
        model: str | None = None,
        namespace: str | Sequence[str] | None = None,
        **filters: Unpack[FilterArguments],
    ) -> "everhold.Context":
        """Return a section for a prompt: pinned memories, core memory, the last messages, and recalled memories.

        It has at most `budget` tokens. The filters (kind, tags, where, after, before), `namespace` and `model` apply to
        the recalled memories; `include` and `only` also apply to pinned memories. The last messages are always those of
        the view's own session.
        """
        from everhold.context.pipeline import assemble
        from everhold.context.providers import MAX_TURNS, ContextSource, choose_zone, make_providers
        from everhold.recall.pinned import list_pinned
        from everhold.sessions.working import read_last_messages

        scope = self._narrow(only)
        recall_deps, _ = self._choose_recall_deps(model, None)
        records, included = self._parts.records, check_include(include)
        namespaces = check_namespaces(namespace, ("memory",))
        request = Request(question, k, make_filter(**filters), minimum=minimum, include=included, namespaces=namespaces)
        zone = choose_zone(records, scope, timezone, self._parts.settings.timezone)
        now = clock.now()
        providers = make_providers(
            ContextSource(records, scope, now, zone),
            lambda: list_pinned(records, scope, included, now),
            lambda: read_last_messages(self._parts.session_deps, self.scope, MAX_TURNS),
            lambda: [hit.memory for hit in recall(recall_deps, scope, request)],
        )
        section = assemble(providers, budget, self._parts.count_tokens)
        summary = {"k": k, "budget": budget, "hits": len(section.memories), "length": len(question)}
        self._log_call("search", summary, [memory.id for memory in section.memories])
        return section

    @log_as("search")
    def why_not(
        self,
        memory_id: MemoryId,
        query: Question,
        *,
        k: HitCount = 10,
        as_of: datetime | None = None,
        minimum: MinimumScore | None = None,
        include: str | Sequence[str] = (),
        only: Only | None = None,
        recipe: str | Recipe = "hybrid",
        asked_at: datetime | None = None,
        vector: QueryVector | None = None,
        model: str | None = None,
        namespace: str | Sequence[str] | None = None,
        include_superseded: bool = False,
        **filters: Unpack[FilterArguments],
    ) -> "everhold.WhyNot":
        """Explain why a memory is not a hit of `recall` with the same arguments, or say that it is a hit."""
        from everhold.recall.why_not import why_not
        from everhold.remember.lookup import require_memory

        memory = require_memory(self._parts.records, self.scope, memory_id)
        included = check_include(include)
        recall_deps, own_vector = self._choose_recall_deps(model, vector)
        request = Request(
            query,
            k,
            make_filter(**filters),
            as_of,
            minimum,
            included,
            recipe=get_recipe(recipe),
            asked_at=asked_at,
            vector=own_vector,
            namespaces=check_namespaces(namespace, ("memory",)),
            superseded=include_superseded,
        )
        explanation = why_not(recall_deps, self._narrow(only), memory, request)
        self._log_call("search", {"k": k, "why_not": memory.id, "length": len(query)}, [memory.id])
        return explanation

    @log_as("search")
    def timeline(
        self,
        question: Question,
        *,
        include: str | Sequence[str] = (),
        only: Only | None = None,
        asked_at: datetime | None = None,
        **filters: Unpack[FilterArguments],
    ) -> "list[everhold.Period]":
        """Return the answers to a question over time, oldest first, each with its period.

        For "Where do I live?" it returns all homes. Superseded memories are included. Filters: kind, tags, where,
        after, before.
        """
        from everhold.recall.timeline import make_timeline

        scope, recall_deps = self._narrow(only), self._parts.find_recall_deps()
        conditions, included = make_filter(**filters), check_include(include)
        request = Request(
            question, MAX_JUDGED, conditions, minimum=0, include=included, asked_at=asked_at, superseded=True
        )
        periods = make_timeline(recall(recall_deps, scope, request))
        self._log_call(
            "search", {"periods": len(periods), "length": len(question)}, [period.memory.id for period in periods]
        )
        return periods

    @log_as("search")
    def overview(
        self, about: Question, *, k: HitCount = 50, include: str | Sequence[str] = (), only: Only | None = None
    ) -> list[Memory]:
        """Return the memories about a person, a thing or a tag, the most important first.

        These are the memories whose text or alias has all words of the name `about`, and the memories with that tag.
        Among equally important memories, the newest comes first. For a project, use a view of the project and `list`.
        """
        from everhold.recall.overview import find_named, order_by_weight

        scope, recall_deps = self._narrow(only), self._parts.find_recall_deps()
        name_request = Request(
            about, MAX_OVERVIEW_ITEMS, minimum=_ANY_WORD, include=check_include(include), recipe=WORDS
        )
        named_memories = find_named(recall(recall_deps, scope, name_request), about)
        tag_request = name_request._replace(filter=make_filter(tags=about), minimum=-1.0, recipe=MEANING)
        tagged_memories = [hit.memory for hit in recall(recall_deps, scope, tag_request)]
        memories = order_by_weight([*named_memories, *tagged_memories])[:k]
        self._log_call("search", {"overview": len(memories), "length": len(about)}, [memory.id for memory in memories])
        return memories

    def _choose_recall_deps(self, model: str | None, vector: QueryVector | None) -> tuple[RecallDeps, Vector | None]:
        """Return the parts of recall for a model, and the caller's vector.

        If the caller passes a vector and no model, the first model is used, even if it does not serve yet.
        """
        if vector is None:
            return self._parts.find_recall_deps(model), None
        recall_deps = self._parts.find_recall_deps(model or self._parts.write_deps.chunking.embedder.model)
        return recall_deps, read_vector(vector, "vector", recall_deps.embedder.dimensions)


def _load_all(recall: Callable[P, Hits]) -> Callable[P, Hits]:
    """Return a recall that also loads tags and pinned memories, because reading them later would block the event
    loop."""

    @functools.wraps(recall)
    def call(*args: P.args, **keywords: P.kwargs) -> Hits:
        return recall(*args, **keywords).load_details()

    return call


class AsyncRecallVerbs(AsyncFacade):
    """The verbs of `RecallVerbs`, awaited."""

    recall = Awaited(_load_all(RecallVerbs.recall))
    context = Awaited(RecallVerbs.context)
    why_not = Awaited(RecallVerbs.why_not)
    timeline = Awaited(RecallVerbs.timeline)
    overview = Awaited(RecallVerbs.overview)
