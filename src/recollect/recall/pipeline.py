"""One recall, from a question to hits.

    question → terms and vector → the images of the scope → scores → the best → checked against the records

A scope too large to be held is searched through the store's own indexes instead; the same code scores what they
propose. Every hit is read from the records before it is returned, so nothing deleted a moment ago comes back.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from recollect import clock
from recollect.errors import EmptyQuery, InvalidInput
from recollect.model import Memory, Scope, Tag
from recollect.model.fields import check_text
from recollect.ports.candidates import Candidates, Statistics
from recollect.ports.embedder import Embedder
from recollect.ports.records import Records
from recollect.recall.cursor import decode_rank, encode_rank
from recollect.recall.eligible import passing, standing
from recollect.recall.filters import Filter, covered
from recollect.recall.hit import Hit, Hits, Why
from recollect.recall.image import MEMORY_COLUMNS, Image
from recollect.recall.images import SHARED, ImageKey, Images, entries
from recollect.recall.past import as_known
from recollect.recall.recipe import HYBRID, Recipe
from recollect.recall.scoring import Question, Scored, Sight, rank
from recollect.schema.operations import Op, Where
from recollect.text.terms import terms

MOST = 1000
_CANDIDATES = 400
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
            found = _checked(seeker.records, scope, request, _admitted(scored, request, after))
            if len(found) > request.k or len(scored) < enough:
                break
            enough *= 4
    return _hits(seeker.records, scope, request, found, approximate=statistics is not None)


def check(request: Request) -> None:
    if not request.query.strip():
        raise EmptyQuery("the question is empty; ask something, or use list() to see memories without a question")
    check_text(request.query)
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
    covers = covered(image, scope, request.include, own=own)
    moment = request.as_of or clock.now()
    eligible = standing(image, moment, past=request.as_of is not None)
    if covers is not None:
        # closed chunks are not covered, but a question about the past may want them
        eligible &= covers if request.as_of is None else _past_cover(image, scope, request, own=own)
    passes = passing(image, request.wanted, records, scope)
    if passes is not None:
        eligible &= passes
    return Sight(image, covers, None if eligible.all() else eligible)


def _past_cover(
    image: Image, scope: Scope, request: Request, *, own: bool
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    inside = covered(image, scope, request.include, own=own, closed=True)
    return np.ones(image.size, np.bool_) if inside is None else inside


def _proposed(
    seeker: Seeker, scope: Scope, request: Request, question: Question, users: Sequence[str | None]
) -> tuple[list[Sight], Statistics]:
    """A small image of what the store's indexes propose, and the statistics of the whole scope."""
    images = None if None in users else [user for user in users if user is not None]
    limit = max(_CANDIDATES, 8 * request.k)
    place = (scope.organization, images, seeker.embedder.model)
    found = seeker.candidates.words.by_words(*place, question.terms, limit)
    if question.vector is not None:
        found = found + seeker.candidates.vectors.by_vector(*place, question.vector, limit)
    statistics = seeker.candidates.words.statistics(*place, question.terms)
    where = [Where("id", Op.IN, list(dict.fromkeys(found)))]
    rows = seeker.records.columns(Memory, scope.organization, MEMORY_COLUMNS, where)
    memories = {row[0]: row for row in rows}
    image = Image(seeker.embedder.dimensions)
    image.extend(list(entries(seeker.records, scope.organization, memories, seeker.embedder.model)))
    return [_sight(seeker.records, image, scope, request, own=False)], statistics


def _admitted(scored: Sequence[Scored], request: Request, after: tuple[float, str] | None) -> list[Scored]:
    return [
        one
        for one in scored
        if (request.minimum is None or one.score >= request.minimum) and (after is None or one.rank > after)
    ]


def _checked(records: Records, scope: Scope, request: Request, scored: Sequence[Scored]) -> list[tuple[Scored, Memory]]:
    """Scored memories as the records have them now, or had them at the time asked about; what is gone is dropped."""
    wanted = scored[: request.k + 1]
    ids = [one.owner_id for one in wanted]
    held = records.get(Memory, scope.organization, ids) if ids else {}
    if request.as_of is not None:
        held = as_known(records, scope.organization, held, request.as_of)
    return [(one, held[one.owner_id]) for one in wanted if one.owner_id in held]


def _hits(
    records: Records,
    scope: Scope,
    request: Request,
    found: Sequence[tuple[Scored, Memory]],
    *,
    approximate: bool,
) -> Hits:
    page = found[: request.k]
    tags = tags_of(records, scope.organization, [memory.id for _, memory in page])
    searched = "candidates" if approximate else "image"
    hits = [
        Hit(
            memory,
            one.score,
            Why(one.meaning, one.words, one.importance, one.likeness, one.matched, searched),
            tags.get(memory.id, ()),
        )
        for one, memory in page
    ]
    more = encode_rank(page[-1][0].rank) if len(found) > request.k else None
    return Hits(tuple(hits), more, approximate)


def tags_of(records: Records, organization: str, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The tags of each memory that has any, in order."""
    found: dict[str, list[str]] = {}
    if ids:
        for memory_id, tag in records.columns(
            Tag, organization, ("memory_id", "tag"), [Where("memory_id", Op.IN, ids)]
        ):
            found.setdefault(memory_id, []).append(tag)
    return {memory_id: tuple(sorted(tags)) for memory_id, tags in found.items()}
