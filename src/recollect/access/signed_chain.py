"""The signed head of a chain: when it may move on, and what the store's chain is compared with."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from recollect import clock
from recollect.access.signing import is_signed
from recollect.errors import RecollectError, StoreDamaged
from recollect.model import AccessLog, LogHead
from recollect.ports.keys import Key
from recollect.ports.log_heads import SignedHead, SignedHeads, purge_parts
from recollect.ports.records import Records
from recollect.schema.operations import Op, Where


def sign_chain(
    records: Records, heads: SignedHeads, head: LogHead, *, known: LogHead | None = None, accept: bool = False
) -> None:
    """Move the signed head of an organization on to `head`, if the store's chain goes on from what was signed.

    If it does not, the signed head stays as it is, and `verify` says so. `known` is the head that `head` extends, which
    spares a look at the store.
    """
    if accept:
        heads.write(_first_head(records, head), shorten=True)
        return
    try:
        signed = heads.read(head.organization_id)
        if signed is None:
            if head.length > head.purged:
                heads.write(_first_head(records, head))
        elif signed.length < head.length and _is_extended(records, heads.key, signed, head, known):
            heads.write(replace(signed, length=head.length, hash=head.hash or b"", signed_at=clock.now()))
    except RecollectError:
        return  # a head that cannot be read or written never stops the log; `problems_of_heads` reports it


def _first_head(records: Records, head: LogHead) -> SignedHead:
    where = [Where("signature", Op.EQ, None)]
    places = [place or 0 for (place,) in records.columns(AccessLog, head.organization_id, ("sealed",), where)]
    return SignedHead(head.organization_id, head.length, head.hash or b"", max(places, default=0), clock.now())


def _is_extended(records: Records, key: Key, signed: SignedHead, head: LogHead, known: LogHead | None) -> bool:
    """Whether the chain that ends in `head` contains the one that was signed."""
    if known is not None and (known.length, known.hash) == (signed.length, signed.hash):
        return True
    if signed.length <= head.purged:
        return is_purge_signed(key, head)
    where = [Where("sealed", Op.EQ, signed.length)]
    lines = records.scan(AccessLog, head.organization_id, where, limit=1)
    return bool(lines) and lines[0].hash == signed.hash


def is_purge_signed(key: Key, head: LogHead) -> bool:
    """Whether the lines that the head calls purged were purged by someone who has the key."""
    return not head.purged or key.has_signed(head.purge_signature, *purge_parts(head))


def compare_with_signed(
    heads: SignedHeads, head: LogHead, hashes: Mapping[int | None, bytes | None]
) -> tuple[SignedHead | None, str | None]:
    """Return the signed head and what the store's chain contradicts in it, if anything."""
    try:
        signed = heads.read(head.organization_id)
    except StoreDamaged as error:
        return None, str(error)
    if signed is None:
        unsigned = f"no signed head of this log is in {heads.place}; open the store for writing to sign it"
        return None, unsigned if head.length > head.purged else None
    reason = None
    if head.length < signed.length:
        reason = (
            f"the log had {signed.length} lines when it was signed at {signed.signed_at.isoformat()} and has "
            f"{head.length} now: lines were removed, or an older backup was restored; after restoring one, accept it "
            "with `recollect log --accept`"
        )
    elif not is_purge_signed(heads.key, head):
        reason = f"the first {head.purged} lines were removed without the key"
    elif signed.length > head.purged and hashes.get(signed.length) != signed.hash:
        reason = f"line {signed.length} of the chain is not the one signed at {signed.signed_at.isoformat()}"
    return signed, reason


def find_forged(key: Key, lines: Iterable[AccessLog], unsigned: int) -> AccessLog | None:
    """Return the first line without a signature of its own that should have one; the first `unsigned` need none."""
    seen: set[bytes] = set()
    for line in lines:
        if line.sealed is not None and line.sealed <= unsigned and line.signature is None:
            continue
        if line.signature is None or line.signature in seen or not is_signed(key, line):
            return line
        seen.add(line.signature)
    return None


def problems_of_heads(records: Records, heads: SignedHeads) -> list[str]:
    """Return what doctor reports: heads that cannot be used, and organizations whose log is shorter than signed."""
    lengths = {head.organization_id: head for head in records.scan(LogHead, None)}
    found = []
    for organization in sorted({*heads.organizations(), *lengths}):
        try:
            signed = heads.read(organization)
        except RecollectError as error:
            found.append(str(error))
            continue
        length = lengths[organization].length if organization in lengths else 0
        if signed is not None and length < signed.length:
            found.append(
                f"the access log of organization {organization!r} has {length} lines, and {signed.length} were signed; "
                "`recollect log --verify` tells more"
            )
    return found
