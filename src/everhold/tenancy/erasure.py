"""The erasure list, which records erased users, and the proof of each erasure.

Its entries remain after the users are gone. They do not name the users, but have a salted hash of each id, by which a
user that a restore brings back is recognised.
"""

import hashlib
import hmac
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from everhold import clock
from everhold.model import User, UserErasure
from everhold.ports.backup_targets import TargetErasure
from everhold.ports.records import Records
from everhold.schema.operations import Op, Patch, Put, Where

_SALT_BYTES = 16


@dataclass(frozen=True)
class ErasedPlace:
    """The data removed from one location outside the tables, or the reason why that is unknown.

    `status` is "erased"; "none" if the engine has no such location; "unreached"; or "follow-up" if no verb can read the
    data any more and `detail` says how an operator removes the last bytes.
    """

    place: str
    status: str
    detail: str = ""


@dataclass(frozen=True)
class ErasureProof:
    """The data that an erasure removed, by location.

    `rows` counts the removed rows by table, including those that had been hidden before. `remaining` counts the rows of
    the user that a search afterwards still found; it is empty unless something was written meanwhile. `digest` is the
    SHA-256 of the other fields as JSON with sorted names. It is also in the access log and in the erasure list.
    """

    erasure_id: str
    organization: str
    user: str
    began_at: str
    completed_at: str
    rows: Mapping[str, int]
    keys: Sequence[str] = ()
    places: Sequence[ErasedPlace] = ()
    backups: Sequence[TargetErasure] = ()
    remaining: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""
    preview: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether no data of the user remains in any location that the engine knows."""
        reached = all(place.status != "unreached" for place in self.places)
        return reached and not self.remaining and all(target.status == "erased" for target in self.backups)

    def compute_digest(self) -> str:
        """Return the digest of the proof, to compare it with that in the access log."""
        values = {name: value for name, value in asdict(self).items() if name not in ("digest", "preview")}
        return hashlib.sha256(_encode(values).encode()).hexdigest()


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


def begin_erasure(records: Records, organization_id: str, user_id: str, key_ids: Sequence[str]) -> UserErasure:
    """Add a user to the erasure list before anything is removed, or return the entry of an interrupted erasure."""
    now = clock.now()
    for entry in find_erasures(records, organization_id, user_id):
        if entry.completed_at is None:
            # The user may have come back since then. A restore leaves the user out of backups before `updated_at`.
            records.commit([Patch(UserErasure, (organization_id, entry.id), {"updated_at": now})])
            return entry.model_copy(update={"updated_at": now})
    salt = os.urandom(_SALT_BYTES)
    erasure = UserErasure(
        organization_id=organization_id,
        id=clock.make_id("era"),
        created_at=now,
        updated_at=now,
        subject=hash_subject(salt, organization_id, user_id),
        salt=salt,
        key_ids=list(key_ids),
    )
    records.commit([Put(erasure)])
    return erasure


def add_key_ids(records: Records, erasure: UserErasure, key_ids: Iterable[str]) -> None:
    """Add the ids of destroyed data keys to an entry of the erasure list."""
    all_key_ids = sorted({*erasure.key_ids, *key_ids})
    records.commit([Patch(UserErasure, (erasure.organization_id, erasure.id), {"key_ids": all_key_ids})])


def end_erasure(records: Records, erasure: UserErasure, proof: ErasureProof, line: Put, at: datetime) -> None:
    """Note the digest of a proof in the erasure list, and commit `line` to the access log.

    The entry stays open if something was not reached, so that the erasure continues when it is called again.
    """
    changes: dict[str, Any] = {"updated_at": at, "digest": bytes.fromhex(proof.digest)}
    if proof.is_complete:
        changes["completed_at"] = at
    records.commit([Patch(UserErasure, (erasure.organization_id, erasure.id), changes), line])


def find_incomplete_erasures(records: Records) -> list[UserErasure]:
    """Return the erasures of all organizations that were interrupted or did not reach every place."""
    conditions = [Where("completed_at", Op.EQ, None)]
    return records.scan(UserErasure, None, conditions, order="created_at", deleted=True)


def find_erasures(records: Records, organization_id: str, user_id: str) -> list[UserErasure]:
    """Return the entries of the erasure list about a user, oldest first."""
    entries = records.scan(UserErasure, organization_id, order="created_at", deleted=True)
    return [entry for entry in entries if is_subject(entry, user_id)]


def is_subject(erasure: UserErasure, user_id: str) -> bool:
    """Return whether an entry of the erasure list is about this user."""
    return hmac.compare_digest(erasure.subject, hash_subject(erasure.salt, erasure.organization_id, user_id))


def hash_subject(salt: bytes, organization_id: str, user_id: str) -> bytes:
    """Return the hash by which the erasure list recognises a user."""
    return hmac.digest(salt, f"{len(organization_id)}:{organization_id}{user_id}".encode(), "sha256")


def find_erased_users(records: Records, organization_id: str) -> list[tuple[str, UserErasure]]:
    """Return the users of an organization that were erased and exist again, each with its latest erasure.

    After a restore, a user whose row is older than the erasure is erased again.
    """
    entries = records.scan(UserErasure, organization_id, order="created_at", deleted=True)
    if not entries:
        return []
    erasures: dict[str, UserErasure] = {}
    for (user_id,) in records.columns(User, organization_id, ("id",), deleted=True):
        for entry in entries:
            if is_subject(entry, user_id):
                erasures[user_id] = entry
    return sorted(erasures.items())


def count_chunks(records: Records, organization_id: str, user_id: str) -> dict[str, int]:
    """Return how many chunks and lines of the change feed still have a user's id.

    They are not deleted by references.
    """
    from everhold.model import Chunk, Outbox

    counts = {
        "chunks": records.count(Chunk, organization_id, [Where("user_id", Op.EQ, user_id)]),
        "outbox": records.count(
            Outbox, organization_id, [Where("user_id", Op.EQ, user_id), Where("digest", Op.NE, None)]
        ),
    }
    return {name: count for name, count in counts.items() if count}
