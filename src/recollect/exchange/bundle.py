"""A bundle: everything of one organization as JSON lines.

The first line says what it is: `{"recollect": 1, "organization": …}`. Every other line is one row:
`{"table": "memories", "row": {…}}`, parents before what belongs to them. Times are ISO 8601, bytes base64. Deleted
rows are in it too. The feed and running jobs are not: they are about one store, not about the data. The access log
is written out, and not taken in: a log is only worth what its own store can swear to.
"""

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import IO, Any

from pydantic import ValidationError

from recollect import clock
from recollect.errors import AlreadyExists, InvalidInput, NotFound
from recollect.model import AccessLog, Chunk, Job, Organization, Outbox
from recollect.model.base import Row
from recollect.model.validation import explained
from recollect.ports.records import Records
from recollect.schema.catalog import CATALOG, ENTITIES, key_of
from recollect.schema.operations import Ensure, Operation, Page, Put
from recollect.schema.table import Table

VERSION = 1
_BATCH = 500
_LEFT_OUT = (Outbox, Job)
_NOT_TAKEN_IN = (AccessLog,)

Progress = Callable[[int], None]


def write_bundle(records: Records, organization: str, out: IO[str], progress: Progress | None = None) -> int:
    """Writes every row of an organization; returns how many."""
    if not records.get(Organization, organization, [organization], deleted=True):
        raise NotFound(f"no organization {organization!r}; nothing was exported")
    header = {"recollect": VERSION, "organization": organization, "at": clock.now().isoformat()}
    out.write(json.dumps(header) + "\n")
    count = 0
    for entity, table in CATALOG.items():
        if table.tenant and entity not in _LEFT_OUT:
            for row in _all_rows(records, entity, table, organization):
                out.write(
                    json.dumps({"table": table.name, "row": row.model_dump(mode="json")}, ensure_ascii=False) + "\n"
                )
                count += 1
                if progress:
                    progress(1)
    return count


def _all_rows(records: Records, entity: type[Row], table: Table, organization: str) -> Iterator[Row]:
    after: Page | None = None
    while True:
        page = records.scan(entity, organization, after=after, limit=_BATCH, deleted=True)
        yield from page
        if len(page) < _BATCH:
            return
        after = Page(None, key_of(page[-1]))


def is_bundle(first_line: str) -> bool:
    try:
        header = json.loads(first_line)
    except ValueError:
        return False
    return isinstance(header, dict) and "recollect" in header


def read_bundle(records: Records, lines: Iterator[str], organization: str, progress: Progress | None = None) -> int:
    """Adds the rows that are not there yet, under `organization`; returns how many rows it saw."""
    header = json.loads(next(lines))
    if header["recollect"] != VERSION:
        raise InvalidInput(
            f"the bundle has version {header['recollect']}, and this program reads {VERSION}; upgrade Recollect"
        )
    count, number = 0, 1
    while batch := list(islice(lines, _BATCH)):
        operations: list[Operation] = []
        for line in batch:
            number += 1
            row = _row(line, number, organization)
            if row is not None:
                operations += _additions(row)
                count += 1
        try:
            records.commit(operations)
        except AlreadyExists as error:
            raise AlreadyExists(
                f"lines {number - len(batch) + 1} to {number} were not taken in: {error}; "
                f"forget what is there, or import into an organization of its own",
                table=error.table,
                rule=error.rule,
            ) from error
        if progress:
            progress(len(batch))
    return count


def _row(line: str, number: int, organization: str) -> Row | None:
    try:
        value: dict[str, Any] = json.loads(line)
        entity, fields = ENTITIES[value["table"]], dict(value["row"])
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(f"line {number} is not a row of a bundle: {line[:60]!r}") from None
    if entity in _NOT_TAKEN_IN:
        return None
    fields["id" if entity is Organization else "organization_id"] = organization
    try:
        return entity.model_validate_json(json.dumps(fields))
    except ValidationError as error:
        raise explained(error, f"line {number}", entity.model_fields) from None


def _additions(row: Row) -> list[Operation]:
    """The row, and word of it to whoever follows the feed: a memory can be searched when its chunks are there."""
    if isinstance(row, Chunk) and row.owner_kind == "memory":
        changed = Outbox(
            organization_id=row.organization_id,
            image=row.image,
            entity="memories",
            entity_id=row.owner_id,
            operation="put",
        )
        return [Ensure(row), Put(changed)]
    return [Ensure(row)]
