"""Write and read bundles: all rows of one organization as JSON lines.

The first line is the header: `{"everhold": 2, "organization": …}`. Every following line is one row:
`{"table": "memories", "row": {…}}`, parents before the rows that belong to them. Times are ISO 8601, bytes base64.
Deleted rows are included. Tables that the catalog marks as internal (the feed, jobs, …) are not included: they describe
one store, not the data, and a bundle with a row of them is refused. The access log is exported but not imported,
because only the store that wrote it can prove that it is genuine. The address of a connection is left out if it
contains a password.

The last line, `{"end": {"rows": …, "sha256": …}}`, has the number of rows and the hash of their lines, each with its
line feed. It shows that a bundle is complete before any row is imported. Version 1 had no such line.
"""

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from pydantic import ValidationError

from everhold import clock
from everhold.errors import InvalidInput, NotFound, StoreBusy
from everhold.exchange.moving import order_parents_first
from everhold.model import AccessLog, Chunk, Connection, Message, Organization, Session, SessionArchive
from everhold.model.base import Row
from everhold.model.validation import explain_errors
from everhold.ports.records import Records
from everhold.progress import ReportProgress, StepCounter, ignore_progress
from everhold.schema.catalog import CATALOG, ENTITIES, get_key
from everhold.schema.operations import Page
from everhold.schema.table import TENANT, Table

VERSION = 2
_VERSION_WITHOUT_END = 1
_END = '{"end":'
_BATCH = 500
# The last line of a bundle is shorter than this.
_MAX_END_BYTES = 4096
_NOT_IMPORTED = (AccessLog,)
# Exported sessions get these values, because their archived messages are exported as rows of `messages`.
_NOT_ARCHIVED = {"archived_messages": 0, "archived_at": None}


# writing


# Returns the rows of each archive of messages. `tuple`, called without arguments, returns no archives.
ReadArchived = Callable[[], Iterable[Sequence[Row]]]


def write_bundle(
    records: Records,
    organization: str,
    out: IO[str],
    report: ReportProgress = ignore_progress,
    read_archived: ReadArchived = tuple,
) -> int:
    """Write every row of an organization, including rows in archives, and return the number of rows.

    Raise StoreBusy if messages were archived or restored during the export, because some might be missing.
    """
    if not records.get(Organization, organization, [organization], deleted=True):
        raise NotFound(f"no organization {organization!r}", value=organization, remedy="nothing was exported")
    header = {"everhold": VERSION, "organization": organization, "at": clock.now().isoformat()}
    out.write(json.dumps(header) + "\n")
    counter = StepCounter(report, "exporting", None if report is ignore_progress else _count(records, organization))
    count, rows_hash = 0, hashlib.sha256()
    archives = _list_archives(records, organization)
    for line in _serialise_rows(records, organization, counter, read_archived):
        out.write(line)
        rows_hash.update(line.encode())
        count += 1
        if count % _BATCH == 0:
            counter.add(_BATCH)
    counter.add(count % _BATCH)
    if _list_archives(records, organization) != archives:
        raise StoreBusy("messages were archived, or put back, during the export", remedy="export again")
    out.write(json.dumps({"end": {"rows": count, "sha256": rows_hash.hexdigest()}}) + "\n")
    return count


def _count(records: Records, organization: str) -> int:
    exported = [entity for entity, table in CATALOG.items() if _is_exported(table)]
    return sum(records.count(entity, organization, deleted=True) for entity in exported)


def _list_archives(records: Records, organization: str) -> list[tuple[Any, ...]]:
    return sorted(records.columns(SessionArchive, organization, ("id",), deleted=True))


def _serialise_rows(
    records: Records, organization: str, counter: StepCounter, read_archived: ReadArchived
) -> Iterator[str]:
    for entity, table in CATALOG.items():
        if _is_exported(table):
            rows: Iterable[Row] = order_parents_first(_read_all_rows(records, entity, organization, counter), table)
            if entity in (Message, Chunk):
                archived = (row for archive in read_archived() for row in archive if isinstance(row, entity))
                rows = chain(rows, archived)
            for row in rows:
                values = row.model_dump(mode="json") | (_NOT_ARCHIVED if entity is Session else {}) | _hide_secret(row)
                line = {"table": table.name, "row": values}
                yield json.dumps(line, ensure_ascii=False) + "\n"


def _hide_secret(row: Row) -> dict[str, Any]:
    """Return the values that replace a connection's address if it contains a password."""
    return {"dsn": ""} if isinstance(row, Connection) and row.options.get("has_secret") else {}


def _is_exported(table: Table) -> bool:
    """Return whether an export writes the rows of a table. Only those are imported."""
    return table.tenant is not None and not table.internal


def _read_all_rows(records: Records, entity: type[Row], organization: str, counter: StepCounter) -> Iterator[Row]:
    after: Page | None = None
    while True:
        # Reports that work continues: a table that refers to itself is read completely before its first row is written.
        counter.add(0)
        page = records.scan(entity, organization, after=after, limit=_BATCH, deleted=True)
        yield from page
        if len(page) < _BATCH:
            return
        after = Page(None, get_key(page[-1]))


# reading


class Header(NamedTuple):
    """The first line of a bundle."""

    version: Any
    organization: str


