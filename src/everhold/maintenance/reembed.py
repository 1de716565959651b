"""Change the embedding model of a store while it is in use.

    embed every entity in the order of ids → repair until nothing is missing → let the new model serve

Each batch commits its chunks together with the progress of the job, so a killed change continues where it stopped.
Memories that are written during the change get chunks of both models. Earlier texts of memories get chunks too, so
that recall "as of" a past time still works. The old model's chunks are deleted only after the new model serves.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from everhold import clock
from everhold.errors import BrokenReference, InvalidInput, NotFound, StoreBusy, format_value
from everhold.maintenance.serving import (
    delete_model,
    list_models,
    list_unused_models,
    register_model,
    retire_model,
    switch_serving_model,
)
from everhold.model import Chunk, EmbeddingModel, Job, Memory, Organization, Revision
from everhold.model.announcement import make_announcement
from everhold.model.base import Entity
from everhold.model.searchable import SEARCHABLE, Searchable
from everhold.ports.leases import HeldLease, hold_lease
from everhold.ports.records import Records
from everhold.progress import ReportProgress, StepCounter, ignore_progress
from everhold.retries import RetryPolicy, retry
from everhold.schema.catalog import get_key
from everhold.schema.operations import Delete, Ensure, Op, Operation, Page, Patch, Put, Where

KIND = "reembed"
logger = logging.getLogger(__name__)

_RETRIES = RetryPolicy(attempts=8)  # no pauses, because the next attempt reads the rows without the purged one
_CHECK_BATCH = 500  # entities whose chunks are compared at a time
_DELETE_BATCH = 2000  # chunks of a retired model that are deleted in one commit

# Returns the chunks of each of these entities, which are of one kind, by the new model.
MakeChunks = Callable[[Sequence[Entity]], list[list[Chunk]]]

_FIRST_CURRENT = (Where("chunk_index", Op.EQ, 0), Where("known_to", Op.EQ, None))
_KINDS = [searchable for searchable in SEARCHABLE.values() if searchable.has_vectors]
_KIND_NAMES = [searchable.kind for searchable in _KINDS]


class Stopped(Exception):
    """Raised to stop the change. Callers outside this package never see it."""


@dataclass(frozen=True)
class ReembedWork:
    """A change from the model `old`, which serves, to the model `new`, whose chunks `make_chunks` makes.

    `watch` is called before every batch with the number of memories done since the last call, and may raise Stopped.
    """

    records: Records
    make_chunks: MakeChunks
    old: EmbeddingModel
    new: EmbeddingModel
    watch: Callable[[int], None]
    batch: int = 64
    keep_old: bool = False
    """Whether the old model stays beside the new one."""
    from_any: bool = False
    """Whether to embed everything that has chunks of any model, not only of the old one."""


class ChunkGroup(NamedTuple):
    """The chunks of one version of a memory's text: its revision, and the time in which it was known."""

    revision: int
    known_from: datetime
    known_to: datetime | None


def reembed(work: ReembedWork) -> None:
    """Make the missing chunks of the new model, then let it serve; raise StoreBusy if another process does so."""
    work.records.commit(register_model(work.new))
    for organization in list_organizations(work.records):
        _embed_organization(work, organization)
    while sum(_repair(work, organization, _CHECK_BATCH) for organization in list_organizations(work.records)):
        pass  # memories may have been revised during the last repair
    work.records.commit(switch_serving_model(work.new, work.old, keep_previous=work.keep_old))
    logger.info("model %r serves instead of %r", work.new.name, work.old.name)


def fill(work: ReembedWork) -> None:
    """Make the missing chunks of the new model, while the old model continues to serve."""
    while sum(
        _repair(work, organization, work.batch, announce=True) for organization in list_organizations(work.records)
    ):
        pass  # memories may have been written during the last repair


def fill_imported(
    records: Records,
    organization: str,
    make_chunks: MakeChunks,
    model: EmbeddingModel,
    report: ReportProgress = ignore_progress,
) -> int:
    """Embed by a model every entity that has only chunks of other models; return the number of these entities."""
    before = _count_current(records, organization, model)
    if before == records.count(Chunk, organization, _FIRST_CURRENT):  # all chunks are of this model
        return 0
    counter = StepCounter(report, "embedding", _count(records, organization))
    work = ReembedWork(records, make_chunks, model, model, counter.add, from_any=True)
    while _repair(work, organization, work.batch, announce=True):
        pass  # memories may have been written during the last repair
    return _count_current(records, organization, model) - before


