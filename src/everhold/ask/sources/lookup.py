"""Find the sources, connections and tables that a scope may read.

Data belongs to a project. A scope that names a project reads the data of that project. A scope that names only a user,
an agent or a session has an implicit project. A scope of the whole organization reads the data of all its projects.
"""

import hashlib
from collections.abc import Sequence

from everhold.errors import InvalidInput, NotFound, Remedy, Verb
from everhold.model import Connection, FieldMetadata, Scope, Source, TableMetadata
from everhold.model.fields import ID_LENGTH
from everhold.model.validation import suggest_name
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where

DEFAULT_PROJECT = "data"
READY, REPLACED = "ready", "replaced"
_BATCH = 500


def find_project(scope: Scope) -> str | None:
    """Return the project whose data a scope reads; None if it reads the data of all projects."""
    if scope.project is not None:
        return scope.project
    for dimension in ("user", "agent", "session"):
        name = getattr(scope, dimension)
        if name is not None:
            project = f"data-of-{dimension}-{name}"
            return project if len(project) <= ID_LENGTH else hashlib.sha256(project.encode()).hexdigest()
    return None


def narrow_to_project(scope: Scope) -> Scope:
    """Return the scope of the project whose data a scope reads."""
    return Scope(organization=scope.organization, project=find_project(scope))


def _list_conditions(scope: Scope) -> list[Where]:
    """Return the conditions that limit rows to the data that a scope reads."""
    project = find_project(scope)
    return [] if project is None else [Where("project_id", Op.EQ, project)]


def list_sources(records: Records, scope: Scope, *, every_version: bool = False, deleted: bool = False) -> list[Source]:
    """Return the sources that a scope may read, latest first, by default only the current version of each file."""
    where = [*_list_conditions(scope), *([] if every_version else [Where("status", Op.EQ, READY)])]
    return records.scan(Source, scope.organization, where, order="created_at", descending=True, deleted=deleted)


def list_connections(records: Records, scope: Scope, *, deleted: bool = False) -> list[Connection]:
    """Return the connections that a scope may read, ordered by name."""
    return records.scan(Connection, scope.organization, _list_conditions(scope), order="name", deleted=deleted)


def list_tables(records: Records, scope: Scope, owner: Source | Connection | None = None) -> list[TableMetadata]:
    """Return the tables of all current sources and connections of a scope, or of `owner`, ordered by name."""
    if owner is None:
        owners = [*list_sources(records, scope), *list_connections(records, scope)]
        where = _list_conditions(scope)
    else:
        column = "source_id" if isinstance(owner, Source) else "connection_id"
        owners, where = [owner], [*_list_conditions(scope), Where(column, Op.EQ, owner.id)]
    current = {row.id for row in owners}
    tables = records.scan(TableMetadata, scope.organization, where, order="table_name")
    return [table for table in tables if get_owner_id(table) in current]


def get_owner_id(table: TableMetadata) -> str:
    """Return the id of the source or of the connection that a table belongs to."""
    return str(table.source_id if table.source_id is not None else table.connection_id)


def read_versions(records: Records, scope: Scope) -> frozenset[tuple[str, int]]:
    """Return the ids and versions of the current sources, the connections and the tables of a scope.

    The rows themselves are not read.
    """
    names, where = ("id", "version"), _list_conditions(scope)
    sources = records.columns(Source, scope.organization, names, [*where, Where("status", Op.EQ, READY)])
    others = [records.columns(entity, scope.organization, names, where) for entity in (Connection, TableMetadata)]
    return frozenset((str(row_id), int(version)) for rows in (sources, *others) for row_id, version in rows)


def list_fields(records: Records, organization: str, table_ids: Sequence[str]) -> dict[str, list[FieldMetadata]]:
    """Return the columns of tables by the table's id, in their order."""
    fields: dict[str, list[FieldMetadata]] = {table_id: [] for table_id in table_ids}
    for start in range(0, len(table_ids), _BATCH):
        where = [Where("table_id", Op.IN, list(table_ids[start : start + _BATCH]))]
        for row in records.scan(FieldMetadata, organization, where):
            fields[row.table_id].append(row)
    return {table_id: sorted(rows, key=_get_position) for table_id, rows in fields.items()}


def _get_position(row: FieldMetadata) -> tuple[int, str]:
    position = row.metadata.get("position")
    return (position if isinstance(position, int) else 0), row.name


def require_source(records: Records, scope: Scope, name: str, *, deleted: bool = False) -> Source:
    """Return the source with this id or name; for a name, its current version. With `deleted`, a deleted source."""
    rows = [
        row
        for row in list_sources(records, scope, every_version=True, deleted=deleted)
        if name in (row.id, row.name) and row.is_deleted == deleted
    ]
    exact = [row for row in rows if row.id == name]
    current = exact or [row for row in rows if row.status == READY]
    if not current:
        word = "deleted source" if deleted else "source"
        raise NotFound(f"no {word} {name!r} in this scope", value=name, remedy=Remedy("{} lists them", Verb("sources")))
    if len({row.project_id for row in current}) > 1:
        projects = ", ".join(sorted({row.project_id for row in current})[:5])
        raise InvalidInput(f"several projects have a source {name!r}: {projects}", value=name, remedy="name a project")
    return current[0]


def list_versions(records: Records, source: Source, *, deleted: bool = False) -> list[Source]:
    """Return all versions of the file of a source, the latest first."""
    where = [Where("project_id", Op.EQ, source.project_id), Where("name", Op.EQ, source.name)]
    rows = records.scan(Source, source.organization_id, where, order="created_at", descending=True, deleted=deleted)
    return [row for row in rows if row.is_deleted == deleted]


def require_table(records: Records, scope: Scope, name: str) -> TableMetadata:
    """Return the table with this id or name. Raise InvalidInput if several sources or projects have a table of the
    name."""
    tables = list_tables(records, scope)
    named = [table for table in tables if table.id == name]
    named = named or [table for table in tables if table.table_name == name]
    named = named or [table for table in tables if table.table_name.lower() == name.lower()]
    if not named:
        suggestion = suggest_name(name, [table.table_name for table in tables])
        raise NotFound(
            f"no table {name!r} in this scope",
            value=name,
            remedy=suggestion or Remedy("{} lists them", Verb("tables")),
        )
    if len(named) > 1:
        ids = ", ".join(table.id for table in named[:5])
        raise InvalidInput(f"{len(named)} tables are called {name!r}: {ids}", value=name, remedy="name one by its id")
    return named[0]


def require_field(records: Records, table: TableMetadata, name: str) -> FieldMetadata:
    """Return the column of a table with this name."""
    fields = list_fields(records, table.organization_id, [table.id])[table.id]
    named = [field for field in fields if field.name == name]
    named = named or [field for field in fields if field.name.lower() == name.lower()]
    if not named:
        raise NotFound(
            f"table {table.table_name!r} has no column {name!r}",
            value=name,
            remedy=suggest_name(name, [field.name for field in fields]),
        )
    return named[0]
