"""One run of a command: the options that commands share, and how its result is printed.

A command is a function from a `Call` and its own options to a `CommandResult`. `command` registers it with Typer with
the options of all its groups, so that each option is declared once.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

import typer

from everhold import settings
from everhold.errors import InvalidInput, InvalidSettings, Remedy, StoreError, StoreMissing
from everhold.model.fields import check_timezone
from everhold.model.scope import DEFAULT_ORGANIZATION
from everhold.opening import begin_opening, find_file
from everhold.progress import ReportProgress, StepCounter
from everhold.searching import build_parts, make_search_view, needs_engine
from everhold.values import Value, value_class

if TYPE_CHECKING:
    from rich.console import RenderableType

    from everhold import Answer, EarlierQuestion, Everhold, View
    from everhold.interfaces.cli.interrupts import Explain
    from everhold.interfaces.shared.times import Direction
    from everhold.parts import Parts
    from everhold.views.recall import RecallVerbs


# Rich treats any output as a terminal if one of these variables is set.
_FORCING_COLOUR = ("FORCE_COLOR", "TTY_COMPATIBLE")


@value_class
class CommandResult(Value):
    """The result of a command: a JSON document, the output for a person, and the exit code."""

    document: Any
    output: "RenderableType | None"
    code: int = 0


class ShellChange(NamedTuple):
    """A change that was made in a shell."""

    memory_id: str | None
    """A memory that was stored or changed; None for a change of no known memory."""
    is_new: bool
    """Whether the memory was stored by this change."""


class Call:
    """The store, scope and output format of one command. The store is opened when it is first needed."""

    def __init__(
        self, store: str | None, *, as_json: bool, timezone: str | None = None, scope: Mapping[str, Any] | None = None
    ) -> None:
        self.store = store
        self.as_json = as_json
        self.scope = dict(scope or {})
        self.creates_store = False
        self.interface = "command line"
        """The program that the access log records as the user of the engine."""
        self.history: list[ShellChange] = []
        """The changes of a shell that `/undo` can undo, latest last."""
        self.shown_ids: list[str] | None = None
        """The ids of the rows in a shell's last numbered table, shared with its commands; None outside a shell."""
        self.earlier_questions: list[EarlierQuestion] = []
        """The last questions about data that a shell answered, oldest first, on which follow-ups build."""
        self.prepare_data: Callable[[], None] = lambda: None
        """Makes the data of a shell ready before the first command that reads it."""
        self.open_question: Answer | None = None
        """The answer of a shell that offers choices, until another line is typed."""
        self._created_paths: Sequence[Path] = ()
        self._timezone = timezone
        self._resources = ExitStack()

    @cached_property
    def settings(self) -> settings.Settings:
        return settings.load(self.store)

    @cached_property
    def zone(self) -> ZoneInfo:
        """The time zone of the user."""
        if self._timezone is None:
            return ZoneInfo(self.settings.timezone)
        try:
            return ZoneInfo(check_timezone(self._timezone))
        except ValueError as error:
            raise InvalidInput.from_sentence(f"--timezone: {error}", self._timezone) from None

    @cached_property
    def parts(self) -> "Parts":
        """The parts of the engine on the store.

        Only commands with `creates_store` create a missing store: for the others, the user may just be in the wrong
        folder.
        """
        file = find_file(self.settings)
        if self.creates_store and file is not None and not file.exists():
            self._created_paths = [file, *(folder for folder in file.parents if not folder.exists())]
        with self._name_source():
            opening = begin_opening(self.store, create=self.creates_store, interface=self.interface)
            parts = build_parts(opening)
        self._resources.callback(parts.close)
        return parts

    @cached_property
    def engine(self) -> "Everhold":
        """The engine on the store."""
        parts = self.parts
        from everhold.engine import Everhold  # a search needs only the parts

        with self._name_source():
            return Everhold(parts)

    @contextmanager
    def _name_source(self) -> Iterator[None]:
        """Add to the error about a store what names the store, and how to create one that is missing."""
        source = settings.find_storage_source(self.store)
        store_name = self.settings.storage.rpartition("/")[2]
        try:
            yield
        except (StoreError, InvalidSettings, StoreMissing) as error:
            if source is not None and store_name in error.fact:
                error.fact += f" (named by {source})"
            if isinstance(error, StoreMissing):
                error.remedy = Remedy("`everhold remember TEXT` creates it; --store PATH names another")
            raise

    @cached_property
    def view(self) -> "View":
        return self.engine.scope(**self.scope)

    @cached_property
    def search_view(self) -> "RecallVerbs":
        """The search verbs of `view`. A command that needs only these starts faster than with `view`."""
        parts = self.parts
        return self.view if needs_engine(parts.settings) else make_search_view(parts, self.scope)

    def parse_moment(self, option: str, text: str | None, durations: "Direction | None" = None) -> datetime | None:
        """Return the moment that an option names, or None if the option was not passed."""
        if text is None:
            return None
        from everhold.interfaces.shared.times import parse_time  # imported here, because most commands get no time

        return parse_time(text, self.zone, option, durations=durations)

    def parse_expiry(self, text: str | None) -> datetime | None:
        """Return the moment of `--expires`, or None if the option was not passed. The moment must be in the future."""
        if text is None:
            return None
        from everhold.interfaces.shared.times import parse_expiry  # imported here, because most commands get no time

        return parse_expiry(text, self.zone, "--expires")

    def number_rows(self, ids: Iterable[str]) -> bool:
        """Return whether the rows of a table get numbers. In a shell they do, and then stand for these ids."""
        if self.shown_ids is None:
            return False
        self.shown_ids[:] = ids
        return True

    def describe_empty_scope(self) -> str:
        return f"no memories in scope {' '.join(f'{name}={value}' for name, value in self.scope.items() if value)}"

    def note_organization(self) -> None:
        """Print a note if the organization does not exist, which explains an empty result."""
        name = self.scope.get("organization", DEFAULT_ORGANIZATION)
        if not self.creates_store and name != DEFAULT_ORGANIZATION and not self.engine.has_organization(name):
            print(f"everhold: no organization {name!r} in this store", file=sys.stderr)

    def close(self, *, has_failed: bool = False) -> None:
        """Close the store. If a failed command has just created it and stored nothing, delete it."""
        self._resources.close()
        if has_failed and self._created_paths:
            from everhold.stores import delete_empty_store

            if delete_empty_store(self.settings):
                with suppress(OSError):  # a folder in which there is anything else stays
                    for folder in self._created_paths[1:]:
                        folder.rmdir()

    def join(self, shell: "Call") -> None:
        """Use the open store, the numbered table and the output format of a shell, and the shell's scope for each part
        that this call omits."""
        if self.store is not None:
            raise InvalidInput("the shell has a store open", value=self.store, remedy="leave --store out")
        self.as_json = shell.as_json
        self.shown_ids = shell.shown_ids
        given = {name: value for name, value in self.scope.items() if value not in (None, DEFAULT_ORGANIZATION)}
        self.scope = {**shell.scope, **given}
        # These are cached properties, which are not computed any more.
        self.parts, self.engine, self.settings = shell.parts, shell.engine, shell.settings
        if self._timezone is None:
            self.zone = shell.zone

    @contextmanager
    def progress(self, step: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Show a bar on standard error. Yield a function that takes the number of items done since its last call."""
        from everhold.interfaces.cli.progress import show_steps

        with show_steps(is_quiet=self.as_json) as show:
            yield StepCounter(show, step, total).add

    @contextmanager
    def track_steps(self, explain: "Explain", *, is_quiet: bool = False) -> Iterator[ReportProgress]:
        """Show the steps of long work. Ctrl-C ends it between two batches; `explain` then describes what was kept."""
        from everhold.interfaces.cli.interrupts import track_steps

        with track_steps(explain, is_quiet=is_quiet or self.as_json) as report:
            yield report


@dataclass
class ShellLine:
    """A command that is typed in a shell: the shell's call, and the result of the command when it has run."""

    shell: Call
    result: CommandResult | None = None


# The line of the shell that is being run, if a command is run by a shell.
shell_line: ContextVar[ShellLine | None] = ContextVar("shell_line", default=None)


Store = Annotated[
    str | None,
    typer.Option(
        metavar="PATH|URL|FILE.yaml",
        help="The store. Default: that of the settings.",
        rich_help_panel="Store and scope",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print a JSON document instead of a table.", rich_help_panel="Output")
]
Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an unexpected error.", rich_help_panel="Output")
]
Zone = Annotated[
    str | None,
    typer.Option(
        help="The time zone of times that you pass without one, and of times in the output.",
        metavar="ZONE",
        rich_help_panel="Output",
    ),
]
Organization = Annotated[
    str, typer.Option("--org", metavar="ID", help="Use this organization.", rich_help_panel="Store and scope")
]
Project = Annotated[
    str | None, typer.Option(metavar="ID", help="Use data of this project.", rich_help_panel="Store and scope")
]
User = Annotated[
    str | None, typer.Option(metavar="ID", help="Use data of this user.", rich_help_panel="Store and scope")
]
Agent = Annotated[
    str | None, typer.Option(metavar="ID", help="Use data of this agent.", rich_help_panel="Store and scope")
]
Session = Annotated[
    str | None, typer.Option(metavar="ID", help="Use data of this session.", rich_help_panel="Store and scope")
]


def make_store_call(*, store: Store = None, as_json: Json = False, debug: Debug = False) -> Call:
    """Return the call of a command that takes a store. `--debug` is read by `main` itself."""
    return Call(store, as_json=as_json)


def make_call_without_store(*, as_json: Json = False, debug: Debug = False) -> Call:
    """Return the call of a command that takes its stores from separate options, not from `--store`."""
    return Call(None, as_json=as_json)


def make_scoped_call(
    *,
    store: Store = None,
    organization: Organization = "default",
    project: Project = None,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    timezone: Zone = None,
    as_json: Json = False,
    debug: Debug = False,
) -> Call:
    """Return the call of a command on data: it also takes the scope."""
    scope = {"organization": organization, "project": project, "user": user, "agent": agent, "session": session}
    return Call(store, as_json=as_json, timezone=timezone, scope=scope)


def command(
    app: typer.Typer,
    name: str,
    make_call: Callable[..., Call] = make_scoped_call,
    *,
    creates_store: bool = False,
    **groups: Callable[..., Any],
) -> Callable[[Callable[..., CommandResult]], Callable[..., CommandResult]]:
    """Register a function as a command that takes the options of `make_call` and of each group in addition to its own.

    With `creates_store` it may create the store and the organization; other commands never create one by a wrong name.
    A group is a function from the call and its options to one value, which is passed under the group's name.
    """

    def register(action: Callable[..., CommandResult]) -> Callable[..., CommandResult]:
        @functools.wraps(action)
        def run(**options: Any) -> int:
            call = make_call(**_pop_options(options, make_call))
            call.creates_store = creates_store
            line = shell_line.get()
            if line is not None:
                call.join(line.shell)
            try:
                values = {name: group(call, **_pop_options(options, group)) for name, group in groups.items()}
                result = action(call, **values, **options)
                call.note_organization()
                if line is None:
                    _print_result(call, result)
                else:
                    line.result = result
            except BaseException:
                call.close(has_failed=True)
                raise
            call.close()
            return result.code

        own_options = [option for option in _list_options(action) if option.name not in groups]
        group_options = [option for group in (*groups.values(), make_call) for option in _list_options(group)]
        run.__signature__ = inspect.Signature(own_options + group_options)  # type: ignore[attr-defined]
        app.command(name)(run)
        return action

    return register


def _list_options(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    return [option.replace(kind=option.KEYWORD_ONLY) for option in parameters if option.name != "call"]


def _pop_options(options: dict[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    """Remove the options that a function takes, and return them."""
    return {option.name: options.pop(option.name) for option in _list_options(function)}


def _print_result(call: Call, result: CommandResult) -> None:
    """Print a result as a JSON document, or as text for a person.

    As JSON, a result without a document prints nothing.
    """
    if result.document is None:
        return
    if call.as_json:
        from everhold.interfaces.shared.documents import encode_json

        is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        print(encode_json(result.document, ascii_only=not is_utf8))
    elif result.output is not None:
        _print_output(result.output)


def _print_output(output: "RenderableType") -> None:
    """Print the output for a person. Rich is imported only for colours on a terminal and for tables."""
    # Imported here, so that a search imports it while the embedding model loads.
    from everhold.interfaces.cli.text_lists import TextList, find_output_width

    is_coloured = sys.stdout.isatty() or any(settings.read_variable(name) for name in _FORCING_COLOUR)
    if isinstance(output, TextList) and not is_coloured:
        print(output.make_text(find_output_width(settings.read_variable("COLUMNS"))), end="")
        return
    from rich.console import Console

    Console(highlight=False, emoji=False).print(output)
