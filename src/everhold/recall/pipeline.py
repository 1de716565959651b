"""Recall: from a question to hits.

    question → terms and vector → images of the scope → scores of their rows → best rows → their records, read from the
    store

An image is a copy, in memory, of what is searched in a scope. A scope too large for an image is searched through the
store's own indexes instead; the same code scores the candidates that they return. Every hit is read from the store
before it is returned, so a memory that was just deleted is never returned.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from zoneinfo import ZoneInfo

from everhold import clock
from everhold.errors import EmptyQuery, Remedy, Verb
from everhold.model import Memory, Scope
from everhold.model.base import Entity
from everhold.model.searchable import SEARCHABLE
from everhold.ports.records import Records
from everhold.ports.search_indexes import Statistics
from everhold.ports.thesaurus import Thesaurus
from everhold.recall import answers
from everhold.recall.about_others import find_about_others, find_about_user, leave_out, read_texts, turn_to_assistant
from everhold.recall.answers import JudgingInput, choose_bounds, rank_answers
from everhold.recall.cursor import HitPlace, decode_hit_place
from everhold.recall.details import HitDetails
from everhold.recall.diverse import ScoredRecord, SeenTexts
from everhold.recall.filters import make_visibility_check
from everhold.recall.hit import Hit, Hits
from everhold.recall.image import Image
from everhold.recall.image_views import KeyedImages, list_spaces, make_image_views
from everhold.recall.intent import read_intent
from everhold.recall.judging import MAX_JUDGED, Bounds
from everhold.recall.merging import Ranking, merge_rankings
from everhold.recall.past import read_as_known
from everhold.recall.question import (
    Question,
    add_own_name,
    read_question,
    read_times,
    rewrite_in_first_person,
)
from everhold.recall.request import RecallDeps, Request
from everhold.recall.scoring import ImageView, PreparedQuestion, Scored, compute_all_signals, rank
from everhold.recall.signals import DAY, Signal
from everhold.recall.spelling import correct_spelling
from everhold.text.dates import Anchor, find_anchor
from everhold.text.own_name import find_own_names
from everhold.text.terms import extract_terms

T = TypeVar("T")
# The views of the images to search, the prepared question, and the statistics of terms.
_Search = tuple[list[ImageView], PreparedQuestion, Statistics | None]

_READ_BATCH = 1000
_SLACK = 1
_SPOKEN = {"memory", "message"}
# Days. A question that names a longer distance from an event is not limited to a period.
_FAR = 366


def recall(deps: RecallDeps, scope: Scope, request: Request) -> Hits:
    """Return the memories of the scope, or the other kinds of records asked for, that answer the question best."""
    check(request)
    after = decode_hit_place(request.cursor) if request.cursor else None

    def search(images: KeyedImages | None) -> tuple[list[ScoredRecord], bool, Statistics | None]:
        prepared_search = _prepare_search(deps, scope, request, images)
        enough = request.k + _SLACK
        while True:
            scored, bounds = _rank(deps, scope, request, images, prepared_search, enough)
            min_score = bounds.find_minimum(scored[0].score if scored else 0.0)
            hits, more = _read_hits(deps.records, scope, request, *_split_admitted(scored, min_score, after))
            if more or len(scored) < enough or scored[-1].score < min_score:
                return hits, more, prepared_search[2]
            enough *= 4

    best, more, statistics = with_images(deps, scope, request, search)
    details = HitDetails(deps.records, scope, request.include, best)
    if statistics is not None:
        details.searched = "candidates"
    hits = tuple([Hit(record, scored.score, details, scored.kind) for scored, record in best])
    seen = tuple([scored.owner_id for scored, _ in best if scored.verdict is not None])
    return Hits(hits, more, statistics is not None, details, seen if after is None else after.seen + seen)


def rank_all(
    deps: RecallDeps, scope: Scope, request: Request, images: KeyedImages | None
) -> tuple[Sequence[Scored], Bounds, str]:
    """Return all candidates of a recall, best first, the bounds that hits must reach, and how they were searched.

    How they were searched is "image", or "candidates" if the store's indexes proposed them.
    """
    search = _prepare_search(deps, scope, request, images)
    everything = sum(image_view.image.size for image_view in search[0])
    scored, bounds = _rank(deps, scope, request, images, search, everything)
    return scored, bounds, "image" if search[2] is None else "candidates"


def examine(deps: RecallDeps, scope: Scope, request: Request) -> list[tuple[Image, dict[str, Signal]]]:
    """Return the signal of each retriever for every row of the scope's images."""

    def read_signals(images: KeyedImages | None) -> list[tuple[Image, dict[str, Signal]]]:
        image_views, prepared, _ = _prepare_search(deps, scope, request, images)
        return [(image_view.image, signals) for image_view, signals in compute_all_signals(image_views, prepared)]

    return with_images(deps, scope, request, read_signals)


