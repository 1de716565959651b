"""Chain the lines of the access log by hashes, so that a changed, removed, added or moved line is detected.

Writers only add lines, each with a digest of its fields. Later, `seal` chains the committed lines of each organization:
every line gets a position, the hash of the previous line, and a hash over both, its digest, its signature and its order
among the earlier lines. Writers never wait for sealing. With a key, the head of each chain is signed and stored outside
the store after every seal.
"""

import hashlib
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from everhold import clock
from everhold.access.signed_chain import compare_with_signed, find_forged, sign_chain
from everhold.errors import AlreadyExists, StaleVersion, StoreReadOnly
from everhold.model import AccessLog, Counter, LogHead
from everhold.model.access import compute_digest
from everhold.ports.log_heads import SignedHeads, read_log_head
from everhold.ports.records import Records
from everhold.schema.operations import Ensure, Op, Operation, Page, Patch, Where

START = bytes(32)  # the previous hash of the first line
_BATCH = 1000  # lines that are chained in one commit, or read at a time
_SEALED_THROUGH_COUNTER = "access log sealed through"
# In a store that assigns numbers before the commit, a line may become visible this much later than one with a higher
# number.
_VISIBILITY_DELAY = timedelta(minutes=5)


@dataclass(frozen=True)
class Verification:
    """Whether an organization's log is unchanged and, if not, the position at which its chain is broken and the reason.

    `signed` is the number of lines that the signed head outside the store covers; None if the check had no key.
    """

    lines: int
    intact: bool
    broken_at: int | None = None
    reason: str | None = None
    signed: int | None = None


def seal(records: Records, heads: SignedHeads | None = None) -> int:
    """Chain every committed line that is not chained yet and sign the new heads; return how many were chained."""
    sealed = 0
    while True:
        organizations = {line.organization_id: None for line in _read_unsealed(records)[0]}
        old_heads = [read_log_head(records, organization) for organization in organizations]
        # Lines are read again after the heads. If another process has chained some of them, a head has a new version by
        # now and the commit fails.
        lines, sealed_through = _read_unsealed(records)
        if not lines:
            return sealed
        extension = _extend(old_heads, lines, _read_sealed_after(records, lines))
        try:
            records.commit(_make_operations(extension, sealed_through))
        except (AlreadyExists, StaleVersion):
            return sealed  # another process is sealing the log
        sealed += len(lines)
        if heads is not None:
            for old_head, extended_head in zip(old_heads, extension.heads, strict=True):
                sign_chain(records, heads, extended_head, known=old_head)
        if len(lines) < _BATCH:
            return sealed


def count_unsealed(records: Records) -> int:
    """Return how many lines are not chained yet."""
    where = [Where("sequence", Op.GT, _read_sealed_through(records)), Where("sealed", Op.EQ, None)]
    return records.count(AccessLog, None, where)


@dataclass
class _Extension:
    """The patches that give lines their positions and hashes, and the heads after them.

    `skipped` are the numbers of the lines that are left for the next round.
    """

    heads: list[LogHead] = field(default_factory=list)
    patches: list[Operation] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)


def _read_unsealed(records: Records) -> tuple[list[AccessLog], int]:
    """Return lines to chain, and the number up to which every line is chained once these are."""
    sealed_through = _read_sealed_through(records)
    where = [Where("sequence", Op.GT, sealed_through), Where("sealed", Op.EQ, None)]
    lines = records.scan(AccessLog, None, where, order="sequence", limit=_BATCH)
    if records.traits.ordered:
        return lines, lines[-1].sequence if lines else sealed_through
    settled_sequences = [line.sequence for line in lines if line.timestamp < clock.now() - _VISIBILITY_DELAY]
    return lines, max(settled_sequences, default=sealed_through)


def _read_sealed_after(records: Records, lines: Sequence[AccessLog]) -> Mapping[str, list[int]]:
    """Return, per organization, the sorted numbers of chained lines that are higher than that of the first line.

    There are such lines only if a transaction became visible after another one with a higher number.
    """
    where = [Where("sequence", Op.GT, lines[0].sequence), Where("sealed", Op.NE, None)]
    sequences: dict[str, list[int]] = {}
    for organization, sequence in records.columns(AccessLog, None, ("organization_id", "sequence"), where):
        insort(sequences.setdefault(organization, []), sequence)
    return sequences


def _extend(
    old_heads: Sequence[LogHead], lines: Iterable[AccessLog], sealed_after: Mapping[str, list[int]]
) -> _Extension:
    """Chain the lines to the old heads. `sealed_after` are the numbers of chained lines, by organization."""
    ends = {head.organization_id: (head.length, head.hash or START) for head in old_heads}
    extension = _Extension()
    for line in lines:
        if line.organization_id not in ends:
            extension.skipped.append(line.sequence)  # written after the heads were read; the next round chains it
            continue
        position, previous = ends[line.organization_id]
        later_sequences = sealed_after.get(line.organization_id, [])
        overtaken_by = len(later_sequences) - bisect_right(later_sequences, line.sequence)
        line_hash = hash_link(previous, position + 1, overtaken_by, line)
        changes = {"sealed": position + 1, "previous_hash": previous, "hash": line_hash}
        extension.patches.append(Patch(AccessLog, (line.sequence,), changes))
        ends[line.organization_id] = (position + 1, line_hash)
    for head in old_heads:
        length, line_hash = ends[head.organization_id]
        values = {"length": length, "hash": line_hash, "updated_at": clock.now()}
        extension.heads.append(LogHead.build_unchecked({**head.__dict__, **values}))
    return extension


