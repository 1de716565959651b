"""Change the description of a table or a column."""

from everhold import clock
from everhold.ask.sources.deps import DataDeps
from everhold.ask.sources.lookup import get_owner_id, require_field, require_table
from everhold.ask.sources.pipeline import find_chunk_keys
from everhold.ask.sources.rows import BY_USER
from everhold.errors import StaleVersion
from everhold.model import Chunk, FieldMetadata, Scope, TableMetadata
from everhold.model.announcement import make_announcement
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.schema.operations import Delete, Patch, Put


def update_description(
    deps: DataDeps, scope: Scope, table_name: str, field_name: str | None, description: str
) -> TableMetadata | FieldMetadata:
    """Store and index a user's description of a table or one of its columns, and return the row."""

    def attempt(_: int) -> TableMetadata | FieldMetadata:
        now = clock.now()
        table = require_table(deps.records, scope, table_name)
        row = table if field_name is None else require_field(deps.records, table, field_name)
        values = {
            "description": description,
            "metadata": {**row.metadata, "described_by": BY_USER},
            "updated_at": now,
            "last_updated_by_id": scope.actor,
        }
        changed = row.evolve(**values, version=row.version + 1)
        kind = "table" if field_name is None else "field"
        keys = find_chunk_keys(deps, row.organization_id, kind, [row.id])
        operations = [
            Patch(type(row), (row.organization_id, row.id), values, version=row.version),
            *[Delete(Chunk, key) for key in keys],
            *map(Put, deps.make_chunks([changed])[0]),
            # Caches compare the versions of tables, not those of their columns.
            *([] if row is table else [Patch(TableMetadata, (table.organization_id, table.id), {"updated_at": now})]),
            deps.make_line(scope, "update", get_owner_id(table), now, table=table.id),
            Put(make_announcement(changed)),
        ]
        try:
            deps.records.commit(operations)
        except StaleVersion as error:
            raise TryAgain("another caller changed the row") from error
        return changed

    return retry("describe a table", attempt, CONFLICTS)
