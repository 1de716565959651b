"""The rights of the engine's role on each table: no more than a running engine needs.

Every table of the catalog is listed here, so a new table needs a decision about its rights. The policies in
`security.py` determine the rows that a role sees.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import psycopg

from everhold.schema.catalog import TABLES
from everhold.schema.sql import quote, quote_names

Session = psycopg.Connection[tuple[Any, ...]]

_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
_READ = ("SELECT",)
_ADD_AND_CHANGE = ("SELECT", "INSERT", "UPDATE")
_WRITE_ONCE = ("SELECT", "INSERT")
_ADD_AND_REMOVE = ("SELECT", "INSERT", "DELETE")
_ROWS = ("SELECT", "INSERT", "UPDATE", "DELETE")
_MAINTAINABLE_SINCE = 170_000  # PostgreSQL 17 introduced the right MAINTAIN

PRIVILEGES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "organizations", "users", "projects", "agents", "blocks", "tools", "blocks_agents", "tools_agents",
            "sessions", "conversations", "agent_states", "messages", "episodes", "executions", "cycles",
            "action_proposals", "action_results", "memories", "memory_tags", "memory_relationships", "revisions",
            "changes", "workspaces", "workspace_files", "snapshots", "blobs", "sources", "connections",
            "table_metadata", "field_metadata", "query_patterns", "query_lessons", "query_runs", "chunks", "outbox",
            "api_keys", "data_keys", "jobs", "projection_states", "embedding_models", "move_marks", "session_archives",
            "archive_files", "backup_targets",
        ),
        _ROWS,
    ),
    # Lines of the access log are added and sealed; they are deleted only with their organization, by cascade.
    "memory_access_logs": _ADD_AND_CHANGE,
    # The end of each organization's chain outlives the organization.
    "log_heads": _ADD_AND_CHANGE,
    # The erasure list outlives the users on it.
    "user_erasures": _ADD_AND_CHANGE,
    # These rows are added and changed, never deleted.
    "leases": _ADD_AND_CHANGE,
    "counters": _ADD_AND_CHANGE,
    "maintenance_runs": _ADD_AND_CHANGE,
    # A secret is written once and never changed or removed.
    "secrets": _WRITE_ONCE,
    "outbox_marks": _ADD_AND_REMOVE,
    # Only the owner changes the schema; the engine reads its version.
    "schema_versions": _READ,
}  # fmt: skip

_DEVIATIONS = """SELECT tables.name, rights.name, has_table_privilege(%(role)s, quote_ident(tables.name), rights.name)
FROM unnest(%(tables)s::text[]) AS tables(name), unnest(%(rights)s::text[]) AS rights(name)
WHERE has_table_privilege(%(role)s, quote_ident(tables.name), rights.name)
  <> ((tables.name || ' ' || rights.name) = ANY(%(expected)s)) ORDER BY 1, 2"""
_CREATES = """SELECT 'schema ' || quote_ident(current_schema())
  WHERE has_schema_privilege(%(role)s, current_schema(), 'CREATE')
UNION ALL SELECT 'database ' || quote_ident(current_database())
  WHERE has_database_privilege(%(role)s, current_database(), 'CREATE')"""


class Deviation(NamedTuple):
    """A right on a table that a role has and should not have, or lacks and needs."""

    table: str
    right: str
    is_excess: bool


def grant(owner: Session, role: str) -> None:
    """Grant a role exactly its rights. On servers with the right MAINTAIN, the role may also vacuum and analyse."""
    [(schema, can_create)] = owner.execute(
        "SELECT current_schema()::text, has_schema_privilege(%s, current_schema(), 'CREATE')", [role]
    ).fetchall()
    if can_create:
        owner.execute(f"REVOKE CREATE ON SCHEMA {quote(schema)} FROM {quote(role)}".encode())
    if not find_deviations(owner, role):
        return
    owner.execute(f"GRANT USAGE ON SCHEMA {quote(schema)} TO {quote(role)}".encode())
    owner.execute(f"REVOKE ALL ON {quote_names(list(TABLES))} FROM PUBLIC, {quote(role)}".encode())
    for rights in sorted(set(PRIVILEGES.values())):
        names = [name for name in TABLES if PRIVILEGES[name] == rights]
        owner.execute(f"GRANT {', '.join(rights)} ON {quote_names(names)} TO {quote(role)}".encode())
    if owner.info.server_version >= _MAINTAINABLE_SINCE:
        owner.execute(f"GRANT MAINTAIN ON {quote_names(list(TABLES))} TO {quote(role)}".encode())


def find_deviations(connection: Session, role: str) -> list[Deviation]:
    """Return the differences between a role's rights, direct or through groups, and `PRIVILEGES`."""
    expected = [f"{name} {right}" for name, rights in PRIVILEGES.items() for right in rights]
    values = {"role": role, "tables": list(TABLES), "rights": list(_RIGHTS), "expected": expected}
    return [Deviation(*row) for row in connection.execute(_DEVIATIONS, values).fetchall()]


def describe_faults(connection: Session, role: str) -> Sequence[str]:
    """Return a sentence for each right that a role lacks or has in excess, with the remedy."""
    remedy = "open the store once with postgres.owner_url"
    full_remedy = f"{remedy}, and revoke what is granted to PUBLIC and to groups of the role"
    creates = connection.execute(_CREATES, {"role": role}).fetchall()
    return [
        *(
            f"role {role!r} has the right {right} on table {table}, which the engine does not need; {full_remedy}"
            if is_excess
            else f"role {role!r} lacks the right {right} on table {table}; {remedy}"
            for table, right, is_excess in find_deviations(connection, role)
        ),
        *(f"role {role!r} can create objects in {name}; revoke CREATE on it from the role" for (name,) in creates),
    ]
