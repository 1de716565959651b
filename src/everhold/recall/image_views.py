"""Choose the rows that are scored for a request: whole images, or candidates proposed by the store's indexes."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from everhold import clock
from everhold.model import Scope
from everhold.model.memory import LONG_TERM
from everhold.model.searchable import SEARCHABLE
from everhold.ports.records import Records
from everhold.ports.search_indexes import Statistics
from everhold.ports.search_space import SearchSpace
from everhold.recall.eligible import filter_rows, find_valid_rows, resolve_filter
from everhold.recall.filters import mask_covered_rows
from everhold.recall.image import Image, Mask
from everhold.recall.images import SHARED, ImageCache, read_entries, read_related
from everhold.recall.question import Question
from everhold.recall.request import RecallDeps, Request
from everhold.recall.scoring import ImageView
from everhold.schema.conditions import make_equalities
from everhold.schema.operations import Condition, Op, Where

KeyedImages = Sequence[tuple[SearchSpace, Image]]

# The minimum number of candidates that each index returns.
_CANDIDATES = 400
# If a filter or a narrow scope leaves at most this many records, all of them are scored.
_MAX_SCORED = 10_000


def list_spaces(images: ImageCache, scope: Scope, request: Request) -> list[SearchSpace]:
    """Return the search spaces of each requested kind and namespace: the user's, and with `include` the shared
    space."""
    spaces = []
    for kind in request.among:
        owner = SEARCHABLE[kind]
        users = [scope.user]
        if scope.user is not None and request.include and owner.has_column("reach"):
            users.append(SHARED)
        if scope.user is not None and scope.agent is not None and owner.has_links:
            users.append(SHARED)  # an agent's blocks may belong to no user
        for namespace in request.namespaces if owner.has_column("namespace") else (LONG_TERM,):
            spaces += [images.space(scope.organization, user, kind, namespace) for user in users]
    return spaces


def make_image_views(
    deps: RecallDeps,
    scope: Scope,
    request: Request,
    question: Question,
    images: KeyedImages | None,
) -> tuple[list[ImageView], Statistics | None]:
    """Return the image views to score, and the statistics of the whole scope if only candidates are scored.

    `images` is None if the scope is too large for images.
    """
    if images is not None:
        own = None if scope.user is None else (scope.user,)
        return [
            _make_image_view(deps.records, image, scope.confine_to(space.namespace), request, own=space.users == own)
            for space, image in images
        ], None
    return _propose_views(deps, scope, request, question)


def _make_image_view(records: Records, image: Image, scope: Scope, request: Request, *, own: bool) -> ImageView:
    """Return a view of the image's rows that the request may find. `own`: it has only rows of the scope's user."""
    past = request.as_of is not None
    covers = _mask_scope(records, image, scope, request, own=own)
    masks = [
        find_valid_rows(image, request.as_of or clock.now(), past=past, superseded=request.superseded),
        # `covers` is without the chunks of earlier texts, but a question about the past needs these
        _mask_scope(records, image, scope, request, own=own, closed=True) if past else covers,
        filter_rows(image, request.filter, records, scope),
    ]
    present_masks = [mask for mask in masks if mask is not None]
    return ImageView(image, covers, np.logical_and.reduce(present_masks) if present_masks else None)


def _mask_scope(
    records: Records, image: Image, scope: Scope, request: Request, *, own: bool, closed: bool = False
) -> Mask | None:
    if SEARCHABLE[image.kind].has_links:
        from everhold.recall.linked import mask_seen_blocks  # few recalls are about blocks

        return mask_seen_blocks(image, records, scope, request.filter)
    return mask_covered_rows(image, scope, request.include, own=own, closed=closed)


def _propose_views(
    deps: RecallDeps, scope: Scope, request: Request, question: Question
) -> tuple[list[ImageView], Statistics | None]:
    """Return small images of candidates, and the statistics of the whole scope.

    If a narrow scope or a filter leaves few records, all of them are candidates. Otherwise the store's indexes return
    candidates. The statistics are None if everything in the scope is a candidate.
    """
    spaces = _join_users(list_spaces(deps.images, scope, request))
    limits = {name for space in spaces for name in scope.confine_to(space.namespace).limits}
    if limits - {"user_id"} and not request.include:
        ids_by_space = [_list_few(_read_ids(deps.records, scope, space)) for space in spaces]
        complete = [ids for ids in ids_by_space if ids is not None]
        if len(complete) == len(spaces):
            return [_load_image_view(deps, scope, request, *pair) for pair in zip(spaces, complete, strict=True)], None
    words = deps.candidates.words
    statistics = _sum_statistics([words.count_terms(space, question.terms) for space in spaces])
    candidates = [_find_candidates(deps, scope, request, question, space, statistics) for space in spaces]
    return [_load_image_view(deps, scope, request, *pair) for pair in zip(spaces, candidates, strict=True)], statistics


def _find_candidates(
    deps: RecallDeps, scope: Scope, request: Request, question: Question, space: SearchSpace, statistics: Statistics
) -> list[str]:
    """Return the ids of the records of a space that will be scored."""
    ids = _list_few(_read_matching(deps.records, scope, request, space)) if request.filter else None
    if ids is None:
        limit = max(_CANDIDATES, 8 * request.k)
        ids = deps.candidates.words.find_by_words(space, statistics, limit)
        if question.vector is not None and space.owner.has_vectors:
            ids = ids + deps.candidates.vectors.find_by_vector(space, question.vector, limit)
    return ids


def _join_users(spaces: Sequence[SearchSpace]) -> list[SearchSpace]:
    """Merge all spaces of the same kind and namespace into one space that has the users of all of them."""
    joined: dict[SearchSpace, SearchSpace] = {}
    for space in spaces:
        all_users = space._replace(users=None)
        merged = joined.get(all_users, space._replace(users=()))
        if merged.users is None or space.users is None:
            joined[all_users] = all_users
        else:
            joined[all_users] = space._replace(users=(*merged.users, *space.users))
    return list(joined.values())


def _sum_statistics(parts: Sequence[Statistics]) -> Statistics:
    terms = parts[0].chunks_with_term
    return Statistics(
        sum(part.chunks for part in parts), {term: sum(part.chunks_with_term[term] for part in parts) for term in terms}
    )


def _read_ids(records: Records, scope: Scope, space: SearchSpace) -> Iterator[tuple[Any, ...]]:
    where = [*_make_scope_conditions(records, scope, space), *space.owners()]
    return records.columns(space.owner.entity, scope.organization, ["id"], where)


def _read_matching(records: Records, scope: Scope, request: Request, space: SearchSpace) -> Iterator[tuple[Any, ...]]:
    """Return the ids of the records that pass the filter. With `include`, the scope is checked later, for each row."""
    conditions = resolve_filter(records, scope.organization, request.filter)
    where = [*(_make_scope_conditions(records, scope, space) if not request.include else ()), *conditions]
    if space.owner.has_column("namespace"):
        where.append(Where("namespace", Op.EQ, space.namespace))
    return records.columns(space.owner.entity, scope.organization, ["id"], where)


def _make_scope_conditions(records: Records, scope: Scope, space: SearchSpace) -> Sequence[Condition]:
    """Return the conditions for the rows of a scope. If the kind of record lacks a column of the scope, none match."""
    if space.owner.has_links:
        from everhold.ports.block_access import read_block_access

        return read_block_access(records, scope).conditions
    conditions = make_equalities(scope.confine_to(space.namespace).limits)
    return (
        conditions
        if all(space.owner.has_column(condition.field) for condition in conditions)
        else [Where("id", Op.IN, [])]
    )


def _list_few(rows: Iterator[tuple[Any, ...]]) -> list[str] | None:
    """Return the ids in the rows, or None if there are too many records to score all."""
    ids = [owner_id for (owner_id,) in islice(rows, _MAX_SCORED + 1)]
    return ids if len(ids) <= _MAX_SCORED else None


def _load_image_view(
    deps: RecallDeps, scope: Scope, request: Request, space: SearchSpace, ids: Sequence[str]
) -> ImageView:
    candidates = dict.fromkeys(ids)
    related = read_related(deps.records, space, candidates) if request.recipe.calibrated else {}
    image = Image(deps.embedder.dimensions, space.kind)
    image.extend(list(read_entries(deps.records, space, list(candidates))))
    # A memory related to a good hit is scored too, although no index may have proposed it.
    others = sorted(set().union(*related.values()) - candidates.keys())
    image.extend(list(read_entries(deps.records, space, others, space.owners())))
    image.link(related, related)
    return _make_image_view(deps.records, image, scope.confine_to(space.namespace), request, own=False)