def _count_current(records: Records, organization: str, model: EmbeddingModel) -> int:
    """Return how many entities have current chunks of a model."""
    return records.count(Chunk, organization, [Where("model", Op.EQ, model.name), *_FIRST_CURRENT])


def is_complete(records: Records, serving: EmbeddingModel, model: EmbeddingModel) -> bool:
    """Return whether a model has current chunks of every entity of which the serving model has current chunks.

    Comparing counts is enough: revising or deleting an entity ends the chunks of all models, so the other model never
    has current chunks of an entity that the serving one lacks.
    """
    for organization in list_organizations(records):
        expected = _count_current(records, organization, serving)
        if _count_current(records, organization, model) < expected:
            return False
    return list_models(records)[0].name == serving.name  # otherwise its chunks may have been deleted


def drop_model(records: Records, name: str, written: Collection[str]) -> None:
    """Delete the chunks of a model that was kept beside the serving one.

    `written` are the names of the models for which this engine writes chunks. They are refused.
    """
    models = {model.name: model for model in list_models(records)}
    if name not in models:
        names = ", ".join(map(repr, models))
        raise NotFound(
            f"no embedding model {format_value(name)} in this store", value=name, remedy=f"choose from {names}"
        )
    if name in written or name == next(iter(models)):
        raise InvalidInput(f"embedding model {name!r} is in use", value=name, remedy="open the store without it first")
    records.commit(retire_model(models[name]))
    while any(model.name == name for model in list_models(records)):
        drop_retired(records, models.keys() - {name}, lambda _: None)


def drop_retired(records: Records, kept_names: Collection[str], watch: Callable[[int], None]) -> None:
    """Delete the chunks of all retired models except `kept_names`, and the rows of models without any chunks."""
    for model in list_unused_models(records):
        if model.name not in kept_names:
            deletions = [_delete_chunks(records, name, model, watch) for name in list_organizations(records)]
            # A late writer may have added chunks during the deletion, so the row goes only after an empty pass.
            if not any(deletions):
                records.commit(delete_model(model))


def list_organizations(records: Records) -> list[str]:
    return [organization.id for organization in records.scan(Organization, None, deleted=True)]


def count_all(records: Records) -> int:
    """Return how many searchable entities there are. Deleted ones count, because a restored one must be found again."""
    return sum(_count(records, organization) for organization in list_organizations(records))


def _count(records: Records, organization: str) -> int:
    return sum(records.count(kind.entity, organization, deleted=True) for kind in _KINDS)


# embedding


def _embed_organization(work: ReembedWork, organization: str) -> None:
    """Embed an organization's memories, batch by batch; raise StoreBusy if another process does so."""
    job = _find_job(work, organization)
    with hold_lease(work.records, KIND, organization) as lease:
        if lease is None and (job is None or job.status != "done"):
            fact = f"another process is embedding organization {organization!r} again"
            raise StoreBusy(fact, value=organization, remedy="try again in a minute")
        if job is not None and job.status != "done":
            logger.info("resuming to embed an organization again, at %d rows", job.progress)
        job = _find_job(work, organization) or _add_job(work, organization)
        done = 0
        while True:
            work.watch(job.progress - done)
            done = job.progress
            if job.status == "done" or lease is None:
                return
            job = _embed_batch(work, lease, organization, job)


