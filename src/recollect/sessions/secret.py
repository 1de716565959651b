"""The secret that cached sessions are sealed with. It is in the records, which other users of the cache cannot read."""

import secrets

from recollect.errors import StoreReadOnly
from recollect.model import ProjectionState
from recollect.ports.records import Records
from recollect.schema.operations import Ensure, Op, Where

_ROW = "secret/session-cache"
_BYTES = 32


def load_secret(records: Records) -> bytes:
    """Return the store's secret, made at the first call. A store that cannot be written to has one per process.

    It is kept as the holder of a projection state: a row of the engine's own, which is neither exported nor moved.
    """
    stored = _find(records)
    if stored is None:
        made = secrets.token_bytes(_BYTES)
        try:
            records.commit([Ensure(ProjectionState(projection=_ROW, lease_holder=made.hex()))])
        except StoreReadOnly:
            return made
        stored = _find(records) or made  # another process may have been quicker
    return stored


def _find(records: Records) -> bytes | None:
    rows = records.scan(ProjectionState, None, [Where("projection", Op.EQ, _ROW)], limit=1)
    return bytes.fromhex(rows[0].lease_holder) if rows and rows[0].lease_holder else None
