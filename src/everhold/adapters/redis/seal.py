"""Message authentication codes for the data in Redis.

Other programs may write to the same Redis. What they write must never be returned as a message. So every part gets a
code, computed from its content and the name of its key with a secret that is not in Redis. The code of a message
also covers the code of the previous message, and the code of the hash that of the newest message: nothing can be added,
left out, reordered or taken from another session or state. Nothing is parsed before its code has been checked.
"""

import hmac
from collections.abc import Mapping

from everhold.schema.codec import encode_json

FIELD = "mac"
_OPENING, _CLOSING = f',"{FIELD}":"', '"}'
_DIGITS = 64
_TAIL_LENGTH = len(_OPENING) + _DIGITS + len(_CLOSING)


class Seal:
    """Adds and verifies codes with one secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def seal_fields(self, key: str, fields: Mapping[str, str]) -> dict[str, str]:
        """Return the fields of a hash with their code as one more field."""
        return {**fields, FIELD: self._compute_code(key, encode_json(sorted(fields.items())))}

    def has_sealed_fields(self, key: str, fields: Mapping[str, str]) -> bool:
        """Return whether the code matches these fields and this key."""
        others = {name: value for name, value in fields.items() if name != FIELD}
        return _is_equal(fields.get(FIELD, ""), self._compute_code(key, encode_json(sorted(others.items()))))

    def seal_item(self, key: str, document: str) -> tuple[str, str]:
        """Return a JSON object with its code as its last member, and the code."""
        code = self._compute_code(key, document)
        return f"{document[:-1]}{_OPENING}{code}{_CLOSING}", code

    def open_item(self, key: str, item: str, code: str) -> str | None:
        """Return the JSON object without its code; None if the item does not have this code, or the code is wrong."""
        document = f"{item[:-_TAIL_LENGTH]}}}"
        if item[-_TAIL_LENGTH:] != f"{_OPENING}{code}{_CLOSING}" or not _is_equal(
            code, self._compute_code(key, document)
        ):
            return None
        return document

    def _compute_code(self, key: str, content: str) -> str:
        signed_content = f"{len(key)}:{key}{content}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret, signed_content, "sha256").hex()


def _is_equal(code: str, expected: str) -> bool:
    return hmac.compare_digest(code.encode("utf-8", "surrogatepass"), expected.encode())
