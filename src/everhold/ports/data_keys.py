"""The keys that encrypt stored content, and the envelope that encrypted content is stored in.

A data key encrypts the content of one organization or, if the settings say so, of one user. It is a row of `DataKey`,
wrapped by the master key, which is never stored. An envelope names the data key that it was encrypted with, so that
old and new keys can be read side by side while keys are rotated.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from everhold.errors import EnvelopeDamaged
from everhold.model import DataKey
from everhold.ports.erasure import note_purge
from everhold.ports.records import Records
from everhold.schema.operations import Delete

FORMAT = 1
NONCE_BYTES, TAG_BYTES = 12, 16  # AES-256-GCM


class DataKeys(Protocol):
    """Encrypts and decrypts content with the data keys of a store. Thread-safe."""

    @property
    def master_fingerprint(self) -> str:
        """A short name for the master key that does not reveal it."""

    @property
    def per_user(self) -> bool:
        """Whether each user's content is encrypted with keys of that user instead of the organization's keys."""

    def encrypt(self, organization_id: str, user_id: str | None, content: bytes, context: bytes) -> bytes:
        """Return an envelope with the content, encrypted with AES-256-GCM.

        The key is the user's if keys per user are on and `user_id` is not None, else the organization's. A missing key
        is created. `context` identifies what is encrypted: the content can only be decrypted with the same context.

        Raise MasterKeyMissing if the engine has no master key, and MasterKeyWrong if the data key was wrapped by a
        different master key.
        """
        ...

    def decrypt(self, organization_id: str, envelope: bytes, context: bytes) -> bytes:
        """Return the content of an envelope.

        Raise DataKeyDestroyed if its key was destroyed, DataKeyMissing if the store has never had the key,
        EnvelopeDamaged if the envelope was changed or belongs to another context; and the errors of `encrypt`.
        """
        ...

    def encrypt_digest(self, organization_id: str, digest: bytes) -> bytes:
        """Return a digest encrypted with a key of the organization that is never replaced.

        Equal digests give equal results, so that duplicates are found. Without the key, a content cannot be guessed
        from its digest.
        """
        ...

    def decrypt_digest(self, organization_id: str, encrypted: bytes) -> bytes:
        """Return the digest that `encrypt_digest` encrypted, with the errors of `decrypt`."""
        ...

    def is_current(self, organization_id: str, user_id: str | None, envelope: bytes) -> bool:
        """Return whether `encrypt` would use the key of this envelope."""
        ...

    def has_vanished(self, organization_id: str, key_ids: Sequence[str]) -> bool:
        """Return whether the store lacks one of these keys. If it does, later calls read its keys again."""
        ...

    def list_keys(self, organization_id: str, user_id: str | None = None) -> list[DataKey]:
        """Return the rows of an organization's keys; with `user_id`, only the rows of this user's keys."""
        ...

    def destroy(self, organization_id: str, user_id: str) -> list[str]:
        """Destroy a user's keys and return their ids. Content that they encrypted can never be decrypted again.

        A key that the same user gets later is a new one.
        """
        ...


class RotatingDataKeys(DataKeys, Protocol):
    """Data keys that can be replaced and wrapped again."""

    def rotate(self, organization_id: str, subject: str = "") -> str:
        """Create the next generation of a subject's key, and return its id. Older generations still decrypt."""
        ...

    def wrap_again(self, row: DataKey) -> DataKey:
        """Return a key's row wrapped by the current master key."""
        ...


class DataEnvelope(NamedTuple):
    """The parts of an envelope. `ciphertext` ends with the authentication tag."""

    key_id: str
    nonce: bytes
    ciphertext: bytes

    def encode(self) -> bytes:
        """Return the bytes: version, length of the key's id, the id, nonce, ciphertext."""
        key_id = self.key_id.encode()
        return bytes((FORMAT, len(key_id))) + key_id + self.nonce + self.ciphertext

    @classmethod
    def decode(cls, content: bytes) -> "DataEnvelope":
        """Return the parts of an envelope. Raise EnvelopeDamaged if the bytes cannot be one."""
        key_end = 2 + (content[1] if len(content) > 1 else 0)
        nonce_end = key_end + NONCE_BYTES
        if len(content) < nonce_end + TAG_BYTES or content[0] != FORMAT:
            raise EnvelopeDamaged("encrypted content does not have the format of an envelope")
        try:
            key_id = content[2:key_end].decode("ascii")
        except UnicodeDecodeError:
            raise EnvelopeDamaged("encrypted content does not have the format of an envelope") from None
        return cls(key_id, content[key_end:nonce_end], content[nonce_end:])


def delete_keys(records: Records, keys: Sequence[DataKey]) -> list[str]:
    """Delete the rows of data keys, and return their ids. The next maintenance removes their remains from files."""
    if keys:
        records.commit([*(Delete(DataKey, (key.organization_id, key.id)) for key in keys), *note_purge()])
    return [key.id for key in keys]


def make_context(*parts: str) -> bytes:
    """Return the context of a value from the parts of its identity, such as its organization, table, row and column."""
    # The lengths keep the parts apart: without them ("ab", "c") and ("a", "bc") would give the same context.
    encoded = [part.encode() for part in parts]
    return b"".join(len(part).to_bytes(4) + part for part in encoded)
