"""Chaining the access log so that a changed, removed or added line is noticed.

Writers only add lines, each with a digest of what must not change. A sealer comes after them and chains what has been
committed: per organization every line gets a place, the hash of the line before it, and a hash over both and its
digest. Nobody waits for it.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from recollect import clock
from recollect.errors import AlreadyExists, StaleVersion
from recollect.model import AccessLog, ProjectionState
from recollect.model.access import digest_of
from recollect.ports.records import Records
from recollect.schema.operations import Ensure, Op, Operation, Page, Patch, Where

_START = bytes(32)
_BATCH = 1000
_PROJECTION = "seal"
_SETTLED = timedelta(minutes=5)


@dataclass(frozen=True)
class Verification:
    """Whether an organization's log is as it was written, and if not, at which place and why."""

    lines: int
    intact: bool
    broken_at: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class _Head:
    """The end of one organization's chain."""

    place: int = 0
    hash: bytes = field(default=_START, repr=False)


def seal(records: Records) -> int:
    """Chains every committed line that is not chained yet; returns how many it chained."""
    sealed = 0
    while True:
        lines, reach = _unsealed(records)
        if not lines:
            return sealed
        try:
            records.commit(_seals(records, lines, reach))
        except (AlreadyExists, StaleVersion):
            return sealed  # another process is sealing: one is enough
        sealed += len(lines)
        if len(lines) < _BATCH:
            return sealed


def _unsealed(records: Records) -> tuple[list[AccessLog], int]:
    """Lines to chain, and the number below which no more will appear."""
    state = _state(records, _PROJECTION)
    passed = state.applied_sequence if state else 0
    where = [Where("sequence", Op.GT, passed), Where("sealed", Op.EQ, None)]
    lines = records.scan(AccessLog, None, where, order="sequence", limit=_BATCH)
    if records.traits.ordered:
        return lines, lines[-1].sequence if lines else passed
    settled = [line.sequence for line in lines if line.timestamp < clock.now() - _SETTLED]
    return lines, max(settled, default=passed)


def _seals(records: Records, lines: Iterable[AccessLog], reach: int) -> list[Operation]:
    heads: dict[str, _Head] = {}
    operations: list[Operation] = []
    for line in lines:
        organization = line.organization_id
        head = heads.get(organization) or _head(records, organization)
        hashed = _hash(head.hash, head.place + 1, line.digest)
        changes = {"sealed": head.place + 1, "previous_hash": head.hash, "hash": hashed}
        operations.append(Patch(AccessLog, (line.sequence,), changes))
        heads[organization] = _Head(head.place + 1, hashed)
    for organization, head in heads.items():
        operations += _move(f"{_PROJECTION}/{organization}", head.place)
    return [*operations, *_move(_PROJECTION, reach)]


def _move(projection: str, reach: int) -> list[Operation]:
    return [
        Ensure(ProjectionState(projection=projection)),
        Patch(ProjectionState, (projection,), {"applied_sequence": reach}),
    ]


def _state(records: Records, projection: str) -> ProjectionState | None:
    found = records.scan(ProjectionState, None, [Where("projection", Op.EQ, projection)], limit=1)
    return found[0] if found else None


def _head(records: Records, organization: str) -> _Head:
    state = _state(records, f"{_PROJECTION}/{organization}")
    if state is None or state.applied_sequence == 0:
        return _Head()
    last = records.scan(AccessLog, organization, [Where("sealed", Op.EQ, state.applied_sequence)], limit=1)
    return _Head(state.applied_sequence, last[0].hash if last and last[0].hash else _START)


def _hash(previous: bytes, place: int, digest: bytes) -> bytes:
    return hashlib.sha256(previous + place.to_bytes(8) + digest).digest()


def verify(records: Records, organization: str) -> Verification:
    """Seals what is open, then walks the whole chain."""
    seal(records)
    links: dict[int, tuple[bytes, bytes, bytes]] = {}
    after: Page | None = None
    while True:
        page = records.scan(AccessLog, organization, order="sequence", after=after, limit=_BATCH)
        for line in page:
            if digest_of(line.__dict__) != line.digest:
                return Verification(len(links), False, line.sealed, f"line {line.sequence} was changed")
            if line.sealed is not None:
                links[line.sealed] = (line.previous_hash or b"", line.hash or b"", line.digest)
        if len(page) < _BATCH:
            return _walk(records, organization, links)
        after = Page(page[-1].sequence, (page[-1].sequence,))


def _walk(records: Records, organization: str, links: dict[int, tuple[bytes, bytes, bytes]]) -> Verification:
    state = _state(records, f"{_PROJECTION}/{organization}")
    expected = state.applied_sequence if state else 0
    before = _START
    for place in range(1, max([expected, *links]) + 1):
        if place not in links:
            return Verification(len(links), False, place, f"line {place} of the chain was removed")
        previous, hashed, digest = links[place]
        if previous != before or hashed != _hash(previous, place, digest):
            return Verification(
                len(links), False, place, f"line {place} of the chain does not follow the one before it"
            )
        before = hashed
    if len(links) != expected:
        return Verification(len(links), False, expected + 1, "a line was added to the chain from outside")
    return Verification(len(links), True)
