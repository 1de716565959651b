"""The parts of an engine's encryption, for jobs and reports that work on encrypted rows."""

from dataclasses import dataclass
from typing import cast

from everhold.encryption.fields import VAULT_FIELDS, EncryptedFields
from everhold.encryption.missing_key import MissingDataKeys
from everhold.encryption.row_cipher import RowCipher
from everhold.ports.data_keys import DataKeys, RotatingDataKeys
from everhold.ports.records import Records


@dataclass(frozen=True)
class Encryption:
    """The cipher and the keys of an engine, and the store below them, which returns encrypted values."""

    cipher: RowCipher
    stored: Records
    is_missing: bool = False
    """Whether the store has encrypted content but the settings name no master key."""

    @property
    def keys(self) -> DataKeys:
        return self.cipher.keys

    @property
    def fields(self) -> EncryptedFields:
        return self.cipher.fields

    @property
    def rotating_keys(self) -> RotatingDataKeys:
        """The keys, as they are needed for a rotation. They must not be missing."""
        keys = self.cipher.keys
        assert not isinstance(keys, MissingDataKeys)
        return cast(RotatingDataKeys, keys)

    @property
    def recorded_fields(self) -> list[str]:
        """The names of all encrypted fields, to be recorded in the store, including those of vault memories."""
        return sorted({*self.fields.names, *VAULT_FIELDS})
