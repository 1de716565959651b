"""`ConnectionSummary`, the values of a connection that may be shown. Its full address may contain a secret."""

from dataclasses import dataclass
from datetime import datetime

from everhold.model import Connection


@dataclass(frozen=True)
class ConnectionSummary:
    """A connected database without its secret.

    `address` is the URL without the password, or the name of the environment variable with the URL. `server` is the
    product and its version at `refreshed_at`, when the tables were last read. `notes` are sentences about the
    connection.
    """

    id: str
    name: str
    project_id: str
    kind: str
    dialect: str
    address: str
    schema: str | None
    server: str
    notes: tuple[str, ...]
    created_at: datetime
    refreshed_at: datetime
    deleted_at: datetime | None = None


def summarize_connection(connection: Connection) -> ConnectionSummary:
    """Return the values of a connection that may be shown."""
    details, options = connection.metadata, connection.options
    schema = options.get("schema")
    return ConnectionSummary(
        connection.id,
        connection.name,
        connection.project_id,
        connection.kind,
        str(options.get("dialect", connection.kind)),
        str(options.get("address", "")),
        None if schema is None else str(schema),
        str(details.get("server", "")),
        tuple(map(str, details.get("notes", ()))),
        connection.created_at,
        connection.updated_at,
        connection.deleted_at,
    )