def _embed_batch(work: ReembedWork, lease: HeldLease, organization: str, job: Job) -> Job:
    """Embed one batch; its chunks and the job's progress are one commit."""

    def embed_batch(_: int) -> Job:
        index = _KIND_NAMES.index(job.state.get("kind", _KIND_NAMES[0]))
        where = [Where("id", Op.GT, job.state["cursor"])] if "cursor" in job.state else []
        owners = work.records.scan(_KINDS[index].entity, organization, where, limit=work.batch, deleted=True)
        changes: dict[str, Any] = {"progress": job.progress + len(owners)}
        if owners:
            changes["state"] = {"kind": _KIND_NAMES[index], "cursor": owners[-1].id}
        elif index + 1 < len(_KINDS):
            changes["state"] = {"kind": _KIND_NAMES[index + 1]}
        else:
            changes["status"] = "done"
        return _record_progress(lease, job, changes, _make_missing_chunks(work, organization, _KINDS[index], owners))

    busy = StoreBusy(
        f"rows of organization {organization!r} are purged faster than they can be read",
        value=organization,
        remedy="try again",
    )
    # BrokenReference means that a row of the batch was purged after it was read.
    return retry("embed a batch of rows", embed_batch, _RETRIES, on=BrokenReference, give_up=lambda _: busy)


def _repair(work: ReembedWork, organization: str, batch: int, *, announce: bool = False) -> bool:
    """Read the whole organization, embed what is missing, and return whether anything was missing.

    `announce` adds lines to the change feed, for processes that already search by the model.
    """
    return sum(_repair_kind(work, organization, kind, batch, announce=announce) for kind in _KINDS) > 0


def _repair_kind(work: ReembedWork, organization: str, kind: Searchable, batch: int, *, announce: bool) -> bool:
    has_repaired, after, done = False, "", 0
    while True:
        work.watch(done)
        where = [Where("id", Op.GT, after)]
        owners = work.records.scan(kind.entity, organization, where, limit=batch, deleted=True)
        done = len(owners)
        if not owners:
            return has_repaired
        operations = _make_missing_chunks(work, organization, kind, owners)
        if operations:
            has_repaired = True
            changed_ids = {
                operation.row.__dict__["owner_id"] for operation in operations if isinstance(operation, Ensure)
            }
            lines = [
                Put(make_announcement(owner, "reindex")) for owner in owners if announce and owner.id in changed_ids
            ]
            try:
                work.records.commit([*operations, *lines])
            except BrokenReference:
                continue  # an owner was purged after it was read: read the same batch again
        after = owners[-1].id


def _make_missing_chunks(
    work: ReembedWork, organization: str, kind: Searchable, owners: Sequence[Entity]
) -> list[Operation]:
    """Return the operations that make the new model's chunks of these entities match the old model's."""
    if not owners:
        return []
    chunks = _make_chunk_conditions(kind, [owner.id for owner in owners])
    groups_of_old = _group_chunks(work.records, organization, chunks, None if work.from_any else work.old.name)
    groups_of_new = _group_chunks(work.records, organization, chunks, work.new.name)
    operations: list[Operation] = []
    missing_groups: list[tuple[Entity, ChunkGroup]] = []
    for owner in owners:
        group_by_revision = {group.revision: group for group in groups_of_new.get(owner.id, ())}
        for group in groups_of_old.get(owner.id, ()):
            if group.revision not in group_by_revision:
                missing_groups.append((owner, group))
            elif group_by_revision[group.revision].known_to != group.known_to:
                operations += _make_closings(work, organization, _make_chunk_conditions(kind, [owner.id]), group)
    return operations + _make_chunks(work, organization, missing_groups)


def _group_chunks(
    records: Records, organization: str, chunks: Sequence[Where], model: str | None
) -> dict[str, set[ChunkGroup]]:
    """Return the chunk groups of each entity, of one model or, if `model` is None, of all models."""
    groups: dict[str, set[ChunkGroup]] = {}
    names = ("owner_id", "revision", "known_from", "known_to")
    where = chunks if model is None else [*chunks, Where("model", Op.EQ, model)]
    for owner_id, *group in records.columns(Chunk, organization, names, where):
        groups.setdefault(owner_id, set()).add(ChunkGroup(*group))
    return groups


def _make_chunk_conditions(kind: Searchable, ids: Sequence[str]) -> list[Where]:
    return [Where("owner_id", Op.IN, list(ids)), Where("owner_kind", Op.EQ, kind.kind)]


def _make_closings(
    work: ReembedWork, organization: str, chunks: Sequence[Where], group: ChunkGroup
) -> Iterator[Operation]:
    """Yield patches that end the new chunks when the old ones ended: the entity was revised while it was embedded."""
    where = [*chunks, Where("model", Op.EQ, work.new.name), Where("revision", Op.EQ, group.revision)]
    for chunk in work.records.scan(Chunk, organization, where):
        yield Patch(Chunk, get_key(chunk), {"known_to": group.known_to})


