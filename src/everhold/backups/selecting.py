"""Select the rows of a backup to restore: all, of one organization or of one user, without erased users."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from everhold.backups.manifest import USE_ANOTHER, BackedUpFile, Manifest
from everhold.backups.owners import RowOwners
from everhold.errors import NotFound, StoreDamaged
from everhold.model import AccessLog, Organization, UserErasure
from everhold.model.base import Row, make_field_adapter
from everhold.model.encrypted_values import is_encrypted, is_encrypted_hash
from everhold.model.validation import explain_errors
from everhold.schema.catalog import CATALOG
from everhold.schema.table import Table

# Returns whether an entry of the erasure list is about the user with this id.
IsSubject = Callable[[UserErasure, str], bool]


class Erasures:
    """Recognises users who were erased after a backup. The erasure list has hashes of their ids, not the ids."""

    def __init__(self, rows: Sequence[UserErasure], is_subject: IsSubject, at: datetime) -> None:
        """`at` is the time of the backup. If a user in it was erased before that time, the user was created again.

        The latest time of an erasure counts: one that was interrupted may have been continued after the backup.
        """
        self._rows = [row for row in rows if row.updated_at > at]
        self._is_subject = is_subject
        self._answers: dict[tuple[str, str], bool] = {}

    def has(self, organization: str, user_id: str) -> bool:
        key = (organization, user_id)
        if key not in self._answers:
            rows = (row for row in self._rows if row.organization_id == organization)
            self._answers[key] = any(self._is_subject(row, user_id) for row in rows)
        return self._answers[key]


class TableReader(Protocol):
    """Reads the tables of one backup, or of a time between two backups."""

    @property
    def identity(self) -> str:
        """A text that identifies the backup and the time of the rows."""
        ...

    @property
    def manifest(self) -> Manifest: ...

    def list_entities(self) -> list[type[Row]]: ...

    def read_fields(self, entity: type[Row]) -> Iterator[dict[str, Any]]: ...

    def count_row(self, table: Table) -> None:
        """Count the last row that was read as restored."""
        ...


_FIELD_COUNTER_PREFIX = "encrypted field "
_LOG = "memory_access_logs"


class SelectedRows:
    """The selected and validated rows of a backup."""

    def __init__(
        self,
        reader: TableReader,
        erasures: Erasures,
        organization: str | None = None,
        user_id: str | None = None,
        *,
        every_counter: bool = False,
    ) -> None:
        """With `user_id`, the user's rows and the rows that they refer to are selected.

        Most counters are positions in the log of one store, so only those about encryption are selected.
        `every_counter` selects all of them, for a temporary store that is compared with the backup.
        """
        self._every_counter = every_counter
        self._reader, self._erasures = reader, erasures
        self._organization, self._user_id = organization, user_id
        self.identity = f"backup {reader.identity}/{organization or ''}/{user_id or ''}"[:255]
        self._owners = RowOwners()
        self._needed: dict[str, set[str]] | None = None
        self.left_out = 0
        """The number of rows of erased users that the last reading of all tables left out."""

    def require_organization(self) -> None:
        """Raise NotFound if the backup does not have the organization whose rows are restored."""
        if self._organization is None:
            return
        if all(values["id"] != self._organization for values in self._reader.read_fields(Organization)):
            raise NotFound(
                f"the backup has no organization {self._organization!r}",
                value=self._organization,
                remedy="check its id; nothing was restored",
            )

    def list_entities(self) -> list[type[Row]]:
        self._owners, self.left_out = RowOwners(), 0
        entities = self._reader.list_entities()
        if self._organization is None:
            return entities
        if self._user_id is not None:  # only a complete log can be verified
            entities = [entity for entity in entities if entity is not AccessLog]
        return [entity for entity in entities if CATALOG[entity].tenant is not None]

    def read(self, entity: type[Row], *, is_checked: bool) -> Iterator[Row]:
        """Yield the selected rows of a table. Rows that were read before (`is_checked`) are not validated again."""
        table = CATALOG[entity]
        for values in self._reader.read_fields(entity):
            if not self._is_selected(table, values):
                continue
            self._reader.count_row(table)
            if is_checked:
                yield entity.build_unchecked(values)
                continue
            try:
                yield _validate(entity, values)
            except ValidationError as error:
                reason = explain_errors(error, f"a row of {table.name}", entity.model_fields)
                raise StoreDamaged(f"the backup is not one that Everhold wrote: {reason}", remedy=USE_ANOTHER) from None

    def _is_selected(self, table: Table, values: Mapping[str, Any]) -> bool:
        if table.tenant is None:
            is_log_position = table.name == "counters" and not str(values["name"]).startswith(_FIELD_COUNTER_PREFIX)
            return self._every_counter or not is_log_position
        organization = values[table.tenant]
        if self._organization is not None and organization != self._organization:
            return False
        user_id = self._owners.note(table, values)
        # All lines of the log are kept. They have no content, and the chain would break without them.
        if user_id is not None and table.name != _LOG and self._erasures.has(organization, user_id):
            self.left_out += 1
            return False
        return self._user_id is None or user_id == self._user_id or self._is_needed(table, values)

    def _is_needed(self, table: Table, values: Mapping[str, Any]) -> bool:
        """Return whether a row of the selected user refers to this row."""
        if self._needed is None:
            self._needed = self._find_needed()
        return values.get("id") in self._needed.get(table.name, ())

    def _find_needed(self) -> dict[str, set[str]]:
        """Return the ids of the rows that the user's rows refer to, directly or through others, by table."""
        owned, needed = self._find_owned(), dict[str, set[str]]()
        # Children come before their parents, so that the rows that a needed row refers to are found too.
        for entity in reversed(self._reader.list_entities()):
            table = CATALOG[entity]
            if table.tenant is None or not table.references:
                continue
            for values in self._reader.read_fields(entity):
                is_owned = values[table.tenant] == self._organization and _get_identity(table, values) in owned
                if not is_owned and values.get("id") not in needed.get(table.name, ()):
                    continue
                if values[table.tenant] != self._organization:
                    continue
                for reference in table.references:
                    if reference.kind is None or values[reference.kind[0]] == reference.kind[1]:
                        needed.setdefault(reference.target, set()).add(values[reference.columns[0]])
        return needed

    def _find_owned(self) -> set[tuple[str, Any]]:
        """Return the table and the key of every row that belongs to the chosen user; raise NotFound if the user is
        missing.
        """
        owners, owned = RowOwners(), set[tuple[str, Any]]()
        for entity in self._reader.list_entities():
            table = CATALOG[entity]
            if table.tenant is None:
                continue
            for values in self._reader.read_fields(entity):
                if values[table.tenant] == self._organization and owners.note(table, values) == self._user_id:
                    owned.add(_get_identity(table, values))
        if ("users", (self._organization, self._user_id)) not in owned:
            raise NotFound(
                f"the backup has no user {self._user_id!r} in organization {self._organization!r}",
                value=self._user_id,
                remedy="check the id and the organization; nothing was restored",
            )
        return owned

    def select_files(self) -> list[BackedUpFile]:
        """Return the files that belong to the rows."""
        return [file for file in self._reader.manifest.files if self._is_file_selected(file)]

    def _is_file_selected(self, file: BackedUpFile) -> bool:
        if self._organization is not None and file.organization != self._organization:
            return False
        if file.user_id is not None and self._erasures.has(file.organization, file.user_id):
            return False
        return self._user_id is None or file.user_id == self._user_id


def _get_identity(table: Table, values: Mapping[str, Any]) -> tuple[str, Any]:
    return table.name, tuple(values[name] for name in table.key)


def _validate(entity: type[Row], values: dict[str, Any]) -> Row:
    """Return a validated row. Encrypted values are not checked; they were checked before their encryption."""
    if not any(map(is_encrypted, values.values())):
        return entity.model_validate(values)
    adapters = _make_adapters(entity)
    for name, value in values.items():
        # The hash of an encrypted text is encrypted too, and longer than a plain hash.
        if not is_encrypted(value) and not (name == "hash" and is_encrypted_hash(value)):
            adapters[name].validate_python(value)
    return entity.build_unchecked(values)


@cache
def _make_adapters(entity: type[Row]) -> dict[str, TypeAdapter[Any]]:
    return {name: make_field_adapter(info) for name, info in entity.model_fields.items()}