def examine_answers(deps: RecallDeps, scope: Scope, request: Request) -> JudgingInput | None:
    """Return the input of judging for a question; None if there are no candidates.

    The scope must be small enough for images.
    """

    def examine_images(images: KeyedImages | None) -> JudgingInput | None:
        image_views, prepared, _ = _prepare_search(deps, scope, request, images)
        scored = rank_answers(image_views, prepared, MAX_JUDGED)
        views = _leave_out_others(deps, scope, request.query, image_views, prepared, scored)
        return answers.examine_answers(views, prepared)

    return with_images(deps, scope, request, examine_images)


def _rank(
    deps: RecallDeps, scope: Scope, request: Request, images: KeyedImages | None, search: _Search, limit: int
) -> tuple[Sequence[Scored], Bounds]:
    """Return the best `limit` candidates, best first, and the bounds that hits must reach.

    If the question asks several things, its clauses are also asked one by one.
    """
    image_views, prepared, statistics = search
    scored = _rank_for_user(deps, scope, request.query, image_views, prepared, limit, statistics)
    bounds = choose_bounds(scored, request, prepared.question)
    clauses = prepared.question.intent.clauses
    if not clauses or request.vector is not None or not scored or scored[0].verdict is None:
        return scored, bounds
    rankings: list[Ranking] = [(scored, bounds)]
    for clause in clauses:
        asked = prepared._replace(question=_read_question(deps, scope, request._replace(query=clause), images))
        ranked = _rank_for_user(deps, scope, clause, image_views, asked, limit, statistics)
        rankings.append((ranked, choose_bounds(ranked, request, asked.question)))
    return merge_rankings(rankings)


def _rank_for_user(
    deps: RecallDeps,
    scope: Scope,
    query: str,
    image_views: Sequence[ImageView],
    prepared: PreparedQuestion,
    limit: int,
    statistics: Statistics | None,
) -> list[Scored]:
    """Return the best `limit` candidates, best first.

    If a user asks for something about themselves, candidates that state it of somebody else are left out. If they ask
    it of the assistant, with "you", candidates that state it of the user are left out.
    """
    scored = rank_answers(image_views, prepared, limit, statistics)
    views = _leave_out_others(deps, scope, query, image_views, prepared, scored)
    return scored if views is image_views else rank_answers(views, prepared, limit, statistics)


def _leave_out_others(
    deps: RecallDeps,
    scope: Scope,
    query: str,
    image_views: Sequence[ImageView],
    prepared: PreparedQuestion,
    scored: Sequence[Scored],
) -> Sequence[ImageView]:
    """Return the views without what is stated of other people, if a user asks about themselves or the assistant."""
    if scope.user is None:
        return image_views
    of_assistant = turn_to_assistant(query)
    intent = prepared.question.intent if of_assistant is None else read_intent(of_assistant)
    if not intent.first_person or not intent.asked.attributes or intent.asked.people:
        return image_views
    find_others = find_about_others if of_assistant is None else find_about_user
    others = find_others(deps.records, scope, scored[:MAX_JUDGED], intent.asked)
    return [leave_out(image_view, others) for image_view in image_views] if others else image_views