def _make_chunks(
    work: ReembedWork, organization: str, missing_groups: Sequence[tuple[Entity, ChunkGroup]]
) -> list[Operation]:
    past = [owner.id for owner, group in missing_groups if group.known_to is not None]
    texts = _read_texts(work.records, organization, past)
    versions: list[tuple[Entity, ChunkGroup]] = []
    for owner, group in missing_groups:
        earlier_values = _find_earlier_values(owner, group, texts)
        if earlier_values is not None:
            values = {**owner.__dict__, **earlier_values, "updated_at": group.known_from}
            versions.append((type(owner).build_unchecked(values), group))
    chunk_lists = work.make_chunks([owner for owner, _ in versions]) if versions else []
    return [
        Ensure(Chunk.build_unchecked({**chunk.__dict__, "known_to": group.known_to}))
        for (_, group), chunks in zip(versions, chunk_lists, strict=True)
        for chunk in chunks
    ]


def _find_earlier_values(
    owner: Entity, group: ChunkGroup, texts: Mapping[tuple[str, int], dict[str, Any]]
) -> dict[str, Any] | None:
    """Return the fields that differed in the group's version; None if they are unknown or newer than `owner`."""
    if not isinstance(owner, Memory):  # only memories have revisions
        return {} if group.known_to is None else None
    if group.known_to is not None:
        return texts.get((owner.id, group.revision))
    return {"revision": group.revision} if group.revision <= owner.revision else None


def _read_texts(records: Records, organization: str, ids: Sequence[str]) -> dict[tuple[str, int], dict[str, Any]]:
    if not ids:
        return {}
    where = [Where("owner_kind", Op.EQ, "memory"), Where("owner_id", Op.IN, list(dict.fromkeys(ids)))]
    revisions = records.columns(Revision, organization, ("owner_id", "revision", "value"), where, deleted=True)
    return {
        (owner_id, revision): {"text": value["text"], "aliases": value["aliases"], "revision": revision}
        for owner_id, revision, value in revisions
    }


# the job's row


def _find_job(work: ReembedWork, organization: str) -> Job | None:
    """Return the organization's job of this change, or None."""
    jobs = work.records.scan(Job, organization, [Where("kind", Op.EQ, KIND)])
    return next((job for job in jobs if job.parameters == _make_parameters(work)), None)


def _make_parameters(work: ReembedWork) -> dict[str, Any]:
    return {"old": work.old.name, "new": work.new.name, "change": work.old.generation}


def _add_job(work: ReembedWork, organization: str) -> Job:
    now = clock.now()
    job = Job(
        id=f"{KIND}-{work.old.generation}-{work.new.name}".replace("/", "-").replace(" ", "-"),
        organization_id=organization,
        created_at=now,
        updated_at=now,
        kind=KIND,
        status="running",
        parameters=_make_parameters(work),
        total=_count(work.records, organization),
    )
    work.records.commit([Put(job)])
    return job


def _record_progress(lease: HeldLease, job: Job, changes: dict[str, Any], operations: Sequence[Operation]) -> Job:
    """Commit operations and the job's new values; raise StaleVersion if another process has taken over."""
    changes = {**changes, "updated_at": clock.now()}
    lease.commit([*operations, Patch(Job, (job.organization_id, job.id), changes, version=job.version)])
    return job.evolve(**changes, version=job.version + 1)


# deleting the chunks of a model


def _delete_chunks(records: Records, organization: str, model: EmbeddingModel, watch: Callable[[int], None]) -> bool:
    """Delete every chunk of a model in the order of keys; return whether there was any."""
    after: Page | None = None
    where = [Where("model", Op.EQ, model.name)]
    while True:
        watch(0)
        chunks = records.scan(Chunk, organization, where, after=after, limit=_DELETE_BATCH)
        if not chunks:
            return after is not None
        records.commit([Delete(Chunk, get_key(chunk)) for chunk in chunks])
        after = Page(None, get_key(chunks[-1]))
