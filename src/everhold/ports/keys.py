"""The secret key of an engine, from which a separate key is derived for every purpose."""

import hashlib
import hmac
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Key:
    """A secret key. Its repr does not show the secret."""

    secret: bytes = field(repr=False)

    def derive(self, purpose: str) -> "Key":
        """Return the key for one purpose. A signature for one purpose is not valid for another."""
        return Key(hmac.digest(self.secret, purpose.encode(), "sha256"))

    def sign(self, *parts: bytes) -> bytes:
        """Return the HMAC-SHA256 over the parts, each preceded by its length."""
        # The lengths keep the parts apart: without them ("ab", "c") and ("a", "bc") would have the same signature.
        framed = b"".join(len(part).to_bytes(8) + part for part in parts)
        return hmac.digest(self.secret, framed, "sha256")

    def has_signed(self, signature: bytes | None, *parts: bytes) -> bool:
        """Return whether `signature` was made with this key over the parts."""
        return signature is not None and hmac.compare_digest(signature, self.sign(*parts))

    @property
    def fingerprint(self) -> str:
        """A short name for the key that does not reveal the secret."""
        return hashlib.sha256(self.sign(b"fingerprint")).hexdigest()[:16]
