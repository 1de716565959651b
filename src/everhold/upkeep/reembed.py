"""Changing the embedding model of a store while it is in use.

    every memory, in the order of ids → its chunks by the new model → once more, until nothing lacks → the change

Each batch is one commit with the note of how far it went, so that a killed change goes on where it stopped. Whoever
writes a memory meanwhile writes its chunks for both models. The chunks of earlier texts are made too, so that the past
can still be asked. The old model's chunks go only after the new model serves.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from everhold import clock
from everhold.errors import BrokenReference, InvalidInput, ModelError, NotFound, StoreBusy
from everhold.model import Chunk, Job, Memory, Organization, Revision
from everhold.ports.records import Records
from everhold.schema.catalog import key_of
from everhold.schema.operations import Delete, Ensure, Op, Operation, Page, Patch, Put, Where
from everhold.upkeep.serving import Model, forget, known_models, prepare, retire, retired_models, serve

KIND = "reembed"
LEASE = timedelta(seconds=60)
_TRIES = 8
_CHECKED_AT_ONCE = 500
_DROPPED_AT_ONCE = 2000

Cut = Callable[[Sequence[Memory]], list[list[Chunk]]]
"""The chunks of each of these memories, by the new model."""


class Stopped(Exception):
    """The change was told to stop. Never leaves this package."""


@dataclass(frozen=True)
class Work:
    """A change of model: from `old`, which serves, to `new`, whose chunks `cut` makes, some memories at a time.

    `watch` is called before every batch with how many memories the batches since the last call took in, and may
    raise Stopped.
    """

    records: Records
    cut: Cut
    old: Model
    new: Model
    holder: str
    watch: Callable[[int], None]
    batch: int = 64
    keep_old: bool = False
    """Whether the old model stays beside the new one."""


class Group(NamedTuple):
    """The chunks of one text of a memory: since which revision, and from when until when it was known."""

    revision: int
    known_from: datetime
    known_to: datetime | None


def reembed(work: Work) -> None:
    """Makes all that the new model lacks, then lets it serve. StoreBusy while another process is at it."""
    work.records.commit(prepare(work.new))
    for organization in organizations(work.records):
        _walk(work, organization)
    while sum(_mend(work, organization, _CHECKED_AT_ONCE) for organization in organizations(work.records)):
        pass  # what was mended may have been revised meanwhile
    work.records.commit(serve(work.new, work.old, keep=work.keep_old))


def fill(work: Work) -> None:
    """Embed by the new model every text that it has no chunks of; the old model goes on serving."""
    while sum(_mend(work, organization, work.batch) for organization in organizations(work.records)):
        pass  # what was written meanwhile


def is_complete(records: Records, serving: Model, model: Model) -> bool:
    """Return whether a model has current chunks of every memory that the serving model has current chunks of.

    Counting is enough: revising or deleting a memory ends the chunks of all models, so none has a memory that the other
    never had.
    """
    first_current = [
        Where("owner_kind", Op.EQ, "memory"), Where("chunk_index", Op.EQ, 0), Where("known_to", Op.EQ, None)
    ]  # fmt: skip
    for organization in organizations(records):
        expected, found = (
            records.count(Chunk, organization, [Where("model", Op.EQ, name), *first_current])
            for name in (serving.name, model.name)
        )
        if found < expected:
            return False
    return known_models(records)[0].name == serving.name  # otherwise its chunks may have been deleted meanwhile


def drop_model(records: Records, name: str, written: Collection[str]) -> None:
    """Delete the chunks of a model that was kept beside the serving one. `written` are the models of this engine."""
    known = {model.name: model for model in known_models(records)}
    if name not in known:
        raise NotFound(f"no embedding model {name!r} in this store; it has {', '.join(map(repr, known))}")
    if name in written or name == next(iter(known)):
        raise InvalidInput(f"embedding model {name!r} is in use; open the store without it first")
    records.commit(retire(known[name]))
    while any(model.name == name for model in known_models(records)):
        drop_retired(records, known.keys() - {name}, lambda _: None)


def drop_retired(records: Records, kept: Collection[str], watch: Callable[[int], None]) -> None:
    """Deletes the chunks of every retired model but these, and the row of each that had none left."""
    for model in retired_models(records):
        if model.name not in kept:
            dropped = sum(_drop(records, organization, model, watch) for organization in organizations(records))
            if not dropped:
                records.commit(forget(model))


def organizations(records: Records) -> list[str]:
    return [organization.id for organization in records.scan(Organization, None, deleted=True)]


def total(records: Records) -> int:
    """How many memories there are, deleted ones too: a restored one must be found again."""
    return sum(records.count(Memory, organization, deleted=True) for organization in organizations(records))


# walking


def _walk(work: Work, organization: str) -> None:
    job = _claimed(work, organization)
    done = 0
    try:
        while True:
            work.watch(job.progress - done)
            done = job.progress
            if job.status == "done":
                return
            job = _step(work, organization, job)
    except (Stopped, ModelError):
        _note(work.records, job, {"lease_holder": None, "lease_until": None}, [])
        raise


def _step(work: Work, organization: str, job: Job) -> Job:
    """One batch: its chunks and the job's note are one commit."""
    for _ in range(_TRIES):
        where = [Where("id", Op.GT, job.state["cursor"])] if "cursor" in job.state else []
        memories = work.records.scan(Memory, organization, where, limit=work.batch, deleted=True)
        state = {"cursor": memories[-1].id} if memories else dict(job.state)
        changes: dict[str, Any] = {"progress": job.progress + len(memories), "state": state}
        if not memories:
            changes |= {"status": "done", "lease_holder": None, "lease_until": None}
        else:
            changes |= {"lease_holder": work.holder, "lease_until": clock.now() + LEASE}
        try:
            return _note(work.records, job, changes, _lacking(work, organization, memories))
        except BrokenReference:
            continue  # a memory of the batch was purged just now: read again
    raise StoreBusy(f"memories of organization {organization!r} are purged faster than they can be read; try again")


