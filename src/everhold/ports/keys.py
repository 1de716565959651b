"""The secret key of an engine, from which every purpose derives a key of its own."""

import hashlib
import hmac
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Key:
    """Secret bytes that never leave this object."""

    secret: bytes = field(repr=False)

    def derive(self, purpose: str) -> "Key":
        """Return the key for one purpose, so that a signature made for one is worthless for another."""
        return Key(hmac.digest(self.secret, purpose.encode(), "sha256"))

    def sign(self, *parts: bytes) -> bytes:
        """Return the HMAC-SHA256 over the parts, each preceded by its length."""
        framed = b"".join(len(part).to_bytes(8) + part for part in parts)
        return hmac.digest(self.secret, framed, "sha256")

    def has_signed(self, signature: bytes | None, *parts: bytes) -> bool:
        """Whether `signature` is this key's over the parts."""
        return signature is not None and hmac.compare_digest(signature, self.sign(*parts))

    @property
    def fingerprint(self) -> str:
        """A short name for the key that reveals nothing of it."""
        return hashlib.sha256(self.sign(b"fingerprint")).hexdigest()[:16]
