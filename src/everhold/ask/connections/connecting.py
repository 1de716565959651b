"""Connect a database: read its catalog and samples in a child process, store the values, commit the rows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from everhold import clock
from everhold.ask.connections.address import has_secret
from everhold.ask.connections.deps import ConnectionDeps
from everhold.ask.connections.lookup import require_connection
from everhold.ask.connections.summary import ConnectionSummary, summarize_connection
from everhold.ask.connections.syncing import SyncedTables, TableChange, sync_tables
from everhold.ask.sources.lookup import DEFAULT_PROJECT, find_project, list_fields, list_tables
from everhold.ask.sources.pipeline import keep_descriptions
from everhold.ask.sources.rows import DescribedTable, infer_keys, make_content, make_table_rows
from everhold.errors import AlreadyExists, BrokenReference, InvalidInput, StaleVersion, StoreBusy
from everhold.model import Connection, Scope
from everhold.model.validation import validate_row
from everhold.ports.databases import DatabaseAddress, DatabaseProfile
from everhold.progress import ReportProgress, StepProgress
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.schema.operations import Op, Operation, Patch, Put, Where


@dataclass(frozen=True)
class ConnectedDatabase:
    """A connection, its tables, and the changes of its tables since they were last read.

    `is_new` is False if there was a connection of that name before. `notes` are sentences about the tables.
    """

    connection: ConnectionSummary
    tables: tuple[DescribedTable, ...]
    is_new: bool
    changes: tuple[TableChange, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ConnectionTarget:
    """The address of a database, and the environment variable that has it, if there is one."""

    address: DatabaseAddress
    variable: str | None = None
    schema: str | None = None

    def make_values(self) -> dict[str, Any]:
        """Return the values of the connection's row. They have the URL, or only the name of the variable."""
        address = self.address
        shown = str(address) if self.variable is None else f"${self.variable}"
        options = {"dialect": address.dialect, "address": shown, "has_secret": has_secret(address)}
        optional = {"url_env": self.variable, "schema": self.schema}
        options |= {name: value for name, value in optional.items() if value is not None}
        dsn = address.url.encode() if self.variable is None else b""
        return {"kind": address.driver, "dsn": dsn, "options": options}


def connect_database(
    deps: ConnectionDeps,
    scope: Scope,
    name: str,
    target: ConnectionTarget,
    report: ReportProgress,
    project: str | None = None,
) -> ConnectedDatabase:
    """Store a connection and its tables in a project, by default the scope's.

    If the project has a connection of this name, it gets this address. After a failure nothing is stored or changed.
    """
    project = project or find_project(scope) or DEFAULT_PROJECT
    data = deps.policy.make_tables(target.address, target.schema)
    profile = deps.profiler.profile(data, deps.limits, report)
    if not profile.tables:
        notes = "; ".join(profile.notes[:3])
        raise InvalidInput(
            f"the connection {name!r} shows no table{f' ({notes})' if notes else ''}",
            value=name,
            remedy="allow its role to read tables, or name another schema",
        )
    report(StepProgress("storing", 0, len(profile.tables)))
    try:
        connected = _store(deps, scope, project, name, target, profile)
    except BaseException:
        _discard_values(deps, scope.organization, project, name)
        raise
    report(StepProgress("storing", len(profile.tables), len(profile.tables)))
    return connected


def refresh_connection(deps: ConnectionDeps, scope: Scope, name: str, report: ReportProgress) -> ConnectedDatabase:
    """Read the tables of a connection again."""
    connection = require_connection(deps.data.records, scope, name)
    variable, schema = connection.options.get("url_env"), connection.options.get("schema")
    if isinstance(variable, str):
        address = deps.policy.check_variable(variable)
    else:
        address = deps.policy.open(connection).address
    target = ConnectionTarget(address, variable, schema)
    return connect_database(deps, scope, connection.name, target, report, connection.project_id)


def _find_current(deps: ConnectionDeps, organization: str, project: str, name: str) -> Connection | None:
    where = [Where("project_id", Op.EQ, project), Where("name", Op.EQ, name)]
    rows = deps.data.records.scan(Connection, organization, where, limit=1)
    return rows[0] if rows else None


def _discard_values(deps: ConnectionDeps, organization: str, project: str, name: str) -> None:
    """Delete the files of values that were stored for a commit that failed."""
    current = _find_current(deps, organization, project, name)
    if current is not None:
        deps.data.files.delete_others(organization, current.id, str(current.metadata.get("values", "")))


