"""One run of a command: the options that commands share, and how its outcome is given back.

A command is a function from a `Call` and its own options to an `Outcome`. `command` registers it with Typer under the
options of all the groups it asks for, so that each option is declared once.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer
from rich.console import Console, RenderableType

from everhold import Everhold, View, settings
from everhold.errors import InvalidInput, InvalidSettings, Remedy, StoreError, StoreMissing
from everhold.interfaces.shared.documents import encode_json
from everhold.interfaces.shared.times import Direction, parse_time
from everhold.model.scope import DEFAULT_ORGANIZATION
from everhold.model.tenancy import check_timezone
from everhold.progress import ReportProgress, StepCounter

if TYPE_CHECKING:
    from everhold.interfaces.cli.interrupts import Explain


@dataclass(frozen=True)
class Outcome:
    """What a command found or did: for programs and for people."""

    document: Any
    shown: RenderableType | None
    code: int = 0


class Call:
    """Whose data in which store a command is about. The store is opened when it is first needed."""

    def __init__(
        self, store: str | None, *, as_json: bool, timezone: str | None = None, scope: Mapping[str, Any] | None = None
    ) -> None:
        self.store = store
        self.as_json = as_json
        self.scope = dict(scope or {})
        self.begins = False
        self.history: list[str | None] = []
        """What `/undo` of a shell takes back, latest last: the id of a stored memory, or None for another change."""
        self.shown_ids: Sequence[str] = ()
        """The ids of the memories in the last table of a shell, by whose numbers they can be named."""
        self._timezone = timezone
        self._held = ExitStack()

    @cached_property
    def settings(self) -> settings.Settings:
        return settings.load(self.store)

    @cached_property
    def zone(self) -> ZoneInfo:
        """Where the person at the terminal is."""
        if self._timezone is None:
            return ZoneInfo(self.settings.timezone)
        try:
            return ZoneInfo(check_timezone(self._timezone))
        except ValueError as error:
            raise InvalidInput.from_sentence(f"--timezone: {error}", self._timezone) from None

    @cached_property
    def engine(self) -> Everhold:
        """The engine on the store. Only a command that `begins` creates a store: others may be in the wrong folder."""
        source = settings.find_storage_source(self.store)
        place = self.settings.storage.rpartition("/")[2]
        try:
            engine = Everhold.open(self.store, create=self.begins, interface="command line")
        except (StoreError, InvalidSettings, StoreMissing) as error:
            if source is not None and place in error.fact:
                error.fact += f" (named by {source})"
            if isinstance(error, StoreMissing):
                error.remedy = Remedy("`everhold remember TEXT` creates it; --store PATH names another")
            raise
        return self._held.enter_context(engine)

    @cached_property
    def view(self) -> View:
        return self.engine.scope(**self.scope)

    def parse_moment(self, option: str, text: str | None, durations: Direction | None = None) -> datetime | None:
        """Return the moment that an option names, or None if the option was not passed."""
        return None if text is None else parse_time(text, self.zone, option, durations=durations)

    def note_organization(self) -> None:
        """Says that there is no such organization, of which therefore nothing was found."""
        name = self.scope.get("organization", DEFAULT_ORGANIZATION)
        if not self.begins and name != DEFAULT_ORGANIZATION and not self.engine.has_organization(name):
            print(f"everhold: no organization {name!r} in this store", file=sys.stderr)

    def close(self) -> None:
        self._held.close()

    @contextmanager
    def progress(self, step: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Show a bar on standard error; the function that is yielded takes how many more are done."""
        from everhold.interfaces.cli.progress import show_steps

        with show_steps(is_quiet=self.as_json) as show:
            yield StepCounter(show, step, total).add

    @contextmanager
    def watch(self, explain: "Explain", *, is_quiet: bool = False) -> Iterator[ReportProgress]:
        """Show the steps of long work that Ctrl-C ends between two batches; `explain` says what was kept then."""
        from everhold.interfaces.cli.interrupts import watch_steps

        with watch_steps(explain, is_quiet=is_quiet or self.as_json) as report:
            yield report


Store = Annotated[
    str | None,
    typer.Option(metavar="PATH|URL|FILE.yaml", help="Default: what the settings say.", rich_help_panel="Where"),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of a table.", rich_help_panel="How")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an unexpected error arose.", rich_help_panel="How")]
Zone = Annotated[
    str | None,
    typer.Option(help="The zone of times without one, and of times shown.", metavar="ZONE", rich_help_panel="How"),
]
Organization = Annotated[str, typer.Option("--org", metavar="ID", rich_help_panel="Where")]
Dimension = Annotated[str | None, typer.Option(metavar="ID", rich_help_panel="Where")]


def on_store(*, store: Store = None, as_json: Json = False, debug: Debug = False) -> Call:
    """What every command takes. The edge itself looks for `--debug`."""
    return Call(store, as_json=as_json)


def without_store(*, as_json: Json = False, debug: Debug = False) -> Call:
    """For a command that names its stores itself."""
    return Call(None, as_json=as_json)


def in_scope(
    *,
    store: Store = None,
    organization: Organization = "default",
    project: Dimension = None,
    user: Dimension = None,
    agent: Dimension = None,
    session: Dimension = None,
    timezone: Zone = None,
    as_json: Json = False,
    debug: Debug = False,
) -> Call:
    """What every command on data takes besides: whose it is."""
    scope = {"organization": organization, "project": project, "user": user, "agent": agent, "session": session}
    return Call(store, as_json=as_json, timezone=timezone, scope=scope)


def command(
    app: typer.Typer,
    name: str,
    shared: Callable[..., Call] = in_scope,
    *,
    begins: bool = False,
    **groups: Callable[..., Any],
) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """Registers a function as a command that takes the options of `shared` and of each group besides its own.

    With `begins` it may be the first on a store or in an organization; other commands create neither by a wrong name.
    A group is a function from the call and its options to one value, which the command gets under the group's name.
    """

    def register(action: Callable[..., Outcome]) -> Callable[..., Outcome]:
        @functools.wraps(action)
        def run(**given: Any) -> int:
            call = shared(**_taken(given, shared))
            call.begins = begins
            try:
                values = {name: group(call, **_taken(given, group)) for name, group in groups.items()}
                outcome = action(call, **values, **given)
                call.note_organization()
                _give(call, outcome)
            finally:
                call.close()
            return outcome.code

        own = [one for one in _options_of(action) if one.name not in groups]
        others = [one for group in (*groups.values(), shared) for one in _options_of(group)]
        run.__signature__ = inspect.Signature(own + others)  # type: ignore[attr-defined]
        app.command(name)(run)
        return action

    return register


def _options_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    return [one.replace(kind=one.KEYWORD_ONLY) for one in parameters if one.name != "call"]


def _taken(given: dict[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    return {one.name: given.pop(one.name) for one in _options_of(function)}


def _give(call: Call, outcome: Outcome) -> None:
    if call.as_json:
        utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        print(encode_json(outcome.document, ascii_only=not utf8))
    elif outcome.shown is not None:
        Console(highlight=False).print(outcome.shown)
