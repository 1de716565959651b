"""Which rows of a backup are restored: of everything, one organization or one user, without who was erased."""

import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from everhold.backups.manifest import USE_ANOTHER, FileEntry
from everhold.backups.owners import Owners
from everhold.backups.reading import BackupReader
from everhold.errors import NotFound, StoreDamaged
from everhold.model import UserErasure
from everhold.model.base import Row
from everhold.model.validation import explain_errors
from everhold.schema.catalog import CATALOG
from everhold.schema.table import Table


class Erasures:
    """Recognises users who were erased. Their ids are not stored, only a keyed hash of each."""

    def __init__(self, rows: Sequence[UserErasure]) -> None:
        self._rows = rows
        self._known: dict[tuple[str, str], bool] = {}

    def has(self, organization: str, user_id: str) -> bool:
        key = (organization, user_id)
        if key not in self._known:
            self._known[key] = any(self._matches(row, *key) for row in self._rows)
        return self._known[key]

    def _matches(self, row: UserErasure, organization: str, user_id: str) -> bool:
        expected = hmac.digest(row.salt, user_id.encode(), hashlib.sha256)
        return row.organization_id == organization and hmac.compare_digest(expected, row.subject)


class SelectedRows:
    """The rows of a backup that are restored, validated."""

    def __init__(
        self,
        reader: BackupReader,
        erasures: Erasures,
        organization: str | None = None,
        user_id: str | None = None,
    ) -> None:
        """With a user, their rows are restored, and the rows that those refer to."""
        self._reader, self._erasures = reader, erasures
        self._organization, self._user_id = organization, user_id
        self.identity = f"backup {reader.manifest.id}/{organization or ''}/{user_id or ''}"[:255]
        self._owners = Owners()
        self._needed: dict[str, set[str]] | None = None
        self.left_out = 0
        """How many rows of erased users were left out of the last reading of all tables."""

    def list_entities(self) -> list[type[Row]]:
        self._owners, self.left_out = Owners(), 0
        entities = self._reader.list_entities()
        if self._organization is None:
            return entities
        return [entity for entity in entities if CATALOG[entity].tenant is not None]

    def read(self, entity: type[Row], *, is_checked: bool) -> Iterator[Row]:
        table = CATALOG[entity]
        for values in self._reader.read_fields(entity):
            if not self._is_selected(table, values):
                continue
            if is_checked:
                yield entity.build_unchecked(values)
                continue
            try:
                yield entity.model_validate(values)
            except ValidationError as error:
                reason = explain_errors(error, f"a row of {table.name}", entity.model_fields)
                raise StoreDamaged(f"the backup is not one that Everhold wrote: {reason}", remedy=USE_ANOTHER) from None

    def _is_selected(self, table: Table, values: Mapping[str, Any]) -> bool:
        if table.tenant is None:
            return self._organization is None
        organization = values[table.tenant]
        if self._organization is not None and organization != self._organization:
            return False
        user_id = self._owners.note(table, values)
        if user_id is not None and self._erasures.has(organization, user_id):
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
        # Children before their parents, so that what a needed row refers to is needed as well.
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
        owners, owned = Owners(), set[tuple[str, Any]]()
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
                remedy="nothing was restored",
            )
        return owned

    def select_files(self) -> list[FileEntry]:
        """Return the files that belong to the rows."""
        return [file for file in self._reader.manifest.files if self._is_file_selected(file)]

    def _is_file_selected(self, file: FileEntry) -> bool:
        if self._organization is not None and file.organization != self._organization:
            return False
        if file.user_id is not None and self._erasures.has(file.organization, file.user_id):
            return False
        return self._user_id is None or file.user_id == self._user_id


def _get_identity(table: Table, values: Mapping[str, Any]) -> tuple[str, Any]:
    return table.name, tuple(values[name] for name in table.key)
