"""Find the memories that the relationships of an import are between, before and after they are stored."""

from everhold.model import Memory, Scope
from everhold.ports.records import Records
from everhold.remember.lookup import require_memory

# The maximum number of memory ids that an import keeps, for the relationships between memories.
_MAX_NOTED = 200_000


class LinkedMemories:
    """Notes the memories of an import under their original ids, by which relationships name them."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._checked: set[int] = set()
        """Hashes of the original ids of checked memories, because the ids of an import may be long."""
        self._stored_ids: dict[str, str] = {}
        """Maps the original ids of memories to the ids that the store has for them."""

    def restart(self) -> None:
        """Forget the memories that were checked."""
        self._checked.clear()

    def note_checked(self, imported: Memory) -> None:
        """Note a memory that can be stored."""
        if len(self._checked) < _MAX_NOTED:
            self._checked.add(hash(imported.original_id))

    def require(self, scope: Scope, name: str) -> None:
        """Raise NotFound if neither the import nor the store has a memory.

        A very large import is not checked, because not all of its memories are noted.
        """
        if hash(name) not in self._checked and len(self._checked) < _MAX_NOTED:
            require_memory(self._records, scope, name)

    def note_stored(self, imported: Memory, stored_id: str) -> None:
        """Note the id that the store has for a memory."""
        # Relationships find memories that are not kept here by their keys, with a query for each.
        if imported.original_id != stored_id and len(self._stored_ids) < _MAX_NOTED:
            self._stored_ids[imported.original_id] = stored_id

    def find_id(self, name: str) -> str:
        """Return the id that the store has for a memory; the original id if no other is noted."""
        return self._stored_ids.get(name, name)
