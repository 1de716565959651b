"""The heads of the access log's hash chains: one per organization in the store, and a signed copy outside of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from everhold import clock
from everhold.model import LogHead
from everhold.model.housekeeping import LOG_HEAD
from everhold.ports.keys import Key
from everhold.ports.records import Records
from everhold.schema.operations import Ensure, Operation, Patch


@dataclass(frozen=True)
class SignedHead:
    """The length and the last hash of an organization's chain at the time of signing.

    The first `unsigned` lines were written before the engine had a key and have no signature.
    """

    organization: str
    length: int
    hash: bytes
    unsigned: int
    signed_at: datetime


class SignedHeads(Protocol):
    """A place for signed heads outside the store."""

    @property
    def key(self) -> Key: ...

    @property
    def place(self) -> str:
        """The location of the heads, for reports."""
        ...

    def read(self, organization: str) -> SignedHead | None:
        """Return the organization's signed head; None if there is none. Raise StoreDamaged if its signature is
        invalid."""
        ...

    def write(self, head: SignedHead, *, shorten: bool = False) -> None:
        """Replace the organization's head durably. A head of a longer chain stays unless `shorten` is set."""
        ...

    def list_organizations(self) -> list[str]:
        """Return the organizations that have a readable signed head."""
        ...


def read_log_head(records: Records, organization: str) -> LogHead:
    """Return the head of the organization's chain; a chain without lines has length 0."""
    head = records.get(LogHead, organization, [LOG_HEAD], deleted=True).get(LOG_HEAD)
    now = clock.now()
    return head or LogHead(id=LOG_HEAD, organization_id=organization, created_at=now, updated_at=now)


def encode_purge(head: LogHead) -> tuple[bytes, bytes, bytes]:
    """Return the values that are signed for a purge, as bytes."""
    return head.organization_id.encode(), head.purged.to_bytes(8), head.purged_hash or b""


def record_log_purge(records: Records, organization: str) -> list[Operation]:
    """Return the operations that record the purge of an organization's log. They belong in the commit of the purge.

    That commit raises StaleVersion if lines were added to the chain in the meantime.
    """
    head = read_log_head(records, organization)
    if head.length == head.purged:
        return []
    changes = {"purged": head.length, "purged_hash": head.hash, "purge_signature": None, "updated_at": clock.now()}
    return [Ensure(head), Patch(LogHead, (organization, LOG_HEAD), changes, version=head.version)]
