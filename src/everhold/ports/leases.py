"""Who does which work, where several processes keep house at once: one holder at a time for each piece of it.

A lease is a row among the projection states, `<name>/<number>`, with its holder and when it ends or ended. It is taken
by replacing that row with the next number in one commit, which fails if the row is gone: of two who try, the store lets
one, however late the other comes. The first number is added together with `<name>/0`, which stays for ever, so no
number comes twice. A holder that dies lets the lease run out. Work that is committed together with `kept` fails if the
lease has meanwhile gone to another, so that nothing is done twice.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

from everhold import clock
from everhold.errors import AlreadyExists, StaleVersion
from everhold.interrupts import uninterrupted
from everhold.model import ProjectionState
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Ensure, Op, Operation, Patch, Put, Where

PREFIX = "lease/"
LASTS = timedelta(seconds=60)
LASTS_LONG = timedelta(minutes=10)
"""For work whose single steps may take long."""
_LONGEST = 150


@dataclass(frozen=True)
class Lease:
    """The right to do a piece of work until a time that every commit of it puts off."""

    projection: str
    lasts: timedelta

    def kept(self) -> Operation:
        """Puts the end off. StaleVersion if the lease has gone to another."""
        return Patch(ProjectionState, (self.projection,), {"lease_until": clock.now() + self.lasts})

    def ended(self) -> Operation:
        """Gives it back, likewise."""
        return Patch(ProjectionState, (self.projection,), {"lease_holder": None, "lease_until": clock.now()})


@contextmanager
def leased(records: Records, work: str, part: str = "", lasts: timedelta = LASTS) -> Iterator[Lease | None]:
    """The lease of a piece of work, given back afterwards; None while another holds it."""
    lease = None
    try:
        with uninterrupted:  # an interrupt is raised after the assignment, so that the lease is given back
            lease = take(records, f"{PREFIX}{work}/{_short(part)}", lasts)
        yield lease
    finally:
        if lease is not None:
            with uninterrupted, suppress(StaleVersion):
                records.commit([lease.ended()])


def take(records: Records, name: str, lasts: timedelta) -> Lease | None:
    """The lease of this name; None while another holds it."""
    now = clock.now()
    rows = _rows(records, name)
    number = max(rows, default=0)
    if number and (ends := rows[number].lease_until) is not None and ends > now:
        return None
    lease = Lease(f"{name}/{number + 1}", lasts)
    row = ProjectionState(projection=lease.projection, lease_holder=clock.make_id("run"), lease_until=now + lasts)
    try:
        records.commit([*_replaced(name, number), Put(row)])
    except (AlreadyExists, StaleVersion):
        return None
    return lease


def _replaced(name: str, number: int) -> list[Operation]:
    """Takes the last number away, or begins. Fails if somebody else has done so."""
    begun = ProjectionState(projection=f"{name}/0")
    if not number:
        return [Put(begun)]
    last = (f"{name}/{number}",)
    return [Ensure(begun), Patch(ProjectionState, last, {"lease_holder": None}), Delete(ProjectionState, last)]


def _rows(records: Records, name: str) -> dict[int, ProjectionState]:
    where = [Where("projection", Op.GE, f"{name}/"), Where("projection", Op.LT, f"{name}/~")]
    found = records.scan(ProjectionState, None, where)
    return {int(row.projection.rpartition("/")[2]): row for row in found}


def _short(part: str) -> str:
    return part if len(part) <= _LONGEST else hashlib.sha256(part.encode()).hexdigest()
