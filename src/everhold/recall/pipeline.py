"""One recall, from a question to hits.

    question → terms and vector → the images of the scope → scores → the best → checked against the records

A scope too large to be held is searched through the store's own indexes instead; the same code scores what they
propose. Every hit is read from the records before it is returned, so nothing deleted a moment ago comes back.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import islice
from typing import Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import numpy as np

from everhold import clock
from everhold.errors import EmptyQuery, Remedy, Verb
from everhold.model import Memory, Scope, Tag, User
from everhold.ports.candidates import Candidates, Statistics
from everhold.ports.embedder import Embedder, Vector
from everhold.ports.records import Records
from everhold.ports.thesaurus import NO_THESAURUS, Thesaurus
from everhold.recall.cursor import decode_rank
from everhold.recall.diverse import Said
from everhold.recall.eligible import passing, resolve_filter, standing
from everhold.recall.filters import ANY, Filter, covered, make_visibility_check
from everhold.recall.hit import Hit, Hits, Why
from everhold.recall.image import MEMORY_COLUMNS, Image
from everhold.recall.images import SHARED, ImageKey, Images, entries
from everhold.recall.past import as_known
from everhold.recall.pinned import pinned
from everhold.recall.question import Question, ask, times_of
from everhold.recall.recipe import HYBRID, Recipe
from everhold.recall.scoring import Asked, Rank, Scored, Sight, rank, signals_of
from everhold.recall.signals import DAY, Signal
from everhold.schema.conditions import within
from everhold.schema.operations import Op, Where
from everhold.text.dates import Anchor, anchored

T = TypeVar("T")
KeyedImages = Sequence[tuple[ImageKey, Image]]

MOST = 1000
_CANDIDATES = 400
_FEW = 10_000
_SLACK = 1
_FAR = 366
"""Days. A time told only as before, during or after an event, however long, narrows nothing."""


@dataclass(frozen=True)
class Seeker:
    """What finding a memory needs."""

    records: Records
    embedder: Embedder
    images: Images
    candidates: Candidates
    thesaurus: Thesaurus = NO_THESAURUS
    zone: tzinfo = UTC


class Request(NamedTuple):
    """A question and how it is to be answered."""

    query: str
    k: int = 10
    wanted: Filter = ANY
    as_of: datetime | None = None
    minimum: float | None = None
    include: tuple[str, ...] = ()
    cursor: str | None = None
    recipe: Recipe = HYBRID
    asked_at: datetime | None = None
    vector: Vector | None = None

    @property
    def least(self) -> float:
        """The least score to be returned; 0 for none."""
        return self.recipe.minimum if self.minimum is None else self.minimum

    @property
    def share(self) -> float:
        """The least share of the best score to be returned; none if the caller has set the minimum."""
        return self.recipe.share if self.minimum is None else 0.0


def recall(seeker: Seeker, scope: Scope, request: Request) -> Hits:
    """Return the memories of the scope that answer the question best."""
    check(request)

    def search(images: KeyedImages | None) -> tuple[list[tuple[Scored, Memory]], bool, Statistics | None]:
        sights, asked, statistics = _prepare_search(seeker, scope, request, images)
        after = decode_rank(request.cursor) if request.cursor else None
        enough = request.k + _SLACK
        while True:
            scored = rank(sights, asked, enough, statistics)
            found, more = _checked(seeker.records, scope, request, *_admitted(scored, request, after))
            if more or len(scored) < enough or _too_low(scored, request):
                return found, more, statistics
            enough *= 4

    found, more, statistics = with_images(seeker, scope, request, search)
    details = _Details(seeker.records, scope, request.include, found)
    if statistics is not None:
        details.searched = "candidates"
    hits = tuple([Hit(memory, one.score, details) for one, memory in found])
    return Hits(hits, more, statistics is not None, details)


def rank_all(seeker: Seeker, scope: Scope, request: Request, images: KeyedImages | None) -> tuple[list[Scored], str]:
    """Return everything that recall could return, best first and with any score, and how it was searched."""
    sights, asked, statistics = _prepare_search(seeker, scope, request, images)
    everything = sum(sight.image.size for sight in sights)
    return rank(sights, asked, everything, statistics), "image" if statistics is None else "candidates"


def examine(seeker: Seeker, scope: Scope, request: Request) -> list[tuple[Image, dict[str, Signal]]]:
    """Return the signal of each retriever for every row of the scope's images."""

    def read_signals(images: KeyedImages | None) -> list[tuple[Image, dict[str, Signal]]]:
        sights, asked, _ = _prepare_search(seeker, scope, request, images)
        return [(sight.image, signals) for sight, signals in signals_of(sights, asked)]

    return with_images(seeker, scope, request, read_signals)


