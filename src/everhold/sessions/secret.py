"""The secret that cached sessions are sealed with. It is in the records, which other users of the cache cannot read."""

import secrets

from everhold.errors import StoreReadOnly
from everhold.model import Secret
from everhold.ports.records import Records
from everhold.schema.operations import Ensure, Op, Where

_NAME = "session-cache"
_BYTES = 32


def load_secret(records: Records) -> bytes:
    """Return the store's secret, created at the first call. With a read-only store, every process has its own."""
    stored = _find(records)
    if stored is None:
        secret = secrets.token_bytes(_BYTES)
        try:
            records.commit([Ensure(Secret(name=_NAME, value=secret))])
        except StoreReadOnly:
            return secret
        stored = _find(records) or secret  # another process may have been faster
    return stored


def _find(records: Records) -> bytes | None:
    rows = records.scan(Secret, None, [Where("name", Op.EQ, _NAME)], limit=1)
    return rows[0].value if rows else None
