"""Encrypt the content of backups, with the key of each owner for the owner's rows."""

from typing import NamedTuple, Protocol

from everhold.errors import DataKeyDestroyed, EnvelopeDamaged, StoreDamaged
from everhold.ports.data_keys import DataKeys, make_context


class RowOwner(NamedTuple):
    """The owner of the rows in a part of a backup.

    Without an organization, it has rows of several and is not encrypted.
    """

    organization: str | None = None
    user_id: str | None = None


EVERYONE = RowOwner()


class Sealing(Protocol):
    """Encrypts and decrypts bytes with the key of their owner."""

    @property
    def is_encrypted(self) -> bool: ...

    def seal(self, owner: RowOwner, content: bytes, context: str) -> bytes:
        """Return the content, encrypted for its owner. `context` must be the same for decryption."""
        ...

    def unseal(self, owner: RowOwner, content: bytes, context: str) -> bytes | None:
        """Return the decrypted content; None if the owner's key was destroyed.

        Raise StoreDamaged if the content was changed, or was encrypted for another owner or context.
        """
        ...


class NoSealing:
    """Returns contents unchanged, for stores without keys."""

    is_encrypted = False

    def seal(self, owner: RowOwner, content: bytes, context: str) -> bytes:
        return content

    def unseal(self, owner: RowOwner, content: bytes, context: str) -> bytes | None:
        return content


class KeySealing:
    """Encrypts contents with the data keys of a store."""

    is_encrypted = True

    def __init__(self, keys: DataKeys) -> None:
        self._keys = keys

    def seal(self, owner: RowOwner, content: bytes, context: str) -> bytes:
        if owner.organization is None:
            return content
        encryption_context = make_context("backup", owner.organization, context)
        return self._keys.encrypt(owner.organization, owner.user_id, content, encryption_context)

    def unseal(self, owner: RowOwner, content: bytes, context: str) -> bytes | None:
        if owner.organization is None:
            return content
        try:
            return self._keys.decrypt(owner.organization, content, make_context("backup", owner.organization, context))
        except DataKeyDestroyed:
            return None
        except EnvelopeDamaged as error:
            raise StoreDamaged(f"the backup has damaged content: {error.fact}", remedy="use another backup") from error
