"""The secret that cached sessions are sealed with. It is in the records, which other users of the cache cannot read."""

import secrets

from everhold.errors import StoreReadOnly
from everhold.model import ProjectionState
from everhold.ports.records import Records
from everhold.schema.operations import Ensure, Op, Where

_ROW = "secret/session-cache"
_BYTES = 32


def load_secret(records: Records) -> bytes:
    """Return the store's secret, created at the first call. With a read-only store, every process has its own.

    It is kept in the column `lease_holder` of a projection state, a table that is neither exported nor moved.
    """
    stored = _find(records)
    if stored is None:
        secret = secrets.token_bytes(_BYTES)
        try:
            records.commit([Ensure(ProjectionState(projection=_ROW, lease_holder=secret.hex()))])
        except StoreReadOnly:
            return secret
        stored = _find(records) or secret  # another process may have been faster
    return stored


def _find(records: Records) -> bytes | None:
    rows = records.scan(ProjectionState, None, [Where("projection", Op.EQ, _ROW)], limit=1)
    return bytes.fromhex(rows[0].lease_holder) if rows and rows[0].lease_holder else None