def _prepare_search(deps: RecallDeps, scope: Scope, request: Request, images: KeyedImages | None) -> _Search:
    """Return the views of the images to search, the prepared question, and the statistics of terms."""
    request = request._replace(superseded=searches_superseded(request))
    if request.recipe.judges or request.recipe.uses("similar"):
        # The first call loads the words, in a short process while the embedding model is still loading.
        deps.thesaurus.find_similar("")
    question = _read_question(deps, scope, request, images)
    image_views, statistics = make_image_views(deps, scope, request, question, images)
    prepared = PreparedQuestion(
        question,
        request.recipe,
        clock.micros(request.asked_at or clock.now()),
        deps.thesaurus,
        lambda memory_ids: read_texts(deps.records, scope, memory_ids),
    )
    anchor = find_anchor(request.query) if request.recipe.uses("time") else None
    if anchor is not None and 0 < anchor.offset[1] <= _FAR and images is not None:
        prepared = _resolve_event_time(deps, request, prepared, anchor, image_views)
    return image_views, prepared, statistics


def _resolve_event_time(
    deps: RecallDeps, request: Request, prepared: PreparedQuestion, anchor: Anchor, image_views: Sequence[ImageView]
) -> PreparedQuestion:
    """Return the question with the time of an event, as in "two weeks before the trip", if the event is found."""
    event = read_question(deps.embedder, anchor.anchor, request.asked_at or clock.now(), deps.zone, {})
    best = rank(image_views, prepared._replace(question=event), 1)
    if not best or best[0].score < request.recipe.minimum:
        return prepared
    when = int(best[0].image.column("when")[best[0].row])
    near, far = (days * DAY for days in anchor.offset)
    start, end = (when - far, when - near) if anchor.direction < 0 else (when + near, when + far)
    period = (start - DAY // 2, end + DAY // 2)
    return prepared._replace(question=prepared.question._replace(times=(*prepared.question.times, period)))


def check(request: Request) -> None:
    if not request.query.strip() and request.vector is None:
        raise EmptyQuery(
            "the question is empty",
            remedy=Remedy("ask something, or use {} to see memories without a question", Verb("list")),
        )


def searches_superseded(request: Request) -> bool:
    """Return whether superseded memories are searched: if the caller asks for them, or the question asks for what was
    true before a change, as in "Where did I live before Denver?"."""
    asks_for_replaced = request.as_of is None and request.recipe.judges and read_intent(request.query).replaced
    return request.superseded or asks_for_replaced


def with_images(deps: RecallDeps, scope: Scope, request: Request, work: Callable[[KeyedImages | None], T]) -> T:
    """Call `work` with the images of the scope, or with None if the scope is too large for them. Return its result."""
    spaces = list_spaces(deps.images, scope, request)
    if not all(deps.images.fits(space) for space in spaces):
        return work(None)
    return deps.images.use(spaces, lambda images: work(list(zip(spaces, images, strict=True))))


def _read_question(deps: RecallDeps, scope: Scope, request: Request, images: KeyedImages | None) -> Question:
    """Return the question of a request with corrected spelling, its vector, and the times that it names."""
    speakers: dict[str, str] = {}
    if request.recipe.uses("speaker"):
        for _, image in images or ():
            speakers |= image.speakers
    now = request.asked_at or request.as_of or clock.now()
    query = request.query if images is None else _correct_spelling(request.query, images, deps.thesaurus)
    if scope.user is not None:
        query = rewrite_in_first_person(query, scope.user, speakers)
    question = read_question(deps.embedder, query, now, deps.zone, speakers, request.vector)
    if scope.user is not None and question.intent.first_person:
        names = [name for name in find_own_names(scope.user) if _is_in_images(name, images or ())]
        question = add_own_name(question, query, names, deps.embedder)
    if scope.is_open:
        question = question._replace(session=scope.session)
    if question.times and scope.user is not None:  # the user's zone is looked up only where it matters
        from everhold.model import User

        user = deps.records.get(User, scope.organization, [scope.user]).get(scope.user)
        if user is not None and user.timezone != str(deps.zone):
            return question._replace(times=read_times(request.query, now, ZoneInfo(user.timezone)))
    return question


def _is_in_images(name: str, images: KeyedImages) -> bool:
    return any(term in image.postings.terms for term in extract_terms(name) for _, image in images)


def _correct_spelling(query: str, images: KeyedImages, thesaurus: Thesaurus) -> str:
    return correct_spelling(query, lambda term: any(term in image.postings.terms for _, image in images), thesaurus)


def _split_admitted(
    scored: Sequence[Scored], min_score: float, after: HitPlace | None
) -> tuple[Sequence[Scored], Sequence[Scored]]:
    """Return the candidates with at least `min_score`: first those of earlier pages, then those for this page or
    later."""
    admitted = [candidate for candidate in scored if candidate.score >= min_score]
    if after is None:
        return (), admitted
    before: list[Scored] = []
    rest: list[Scored] = []
    for candidate in admitted:
        is_before = candidate.rank <= after.rank if candidate.verdict is None else candidate.owner_id in after.seen
        (before if is_before else rest).append(candidate)
    return before, rest


def _read_hits(
    records: Records, scope: Scope, request: Request, before: Sequence[Scored], scored: Sequence[Scored]
) -> tuple[list[ScoredRecord], bool]:
    """Return up to k hits with their records, and whether there may be more.

    Records are read as they are now, or as they were at `request.as_of`. Deleted records are skipped, and so are
    records that repeat a better hit of this page or of an earlier page.
    """
    hits: list[ScoredRecord] = []
    # The same utterance may be stored as a message and as a memory. It is one hit, by every recipe.
    by_message = set(request.among) >= _SPOKEN
    seen_texts = SeenTexts(by_text=request.recipe.calibrated, by_message=by_message)
    leaves_out_repeats = request.recipe.calibrated or by_message
    if leaves_out_repeats and before:
        seen_texts.take_new(_read_visible(records, scope, request, before))
    position = 0
    while position < len(scored) and len(hits) < request.k:
        batch = scored[position : position + request.k - len(hits)]
        position += len(batch)
        readable = _read_visible(records, scope, request, batch)
        hits += seen_texts.take_new(readable) if leaves_out_repeats else readable
    return hits, position < len(scored)


def _read_visible(records: Records, scope: Scope, request: Request, scored: Sequence[Scored]) -> list[ScoredRecord]:
    """Return the candidates that are still stored and that the scope may see, each with its record."""
    readable: list[ScoredRecord] = []
    for start in range(0, len(scored), _READ_BATCH):
        part = scored[start : start + _READ_BATCH]
        if len(request.among) == 1:
            rows = _read_kind(records, scope, request, request.among[0], part)
            readable += [(candidate, rows[candidate.owner_id]) for candidate in part if candidate.owner_id in rows]
        else:
            readable += _read_kinds(records, scope, request, part)
    return readable


def _read_kinds(records: Records, scope: Scope, request: Request, scored: Sequence[Scored]) -> list[ScoredRecord]:
    rows = {
        kind: _read_kind(records, scope, request, kind, [candidate for candidate in scored if candidate.kind == kind])
        for kind in request.among
    }
    pairs = ((candidate, rows[candidate.kind].get(candidate.owner_id)) for candidate in scored)
    return [(candidate, row) for candidate, row in pairs if row is not None]


def _read_kind(
    records: Records, scope: Scope, request: Request, kind: str, scored: Sequence[Scored]
) -> Mapping[str, Entity]:
    """Return the records of one kind that the scope may see, by id."""
    ids = [candidate.owner_id for candidate in scored]
    if SEARCHABLE[kind].has_links:
        from everhold.recall.linked import make_block_check  # few recalls are about blocks

        is_visible = make_block_check(records, scope, request.filter)
    else:
        is_visible = make_visibility_check(scope, request.include)
    if kind != "memory":
        entities: dict[str, Entity] = records.get(SEARCHABLE[kind].entity, scope.organization, ids)
        return {owner_id: row for owner_id, row in entities.items() if is_visible(row)}
    rows = records.get(Memory, scope.organization, ids)
    memories = {memory_id: memory for memory_id, memory in rows.items() if is_visible(memory)}
    return memories if request.as_of is None else read_as_known(records, scope.organization, memories, request.as_of)
