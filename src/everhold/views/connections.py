"""The verbs on connected databases."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import everhold
from everhold.arguments.checks import DatabaseUrl
from everhold.arguments.verbs import check_verbs, log_as
from everhold.errors import Argument, InvalidInput, MissingExtra, Remedy
from everhold.progress import StepProgress, ignore_progress
from everhold.tenancy.deletion import Deleted
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView

if TYPE_CHECKING:
    from everhold.ask.connections.deps import ConnectionDeps
    from everhold.ask.connections.policy import ConnectionPolicy
    from everhold.parts import Parts


@check_verbs
class ConnectionVerbs(ScopedView):
    """The databases that are connected to the scope's project."""

    @log_as("create")
    def connect(
        self,
        name: str,
        url: DatabaseUrl | None = None,
        *,
        url_env: str | None = None,
        schema: str | None = None,
        progress: Callable[[StepProgress], None] | None = None,
    ) -> "everhold.ConnectedDatabase":
        """Connect a database under a name, and read the catalog of its tables. `ask` and `sql` then query it,
        read-only.

        `url` is postgresql://…, mysql://…, sqlite:///file or duckdb:///file, or a URL for a driver of SQLAlchemy or
        ADBC that the settings allow. A URL with a password is stored only if a master key is set; otherwise put it into
        an environment variable and pass the variable's name as `url_env`. `schema` is the schema of the tables on
        PostgreSQL, by default "public". If the name is in use, its connection gets the new address.

        Raise InvalidInput if the settings do not allow the host or the file, QueryFailed if the role can read files of
        the server, DataUnavailable if the database does not answer.
        """
        from everhold.ask.connections.connecting import ConnectionTarget, connect_database

        deps = make_connection_deps(self._parts)
        if (url is None) == (url_env is None):
            remedy = Remedy("pass a URL, or the name of a variable with {}", Argument("url_env"))
            raise InvalidInput("a connection has one address", remedy=remedy)
        address = deps.policy.check_url(url) if url is not None else deps.policy.check_variable(str(url_env))
        target = ConnectionTarget(address, url_env, schema)
        return connect_database(deps, self.scope, name, target, progress or ignore_progress)

    @log_as("read")
    def connections(self) -> "Sequence[everhold.ConnectionSummary]":
        """Return the connected databases, by name, without their secrets."""
        from everhold.ask.connections.summary import summarize_connection
        from everhold.ask.sources.lookup import list_connections

        rows = list_connections(self._parts.records, self.scope)
        self._log_call("read", {"connections": len(rows)})
        return [summarize_connection(row) for row in rows]

    @log_as("update")
    def refresh_connection(
        self, connection: str, *, progress: Callable[[StepProgress], None] | None = None
    ) -> "everhold.ConnectedDatabase":
        """Read the tables of a connected database again; `changes` of the result lists what has changed.

        Descriptions that users wrote are kept.
        """
        from everhold.ask.connections.connecting import refresh_connection

        deps = make_connection_deps(self._parts)
        return refresh_connection(deps, self.scope, connection, progress or ignore_progress)

    @log_as("delete")
    def delete_connection(self, connection: str, *, hard: bool = False, preview: bool = False) -> Deleted:
        """Hide a connection and its tables, until `restore_connection`; the database itself is not touched.

        With `hard` they are purged; with `preview` the rows are only counted.
        """
        from everhold.ask.connections.deletion import count_connection_rows, delete_connection, find_doomed_connection
        from everhold.views.data_deps import make_data_deps

        deps = make_data_deps(self._parts)
        row = find_doomed_connection(deps, self.scope, connection, hard=hard)
        rows = {} if row.is_deleted else count_connection_rows(deps, row)
        if preview:
            self._log_call("read", {"connection": row.id, "preview": sum(rows.values())})
            return Deleted(rows, preview=True)
        delete_connection(deps, self.scope, row, hard=hard)
        if hard:
            self._parts.write_deps.drop_cached_texts()
        return Deleted(rows)

    @log_as("update")
    def restore_connection(self, connection: str) -> "everhold.ConnectionSummary":
        """Restore a deleted connection and its tables."""
        from everhold.ask.connections.deletion import restore_connection
        from everhold.ask.connections.summary import summarize_connection
        from everhold.views.data_deps import make_data_deps

        return summarize_connection(restore_connection(make_data_deps(self._parts), self.scope, connection))


class AsyncConnectionVerbs(AsyncFacade):
    """The verbs of `ConnectionVerbs`, awaited."""

    connect = Awaited(ConnectionVerbs.connect)
    connections = Awaited(ConnectionVerbs.connections)
    refresh_connection = Awaited(ConnectionVerbs.refresh_connection)
    delete_connection = Awaited(ConnectionVerbs.delete_connection)
    restore_connection = Awaited(ConnectionVerbs.restore_connection)


def make_connection_deps(parts: "Parts") -> "ConnectionDeps":
    """Return the parts that the verbs on connections use. Raise MissingExtra if sqlglot, the SQL parser, is not
    installed."""
    from importlib.util import find_spec

    from everhold.adapters.data_engine import SandboxedProfiler
    from everhold.ask.connections.deps import ConnectionDeps
    from everhold.ports.databases import ProfileLimits
    from everhold.views.data_deps import make_data_deps

    if find_spec("sqlglot") is None:
        raise MissingExtra("sqlglot is not installed", remedy="install everhold[connect]")
    limits = ProfileLimits(seconds=parts.settings.connections.seconds)
    return ConnectionDeps(make_data_deps(parts), make_connection_policy(parts), SandboxedProfiler(), limits)


def make_connection_policy(parts: "Parts") -> "ConnectionPolicy":
    """Return the policy that says which databases the settings allow to connect."""
    from everhold.adapters.address import read_file, read_scheme
    from everhold.ask.connections.policy import ConnectionPolicy
    from everhold.settings import read_variable

    settings = parts.settings
    allowed = settings.connections
    is_file = read_scheme(settings.storage) in ("sqlite", "duckdb")
    store_files = (read_file(settings.storage).path,) if is_file else ()
    return ConnectionPolicy(
        read_variable,
        allowed.hosts,
        allowed.drivers,
        allowed.folders,
        store_files,
        allowed.variables,
        can_keep_secrets(parts),
    )


def can_keep_secrets(parts: "Parts") -> bool:
    """Return whether the store encrypts the addresses of connections, that is, whether it has a master key."""
    encryption = parts.encryption
    return encryption is not None and not encryption.is_missing
