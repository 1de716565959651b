"""One recall, from a question to hits.

    question → terms and vector → the images of the scope → scores → the best → checked against the records

A scope too large to be held is searched through the store's own indexes instead; the same code scores what they
propose. Every hit is read from the records before it is returned, so nothing deleted a moment ago comes back.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from zoneinfo import ZoneInfo

from everhold import clock
from everhold.errors import EmptyQuery, Remedy, Verb
from everhold.model import Memory, Scope, Tag, User
from everhold.model.base import Entity
from everhold.model.searchable import SEARCHABLE
from everhold.ports.records import Records
from everhold.ports.search_indexes import Statistics
from everhold.ports.thesaurus import Thesaurus
from everhold.recall import answers
from everhold.recall.answers import Examined, choose_bounds, rank_answers
from everhold.recall.cursor import HitPlace, decode_hit_place
from everhold.recall.diverse import Found, Said
from everhold.recall.filters import make_visibility_check
from everhold.recall.hit import Hit, Hits, Why
from everhold.recall.image import Image
from everhold.recall.judging import Bounds
from everhold.recall.past import as_known
from everhold.recall.pinned import pinned
from everhold.recall.question import Question, ask, in_first_person, times_of
from everhold.recall.request import Request, Seeker
from everhold.recall.scoring import Asked, Scored, Sight, rank, signals_of
from everhold.recall.sights import KeyedImages, list_spaces, make_sights
from everhold.recall.signals import DAY, Signal
from everhold.recall.spelling import mend
from everhold.schema.operations import Op, Where
from everhold.text.dates import Anchor, find_anchor

T = TypeVar("T")

MOST = 1000
_SLACK = 1
_FAR = 366
"""Days. A time told only as before, during or after an event, however long, narrows nothing."""


def recall(seeker: Seeker, scope: Scope, request: Request) -> Hits:
    """Return the memories of the scope, or the other kinds of records asked for, that answer the question best."""
    check(request)
    after = decode_hit_place(request.cursor) if request.cursor else None

    def search(images: KeyedImages | None) -> tuple[list[Found], bool, Statistics | None]:
        sights, asked, statistics = _prepare_search(seeker, scope, request, images)
        enough = request.k + _SLACK
        while True:
            scored = rank_answers(sights, asked, enough, statistics)
            best = scored[0].score if scored else 0.0
            least = choose_bounds(scored, request, asked.question.intent).find_least(best)
            found, more = _checked(seeker.records, scope, request, *_admitted(scored, least, after))
            if more or len(scored) < enough or scored[-1].score < least:
                return found, more, statistics
            enough *= 4

    found, more, statistics = with_images(seeker, scope, request, search)
    details = _Details(seeker.records, scope, request.include, found)
    if statistics is not None:
        details.searched = "candidates"
    hits = tuple([Hit(record, one.score, details, one.pool.image.kind) for one, record in found])
    seen = tuple(one.owner_id for one, _ in found if one.verdict is not None)
    return Hits(hits, more, statistics is not None, details, seen if after is None else after.seen + seen)


def rank_all(
    seeker: Seeker, scope: Scope, request: Request, images: KeyedImages | None
) -> tuple[list[Scored], Bounds, str]:
    """Return everything that recall could return, best first and with any score, which of it is good enough, and how it
    was searched."""
    sights, asked, statistics = _prepare_search(seeker, scope, request, images)
    everything = sum(sight.image.size for sight in sights)
    scored = rank_answers(sights, asked, everything, statistics)
    bounds = choose_bounds(scored, request, asked.question.intent)
    return scored, bounds, "image" if statistics is None else "candidates"


def examine(seeker: Seeker, scope: Scope, request: Request) -> list[tuple[Image, dict[str, Signal]]]:
    """Return the signal of each retriever for every row of the scope's images."""

    def read_signals(images: KeyedImages | None) -> list[tuple[Image, dict[str, Signal]]]:
        sights, asked, _ = _prepare_search(seeker, scope, request, images)
        return [(sight.image, signals) for sight, signals in signals_of(sights, asked)]

    return with_images(seeker, scope, request, read_signals)


