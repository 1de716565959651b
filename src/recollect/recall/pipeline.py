"""One recall, from a question to hits.

    question → terms and vector → the images of the scope → scores → the best → checked against the records

A scope too large to be held is searched through the store's own indexes instead; the same code scores what they
propose. Every hit is read from the records before it is returned, so nothing deleted a moment ago comes back.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

import numpy as np

from recollect import clock
from recollect.errors import EmptyQuery, InvalidInput
from recollect.model import Memory, Scope, Tag
from recollect.model.validation import checked_text
from recollect.ports.candidates import Candidates, Statistics
from recollect.ports.embedder import Embedder
from recollect.ports.records import Records
from recollect.recall.cursor import decode_rank
from recollect.recall.eligible import passing, standing, tagged
from recollect.recall.filters import Filter, covered
from recollect.recall.hit import Hit, Hits, Why
from recollect.recall.image import MEMORY_COLUMNS, Image
from recollect.recall.images import SHARED, ImageKey, Images, entries
from recollect.recall.past import as_known
from recollect.recall.recipe import HYBRID, Recipe
from recollect.recall.scoring import Question, Scored, Sight, rank
from recollect.schema.conditions import within
from recollect.schema.operations import Op, Where
from recollect.text.terms import terms

MOST = 1000
_CANDIDATES = 400
_FEW = 10_000
_SLACK = 4


@dataclass(frozen=True)
class Seeker:
    """What finding a memory needs."""

    records: Records
    embedder: Embedder
    images: Images
    candidates: Candidates


@dataclass(frozen=True)
class Request:
    """A question and how it is to be answered."""

    query: str
    k: int = 10
    wanted: Filter = field(default_factory=Filter)
    as_of: datetime | None = None
    minimum: float | None = None
    include: tuple[str, ...] = ()
    cursor: str | None = None
    recipe: Recipe = HYBRID


def recall(seeker: Seeker, scope: Scope, request: Request) -> Hits:
    """The memories of the scope that answer the question best."""
    check(request)
    question = ask(seeker.embedder, request.query)
    with ExitStack() as held:
        sights, statistics = _sights(seeker, scope, request, question, held)
        after = decode_rank(request.cursor) if request.cursor else None
        enough = request.k + _SLACK
        while True:
            scored = rank(sights, question, request.recipe, enough, statistics)
            found, more = _checked(seeker.records, scope, request, _admitted(scored, request, after))
            if more or len(scored) < enough or _below_minimum(scored[-1], request):
                break
            enough *= 4
    details = _Details(seeker.records, scope, request.recipe, found)
    if statistics is not None:
        details.searched = "candidates"
    return Hits(tuple([Hit(memory, one.score, details) for one, memory in found]), more, statistics is not None)


def check(request: Request) -> None:
    if not request.query.strip():
        raise EmptyQuery("the question is empty; ask something, or use list() to see memories without a question")
    checked_text(request.query, "the question")
    if not 1 <= request.k <= MOST:
        raise InvalidInput(f"k is {request.k}; use 1 to {MOST}, and the cursor for more")
    if request.as_of is not None and request.as_of.tzinfo is None:
        raise InvalidInput(f"as_of {request.as_of.isoformat()} has no zone; pass an aware datetime")


def ask(embedder: Embedder, query: str) -> Question:
    return Question(tuple(dict.fromkeys(terms(query))), embedder.embed([query])[0])


def _sights(
    seeker: Seeker, scope: Scope, request: Request, question: Question, held: ExitStack
) -> tuple[list[Sight], Statistics | None]:
    keys = [ImageKey(scope.organization, scope.user)]
    if scope.user is not None and request.include:
        keys.append(ImageKey(scope.organization, SHARED))
    if all(seeker.images.fits(key) for key in keys):
        images = [held.enter_context(seeker.images.using(key)) for key in keys]
        own = [key.user == scope.user for key in keys]
        return [
            _sight(seeker.records, image, scope, request, own=one) for image, one in zip(images, own, strict=True)
        ], None
    return _proposed(seeker, scope, request, question, [key.user for key in keys])


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
        ids = seeker.candidates.words.by_words(*place, question.terms, limit)
        if question.vector is not None:
            ids = ids + seeker.candidates.vectors.by_vector(*place, question.vector, limit)
    return [_sight(records, _image_of(seeker, scope, ids), scope, request, own=False)], statistics


def _matching(records: Records, scope: Scope, request: Request) -> Iterator[tuple[Any, ...]]:
    """The ids of memories that pass the filter; those of the scope only, unless wider ones are included."""
    where = [*(within(scope) if not request.include else ()), *request.wanted.all_conditions]
    if request.wanted.tags:
        where.append(Where("id", Op.IN, sorted(tagged(records, scope.organization, request.wanted.tags))))
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


def _below_minimum(last: Scored, request: Request) -> bool:
    return request.minimum is not None and last.score < request.minimum


def _admitted(scored: Sequence[Scored], request: Request, after: tuple[float, str] | None) -> list[Scored]:
    return [
        one
        for one in scored
        if (request.minimum is None or one.score >= request.minimum) and (after is None or one.rank > after)
    ]


def _checked(
    records: Records, scope: Scope, request: Request, scored: Sequence[Scored]
) -> tuple[list[tuple[Scored, Memory]], bool]:
    """Up to k memories as the records have them now, or had them at the time asked about, and whether there are more.

    What is gone from the records is passed over.
    """
    found: list[tuple[Scored, Memory]] = []
    seen = 0
    while seen < len(scored) and len(found) < request.k:
        wanted = scored[seen : seen + request.k - len(found)]
        seen += len(wanted)
        held = records.get(Memory, scope.organization, [one.owner_id for one in wanted])
        if request.as_of is not None:
            held = as_known(records, scope.organization, held, request.as_of)
        found += [(one, held[one.owner_id]) for one in wanted if one.owner_id in held]
    return found, seen < len(scored)


class _Details:
    """The why and the tags of one recall's hits."""

    def __init__(self, records: Records, scope: Scope, recipe: Recipe, found: Sequence[tuple[Scored, Memory]]) -> None:
        self._records, self._scope, self._recipe = records, scope, recipe
        self._found = {one.owner_id: one for one, _ in found}
        self._tags: dict[str, tuple[str, ...]] | None = None
        self.searched = "image"

    def why(self, hit: Hit) -> Why:
        return self._found[hit.memory.id].why(self._recipe, self.searched)

    def tags(self, hit: Hit) -> tuple[str, ...]:
        if self._tags is None:
            self._tags = tags_of(self._records, self._scope.organization, list(self._found))
        return self._tags.get(hit.memory.id, ())


def tags_of(records: Records, organization: str, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The tags of each memory that has any, in order."""
    found: dict[str, list[str]] = {}
    if ids:
        for memory_id, tag in records.columns(
            Tag, organization, ("memory_id", "tag"), [Where("memory_id", Op.IN, ids)]
        ):
            found.setdefault(memory_id, []).append(tag)
    return {memory_id: tuple(sorted(tags)) for memory_id, tags in found.items()}