def read_header(first_line: str) -> Header | None:
    """Return the header of a bundle from the first line of a file, or None if the file is not a bundle.

    Raise InvalidInput if this program cannot read the bundle's version.
    """
    try:
        values = json.loads(first_line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or "everhold" not in values:
        return None
    header = Header(values["everhold"], str(values.get("organization", "")))
    if header.version not in (_VERSION_WITHOUT_END, VERSION):
        raise InvalidInput(
            f"the bundle has version {header.version}, and this program reads {VERSION}", remedy="upgrade Everhold"
        )
    return header


def read_row_count(path: Path) -> int | None:
    """Return the number of rows according to the last line of a bundle, or None if it has none."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, io.SEEK_END) - _MAX_END_BYTES))
        last_line = file.read().rstrip().rpartition(b"\n")[2]
    try:
        count = json.loads(last_line)["end"]["rows"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return count if isinstance(count, int) else None


def read_rows(path: Path, header: Header, organization: str) -> Iterator[tuple[int, Row | None]]:
    """Yield each row with its line number, as a row of `organization`; None for a line of the access log.

    Raise InvalidInput at the end if the rows are not those that were exported.
    """
    # With surrogates, an error can name a line with invalid UTF-8, and its bytes can be hashed unchanged.
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        for number, line in _read_row_lines(file, header.version):
            yield number, _read_row(line, number, header, organization)


def _read_row_lines(file: Iterable[str], version: int) -> Iterator[tuple[int, str]]:
    """Yield the lines of rows with their numbers; raise InvalidInput at the end if lines are missing or changed."""
    count, rows_hash, end_line = 0, hashlib.sha256(), None
    last_number = 1
    for number, line in islice(_skip_blank_end(file), 1, None):
        if end_line is not None:
            raise InvalidInput(
                f"line {number} comes after the end of the bundle", remedy="import each bundle by itself"
            )
        last_number = number
        if version != _VERSION_WITHOUT_END and line.startswith(_END):
            end_line = line
            continue
        count += 1
        rows_hash.update(line.removesuffix("\n").encode("utf-8", "surrogateescape") + b"\n")
        yield number, line
    if version != _VERSION_WITHOUT_END:
        _check_end(end_line, last_number, count, rows_hash.hexdigest())
    elif not count:
        raise InvalidInput("the bundle ends at line 1 and has no rows", remedy="export it again")


def _skip_blank_end(file: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers, without blank lines at the end.

    Of other blank lines only the first is yielded: it is not a row, so the bundle is refused there.
    """
    blank_line: tuple[int, str] | None = None
    for numbered_line in enumerate(file, 1):
        if not numbered_line[1].strip():
            blank_line = blank_line or numbered_line
            continue
        if blank_line is not None:
            yield blank_line
            blank_line = None
        yield numbered_line


def _check_end(end_line: str | None, last_number: int, count: int, rows_hash: str) -> None:
    """Raise InvalidInput if the last line is missing, or if its number or hash of rows differs from the bundle's."""
    if end_line is None:
        raise InvalidInput(
            f"the bundle was cut short: it ends at line {last_number}, without the line that says how many rows it has",
            remedy="copy or export it again",
        )
    try:
        values = json.loads(end_line)["end"]
        rows, expected = values["rows"], values["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidInput(
            f"line {last_number} is not the end of a bundle: {end_line[:60]!r}",
            value=end_line,
            remedy="export it again",
        ) from None
    if rows != count:
        raise InvalidInput(
            f"the bundle has {count} rows, and its end in line {last_number} says {rows}", remedy="export it again"
        )
    if expected != rows_hash:
        raise InvalidInput(
            f"lines 2 to {last_number - 1} are not as they were exported: their SHA-256 is {rows_hash}, and line "
            f"{last_number} says {expected}",
            remedy="export it again",
        )


def _read_row(line: str, number: int, header: Header, organization: str) -> Row | None:
    try:
        return _parse_row(line, number, header, organization)
    except RecursionError:
        raise InvalidInput(f"line {number} holds JSON that is nested too deeply", remedy="export it again") from None


def _parse_row(line: str, number: int, header: Header, organization: str) -> Row | None:
    """Return the row of a line with its organization replaced; None if rows of its table are not imported."""
    try:
        value: dict[str, Any] = json.loads(line)
        entity, fields = ENTITIES[value["table"]], dict(value["row"])
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(f"line {number} is not a row of a bundle: {line[:60]!r}", remedy="export it again") from None
    if not _is_exported(CATALOG[entity]):
        raise InvalidInput(
            f"line {number} is a row of table {value['table']!r}, which holds the engine's own state and is never "
            "exported",
            value=value["table"],
            remedy="export the bundle again",
        )
    if entity in _NOT_IMPORTED:
        return None
    tenant_column = "id" if entity is Organization else TENANT
    if fields.get(tenant_column, header.organization) != header.organization:
        raise InvalidInput(
            f"line {number} is a row of organization {fields[tenant_column]!r:.60}, and the bundle is of "
            f"{header.organization!r}",
            value=fields[tenant_column],
            remedy="export the bundle again",
        )
    fields[tenant_column] = organization
    try:
        return entity.model_validate_json(json.dumps(fields))
    except ValidationError as error:
        raise explain_errors(error, f"line {number}", entity.model_fields) from None
