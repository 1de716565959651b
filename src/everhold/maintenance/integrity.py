"""Find rows that the engine never writes, by reading the whole store.

Every row is checked against its model, as at import. Rows are read as a stream and owners are looked up in batches, so
the use of memory does not depend on the size of the store.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from pydantic import ValidationError

from everhold.errors import StoreDamaged
from everhold.model import Chunk, Organization
from everhold.model.base import Row
from everhold.model.searchable import SEARCHABLE, Searchable
from everhold.ports.records import Records
from everhold.schema.catalog import CATALOG
from everhold.schema.operations import Op, Where
from everhold.schema.table import TENANT, Table

_BATCH = 500  # owners in one lookup
_REMEDY = "restore them from a backup, or delete them"

Values = dict[str, Any]


def find_impossible_rows(records: Records) -> Iterator[str]:
    """Yield a sentence for every table with rows that the engine never writes, and one about chunks of wrong users."""
    organizations = [name for (name,) in records.columns(Organization, None, ("id",), deleted=True)]
    for entity, table in CATALOG.items():
        try:
            faults = _Faults(table)
            for organization in organizations if table.tenant == TENANT else [None]:
                for values in _read_values(records, entity, table, organization):
                    faults.check(entity, values)
            if faults.count:
                yield faults.describe()
        except StoreDamaged as error:
            yield f"{table.name} cannot be read: {error}"
    misplaced = sum(_count_misplaced(records, organization) for organization in organizations)
    if misplaced:
        noun = "chunk is" if misplaced == 1 else "chunks are"
        yield f"{misplaced} {noun} under another user than their owner's; {_REMEDY}"


class _Faults:
    """Counts the damaged rows of a table and describes the first."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.count = 0
        self._first = ""

    def check(self, entity: type[Row], values: Values) -> None:
        fault = _find_fault(entity, values)
        if fault is None:
            return
        self.count += 1
        if self.count == 1:
            key = "/".join(str(values[name]) for name in self._table.key)
            self._first = f"{key}: {fault}"

    def describe(self) -> str:
        noun = "row" if self.count == 1 else "rows"
        return f"{self.count} {noun} of {self._table.name} are damaged ({self._first}); {_REMEDY}"


def _find_fault(entity: type[Row], values: Values) -> str | None:
    try:
        entity.model_validate(values)
    except ValidationError as error:
        return _describe_validation_error(error)
    except RecursionError:
        return "JSON is nested too deeply"
    return None


def _describe_validation_error(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_input=False)  # never quote what a memory says
    named_messages = [(".".join(map(str, fault["loc"])), fault["msg"]) for fault in faults]
    return "; ".join(f"{name}: {message}" if name else message for name, message in named_messages)


def _read_values(records: Records, entity: type[Row], table: Table, organization: str | None) -> Iterator[Values]:
    for values in records.columns(entity, organization, table.names, deleted=True):
        yield dict(zip(table.names, values, strict=True))


def _count_misplaced(records: Records, organization: str) -> int:
    """Return how many chunks have another user than their owner has."""
    return sum(_count_misplaced_of_kind(records, organization, searchable) for searchable in SEARCHABLE.values())


def _count_misplaced_of_kind(records: Records, organization: str, searchable: Searchable) -> int:
    misplaced = 0
    names, where = ("owner_id", "user_id"), [Where("owner_kind", Op.EQ, searchable.kind)]
    has_user = searchable.has_column("user_id")
    chunks = records.columns(Chunk, organization, names, where)
    while batch := list(islice(chunks, _BATCH)):
        ids = list({owner_id for owner_id, _ in batch})
        columns = ("id", "user_id") if has_user else ("id",)
        owners = records.columns(searchable.entity, organization, columns, [Where("id", Op.IN, ids)], deleted=True)
        user_ids = {owner[0]: (owner[1] or "") if has_user else "" for owner in owners}
        # Chunks without an owner are a different problem, which `report.py` counts.
        misplaced += sum(user_ids.get(owner_id, user_id) != user_id for owner_id, user_id in batch)
    return misplaced
