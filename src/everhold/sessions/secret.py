"""Load the secret with which cached sessions are signed.

It is stored in the records, which other users of the cache cannot read.
"""

import secrets

from everhold.errors import StoreReadOnly
from everhold.model import Secret
from everhold.ports.records import Records
from everhold.schema.operations import Ensure, Op, Where

_NAME = "session-cache"
_BYTES = 32  # the output length of HMAC-SHA-256, which signs the entries


def load_secret(records: Records) -> bytes:
    """Return the store's secret, created at the first call; on a read-only store, every process has its own."""
    stored = _find(records)
    if stored is None:
        secret = secrets.token_bytes(_BYTES)
        try:
            # Ensure keeps a row that another process wrote first, and all processes then read that one.
            records.commit([Ensure(Secret(name=_NAME, value=secret))])
        except StoreReadOnly:
            return secret
        stored = _find(records) or secret
    return stored


def _find(records: Records) -> bytes | None:
    rows = records.scan(Secret, None, [Where("name", Op.EQ, _NAME)], limit=1)
    return rows[0].value if rows else None
