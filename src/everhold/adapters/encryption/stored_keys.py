"""Data keys in a store, wrapped by the master key."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from everhold import clock
from everhold.adapters.encryption.cipher import Cipher, DigestCipher, make_secret
from everhold.errors import AlreadyExists, DataKeyDestroyed, DataKeyMissing, EnvelopeDamaged, MasterKeyWrong
from everhold.model import DataKey, UserErasure
from everhold.ports.data_keys import NONCE_BYTES, DataEnvelope, delete_keys, make_context
from everhold.ports.keys import Key
from everhold.ports.records import Records
from everhold.schema.operations import Op, Put, Where

ALGORITHM = "AES-256-GCM"
# A process uses a key that another one has replaced for at most this long. Both keys stay readable.
_MAX_AGE = timedelta(seconds=60)
_MAX_LOADED = 10_000  # keys in memory
_ORGANIZATION = ""
_CONTENT, _HASH = "content", "hash"


@dataclass(frozen=True)
class MasterKeys:
    """The master key, and former ones that still unwrap keys while the master key is being changed."""

    current: Key
    former: tuple[Key, ...] = ()

    @property
    def fingerprints(self) -> list[str]:
        return [key.fingerprint for key in (self.current, *self.former)]

    def find(self, fingerprint: str) -> Key | None:
        """Return the master key with this fingerprint."""
        return next((key for key in (self.current, *self.former) if key.fingerprint == fingerprint), None)


@dataclass(frozen=True)
class _LoadedKey:
    """An unwrapped key. `loaded_at` says when its row was read."""

    key_id: str
    secret: bytes
    cipher: Cipher
    loaded_at: datetime

    @cached_property
    def digest_cipher(self) -> DigestCipher:
        return DigestCipher(self.secret)


class StoredDataKeys:
    """Encrypts and decrypts with the data keys of a store. `records` is the store itself, without any wrapper."""

    def __init__(self, records: Records, masters: MasterKeys, *, per_user: bool = False) -> None:
        self._records = records
        self._masters = masters
        self.per_user = per_user
        self._current: dict[tuple[str, str, str], _LoadedKey] = {}
        self._by_id: dict[tuple[str, str], _LoadedKey] = {}
        self._lock = threading.Lock()
        self._masters_checked_at: datetime | None = None

    @property
    def master_fingerprint(self) -> str:
        return self._masters.current.fingerprint

    def encrypt(self, organization_id: str, user_id: str | None, content: bytes, context: bytes) -> bytes:
        key = self._find_current(organization_id, self._choose_subject(user_id), _CONTENT)
        return DataEnvelope(key.key_id, *key.cipher.encrypt(content, context)).encode()

    def decrypt(self, organization_id: str, envelope: bytes, context: bytes) -> bytes:
        key_id, nonce, ciphertext = DataEnvelope.decode(envelope)
        return self._find_by_id(organization_id, key_id).cipher.decrypt(nonce, ciphertext, context)

    def encrypt_digest(self, organization_id: str, digest: bytes) -> bytes:
        return self._find_current(organization_id, _ORGANIZATION, _HASH).digest_cipher.encrypt(digest)

    def decrypt_digest(self, organization_id: str, encrypted: bytes) -> bytes:
        return self._find_current(organization_id, _ORGANIZATION, _HASH).digest_cipher.decrypt(encrypted)

    def is_current(self, organization_id: str, user_id: str | None, envelope: bytes) -> bool:
        key_id = DataEnvelope.decode(envelope).key_id
        return key_id == self._find_current(organization_id, self._choose_subject(user_id), _CONTENT).key_id

    def has_vanished(self, organization_id: str, key_ids: Sequence[str]) -> bool:
        stored = self._records.get(DataKey, organization_id, list(key_ids), deleted=True)
        missing = [key_id for key_id in key_ids if key_id not in stored]
        if missing:
            self.forget(organization_id)
        return bool(missing)

    def list_keys(self, organization_id: str, user_id: str | None = None) -> list[DataKey]:
        where = [] if user_id is None else [Where("subject", Op.EQ, user_id)]
        return self._records.scan(DataKey, organization_id, where, deleted=True)

    def destroy(self, organization_id: str, user_id: str) -> list[str]:
        key_ids = delete_keys(self._records, self.list_keys(organization_id, user_id))
        self.forget(organization_id)
        return key_ids

    def rotate(self, organization_id: str, subject: str = _ORGANIZATION) -> str:
        """Create the next generation of a subject's key, and return its id. Older generations still decrypt."""
        newest = self._find_newest(organization_id, subject, _CONTENT)
        if newest is not None:
            self._unwrap(newest)  # a key that this process cannot unwrap is not replaced by one that others cannot
        row = self._create_key(organization_id, subject, _CONTENT, 1 if newest is None else newest.generation + 1)
        self.forget(organization_id)
        return row.id

    def wrap_again(self, row: DataKey) -> DataKey:
        """Return a key's row wrapped by the current master key."""
        secret = self._unwrap(row).secret
        return DataKey.build_unchecked({**row.__dict__, **self._wrap(row, secret)})

    def forget(self, organization_id: str) -> None:
        """Drop an organization's keys from memory; the next use reads them from the store."""
        with self._lock:
            self._current = {
                cache_key: key for cache_key, key in self._current.items() if cache_key[0] != organization_id
            }
            self._by_id = {cache_key: key for cache_key, key in self._by_id.items() if cache_key[0] != organization_id}

    def _choose_subject(self, user_id: str | None) -> str:
        return user_id if self.per_user and user_id is not None else _ORGANIZATION

    def _find_current(self, organization_id: str, subject: str, purpose: str) -> _LoadedKey:
        cache_key = (organization_id, subject, purpose)
        key = self._current.get(cache_key)
        if key is not None and clock.now() - key.loaded_at < _MAX_AGE:
            return key
        row = self._find_newest(*cache_key) or self._create_key(*cache_key, generation=1)
        key = self._unwrap(row)
        with self._lock:
            self._drop_if_full()
            self._current[cache_key] = self._by_id[organization_id, row.id] = key
        return key

    def _find_by_id(self, organization_id: str, key_id: str) -> _LoadedKey:
        key = self._by_id.get((organization_id, key_id))
        if key is None:
            row = self._records.get(DataKey, organization_id, [key_id], deleted=True).get(key_id)
            if row is None:
                raise self._make_missing_error(organization_id, key_id)
            key = self._unwrap(row)
            with self._lock:
                self._drop_if_full()
                self._by_id[organization_id, key_id] = key
        return key

    def _drop_if_full(self) -> None:
        """Drop all keys from memory if there are too many of them; they are read again when they are used."""
        if len(self._by_id) >= _MAX_LOADED:
            self._current, self._by_id = {}, {}

    def _find_newest(self, organization_id: str, subject: str, purpose: str) -> DataKey | None:
        where = [Where("subject", Op.EQ, subject), Where("purpose", Op.EQ, purpose)]
        rows = self._records.scan(DataKey, organization_id, where, deleted=True)
        return max(rows, key=lambda row: row.generation, default=None)

    def _create_key(self, organization_id: str, subject: str, purpose: str, generation: int) -> DataKey:
        """Store a new key and return its row; if another process was faster, return that process's key."""
        self._check_masters()
        now = clock.now()
        values = {
            "organization_id": organization_id,
            "id": clock.make_id("key"),
            "created_at": now,
            "updated_at": now,
            "subject": subject,
            "purpose": purpose,
            "generation": generation,
            "algorithm": ALGORITHM,
            "metadata": {},
        }
        draft = DataKey.build_unchecked({**values, "wrapped_key": b"", "master_fingerprint": self.master_fingerprint})
        row = DataKey.model_validate({**draft.__dict__, **self._wrap(draft, make_secret())})
        try:
            self._records.commit([Put(row)])
        except AlreadyExists:
            return self._find_newest(organization_id, subject, purpose) or row
        return row

    def _check_masters(self) -> None:
        """Raise MasterKeyWrong if a key of the store is wrapped by a master key that the settings do not name.

        A data key wrapped by a wrong master key could not be read after the settings are corrected. The check reads all
        keys, so it is repeated only after a while.
        """
        now = clock.now()
        if self._masters_checked_at is not None and now - self._masters_checked_at < _MAX_AGE:
            return
        conditions = [Where("master_fingerprint", Op.NE, fingerprint) for fingerprint in self._masters.fingerprints]
        for row in self._records.scan(DataKey, None, conditions, limit=1, deleted=True):
            raise self._make_wrong_master_error(row)
        self._masters_checked_at = now

    def _wrap(self, row: DataKey, secret: bytes) -> dict[str, object]:
        master = self._masters.current
        nonce, ciphertext = _make_wrapping_cipher(master).encrypt(secret, _make_key_context(row))
        return {"wrapped_key": nonce + ciphertext, "master_fingerprint": master.fingerprint}

    def _unwrap(self, row: DataKey) -> _LoadedKey:
        """Decrypt a data key with its master key."""
        master = self._masters.find(row.master_fingerprint)
        if master is None:
            raise self._make_wrong_master_error(row)
        nonce, ciphertext = row.wrapped_key[:NONCE_BYTES], row.wrapped_key[NONCE_BYTES:]
        try:
            secret = _make_wrapping_cipher(master).decrypt(nonce, ciphertext, _make_key_context(row))
        except EnvelopeDamaged:
            raise EnvelopeDamaged(
                f"data key {row.id!r} was changed, or belongs to another organization or user",
                remedy="restore the table data_keys from a backup of this store",
            ) from None
        return _LoadedKey(row.id, secret, Cipher(secret), clock.now())

    def _make_wrong_master_error(self, row: DataKey) -> MasterKeyWrong:
        return MasterKeyWrong(
            f"data key {row.id!r} was wrapped by the master key {row.master_fingerprint}, "
            f"and encryption.master_key is {self.master_fingerprint}",
            value=row.master_fingerprint,
            remedy="set encryption.master_key to the key with the first fingerprint",
        )

    def _make_missing_error(self, organization_id: str, key_id: str) -> DataKeyDestroyed | DataKeyMissing:
        erasures = self._records.scan(UserErasure, organization_id, deleted=True)
        if any(key_id in erasure.key_ids for erasure in erasures):
            return DataKeyDestroyed(
                f"data key {key_id!r} was destroyed when its user was erased", remedy="delete what it encrypted"
            )
        return DataKeyMissing(
            f"the store has no data key {key_id!r}", remedy="restore the table data_keys from a backup of this store"
        )


def _make_wrapping_cipher(master: Key) -> Cipher:
    return Cipher(master.derive("wrap data keys").secret)


def _make_key_context(row: DataKey) -> bytes:
    return make_context("data key", row.organization_id, row.id, row.subject, row.purpose)
