"""Find the owner of a row: its own user, or the owner of the row that it belongs to."""

from collections.abc import Callable, Mapping
from typing import Any

from everhold.backups.sealing import RowOwner
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.schema.catalog import CATALOG, TABLES, get_table
from everhold.schema.plain_values import PlainRow
from everhold.schema.snapshots import list_snapshot_entities
from everhold.schema.table import TENANT, Reference, Table

OwnerLookup = Callable[[PlainRow], RowOwner]
_Key = tuple[str, str]


class RowOwners:
    """Finds the owners of rows. Call `note` with a row before the rows that belong to it."""

    def __init__(self) -> None:
        # By table, and by the organization and id of a row: the user who owns the row.
        self._users: dict[str, dict[_Key, str]] = {name: {} for name in _find_parent_tables()}

    def find_user(self, table: Table, values: Mapping[str, Any]) -> str | None:
        """Return the user who owns a row; None if no user does."""
        if table.name == "users":
            return str(values["id"])
        user = values.get("user_id") or None
        if user is None:
            organization = values.get(TENANT)
            for reference in _list_owning_references(table):
                if reference.kind is None or values[reference.kind[0]] == reference.kind[1]:
                    key = (str(organization), str(values[reference.columns[0]]))
                    user = user or self._users[reference.target].get(key)
        return user

    def note(self, table: Table, values: Mapping[str, Any]) -> str | None:
        """Store the owner of a row, and return it."""
        user = self.find_user(table, values)
        if user is not None and table.name in self._users and table.name != "users":
            self._users[table.name][(values[TENANT], values["id"])] = user
        return user

    def make_lookup(self, entity: type[Row]) -> OwnerLookup:
        """Return a function that returns the owner of a plain row of a table."""
        table = get_table(entity)
        names = table.names

        def find_owner(row: PlainRow) -> RowOwner:
            values = dict(zip(names, row, strict=True))
            organization = values[table.tenant] if table.tenant else None
            return RowOwner(organization, self.find_user(table, values) if organization is not None else None)

        return find_owner

    @classmethod
    def read(cls, records: Records) -> "RowOwners":
        """Return the owners of all rows to which other rows may belong."""
        owners = cls()
        for entity in list_snapshot_entities():
            table = CATALOG[entity]
            if table.name not in owners._users or table.name == "users":
                continue
            columns = [reference.columns[0] for reference in _list_owning_references(table)]
            user_columns = ["user_id"] if "user_id" in table.by_name else []
            names = list(dict.fromkeys([TENANT, "id", *user_columns, *columns]))
            for values in records.columns(entity, None, names, deleted=True):
                owners.note(table, dict(zip(names, values, strict=True)))
        return owners


def _list_owning_references(table: Table) -> list[Reference]:
    """Return the references of a table to rows that its rows belong to and that a user may own."""
    return [
        reference
        for reference in table.references
        if reference.on_delete == "cascade" and reference.target not in ("organizations", "users", "projects", "agents")
    ]


def _find_parent_tables() -> set[str]:
    return {reference.target for table in TABLES.values() for reference in _list_owning_references(table)}