def _store(
    deps: ConnectionDeps, scope: Scope, project: str, name: str, target: ConnectionTarget, profile: DatabaseProfile
) -> ConnectedDatabase:
    """Store a connection with the descriptions and the sample values of its tables.

    An existing connection of this name in the project is changed. If a new connection cannot be stored, the file with
    its values is deleted.
    """
    draft_id = clock.make_id("con")
    values = [{column.name: list(column.values) for column in table.columns} for table in profile.tables]

    def commit(_: int) -> ConnectedDatabase:
        current = _find_current(deps, scope.organization, project, name)
        draft = _draft(scope, project, name, target, profile, current, draft_id)
        values_address = deps.data.files.put_values(scope.organization, draft.id, values)
        row = draft.evolve(metadata={**draft.metadata, "values": values_address})
        before = _load_described_tables(deps, row) if current is not None else []
        after = _make_rows(deps, row, profile, values_address, before)
        synced = sync_tables(deps.data, before, after, row.updated_at)
        project_scope = Scope(organization=scope.organization, project=project, user=scope.user)
        operations = [
            *deps.data.make_missing_rows(project_scope, row.updated_at),
            _make_operation(row, current),
            *synced.operations,
            deps.data.make_line(
                scope, "create" if current is None else "update", row.id, row.updated_at, tables=len(synced.tables)
            ),
        ]
        _commit(deps, operations)
        deps.data.files.delete_others(scope.organization, row.id, values_address)
        return _make_result(row, synced, profile, current)

    busy = StoreBusy("the connections of the project keep changing", value=name, remedy="try again")
    try:
        return retry("connect a database", commit, CONFLICTS, give_up=lambda _: busy)
    except BaseException:
        if not deps.data.records.get(Connection, scope.organization, [draft_id]):
            deps.data.files.delete(scope.organization, [draft_id])
        raise


def _commit(deps: ConnectionDeps, operations: Sequence[Operation]) -> None:
    try:
        deps.data.records.commit(operations)
    except BrokenReference as error:
        deps.data.invalidate_rows()
        raise TryAgain("a row of the scope was deleted") from error
    except (StaleVersion, AlreadyExists) as error:
        raise TryAgain("another caller changed the connection") from error


def _draft(
    scope: Scope,
    project: str,
    name: str,
    target: ConnectionTarget,
    profile: DatabaseProfile,
    current: Connection | None,
    draft_id: str,
) -> Connection:
    """Return the row of a connection: the current row with the new values, or a new one with the id `draft_id`."""
    now = clock.now()
    values = {
        **target.make_values(),
        "updated_at": now,
        "last_updated_by_id": scope.actor,
        "metadata": {"server": profile.server, "notes": list(profile.notes)},
    }
    if current is not None:
        return current.evolve(**values)
    identity = {"id": draft_id, "organization_id": scope.organization, "project_id": project, "name": name}
    return validate_row(Connection, {**identity, "created_at": now, "created_by_id": scope.actor, **values})


def _make_operation(row: Connection, current: Connection | None) -> Operation:
    if current is None:
        return Put(row)
    names = ("kind", "dsn", "options", "metadata", "updated_at", "last_updated_by_id")
    changes = {name: getattr(row, name) for name in names}
    return Patch(Connection, (row.organization_id, row.id), changes, version=current.version)


def _load_described_tables(deps: ConnectionDeps, connection: Connection) -> list[DescribedTable]:
    """Return the stored tables of a connection."""
    project_scope = Scope(organization=connection.organization_id, project=connection.project_id)
    tables = list_tables(deps.data.records, project_scope, connection)
    fields = list_fields(deps.data.records, connection.organization_id, [table.id for table in tables])
    return [DescribedTable(table, tuple(fields[table.id])) for table in tables]


def _make_rows(
    deps: ConnectionDeps,
    connection: Connection,
    profile: DatabaseProfile,
    values_address: str,
    before: Sequence[DescribedTable],
) -> list[DescribedTable]:
    """Return the rows of the profile's tables, with the descriptions that users gave the tables `before`."""
    contents = [make_content(table, table.name) for table in profile.tables]
    keys = _leave_out_views(infer_keys(contents, []), {table.name for table in profile.tables if table.is_view})
    described = [
        make_table_rows(
            connection, table, content, keys.get(table.name, []), {"values": values_address, "place": number}
        )
        for number, (table, content) in enumerate(zip(profile.tables, contents, strict=True))
    ]
    return list(keep_descriptions(deps.data, described, [described_table.table for described_table in before]))


def _leave_out_views(keys: Mapping[str, Sequence[Any]], views: Collection[str]) -> dict[str, list[Any]]:
    """Return the keys of each table without inferred keys that refer to views.

    A view often repeats a table, so a key to either would fit equally well.
    """
    return {
        table: [key for key in table_keys if key["declared"] or key["to_table"] not in views]
        for table, table_keys in keys.items()
    }


def _make_result(
    row: Connection, synced: SyncedTables, profile: DatabaseProfile, current: Connection | None
) -> ConnectedDatabase:
    notes = [f"{table.name}: {note}" for table in profile.tables for note in table.notes]
    changes = synced.changes if current is not None else ()
    return ConnectedDatabase(
        summarize_connection(row), synced.tables, current is None, changes, (*profile.notes, *notes)
    )
