"""AES-256-GCM, by the `cryptography` package."""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV

from everhold.errors import EnvelopeDamaged
from everhold.ports.data_keys import NONCE_BYTES
from everhold.ports.keys import Key

SECRET_BYTES = 32


def make_secret() -> bytes:
    """Return a new random key."""
    return os.urandom(SECRET_BYTES)


class Cipher:
    """Encrypts with one key. Every content gets a random nonce of its own."""

    def __init__(self, secret: bytes) -> None:
        self._aead = AESGCM(secret)

    def encrypt(self, content: bytes, context: bytes) -> tuple[bytes, bytes]:
        """Return a nonce, and the encrypted content with its authentication tag."""
        # 96 random bits: the chance that a key repeats a nonce stays below 2^-32 for 2^32 contents.
        nonce = os.urandom(NONCE_BYTES)
        return nonce, self._aead.encrypt(nonce, content, context)

    def decrypt(self, nonce: bytes, ciphertext: bytes, context: bytes) -> bytes:
        """Return the content. Raise EnvelopeDamaged if it was changed, or encrypted for another context or by another
        key."""
        try:
            return self._aead.decrypt(nonce, ciphertext, context)
        except InvalidTag:
            raise EnvelopeDamaged(
                "encrypted content was changed, or belongs to another row or column",
                remedy="restore the row from a backup, or delete it",
            ) from None


class DigestCipher:
    """Encrypts digests so that equal ones stay equal: AES-256-SIV, which needs no nonce."""

    def __init__(self, secret: bytes) -> None:
        key = Key(secret)
        self._aead = AESSIV(key.derive("digests: authenticate").secret + key.derive("digests: encrypt").secret)

    def encrypt(self, digest: bytes) -> bytes:
        return self._aead.encrypt(digest, None)

    def decrypt(self, encrypted: bytes) -> bytes:
        try:
            return self._aead.decrypt(encrypted, None)
        except InvalidTag:
            raise EnvelopeDamaged(
                "an encrypted digest was changed, or belongs to another organization",
                remedy="restore the row from a backup, or delete it",
            ) from None
