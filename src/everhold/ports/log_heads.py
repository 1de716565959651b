"""The heads of the access log's chains: one per organization in the store, and a signed copy outside of it."""

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
    """How long an organization's chain was, and its last hash, when it was signed.

    The first `unsigned` lines were written before there was a key and carry no signature of their own.
    """

    organization: str
    length: int
    hash: bytes
    unsigned: int
    signed_at: datetime


class SignedHeads(Protocol):
    """Signed heads, kept outside the store."""

    @property
    def key(self) -> Key: ...

    @property
    def place(self) -> str:
        """Where the heads are kept, for reports."""
        ...

    def read(self, organization: str) -> SignedHead | None:
        """Return the organization's signed head. StoreDamaged if this key has not signed what is there."""
        ...

    def write(self, head: SignedHead, *, shorten: bool = False) -> None:
        """Replace the organization's head, durably. A longer one is left in place unless `shorten` is set."""
        ...

    def list_organizations(self) -> list[str]:
        """Return the organizations that have a readable signed head."""
        ...


def read_log_head(records: Records, organization: str) -> LogHead:
    """Return where the organization's chain ends; a chain that has not begun has length 0."""
    head = records.get(LogHead, organization, [LOG_HEAD], deleted=True).get(LOG_HEAD)
    now = clock.now()
    return head or LogHead(id=LOG_HEAD, organization_id=organization, created_at=now, updated_at=now)


def encode_purge(head: LogHead) -> tuple[bytes, bytes, bytes]:
    """Return the values that the signature of a purge covers, as bytes."""
    return head.organization_id.encode(), head.purged.to_bytes(8), head.purged_hash or b""


def record_log_purge(records: Records, organization: str) -> list[Operation]:
    """Return the operations that record the purge of an organization's log, for the commit that purges it.

    StaleVersion on commit if lines were chained in the meantime.
    """
    head = read_log_head(records, organization)
    if head.length == head.purged:
        return []
    changes = {"purged": head.length, "purged_hash": head.hash, "purge_signature": None, "updated_at": clock.now()}
    return [Ensure(head), Patch(LogHead, (organization, LOG_HEAD), changes, version=head.version)]
