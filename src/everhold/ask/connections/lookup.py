"""Find the connections that a scope may use."""

from everhold.ask.sources.lookup import list_connections, require_source
from everhold.errors import InvalidInput, NotFound, Remedy, Verb
from everhold.model import Connection, Scope, Source
from everhold.ports.records import Records


def require_connection(records: Records, scope: Scope, name: str, *, deleted: bool = False) -> Connection:
    """Return the connection with this id or name; with `deleted`, a deleted one."""
    rows = [row for row in list_connections(records, scope, deleted=deleted) if row.is_deleted == deleted]
    matching = [row for row in rows if row.id == name] or [row for row in rows if row.name == name]
    if not matching:
        word = "deleted connection" if deleted else "connection"
        raise NotFound(
            f"no {word} {name!r} in this scope", value=name, remedy=Remedy("{} lists them", Verb("connections"))
        )
    if len({row.project_id for row in matching}) > 1:
        projects = ", ".join(sorted({row.project_id for row in matching})[:5])
        raise InvalidInput(
            f"several projects have a connection {name!r}: {projects}", value=name, remedy="name a project"
        )
    return max(matching, key=lambda row: row.created_at)


def require_owner(records: Records, scope: Scope, name: str) -> Source | Connection:
    """Return the connection or the source with this id or name. Raise NotFound if there is none."""
    matching = [row for row in list_connections(records, scope) if name in (row.id, row.name)]
    return matching[0] if len(matching) == 1 else require_source(records, scope, name)
