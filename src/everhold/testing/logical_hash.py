"""Hash the content of a store, to compare its state before a run of maintenance with the state after undoing it."""

import hashlib

from everhold.model import Memory, Relationship, Tag
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.schema.catalog import get_key

_ENTITIES: tuple[type[Row], ...] = (Memory, Tag, Relationship)
# These columns say how often and when a row was changed. Undoing a change is one more change, so it differs in them.
_CHANGE_COLUMNS = frozenset({"version", "revision", "updated_at"})


def hash_logically(records: Records) -> str:
    """Return a hash of all memories, tags and relationships, including deleted rows, without `_CHANGE_COLUMNS`."""
    digest = hashlib.sha256()
    for entity in _ENTITIES:
        for row in sorted(records.scan(entity, None, deleted=True), key=get_key):
            values = sorted(row.model_dump(mode="json", exclude=set(_CHANGE_COLUMNS)).items())
            digest.update(repr((entity.__name__, values)).encode())
    return digest.hexdigest()
