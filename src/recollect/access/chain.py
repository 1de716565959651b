"""Chaining the access log so that a changed, removed or added line is noticed.

Writers only add lines, each with a digest of what must not change. A sealer comes after them and chains what has been
committed: per organization every line gets a place, the hash of the line before it, and a hash over both and its
digest. Nobody waits for it.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from recollect import clock
from recollect.errors import AlreadyExists, StaleVersion, StoreReadOnly
from recollect.model import AccessLog, Job, ProjectionState
from recollect.model.access import digest_of
from recollect.ports.records import Records
from recollect.schema.operations import Ensure, Op, Operation, Page, Patch, Where

_START = bytes(32)
_BATCH = 1000
_PROJECTION = "seal"
_CHAIN = "access-log"
_SETTLED = timedelta(minutes=5)


@dataclass(frozen=True)
class Verification:
    """Whether an organization's log is as it was written, and if not, at which place and why."""

    lines: int
    intact: bool
    broken_at: int | None = None
    reason: str | None = None


def seal(records: Records) -> int:
    """Chains every committed line that is not chained yet; returns how many it chained."""
    sealed = 0
    while True:
        heads = {line.organization_id: None for line in _unsealed(records)[0]}
        chains = [_chain(records, organization) for organization in heads]
        # read again, now that the ends of the chains are known: who was quicker is noticed when an end has moved
        lines, reach = _unsealed(records)
        if not lines:
            return sealed
        try:
            records.commit(_seals(chains, lines, reach))
        except (AlreadyExists, StaleVersion):
            return sealed  # another process is sealing: one is enough
        sealed += len(lines)
        if len(lines) < _BATCH:
            return sealed


def _unsealed(records: Records) -> tuple[list[AccessLog], int]:
    """Lines to chain, and the number below which no more will appear."""
    passed = _passed(records)
    where = [Where("sequence", Op.GT, passed), Where("sealed", Op.EQ, None)]
    lines = records.scan(AccessLog, None, where, order="sequence", limit=_BATCH)
    if records.traits.ordered:
        return lines, lines[-1].sequence if lines else passed
    settled = [line.sequence for line in lines if line.timestamp < clock.now() - _SETTLED]
    return lines, max(settled, default=passed)


def _seals(chains: Sequence[Job], lines: Iterable[AccessLog], reach: int) -> list[Operation]:
    ends = {chain.organization_id: (chain.progress, _end_hash(chain)) for chain in chains}
    operations: list[Operation] = []
    for line in lines:
        if line.organization_id in ends:
            place, before = ends[line.organization_id]
            hashed = _hash(before, place + 1, line.digest)
            changes = {"sealed": place + 1, "previous_hash": before, "hash": hashed}
            operations.append(Patch(AccessLog, (line.sequence,), changes))
            ends[line.organization_id] = (place + 1, hashed)
        else:
            reach = min(reach, line.sequence - 1)  # an organization that has just begun; its turn comes next
    for chain in chains:
        place, hashed = ends[chain.organization_id]
        changes = {"progress": place, "state": {"hash": hashed.hex()}, "updated_at": clock.now()}
        operations += [
            Ensure(chain),
            Patch(Job, (chain.organization_id, chain.id), changes, version=chain.version),
        ]
    return [
        *operations,
        Ensure(ProjectionState(projection=_PROJECTION)),
        Patch(ProjectionState, (_PROJECTION,), {"applied_sequence": reach}),
    ]


def _chain(records: Records, organization: str) -> Job:
    """Where an organization's chain ends: its length, and the hash of its last line."""
    found = records.get(Job, organization, [_CHAIN], deleted=True).get(_CHAIN)
    now = clock.now()
    return found or Job(id=_CHAIN, organization_id=organization, created_at=now, updated_at=now, kind=_PROJECTION)


def _end_hash(chain: Job) -> bytes:
    return bytes.fromhex(chain.state["hash"]) if chain.progress else _START


def _hash(previous: bytes, place: int, digest: bytes) -> bytes:
    """Without the number that the store has drawn: a store that the log is moved into draws its own."""
    return hashlib.sha256(previous + place.to_bytes(8) + digest).digest()


def _passed(records: Records) -> int:
    """The number up to which every line has been chained."""
    found = records.scan(ProjectionState, None, [Where("projection", Op.EQ, _PROJECTION)], limit=1)
    return found[0].applied_sequence if found else 0


def verify(records: Records, organization: str) -> Verification:
    """Seals what is open, then walks the whole chain; once more if somebody sealed meanwhile."""
    while True:
        with suppress(StoreReadOnly):
            seal(records)
        before = _chain(records, organization)
        found = _walk(before, _passed(records), _lines(records, organization))
        if _chain(records, organization).version == before.version:
            return found


def _lines(records: Records, organization: str) -> Iterator[AccessLog]:
    after: Page | None = None
    while True:
        page = records.scan(AccessLog, organization, order="sequence", after=after, limit=_BATCH)
        yield from page
        if len(page) < _BATCH:
            return
        after = Page(page[-1].sequence, (page[-1].sequence,))


def _walk(chain: Job, passed: int, lines: Iterable[AccessLog]) -> Verification:
    links: dict[int, AccessLog] = {}
    for line in lines:
        if digest_of(line.__dict__) != line.digest or not _names_what_it_named(line):
            return Verification(len(links), False, line.sealed, f"line {line.sequence} was changed")
        if line.sealed is not None:
            links[line.sealed] = line
        elif line.sequence <= passed:
            return Verification(len(links), False, None, f"line {line.sequence} was added from outside")
    before = _START
    for place in range(1, max([chain.progress, *links], default=0) + 1):
        if place not in links:
            return Verification(len(links), False, place, f"line {place} of the chain was removed")
        line = links[place]
        if line.previous_hash != before or line.hash != _hash(before, place, line.digest):
            return Verification(
                len(links), False, place, f"line {place} of the chain does not follow the one before it"
            )
        before = line.hash
    if len(links) != chain.progress or before != _end_hash(chain):
        return Verification(len(links), False, chain.progress + 1, "a line was added to the chain from outside")
    return Verification(len(links), True)


def _names_what_it_named(line: AccessLog) -> bool:
    """A line may forget a memory or session that was purged, but not name another."""
    named = ((line.memory_id, "memory"), (line.session_id, "session"))
    return all(mentioned is None or mentioned == line.request.get(word) for mentioned, word in named)
