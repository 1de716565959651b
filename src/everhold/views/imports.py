"""Import a bundle, or data of another system into one scope."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from everhold import clock
from everhold.adapters.sqlite_files.foreign_tables import open_foreign_tables
from everhold.errors import Argument, InvalidInput, Remedy
from everhold.exchange.importing import import_bundle
from everhold.import_results import ImportResult
from everhold.importers.detection import find_source, take_sample
from everhold.importers.files import ForeignFiles, require_input
from everhold.importers.pipeline import ForeignImport
from everhold.importers.records import RecordReader
from everhold.importers.source import ImportInput
from everhold.model import Scope
from everhold.model.tenancy import check_timezone
from everhold.progress import ReportProgress
from everhold.sessions.archive import put_back_archives
from everhold.sessions.working import drop_all
from everhold.stores import add_partitions
from everhold.views.import_writer import ImportWriter

if TYPE_CHECKING:
    from everhold.exchange.bundle import Header
    from everhold.parts import Parts

# The kinds of files that can be imported, for error messages.
KNOWN_FILES = "a bundle, .jsonl or .json of memories, .txt, .md, or a file of a system that docs/import.md lists"


@dataclass(frozen=True)
class ForeignOptions:
    """The arguments of an import that concern data of other systems only."""

    source: str | None = None
    timezone: str | None = None
    users: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    quarantine: Path | None = None
    overwrite: bool = False

    def refuse_for(self, noun: str) -> None:
        """Raise InvalidInput if one of these arguments was passed for a file of the kind `noun`, which uses none of
        them.
        """
        passed = {"source": self.source, "timezone": self.timezone, "users": self.users, "dry_run": self.dry_run}
        for name, value in passed.items():
            if value:
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


def load_bundle(
    parts: "Parts", path: Path, header: "Header", organization: str, report: ReportProgress
) -> ImportResult:
    """Import a bundle into an organization, and embed the texts that have no vectors of this engine's models."""
    put_back_archives(parts.session_deps, organization)  # so that the bundle's rows are compared with archived rows too
    prepare = partial(add_partitions, parts.settings)
    loaded = import_bundle(parts.records, path, header, organization, report, prepare)
    drop_all(parts.session_deps, organization)
    return replace(loaded, embedded=parts.embed_imported(organization, report))


def import_foreign(
    parts: "Parts", scope: Scope, path: Path, options: ForeignOptions, report: ReportProgress
) -> ImportResult | None:
    """Import a file or folder of another system; return None if no source recognises it."""
    require_input(path)
    files = ForeignFiles(path, open_foreign_tables)
    source = find_source(files, options.source)
    if source is None:
        _refuse_unknown(files)
        return None
    zone = ZoneInfo(parts.settings.timezone) if options.timezone is None else _read_zone(options.timezone)
    known_users = {*options.users, *([scope.user] if scope.user else [])}
    opened = ImportInput(files, min(files.find_modified_at(), clock.now()), known_users)
    make_reader = partial(
        RecordReader,
        source.name,
        zone if options.timezone is not None or source.naive_zone is None else source.naive_zone,
        opened.modified_at,
        options.users,
    )
    imported = ForeignImport(source, opened, make_reader, ImportWriter(parts, scope, path, source.name), report)
    result = imported.check() if options.dry_run else imported.run(options.quarantine, overwrite=options.overwrite)
    if options.source is not None and not result.mapped and not result.left_out:
        raise InvalidInput(
            f"{path.name} holds nothing that {options.source} writes",
            value=options.source,
            remedy="import it without naming a source, which is then recognised by the content",
        )
    return result


def _read_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(check_timezone(name))
    except ValueError as error:
        raise InvalidInput.from_sentence(f"timezone: {error}", name) from None


def _refuse_unknown(files: ForeignFiles) -> None:
    """Raise InvalidInput for folders, archives and databases, which cannot be lists of memories or texts either."""
    name = files.path.name
    if files.is_folder or files.is_archive:
        raise InvalidInput(f"{name} is not the export of a known system", value=name, remedy=f"import {KNOWN_FILES}")
    if files.is_database():
        tables = take_sample(files).tables
        if "schema_versions" in tables and "outbox" in tables:
            raise InvalidInput(f"{name} is a store of Everhold", value=name, remedy="copy it with `everhold move`")
        listed = ", ".join(sorted(tables)[:8]) or "none"
        raise InvalidInput(
            f"{name} is a database of no known system; its tables: {listed}", value=name, remedy=f"import {KNOWN_FILES}"
        )
