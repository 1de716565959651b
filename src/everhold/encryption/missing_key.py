"""The replacement for data keys if a store has encrypted content but the settings name no master key."""

from collections.abc import Sequence

from everhold.errors import MasterKeyMissing
from everhold.model import DataKey
from everhold.ports.data_keys import delete_keys
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where


class MissingDataKeys:
    """Refuses to encrypt and to decrypt, so that no content is shown encrypted or stored plain by mistake."""

    per_user = False
    master_fingerprint = "none"

    def __init__(self, records: Records) -> None:
        self._records = records

    def encrypt(self, organization_id: str, user_id: str | None, content: bytes, context: bytes) -> bytes:
        raise _make_error()

    def decrypt(self, organization_id: str, envelope: bytes, context: bytes) -> bytes:
        raise _make_error()

    def encrypt_digest(self, organization_id: str, digest: bytes) -> bytes:
        raise _make_error()

    def decrypt_digest(self, organization_id: str, encrypted: bytes) -> bytes:
        raise _make_error()

    def is_current(self, organization_id: str, user_id: str | None, envelope: bytes) -> bool:
        raise _make_error()

    def has_vanished(self, organization_id: str, key_ids: Sequence[str]) -> bool:
        return False

    def list_keys(self, organization_id: str, user_id: str | None = None) -> list[DataKey]:
        where = [] if user_id is None else [Where("subject", Op.EQ, user_id)]
        return self._records.scan(DataKey, organization_id, where, deleted=True)

    def destroy(self, organization_id: str, user_id: str) -> list[str]:
        return delete_keys(self._records, self.list_keys(organization_id, user_id))


def _make_error() -> MasterKeyMissing:
    return MasterKeyMissing(
        "this store holds encrypted content, and the settings name no master key",
        remedy="set encryption.master_key to the store's master key",
    )