def _mend(work: Work, organization: str, batch: int) -> bool:
    """Embed what is missing, and return whether anything was. Reads everything."""
    mended, after, done = False, "", 0
    while True:
        work.watch(done)
        where = [Where("id", Op.GT, after)]
        memories = work.records.scan(Memory, organization, where, limit=batch, deleted=True)
        done = len(memories)
        if not memories:
            return mended
        operations = _lacking(work, organization, memories)
        if operations:
            mended = True
            try:
                work.records.commit(operations)
            except BrokenReference:
                continue
        after = memories[-1].id


def _lacking(work: Work, organization: str, memories: Sequence[Memory]) -> list[Operation]:
    """What makes the new model's chunks of these memories agree with the old model's."""
    ids = [memory.id for memory in memories]
    old, new = (_groups(work.records, organization, ids, model.name) for model in (work.old, work.new))
    operations: list[Operation] = []
    wanted: list[tuple[Memory, Group]] = []
    for memory in memories:
        made = {group.revision: group for group in new.get(memory.id, ())}
        for group in old.get(memory.id, ()):
            if group.revision not in made:
                wanted.append((memory, group))
            elif made[group.revision].known_to != group.known_to:
                operations += _closings(work, organization, memory.id, group)
    return operations + _chunks(work, organization, wanted)


def _groups(records: Records, organization: str, ids: Sequence[str], model: str) -> dict[str, set[Group]]:
    found: dict[str, set[Group]] = {}
    if ids:
        where = [*_chunks_of(ids), Where("model", Op.EQ, model)]
        names = ("owner_id", "revision", "known_from", "known_to")
        for owner_id, *group in records.columns(Chunk, organization, names, where):
            found.setdefault(owner_id, set()).add(Group(*group))
    return found


def _chunks_of(ids: Sequence[str]) -> list[Where]:
    return [
        Where("owner_id", Op.IN, list(ids)),
        Where("owner_kind", Op.EQ, "memory"),
        Where("namespace", Op.EQ, "long-term"),
    ]


def _closings(work: Work, organization: str, memory_id: str, group: Group) -> Iterator[Operation]:
    """A memory was revised between the reading and the writing of its chunks: they end when the old ones did."""
    where = [*_chunks_of([memory_id]), Where("model", Op.EQ, work.new.name), Where("revision", Op.EQ, group.revision)]
    for chunk in work.records.scan(Chunk, organization, where):
        yield Patch(Chunk, key_of(chunk), {"known_to": group.known_to})


