"""The engine: it builds its parts from settings and offers the verbs, without logic of its own.

Modules that only some verbs need are imported by those verbs, so that a process that only recalls starts faster. `open`
imports the parts and the views while the embedding model is loaded.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self, Unpack

import everhold
from everhold import clock, settings
from everhold.arguments.checks import Body, Identifier, JobName, ListLength, PathText
from everhold.arguments.verbs import check_verbs
from everhold.errors import InvalidInput, InvalidSettings
from everhold.exchange import places
from everhold.model import Organization
from everhold.model.access import AccessEvent, LoggedOperation
from everhold.model.scope import DEFAULT_ORGANIZATION, Scope
from everhold.model.validation import validate_row
from everhold.opening import begin_opening, find_file
from everhold.ports.embedder import Embedder
from everhold.progress import ReportProgress, StepCounter, ignore_progress
from everhold.searching import build_parts
from everhold.settings_fields import SettingsFields
from everhold.settings_sections import hide_password
from everhold.views.accounts import AccountVerbs
from everhold.views.backup_targets import KnownTargets
from everhold.views.backups import BackupVerbs
from everhold.views.encryption import EncryptionVerbs, require_decrypt
from everhold.views.erasure import ErasureVerbs
from everhold.views.hints import EngineHints
from everhold.views.sql_views import SqlViewVerbs

if TYPE_CHECKING:
    from everhold.maintenance.schedule import MaintenanceThread
    from everhold.parts import Parts
    from everhold.ports.records import Records


@check_verbs
class Everhold(AccountVerbs, BackupVerbs, ErasureVerbs, EncryptionVerbs, SqlViewVerbs, EngineHints):
    """A memory engine on one store. Data is reached through `scope` only."""

    def __init__(self, parts: "Parts") -> None:
        self._parts = parts
        parts.backup_targets = KnownTargets(parts)
        if parts.settings.layout == "julep":
            self._require_single_organization()
        every_minutes = parts.settings.maintenance.every_minutes
        if every_minutes is not None:
            parts.maintenance = self._start_maintenance(timedelta(minutes=every_minutes))

    def _start_maintenance(self, every: timedelta) -> "MaintenanceThread":
        from everhold.maintenance.schedule import MaintenanceThread, find_last_start
        from everhold.maintenance_jobs import JOBS

        find_last = partial(find_last_start, self._parts.records, [job.name for job in JOBS])
        thread = MaintenanceThread(every, find_last, lambda should_stop: self.maintain(should_stop=should_stop))
        thread.start()
        return thread

    def _require_single_organization(self) -> None:
        """Raise InvalidSettings if the store has other organizations: their data would be under the same names."""
        names = self._parts.records.columns(Organization, None, ("id",), deleted=True)
        other_names = [name for (name,) in names if name != DEFAULT_ORGANIZATION]
        if other_names:
            self.close()
            raise InvalidSettings(
                f"the store has the organization {other_names[0]!r}, and the layout 'julep' is for a single one",
                remedy="set layout to everhold, or export that organization into another store and delete it",
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({hide_password(self.settings.storage)!r})"

    @classmethod
    def open(
        cls,
        target: PathText | Path | None = None,
        *,
        create: bool = True,
        embedder: Embedder | None = None,
        also: Sequence[Embedder] = (),
        **fields: Unpack[SettingsFields],
    ) -> Self:
        """Open a path, a URL, or the store that a YAML file names; without a target, `./everhold.db`.

        A file that does not exist is created; with `create=False`, StoreMissing is raised. `embedder` replaces the
        embedding model of the settings. Every memory is also embedded by each of `also`, for `recall(…, model=name)`.
        Other keyword arguments are settings: `Everhold.open("notes.db", sqlite={"synchronous": "NORMAL"})`.
        """
        opening = begin_opening(target, create=create, has_embedder=embedder is not None, **fields)
        return cls(build_parts(opening, embedder, also))

    def scope(
        self,
        *,
        organization: Identifier = DEFAULT_ORGANIZATION,
        project: Identifier | None = None,
        user: Identifier | None = None,
        agent: Identifier | None = None,
        session: Identifier | None = None,
    ) -> "everhold.View":
        """Return a view of one scope's data. Given dimensions must match; omitted ones are unrestricted."""
        values = {"organization": organization, "project": project, "user": user, "agent": agent, "session": session}
        return everhold.View(self._parts, self._make_scope(values))

    def _make_scope(self, dimensions: Mapping[str, Any]) -> Scope:
        self._require_organization(dimensions["organization"])
        return validate_row(Scope, dimensions)

    @property
    def settings(self) -> settings.Settings:
        return self._parts.settings

    # export, import and maintenance

    def export(
        self,
        path: PathText | Path | IO[str],
        *,
        organization: Identifier = DEFAULT_ORGANIZATION,
        overwrite: bool = False,
        decrypt: bool = False,
        progress: ReportProgress | None = None,
    ) -> int:
        """Write everything of an organization to a file of JSON lines and return how many rows there are.

        The file appears when it is complete, and only its owner can read it. One that exists is replaced only with
        `overwrite`; a link is replaced like a file and never followed. An open text file is written to directly. Raise
        FileError if it cannot be written; nothing is left behind then. An engine with a master key refuses, unless you
        pass `decrypt`: the file holds encrypted fields in plain text.
        """
        require_decrypt(self._parts, decrypt)
        from everhold.exchange import bundle
        from everhold.files import create_text
        from everhold.sessions.archive import read_archived_rows

        self._parts.access.flush()
        with create_text(path, overwrite=overwrite) as out:
            archived = partial(read_archived_rows, self._parts.session_deps, organization)
            report = progress or ignore_progress
            count = bundle.write_bundle(self._parts.records, organization, out, report, archived)
        self._log_call("export", organization, count)
        return count

    def load(
        self,
        path: PathText | Path,
        *,
        organization: Identifier | None = None,
        user: Identifier | None = None,
        source: str | None = None,
        timezone: str | None = None,
        date_order: str | None = None,
        users: Mapping[str, str] | None = None,
        dry_run: bool = False,
        quarantine: PathText | Path | None = None,
        overwrite: bool = False,
        progress: ReportProgress | None = None,
    ) -> "everhold.ImportResult":
        """Import a bundle, the data of another system, a list of memories (.jsonl, .json), or a text file.

        Without an organization, a bundle is imported into the one that it names. A bundle names the owner of each row,
        so it takes no `user`. Memories without vectors of this engine's models are embedded. `progress` is called with
        the steps "checking", "importing" and "embedding".

        The other arguments are for data of other systems, which docs/import.md lists. `source` names the system; by
        default, it is detected from the content. `timezone` is that of times without one, `date_order` (dmy, mdy) that
        of dates such as 03/04/2024. `users` renames users: {"default": "alice"}. With `dry_run`, the result says what
        would be imported, and nothing is stored. Rows that cannot be imported are written to the file `quarantine`,
        which can be corrected and imported; `overwrite` replaces it if it exists.
        """
        from everhold.exchange import bundle, loading
        from everhold.views.imports import ForeignOptions, import_foreign, load_bundle, refuse_user, remember_in_batches

        file, report = Path(path), progress or ignore_progress
        quarantine_path = Path(quarantine) if quarantine else None
        options = ForeignOptions(source, timezone, date_order, users or {}, dry_run, quarantine_path, overwrite)
        is_folder = file.is_dir()
        header = None if is_folder else bundle.read_header(loading.read_first_line(file))
        if header is not None:
            options.refuse_for("a bundle")
            refuse_user(file, user)
            target_organization = header.organization if organization is None else organization
            self._require_organization(target_organization)
            loaded = load_bundle(self._parts, file, header, target_organization, report)
            self._log_call("import", target_organization, loaded.count)
            return loaded
        view = self.scope(organization=DEFAULT_ORGANIZATION if organization is None else organization, user=user)
        parts = self._parts if progress is None else self._parts.report_embedding(progress)
        imported = import_foreign(parts, view.scope, file, options, report)
        if imported is not None:
            self._log_call("import", view.scope.organization, imported.count)
            return imported
        options.refuse_for("a list or a text that no known system writes")
        remember = partial(remember_in_batches, type(view)(parts, view.scope))
        return loading.load_document(file, self._parts.write_deps.chunking.tokenizer, remember, report)

    def _log_call(self, operation: LoggedOperation, organization: str, rows: int) -> None:
        scope = validate_row(Scope, {"organization": organization})
        self._parts.access.add(AccessEvent(scope, operation, clock.now(), {"rows": rows}))

    def verify_log(self, organization: Identifier = DEFAULT_ORGANIZATION) -> "everhold.Verification":
        """Check whether the organization's access log is unchanged, and return the result."""
        from everhold.access import chain

        self._parts.access.flush()
        return chain.verify(self._parts.records, organization, self._parts.heads)

    def accept_log(self, organization: str = DEFAULT_ORGANIZATION) -> "everhold.Verification":
        """Sign the access log as it is now, for example after restoring a backup; return the check of its chain.

        A log whose chain is broken is not signed. The acceptance is written to the log. Raise InvalidInput if no key is
        set.
        """
        from everhold.access import chain

        if self._parts.heads is None:
            raise InvalidInput("the log is not signed, because no key is set", remedy="set log.key_file or log.key")
        self._parts.access.flush()
        verification = chain.accept(self._parts.records, organization, self._parts.heads)
        if verification.intact:
            self._log_call("accept", organization, verification.lines)
        return verification

    def doctor(self) -> "everhold.Report":
        """Return a report on the engine: its parts, the amount of stored data, and its problems."""
        from everhold.report import examine

        self._parts.access.flush()
        return examine(self._parts)

    def maintain(
        self,
        jobs: Sequence[JobName] | None = None,
        *,
        dry_run: bool = False,
        progress: ReportProgress | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> "everhold.MaintenanceReport":
        """Run the maintenance jobs and report on each; with `dry_run`, change nothing and report what each would do.

        `jobs` names the jobs to run; without it, all are run. A job that fails does not stop the others: its report
        says why, and what is left. `progress` is called with the name of a job as the step. When `should_stop` returns
        True, the current job ends after its batch, and the jobs after it do not run.
        """
        from everhold.maintenance.pipeline import run_jobs, select_jobs
        from everhold.maintenance_jobs import JOBS

        chosen = select_jobs(JOBS, jobs)
        report, stop = progress or ignore_progress, should_stop or (lambda: False)
        return run_jobs(self._parts.records, chosen, self._parts, dry_run=dry_run, report=report, should_stop=stop)

    def runs(self, *, limit: ListLength = 20) -> "Sequence[everhold.MaintenanceRun]":
        """Return the latest runs of maintenance, latest first, with the report on each job."""
        from everhold.maintenance.pipeline import read_runs

        return read_runs(self._parts.records, limit)

    def undo_run(self, run_id: Identifier, *, progress: ReportProgress | None = None) -> "everhold.UndoneRun":
        """Undo everything that a run of maintenance changed in memories, their tags and relationships.

        Purges cannot be undone, also those since the run after the grace period. A change of a memory that was changed
        again later is skipped and reported. Raise NotFound if there is no such run.
        """
        from everhold.remember.undo_run import undo_run

        return undo_run(self._parts.write_deps, run_id, StepCounter(progress or ignore_progress, "undoing").add)

    def extract(self) -> "everhold.Extracted":
        """Let the settings' language model read messages that it has not read yet; without a model, do nothing.

        Messages of sessions are read, and memories of messages. Raise ModelUnavailable if the model cannot be reached:
        what was read before is kept, and the next call continues after it.
        """
        from everhold.maintenance_jobs import extract_facts

        return extract_facts(self._parts)

    def tokens(self, text: Body) -> int:
        """Return how many tokens a text costs in a prompt, counted as `context` counts them."""
        return self._parts.count_tokens(text)

    def drop_model(self, name: str) -> None:
        """Delete the vectors of an additional embedding model that the settings no longer name."""
        from everhold.maintenance.reembed import drop_model

        drop_model(self._parts.records, name, self._parts.write_deps.chunking.models)

    def flush(self) -> None:
        """Write the waiting lines of the access log now."""
        self._parts.access.flush()

    @staticmethod
    def move(
        source: PathText | Path,
        target: PathText | Path,
        progress: ReportProgress | None = None,
        **fields: Unpack[SettingsFields],
    ) -> "everhold.Moved":
        """Copy all data of one store into an empty store, and verify that both have the same content.

        Each is a path, a URL or a YAML file of settings. An interrupted move continues when it is called again.
        `progress` is called with the steps "copying" and "comparing".
        """
        from everhold.blob_places import copy_files
        from everhold.exchange import moving
        from everhold.stores import add_partitions, do_all
        from everhold.views.data_deps import copy_source_files

        both_settings = [settings.load(address, **fields) for address in (source, target)]
        places.require_store_file(find_file(both_settings[0]))
        places.require_different_stores(*map(find_file, both_settings))
        with ExitStack() as opened:
            source_records, target_records = (_open_records(chosen, opened) for chosen in both_settings)
            stores = list(zip(both_settings, (source_records, target_records), strict=True))
            copy = partial(do_all, partial(copy_files, *stores), partial(copy_source_files, *stores))
            add_partitions(both_settings[1], moving.list_months(source_records))
            return moving.move(source_records, target_records, progress or ignore_progress, copy)

    @staticmethod
    def draw_chart(specification: Mapping[str, Any], *, svg: bool = False) -> bytes:
        """Return a chart of an answer (`answer.specification`) as a PNG picture, or as SVG text in UTF-8."""
        from everhold.adapters.vl_convert import VlConvertRenderer

        renderer = VlConvertRenderer()
        return renderer.render_svg(specification).encode() if svg else renderer.render_png(specification)

    @staticmethod
    def install_model(
        progress: Callable[[str], None] | None = None,
        *,
        target: PathText | Path | None = None,
        **fields: Unpack[SettingsFields],
    ) -> Path:
        """Fetch and verify the weights of the default embedding model, and return their folder.

        The settings are those of `Everhold.open` with the same target.
        """
        from everhold.embedders import install_model

        return install_model(settings.load(target, **fields), progress)

    def close(self) -> None:
        self._parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open_records(chosen: settings.Settings, resources: ExitStack) -> "Records":
    """Open a store without an engine. Closing `resources` closes the store."""
    from everhold.stores import open_store

    records, candidates = open_store(chosen)
    resources.callback(records.close)
    resources.callback(candidates.close)
    return records