def _make_operations(extension: _Extension, sealed_through: int) -> list[Operation]:
    operations = list(extension.patches)
    for head in extension.heads:
        changes = {"length": head.length, "hash": head.hash, "updated_at": head.updated_at}
        empty_head = LogHead.build_unchecked({**head.__dict__, "length": 0, "hash": None})
        operations += [
            Ensure(empty_head),
            Patch(LogHead, (head.organization_id, head.id), changes, version=head.version),
        ]
    sealed_through = min([sealed_through, *(sequence - 1 for sequence in extension.skipped)])
    return [
        *operations,
        Ensure(Counter(name=_SEALED_THROUGH_COUNTER)),
        Patch(Counter, (_SEALED_THROUGH_COUNTER,), {"value": sealed_through}),
    ]


def hash_link(previous: bytes, position: int, overtaken_by: int, line: AccessLog) -> bytes:
    """Return the hash that binds a line to its position in the chain.

    It does not include the line's number, because moving a log to another store assigns new numbers. It includes how
    many earlier lines of the chain have a higher number: these counts determine the order of all numbers.
    """
    link = previous + position.to_bytes(8) + overtaken_by.to_bytes(8) + line.digest
    return hashlib.sha256(link + (line.signature or b"")).digest()


def _read_sealed_through(records: Records) -> int:
    """Return the number up to which every line has been chained."""
    counters = records.scan(Counter, None, [Where("name", Op.EQ, _SEALED_THROUGH_COUNTER)], limit=1)
    return counters[0].value if counters else 0


def verify(records: Records, organization: str, heads: SignedHeads | None = None) -> Verification:
    """Seal the open lines, then check the whole chain; check again if another process sealed in the meantime."""
    while True:
        with suppress(StoreReadOnly):
            seal(records, heads)
            if heads is not None:
                # A process may have crashed between chaining and signing.
                sign_chain(records, heads, read_log_head(records, organization))
        before = read_log_head(records, organization)
        verification = _check(records, before, heads)
        if read_log_head(records, organization).version == before.version:
            return verification


def _check(records: Records, head: LogHead, heads: SignedHeads | None) -> Verification:
    lines = list(_read_lines(records, head.organization_id))
    verification = _check_lines(head, _read_sealed_through(records), lines)
    if heads is None:
        return verification
    signed, reason = compare_with_signed(heads, head, {line.sealed: line.hash for line in lines})
    unsigned = signed.unsigned if signed is not None else head.length
    forged = find_forged(heads.key, lines, unsigned)
    verification = replace(verification, signed=signed.length if signed is not None else 0)
    if not verification.intact or (reason is None and forged is None):
        return verification
    if forged is not None:
        return replace(verification, intact=False, broken_at=forged.sealed, reason=_describe_forged(forged))
    return replace(verification, intact=False, broken_at=None, reason=reason)


def _describe_forged(line: AccessLog) -> str:
    return f"line {line.sequence} was not written with the key, or is a copy of another line"


def accept(records: Records, organization: str, heads: SignedHeads) -> Verification:
    """Sign the organization's log in its present state, after restoring a backup, and return the check of its chain.

    A log with a broken chain is not signed.
    """
    seal(records)
    head = read_log_head(records, organization)
    verification = _check(records, head, None)
    if verification.intact:
        sign_chain(records, heads, head, accept=True)
    return verification


def _read_lines(records: Records, organization: str) -> Iterator[AccessLog]:
    after: Page | None = None
    while True:
        page = records.scan(AccessLog, organization, order="sequence", after=after, limit=_BATCH)
        yield from page
        if len(page) < _BATCH:
            return
        after = Page(page[-1].sequence, (page[-1].sequence,))


def _check_lines(head: LogHead, sealed_through: int, lines: Iterable[AccessLog]) -> Verification:
    links: dict[int, AccessLog] = {}
    for line in lines:
        if compute_digest(line.__dict__) != line.digest:
            return Verification(len(links), False, line.sealed, f"line {line.sequence} was changed")
        if line.sealed in links:
            return Verification(len(links), False, line.sealed, f"two lines claim position {line.sealed} of the chain")
        if line.sealed is not None:
            links[line.sealed] = line
        elif line.sequence <= sealed_through:
            return Verification(len(links), False, None, f"line {line.sequence} was not added by the engine")
    return _check_links(head, links)


def _check_links(head: LogHead, links: Mapping[int, AccessLog]) -> Verification:
    """Return the check of the chain: intact if the lines `links`, by position, lead to the head's hash."""
    previous_hash = head.purged_hash or START
    sequences: list[int] = []
    for position in range(head.purged + 1, max([head.length, *links], default=0) + 1):
        if position not in links:
            return Verification(len(links), False, position, f"line {position} of the chain was removed")
        line = links[position]
        overtaken_by = len(sequences) - bisect_right(sequences, line.sequence)
        insort(sequences, line.sequence)
        if line.previous_hash != previous_hash or line.hash != hash_link(previous_hash, position, overtaken_by, line):
            return Verification(
                len(links), False, position, f"line {position} of the chain does not follow the one before it"
            )
        previous_hash = line.hash
    if head.purged + len(links) != head.length or previous_hash != (head.hash or START):
        return Verification(len(links), False, head.length + 1, "a line of the chain was not added by the engine")
    return Verification(len(links), True)