def _prepare_search(
    seeker: Seeker, scope: Scope, request: Request, images: KeyedImages | None
) -> tuple[list[Sight], Asked, Statistics | None]:
    question = _read_question(seeker, scope, request, images)
    sights, statistics = _sights(seeker, scope, request, question, images)
    asked = Asked(question, request.recipe, clock.micros(request.asked_at or clock.now()), seeker.thesaurus)
    anchor = anchored(request.query) if request.recipe.uses("time") else None
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
    keys = _keys(scope, request)
    if not all(seeker.images.fits(key) for key in keys):
        return work(None)
    return seeker.images.use(keys, lambda images: work(list(zip(keys, images, strict=True))))


def _keys(scope: Scope, request: Request) -> list[ImageKey]:
    keys = [ImageKey(scope.organization, scope.user)]
    if scope.user is not None and request.include:
        keys.append(ImageKey(scope.organization, SHARED))
    return keys


def _read_question(seeker: Seeker, scope: Scope, request: Request, images: KeyedImages | None) -> Question:
    speakers: dict[str, str] = {}
    if request.recipe.uses("speaker"):
        for _, image in images or ():
            speakers |= image.speakers
    now = request.asked_at or request.as_of or clock.now()
    question = ask(seeker.embedder, request.query, now, seeker.zone, speakers, request.vector)
    if question.times and scope.user is not None:  # the user's zone is looked up only where it matters
        user = seeker.records.get(User, scope.organization, [scope.user]).get(scope.user)
        if user is not None and user.timezone != str(seeker.zone):
            return question._replace(times=times_of(request.query, now, ZoneInfo(user.timezone)))
    return question


def _sights(
    seeker: Seeker,
    scope: Scope,
    request: Request,
    question: Question,
    images: KeyedImages | None,
) -> tuple[list[Sight], Statistics | None]:
    if images is not None:
        return [
            _sight(seeker.records, image, scope, request, own=key.user == scope.user) for key, image in images
        ], None
    return _proposed(seeker, scope, request, question, [key.user for key in _keys(scope, request)])


def _sight(records: Records, image: Image, scope: Scope, request: Request, *, own: bool) -> Sight:
    past = request.as_of is not None
    covers = covered(image, scope, request.include, own=own)
    masks = [
        standing(image, request.as_of or clock.now(), past=past),
        # closed chunks are not covered, but a question about the past may want them
        covered(image, scope, request.include, own=own, closed=True) if past else covers,
        passing(image, request.wanted, records, scope),
    ]
    given = [mask for mask in masks if mask is not None]
    return Sight(image, covers, np.logical_and.reduce(given) if given else None)


def _proposed(
    seeker: Seeker, scope: Scope, request: Request, question: Question, users: Sequence[str | None]
) -> tuple[list[Sight], Statistics | None]:
    """A small image of what is worth scoring, and the statistics of the whole scope, if it is not all of it.

    A narrower scope or a filter comes first: where it leaves few memories, those are all looked at. Else the store's
    indexes propose.
    """
    records = seeker.records
    if scope.columns.keys() - {"user_id"} and not request.include:
        ids = _few(records.columns(Memory, scope.organization, ["id"], within(scope)))
        if ids is not None:
            return [_sight(records, _image_of(seeker, scope, ids), scope, request, own=False)], None
    images = None if None in users else [user for user in users if user is not None]
    place = (scope.organization, images, seeker.embedder.model)
    statistics = seeker.candidates.words.statistics(*place, question.terms)
    ids = _few(_matching(records, scope, request)) if request.wanted else None
    if ids is None:
        limit = max(_CANDIDATES, 8 * request.k)
        ids = seeker.candidates.words.by_words(*place, statistics, limit)
        if question.vector is not None:
            ids = ids + seeker.candidates.vectors.by_vector(*place, question.vector, limit)
    return [_sight(records, _image_of(seeker, scope, ids), scope, request, own=False)], statistics


def _matching(records: Records, scope: Scope, request: Request) -> Iterator[tuple[Any, ...]]:
    """The ids of memories that pass the filter; those of the scope only, unless wider ones are included."""
    conditions = resolve_filter(records, scope.organization, request.wanted)
    where = [*(within(scope) if not request.include else ()), *conditions]
    return records.columns(Memory, scope.organization, ["id"], where)


