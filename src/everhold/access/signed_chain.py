"""Sign the head of the hash chain of an organization's access log, and compare the chain in the store with it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from everhold import clock
from everhold.access.signing import is_signed
from everhold.errors import EverholdError, StoreDamaged
from everhold.model import AccessLog, LogHead
from everhold.ports.keys import Key
from everhold.ports.log_heads import SignedHead, SignedHeads, encode_purge
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where


def sign_chain(
    records: Records, heads: SignedHeads, head: LogHead, *, known: LogHead | None = None, accept: bool = False
) -> None:
    """Advance the signed head of an organization to `head`, if the store's chain contains the line signed before.

    Otherwise the signed head stays as it is, and `verify` reports the difference. `known` is the previous head, if the
    caller has just extended it to `head`; it saves a query. With `accept`, sign `head` without a comparison.
    """
    if accept:
        heads.write(_make_new_head(records, head), shorten=True)
        return
    try:
        signed = heads.read(head.organization_id)
        if signed is None:
            if head.length > head.purged:
                heads.write(_make_new_head(records, head))
        elif signed.length < head.length and _is_extended(records, heads.key, signed, head, known):
            heads.write(replace(signed, length=head.length, hash=head.hash or b"", signed_at=clock.now()))
    except EverholdError:
        return  # the log continues without a usable signed head; `find_head_problems` reports one that cannot be read


def _make_new_head(records: Records, head: LogHead) -> SignedHead:
    where = [Where("signature", Op.EQ, None)]
    rows = records.columns(AccessLog, head.organization_id, ("sealed",), where)
    unsigned = max((position or 0 for (position,) in rows), default=0)
    return SignedHead(head.organization_id, head.length, head.hash or b"", unsigned, clock.now())


def _is_extended(records: Records, key: Key, signed: SignedHead, head: LogHead, known: LogHead | None) -> bool:
    """Return whether the chain that ends in `head` contains the signed one."""
    if known is not None and (known.length, known.hash) == (signed.length, signed.hash):
        return True
    if signed.length <= head.purged:
        return is_purge_signed(key, head)
    where = [Where("sealed", Op.EQ, signed.length)]
    lines = records.scan(AccessLog, head.organization_id, where, limit=1)
    return bool(lines) and lines[0].hash == signed.hash


def is_purge_signed(key: Key, head: LogHead) -> bool:
    """Return whether the purge that `head` records was signed with the key; True if nothing was purged."""
    return not head.purged or key.has_signed(head.purge_signature, *encode_purge(head))


def compare_with_signed(
    heads: SignedHeads, head: LogHead, hashes: Mapping[int | None, bytes | None]
) -> tuple[SignedHead | None, str | None]:
    """Return the signed head, and why the store's chain does not match it, or None if it does.

    `hashes` are the hashes of the chain's lines by position.
    """
    try:
        signed = heads.read(head.organization_id)
    except StoreDamaged as error:
        return None, str(error)
    if signed is None:
        missing = f"there is no signed head of this log in {heads.place}; open the store for writing to sign it"
        return None, missing if head.length > head.purged else None
    reason = None
    if head.length < signed.length:
        reason = (
            f"the log had {signed.length} lines when it was signed at {signed.signed_at.isoformat()} and has "
            f"{head.length} now: lines were removed, or an older backup was restored; after restoring one, accept it "
            "with `everhold log --accept`"
        )
    elif not is_purge_signed(heads.key, head):
        reason = f"the first {head.purged} lines were removed without the key"
    elif signed.length > head.purged and hashes.get(signed.length) != signed.hash:
        reason = f"line {signed.length} of the chain is not the one signed at {signed.signed_at.isoformat()}"
    return signed, reason


def find_forged(key: Key, lines: Iterable[AccessLog], unsigned: int) -> AccessLog | None:
    """Return the first line with a missing, invalid or copied signature.

    The first `unsigned` lines of the chain may have none, because they may be older than the key.
    """
    seen_signatures: set[bytes] = set()
    for line in lines:
        if line.sealed is not None and line.sealed <= unsigned and line.signature is None:
            continue
        if line.signature is None or line.signature in seen_signatures or not is_signed(key, line):
            return line
        seen_signatures.add(line.signature)
    return None


def find_head_problems(records: Records, heads: SignedHeads) -> list[str]:
    """Return the problems for `doctor`: unreadable signed heads, and logs shorter than when they were signed."""
    log_heads = {head.organization_id: head for head in records.scan(LogHead, None)}
    problems = []
    for organization in sorted({*heads.list_organizations(), *log_heads}):
        try:
            signed = heads.read(organization)
        except EverholdError as error:
            problems.append(str(error))
            continue
        length = log_heads[organization].length if organization in log_heads else 0
        if signed is not None and length < signed.length:
            problems.append(
                f"the access log of organization {organization!r} has {length} lines, and {signed.length} were signed; "
                "run `everhold log --verify` for details"
            )
    return problems
