"""Report what is encrypted, and with which keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from everhold.encryption.deps import Encryption
from everhold.encryption.recorded import read_recorded
from everhold.encryption.rotation import is_unfinished, list_data_keys
from everhold.model import DataKey


@dataclass(frozen=True)
class KeyDescription:
    """One data key: its owner, its generation, and the fingerprint of the master key that wraps it.

    `user` is None for the organization's key. Keys that are not current are used only for decryption.
    """

    id: str
    organization: str
    user: str | None
    purpose: str
    generation: int
    master_fingerprint: str
    created_at: datetime
    is_current: bool


@dataclass(frozen=True)
class KeyReport:
    """The encrypted fields and the keys of a store.

    `status` is "off" without encryption, "missing" if the store has encrypted content but no master key is set, else
    "on". `fields` maps each field to whether every row has it encrypted.
    """

    status: str
    master_fingerprint: str | None = None
    per_user: bool = False
    fields: Mapping[str, bool] = field(default_factory=dict)
    keys: Sequence[KeyDescription] = ()
    problems: Sequence[str] = ()


def describe_keys(encryption: Encryption | None) -> KeyReport:
    """Return a report on the encrypted fields and the keys of a store."""
    if encryption is None:
        return KeyReport("off")
    rows = list_data_keys(encryption.stored)
    newest: dict[tuple[str, str, str], int] = {}
    for row in rows:
        owner = (row.organization_id, row.subject, row.purpose)
        newest[owner] = max(row.generation, newest.get(owner, 0))
    keys = [_describe_key(row, newest[row.organization_id, row.subject, row.purpose]) for row in rows]
    return KeyReport(
        "missing" if encryption.is_missing else "on",
        None if encryption.is_missing else encryption.keys.master_fingerprint,
        encryption.keys.per_user,
        read_recorded(encryption.stored),
        keys,
        find_problems(encryption, rows),
    )


def find_problems(encryption: Encryption, rows: Sequence[DataKey]) -> list[str]:
    """Return a sentence for each problem with the keys of a store."""
    if encryption.is_missing:
        return ["it holds encrypted content and no master key is set; set encryption.master_key"]
    problems = []
    fingerprint = encryption.keys.master_fingerprint
    other_fingerprints = sorted({row.master_fingerprint for row in rows if row.master_fingerprint != fingerprint})
    for other_fingerprint in other_fingerprints:
        key_count = sum(row.master_fingerprint == other_fingerprint for row in rows)
        problems.append(
            f"{key_count} data keys are wrapped by the master key {other_fingerprint} and not by {fingerprint}; "
            "run `everhold keys rotate --master-only` with the other key in encryption.former_keys"
        )
    if is_unfinished(encryption.stored):
        problems.append("a rotation of keys was interrupted; run `everhold keys rotate` again")
    incomplete = [name for name, is_complete in read_recorded(encryption.stored).items() if not is_complete]
    if incomplete:
        problems.append(
            f"{len(incomplete)} fields may have rows that are not encrypted by the newest key; run `everhold maintain`"
        )
    return problems


def _describe_key(row: DataKey, newest: int) -> KeyDescription:
    return KeyDescription(
        row.id,
        row.organization_id,
        row.subject or None,
        row.purpose,
        row.generation,
        row.master_fingerprint,
        row.created_at,
        row.generation == newest,
    )