def _chunks(work: Work, organization: str, wanted: Sequence[tuple[Memory, Group]]) -> list[Operation]:
    past = [memory.id for memory, group in wanted if group.known_to is not None]
    texts = _texts(work.records, organization, past)
    then: list[tuple[Memory, Group]] = []
    for memory, group in wanted:
        said = _said(memory, group, texts)
        if said is not None:
            values = {**memory.__dict__, **said, "revision": group.revision, "updated_at": group.known_from}
            then.append((Memory.trusted(values), group))
    rows = work.cut([memory for memory, _ in then]) if then else []
    return [
        Ensure(Chunk.trusted({**chunk.__dict__, "known_to": group.known_to}))
        for (_, group), own in zip(then, rows, strict=True)
        for chunk in own
    ]


def _said(memory: Memory, group: Group, texts: Mapping[tuple[str, int], dict[str, Any]]) -> dict[str, Any] | None:
    """What the memory said then. None if that is no longer known, or is not what was just read."""
    if group.known_to is not None:
        return texts.get((memory.id, group.revision))
    return {"text": memory.text, "aliases": memory.aliases} if group.revision <= memory.revision else None


def _texts(records: Records, organization: str, ids: Sequence[str]) -> dict[tuple[str, int], dict[str, Any]]:
    if not ids:
        return {}
    where = [Where("owner_kind", Op.EQ, "memory"), Where("owner_id", Op.IN, list(dict.fromkeys(ids)))]
    found = records.columns(Revision, organization, ("owner_id", "revision", "value"), where, deleted=True)
    return {
        (owner_id, revision): {"text": value["text"], "aliases": value["aliases"]}
        for owner_id, revision, value in found
    }


# the job's row


def _claimed(work: Work, organization: str) -> Job:
    """The organization's job of this very change, now ours; made if there is none. StoreBusy if it is another's."""
    parameters = {"old": work.old.name, "new": work.new.name, "change": work.old.generation}
    jobs = work.records.scan(Job, organization, [Where("kind", Op.EQ, KIND)])
    mine = [job for job in jobs if job.parameters == parameters]
    now = clock.now()
    lease: dict[str, Any] = {"lease_holder": work.holder, "lease_until": now + LEASE}
    if not mine:
        job = Job(
            id=f"{KIND}-{work.old.generation}-{work.new.name}".replace("/", "-").replace(" ", "-"),
            organization_id=organization,
            created_at=now,
            updated_at=now,
            kind=KIND,
            status="running",
            parameters=parameters,
            total=work.records.count(Memory, organization, deleted=True),
            **lease,
        )
        work.records.commit([Put(job)])
        return job
    job = mine[0]
    if job.status == "done":
        return job
    if job.lease_holder not in (None, work.holder) and job.lease_until is not None and job.lease_until > now:
        raise StoreBusy(f"{job.lease_holder} is changing the model to {work.new.name!r}; try again in a minute")
    return _note(work.records, job, lease, [])


def _note(records: Records, job: Job, changes: dict[str, Any], operations: Sequence[Operation]) -> Job:
    """The job with other values, stored in the commit of these operations. StaleVersion if somebody took it over."""
    changes = {**changes, "updated_at": clock.now()}
    key = (job.organization_id, job.id)
    records.commit([*operations, Patch(Job, key, changes, version=job.version)])
    return job.evolve(**changes, version=job.version + 1)


# dropping


def _drop(records: Records, organization: str, model: Model, watch: Callable[[int], None]) -> bool:
    """Deletes every chunk of a model, in the order of keys. Whether there was any."""
    after: Page | None = None
    where = [Where("model", Op.EQ, model.name), Where("owner_kind", Op.EQ, "memory")]
    while True:
        watch(0)
        chunks = records.scan(Chunk, organization, where, after=after, limit=_DROPPED_AT_ONCE)
        if not chunks:
            return after is not None
        records.commit([Delete(Chunk, key_of(chunk)) for chunk in chunks])
        after = Page(None, key_of(chunks[-1]))