def examine_answers(seeker: Seeker, scope: Scope, request: Request) -> Examined | None:
    """Return what is judged for a question, in a scope that an image holds; None if there is nothing."""

    def examine_images(images: KeyedImages | None) -> Examined | None:
        sights, asked, _ = _prepare_search(seeker, scope, request, images)
        return answers.examine_answers(sights, asked)

    return with_images(seeker, scope, request, examine_images)


def _prepare_search(
    seeker: Seeker, scope: Scope, request: Request, images: KeyedImages | None
) -> tuple[list[Sight], Asked, Statistics | None]:
    question = _read_question(seeker, scope, request, images)
    sights, statistics = make_sights(seeker, scope, request, question, images)
    asked = Asked(question, request.recipe, clock.micros(request.asked_at or clock.now()), seeker.thesaurus)
    anchor = find_anchor(request.query) if request.recipe.uses("time") else None
    if anchor is not None and 0 < anchor.offset[1] <= _FAR and images is not None:
        asked = _by_event(seeker, request, asked, anchor, sights)
    return sights, asked, statistics


def _by_event(seeker: Seeker, request: Request, asked: Asked, anchor: Anchor, sights: Sequence[Sight]) -> Asked:
    """A time told by an event, as in "two weeks before the trip", once the event is found."""
    event = ask(seeker.embedder, anchor.anchor, request.asked_at or clock.now(), seeker.zone, {})
    best = rank(sights, asked._replace(question=event), 1)
    if not best or best[0].score < request.recipe.minimum:
        return asked
    when = int(best[0].image.column("when")[best[0].row])
    near, far = (days * DAY for days in anchor.offset)
    start, end = (when - far, when - near) if anchor.direction < 0 else (when + near, when + far)
    told = (start - DAY // 2, end + DAY // 2)
    return asked._replace(question=asked.question._replace(times=(*asked.question.times, told)))


def check(request: Request) -> None:
    if not request.query.strip() and request.vector is None:
        raise EmptyQuery(
            "the question is empty",
            remedy=Remedy("ask something, or use {} to see memories without a question", Verb("list")),
        )


def with_images(seeker: Seeker, scope: Scope, request: Request, work: Callable[[KeyedImages | None], T]) -> T:
    """Return what `work` returns for the images that hold the scope, or for None if there is too much for one."""
    spaces = list_spaces(seeker.images, scope, request)
    if not all(seeker.images.fits(space) for space in spaces):
        return work(None)
    return seeker.images.use(spaces, lambda images: work(list(zip(spaces, images, strict=True))))


def _read_question(seeker: Seeker, scope: Scope, request: Request, images: KeyedImages | None) -> Question:
    speakers: dict[str, str] = {}
    if request.recipe.uses("speaker"):
        for _, image in images or ():
            speakers |= image.speakers
    now = request.asked_at or request.as_of or clock.now()
    query = request.query if images is None else _mend(request.query, images, seeker.thesaurus)
    if scope.user is not None:
        query = in_first_person(query, scope.user, speakers)
    question = ask(seeker.embedder, query, now, seeker.zone, speakers, request.vector)
    if scope.is_open:
        question = question._replace(session=scope.session)
    if question.times and scope.user is not None:  # the user's zone is looked up only where it matters
        user = seeker.records.get(User, scope.organization, [scope.user]).get(scope.user)
        if user is not None and user.timezone != str(seeker.zone):
            return question._replace(times=times_of(request.query, now, ZoneInfo(user.timezone)))
    return question


def _mend(query: str, images: KeyedImages, thesaurus: Thesaurus) -> str:
    return mend(query, lambda term: any(term in image.postings.terms for _, image in images), thesaurus)


def _admitted(
    scored: Sequence[Scored], least: float, after: HitPlace | None
) -> tuple[Sequence[Scored], Sequence[Scored]]:
    """What is relevant enough: the pages before, and what may be on this one."""
    admitted = [one for one in scored if one.score >= least]
    if after is None:
        return (), admitted
    before: list[Scored] = []
    rest: list[Scored] = []
    for one in admitted:
        is_before = one.rank <= after.rank if one.verdict is None else one.owner_id in after.seen
        (before if is_before else rest).append(one)
    return before, rest


def _checked(
    records: Records, scope: Scope, request: Request, before: Sequence[Scored], scored: Sequence[Scored]
) -> tuple[list[Found], bool]:
    """Up to k records as the store have them now, or had them at the time asked about, and whether there are more.

    What is gone from the store is passed over, and so is what only repeats a better hit, of a page before too.
    """
    found: list[Found] = []
    said = Said()
    folds = request.recipe.calibrated
    if folds and before:
        said.news(_read_visible(records, scope, request, before))
    seen = 0
    while seen < len(scored) and len(found) < request.k:
        wanted = scored[seen : seen + request.k - len(found)]
        seen += len(wanted)
        held = _read_visible(records, scope, request, wanted)
        found += said.news(held) if folds else held
    return found, seen < len(scored)


def _read_visible(records: Records, scope: Scope, request: Request, scored: Sequence[Scored]) -> list[Found]:
    """Return those that the records still have and that the scope may see, each with its record."""
    readable: list[Found] = []
    for start in range(0, len(scored), MOST):
        part = scored[start : start + MOST]
        if len(request.among) == 1:
            rows = _read_kind(records, scope, request, request.among[0], part)
            readable += [(one, rows[one.owner_id]) for one in part if one.owner_id in rows]
        else:
            readable += _read_kinds(records, scope, request, part)
    return readable


def _read_kinds(records: Records, scope: Scope, request: Request, scored: Sequence[Scored]) -> list[Found]:
    rows = {
        kind: _read_kind(records, scope, request, kind, [one for one in scored if one.kind == kind])
        for kind in request.among
    }
    return [(one, rows[one.kind][one.owner_id]) for one in scored if one.owner_id in rows[one.kind]]


def _read_kind(
    records: Records, scope: Scope, request: Request, kind: str, scored: Sequence[Scored]
) -> Mapping[str, Entity]:
    """Return the records of one kind that the scope may see, by id."""
    ids = [one.owner_id for one in scored]
    is_visible = make_visibility_check(scope, request.include)
    if kind != "memory":
        entities: dict[str, Entity] = records.get(SEARCHABLE[kind].entity, scope.organization, ids)
        return {owner_id: row for owner_id, row in entities.items() if is_visible(row)}
    rows = records.get(Memory, scope.organization, ids)
    memories = {memory_id: memory for memory_id, memory in rows.items() if is_visible(memory)}
    return memories if request.as_of is None else as_known(records, scope.organization, memories, request.as_of)


class _Details:
    """The why and the tags of one recall's hits."""

    def __init__(self, records: Records, scope: Scope, include: Sequence[str], found: Sequence[Found]) -> None:
        self._records, self._scope, self._include = records, scope, include
        self._found = {(one.pool.image.kind, one.owner_id): one for one, _ in found}
        self._tags: dict[str, tuple[str, ...]] | None = None
        self._pinned: tuple[Memory, ...] | None = None
        self.searched = "image"

    def why(self, hit: Hit) -> Why:
        return self._found[hit.kind, hit.id].why(self.searched)

    def pinned(self) -> tuple[Memory, ...]:
        if self._pinned is None:
            self._pinned = pinned(self._records, self._scope, self._include, clock.now())
        return self._pinned

    def tags(self, hit: Hit) -> tuple[str, ...]:
        if self._tags is None:
            self._tags = self._read_tags()
        return self._tags.get(hit.id, ()) if hit.kind == "memory" else ()

    def fetch(self) -> None:
        self.pinned()
        self._tags = self._read_tags()

    def _read_tags(self) -> dict[str, tuple[str, ...]]:
        ids = [owner_id for kind, owner_id in self._found if kind == "memory"]
        return tags_of(self._records, self._scope.organization, ids)


def tags_of(records: Records, organization: str, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The tags of each memory that has any, in order."""
    found: dict[str, list[str]] = {}
    if ids:
        for memory_id, tag in records.columns(
            Tag, organization, ("memory_id", "tag"), [Where("memory_id", Op.IN, ids)]
        ):
            found.setdefault(memory_id, []).append(tag)
    return {memory_id: tuple(sorted(tags)) for memory_id, tags in found.items()}
