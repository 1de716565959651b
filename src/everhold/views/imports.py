"""Import a bundle, or data of another system into one scope."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from everhold import clock
from everhold.adapters.sqlite_files.foreign_tables import open_foreign_tables
from everhold.errors import Argument, InvalidInput, Remedy
from everhold.exchange.importing import import_bundle
from everhold.import_results import ImportResult
from everhold.importers.detection import find_parts
from everhold.importers.files import ForeignFiles, require_input
from everhold.importers.local_dates import DATE_ORDERS, DateOrder
from everhold.importers.pipeline import ForeignImport, ImportPart
from everhold.importers.records import RecordReader
from everhold.importers.samples import take_sample
from everhold.importers.source import ImportInput, ImportSource
from everhold.importers.times import TimeReader
from everhold.model import Scope
from everhold.model.fields import check_timezone
from everhold.progress import ReportProgress
from everhold.sessions.archive import put_back_archives
from everhold.sessions.working import drop_all
from everhold.stores import add_partitions
from everhold.views.import_writer import ImportWriter

if TYPE_CHECKING:
    from everhold import Memory, View
    from everhold.exchange.bundle import Header
    from everhold.parts import Parts

_BATCH = 256
# The kinds of files that can be imported, for error messages.
KNOWN_FILES = "a bundle, .jsonl or .json of memories, .txt, .md, or a file of a system that docs/import.md lists"
_TEXT_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".sql")


@dataclass(frozen=True)
class ForeignOptions:
    """The arguments of an import that concern data of other systems only."""

    source: str | None = None
    timezone: str | None = None
    date_order: str | None = None
    users: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    quarantine: Path | None = None
    overwrite: bool = False

    def refuse_for(self, noun: str) -> None:
        """Raise InvalidInput if an argument was passed that such a file cannot use."""
        for name in ("source", "timezone", "date_order", "users", "dry_run"):
            if getattr(self, name):
                raise InvalidInput(
                    f"{name} is for data of other systems, and the file is {noun}",
                    value=name,
                    remedy="leave it out",
                )


def refuse_user(path: Path, user: str | None) -> None:
    """Raise InvalidInput if a user was passed for a bundle."""
    if user is not None:
        remedy = Remedy("leave out {}", Argument("user"))
        raise InvalidInput(f"{path.name} is a bundle and says whose each row is", value=user, remedy=remedy)


def remember_in_batches(view: "View", items: Iterable[Any], count: Callable[[int], None]) -> "list[Memory]":
    """Store memories in batches that are small enough to show progress, and to stop soon after Ctrl-C."""
    remaining, memories = iter(items), []
    while batch := list(islice(remaining, _BATCH)):
        memories += view.remember_many(batch)
        count(len(batch))
    return memories


def load_bundle(
    parts: "Parts", path: Path, header: "Header", organization: str, report: ReportProgress
) -> ImportResult:
    """Import a bundle into an organization, and embed the texts that have no vectors of this engine's models."""
    put_back_archives(parts.session_deps, organization)  # so that the bundle's rows are compared with archived rows too
    prepare = partial(add_partitions, parts.settings)
    result = import_bundle(parts.records, path, header, organization, report, prepare)
    drop_all(parts.session_deps, organization)
    return replace(result, embedded=parts.embed_imported(organization, report))


def import_foreign(
    parts: "Parts", scope: Scope, path: Path, options: ForeignOptions, report: ReportProgress
) -> ImportResult | None:
    """Import a file or folder of another system; return None if no source recognises it."""
    require_input(path)
    date_order = _read_order(options.date_order)
    files = ForeignFiles(path, open_foreign_tables)
    detected = find_parts(files, options.source)
    if not detected.parts:
        _refuse_unknown(files, [item.reason for item in detected.unknown])
        return None
    zone = None if options.timezone is None else _read_zone(options.timezone)
    import_parts = [_make_part(parts, scope, options, zone, *part) for part in detected.parts]
    if date_order is not None:
        import_parts = [
            replace(part, import_input=replace(part.import_input, date_order=date_order)) for part in import_parts
        ]
    foreign_import = ForeignImport(import_parts, detected.unknown, ImportWriter(parts, scope, path), report)
    if options.dry_run:
        result = foreign_import.check()
    else:
        result = foreign_import.run(options.quarantine, overwrite=options.overwrite)
    if options.source is not None and not result.mapped and not result.left_out:
        raise InvalidInput(
            f"{path.name} holds nothing that {options.source} writes",
            value=options.source,
            remedy="import it without naming a source; it is detected from its content",
        )
    return result if zone is None else replace(result, assumed_zone=None)


def _make_part(
    parts: "Parts",
    scope: Scope,
    options: ForeignOptions,
    zone: ZoneInfo | None,
    source: ImportSource,
    files: ForeignFiles,
) -> ImportPart:
    """Return one file, or several that a source reads together, as a part of an import."""
    known_users = {*options.users, *([scope.user] if scope.user else [])}
    modified_at = min(files.find_modified_at(), clock.now())
    naive_zone = zone or source.naive_zone or ZoneInfo(parts.settings.timezone)

    def make_reader(date_order: DateOrder | None) -> RecordReader:
        return RecordReader(source.name, TimeReader(naive_zone, date_order), modified_at, options.users)

    return ImportPart(source, ImportInput(files, modified_at, known_users), make_reader)


def _read_order(text: str | None) -> DateOrder | None:
    order = next((name for name in DATE_ORDERS if name == text), None)
    if order is None and text is not None:
        remedy = f"use one of {', '.join(DATE_ORDERS)}"
        raise InvalidInput(f"no order of dates {text!r}", value=text, remedy=remedy)
    return order


def _read_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(check_timezone(name))
    except ValueError as error:
        raise InvalidInput.from_sentence(f"timezone: {error}", name) from None


def _refuse_unknown(files: ForeignFiles, reasons: Sequence[str]) -> None:
    """Raise InvalidInput for what cannot be a list of memories or a text either: folders and databases."""
    name = files.path.name or str(files.path)  # "." has no name
    if files.path.suffix.lower() in _TEXT_SUFFIXES and take_sample(files).head is None:
        raise InvalidInput(f"{name} is not text in UTF-8 or UTF-16", value=name, remedy="convert the file to UTF-8")
    if files.is_folder or files.is_archive:
        fact = f"{name} is not the export of a known system"
        # Only the reason for a database in an archive has a remedy, after a semicolon.
        unreadable = next((reason for reason in reasons if "; " in reason), None)
        if unreadable is not None:
            fact, _, remedy = unreadable.partition("; ")
            raise InvalidInput(f"{name} holds no file that can be read: {fact}", value=name, remedy=remedy)
        raise InvalidInput(fact, value=name, remedy=f"import {KNOWN_FILES}")
    if files.is_database():
        tables = take_sample(files).tables
        if "schema_versions" in tables and "outbox" in tables:
            raise InvalidInput(f"{name} is a store of Everhold", value=name, remedy="copy it with `everhold move`")
        table_names = ", ".join(sorted(tables)[:8]) or "none"
        raise InvalidInput(
            f"{name} is a database of no known system; its tables: {table_names}",
            value=name,
            remedy=f"import {KNOWN_FILES}",
        )