def _few(rows: Iterator[tuple[Any, ...]]) -> list[str] | None:
    """The ids, or None if there are too many to be looked at one by one."""
    ids = [memory_id for (memory_id,) in islice(rows, _FEW + 1)]
    return ids if len(ids) <= _FEW else None


def _image_of(seeker: Seeker, scope: Scope, ids: Sequence[str]) -> Image:
    image = Image(seeker.embedder.dimensions)
    unique = list(dict.fromkeys(ids))
    for start in range(0, len(unique), _CANDIDATES):
        where = [Where("id", Op.IN, unique[start : start + _CANDIDATES])]
        rows = seeker.records.columns(Memory, scope.organization, MEMORY_COLUMNS, where)
        memories = {row[0]: row for row in rows}
        image.extend(list(entries(seeker.records, scope.organization, memories, seeker.embedder.model)))
    return image


def _too_low(scored: Sequence[Scored], request: Request) -> bool:
    """Whether what would follow is not relevant enough."""
    return scored[-1].score < _least(scored, request)


def _least(scored: Sequence[Scored], request: Request) -> float:
    """A strong hit makes a weak one irrelevant. Pages that follow the first see its best hit too."""
    if not request.least:
        return -math.inf
    return max(request.least, request.share * scored[0].score) if request.share else request.least


def _admitted(
    scored: Sequence[Scored], request: Request, after: Rank | None
) -> tuple[Sequence[Scored], Sequence[Scored]]:
    """What is relevant enough: the pages before, and what may be on this one."""
    if not scored:
        return (), ()
    least = _least(scored, request)
    admitted = [one for one in scored if one.score >= least]
    before = 0 if after is None else sum(one.rank <= after for one in admitted)
    return admitted[:before], admitted[before:]


def _checked(
    records: Records, scope: Scope, request: Request, before: Sequence[Scored], scored: Sequence[Scored]
) -> tuple[list[tuple[Scored, Memory]], bool]:
    """Up to k memories as the records have them now, or had them at the time asked about, and whether there are more.

    What is gone from the records is passed over, and so is what only repeats a better hit, of a page before too.
    """
    found: list[tuple[Scored, Memory]] = []
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


def _read_visible(
    records: Records, scope: Scope, request: Request, scored: Sequence[Scored]
) -> list[tuple[Scored, Memory]]:
    """Return those that the records still have and that the scope may see, each with its memory."""
    readable: list[tuple[Scored, Memory]] = []
    is_visible = make_visibility_check(scope, request.include)
    for start in range(0, len(scored), MOST):
        part = scored[start : start + MOST]
        rows = records.get(Memory, scope.organization, [one.owner_id for one in part])
        memories = {memory_id: memory for memory_id, memory in rows.items() if is_visible(memory)}
        if request.as_of is not None:
            memories = as_known(records, scope.organization, memories, request.as_of)
        readable += [(one, memories[one.owner_id]) for one in part if one.owner_id in memories]
    return readable


class _Details:
    """The why and the tags of one recall's hits."""

    def __init__(
        self, records: Records, scope: Scope, include: Sequence[str], found: Sequence[tuple[Scored, Memory]]
    ) -> None:
        self._records, self._scope, self._include = records, scope, include
        self._found = {one.owner_id: one for one, _ in found}
        self._tags: dict[str, tuple[str, ...]] | None = None
        self._pinned: tuple[Memory, ...] | None = None
        self.searched = "image"

    def why(self, hit: Hit) -> Why:
        return self._found[hit.memory.id].why(self.searched)

    def pinned(self) -> tuple[Memory, ...]:
        if self._pinned is None:
            self._pinned = pinned(self._records, self._scope, self._include, clock.now())
        return self._pinned

    def tags(self, hit: Hit) -> tuple[str, ...]:
        if self._tags is None:
            self._tags = tags_of(self._records, self._scope.organization, list(self._found))
        return self._tags.get(hit.memory.id, ())

    def fetch(self) -> None:
        self.pinned()
        self._tags = tags_of(self._records, self._scope.organization, list(self._found))


def tags_of(records: Records, organization: str, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The tags of each memory that has any, in order."""
    found: dict[str, list[str]] = {}
    if ids:
        for memory_id, tag in records.columns(
            Tag, organization, ("memory_id", "tag"), [Where("memory_id", Op.IN, ids)]
        ):
            found.setdefault(memory_id, []).append(tag)
    return {memory_id: tuple(sorted(tags)) for memory_id, tags in found.items()}
