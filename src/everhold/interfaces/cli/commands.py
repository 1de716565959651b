"""All commands, in the order in which `--help` lists them.

A command's module is imported when the command is run: `--help` and a single command need no other.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_command_from_info, get_group

from everhold import __version__

app = typer.Typer(
    help="A memory engine for AI agents: store what was said and done, and find it by meaning.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: everhold shell --sample",
)


def _show_version(is_requested: bool) -> None:
    if is_requested:
        print(f"everhold {__version__}")
        raise typer.Exit


def _show_log(context: typer.Context, count: int) -> None:
    """Write the log to standard error while the command runs: INFO and above, or with two flags DEBUG."""
    if not count:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("everhold")
    context.call_on_close(partial(logger.setLevel, logger.level))
    context.call_on_close(partial(logger.removeHandler, handler))
    logger.setLevel(logging.INFO if count == 1 else logging.DEBUG)
    logger.addHandler(handler)


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, help="Show the log on standard error; -vv shows more.")
    ] = 0,
) -> None:
    """Handle the options that come before a command."""
    _show_log(context, verbose)


# For each module, the commands that it defines, with the first sentences of their help.
COMMANDS: Mapping[str, Mapping[str, str]] = {
    "memories": {
        "remember": "Store one or more memories.",
        "recall": "Find the memories or messages that answer a question, best first.",
        "get": "Show a memory with all its fields.",
        "list": "Show memories, the newest first.",
        "count": "Count memories.",
        "revise": "Change a memory; its history is kept. The time 'never' removes a date.",
        "supersede": "Replace a memory with a new one.",
        "history": "Show the earlier versions of a memory.",
    },
    "messages": {
        "add": "Store the messages of a conversation and the facts in them.",
    },
    "explaining": {
        "why-not": "Explain why a memory is not a hit for a question.",
        "timeline": "Show how the answer to a question changed over time.",
        "overview": "Show the memories about a person, a thing or a tag, most important first.",
    },
    "contexts": {
        "context": "Build a section of a prompt from pinned, core and recalled memories and the session.",
    },
    "windows": {
        "window": "Build the prompt for the next turn of a session, within a number of tokens.",
    },
    "forgetting": {
        "forget": "Forget memories by id or by filter, after a confirmation.",
        "undo": "Undo the last revise, supersede, forget or merge.",
    },
    "merging": {
        "merge": "Merge near-duplicate memories.",
    },
    "conflicts": {
        "conflicts": "List contradictions between memories that maintenance left for you to resolve.",
        "resolve": "End a conflict between two memories.",
    },
    "links": {
        "relate": "Link two memories.",
        "relations": "Show the memories related to a memory, nearest first.",
        "tag": "Add tags to a memory.",
        "untag": "Remove tags from a memory.",
        "tags": "Show all tags with the number of memories.",
    },
    "asking": {
        "sql": "Run a SELECT on files or a connected database; anything else is refused.",
    },
    "uploads": {
        "upload": "Upload data files, and show what was detected in them.",
        "tables": "Show the tables of files and databases; --find shows those that a question is about, best first.",
        "describe": "Show a table with its columns: types, ranges and frequent values; --set changes its description.",
        "sources": "Show the uploaded files, the latest first.",
        "delete-source": "Delete an uploaded file with its tables; --restore brings it back.",
    },
    "connections": {
        "connect": "Connect a database, and show its tables; questions then run there, read-only.",
        "connections": "Show the connected databases.",
        "refresh-connection": "Read the tables of a connected database again, and show what has changed.",
        "delete-connection": "Delete a connection with the descriptions of its tables; --restore brings it back.",
    },
    "shell": {
        "shell": "Open a shell: type a sentence to store it, ?question to recall.",
    },
    "events": {
        "events": "Show the changes in a scope, oldest first; --follow waits for further ones.",
    },
    "voice": {
        "serve-voice": "Answer requests of older voice assistants over ZeroMQ, until Ctrl-C or SIGTERM.",
    },
    "imports": {
        "import": "Import an export, the data of another system, a list of memories, or a text.",
    },
    "backups": {
        "backup": "Back up the store to a folder or an fsspec address; only what changed is stored.",
        "backups": "Show the backups at a folder or an address.",
        "restore": "Restore a backup into the empty store that --store names. It may be of another kind.",
        "verify": "Check a backup: read every file, restore it into a scratch store, compare.",
    },
    "care": {
        "log": "Show the access log, newest first.",
        "doctor": "Show the parts and contents of the store, and problems.",
        "export": "Export an organization to a file.",
        "init": "Write a settings file that explains every setting.",
        "move": "Copy a store into another and verify the copy.",
        "version": "Show the version.",
    },
    "erasing": {
        "erase": "Erase a user everywhere, with a proof, after a confirmation. It cannot be undone.",
    },
    "maintenance": {
        "maintain": "Run maintenance jobs, such as purging expired memories.",
        "runs": "List the latest maintenance runs.",
        "undo-run": "Undo the changes that a maintenance run made to memories.",
    },
}

# For each group of commands: its module, the variable of the group in that module, and its help.
GROUPS: Mapping[str, tuple[str, str, str]] = {
    "org": ("accounts", "organizations", "Organizations: isolated tenants."),
    "user": ("accounts", "users", "Users of an organization."),
    "project": ("accounts", "projects", "Projects of an organization."),
    "agent": ("agents", "app", "Agents of an organization; --agent names one."),
    "state": ("agents", "states", "The state of an agent between calls; --agent and --session select it."),
    "session": ("sessions", "app", "Sessions and their messages; --session names one."),
    "messages": ("messages", "group", "Single messages of a session."),
    "block": ("blocks", "app", "Core memory: texts that are always part of an agent's prompt."),
    "episodes": ("episodes", "app", "Summaries of what was said, by topic, session and period."),
    "tool": ("tools", "app", "Tools that agents can call; --agent names an agent."),
    "ask": (
        "learning",
        "questions",
        "Ask questions about data in plain language, and say whether the answers are right.",
    ),
    "run": ("runs", "app", "Runs of agents and programs, and their cycles."),
    "workspace": ("workspaces", "app", "Workspaces: files in a folder, with snapshots."),
    "views": ("sql_views", "app", "SQL views with the table names of other memory systems, for existing reports."),
    "keys": ("keys", "app", "Encryption: which fields are encrypted, and with which keys."),
    "model": ("care", "model", "The embedding model."),
    "eval": ("sql_evaluations", "app", "Measure recall and questions about data."),
}


class LazyCommand(TyperCommand):
    """A command or a group that is only a name and a summary until `load` returns the real one."""

    def __init__(self, name: str, summary: str, load: Callable[[], Any]) -> None:
        super().__init__(name, help=summary)
        self.load = load

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the arguments, for which Typer needs the real command."""
        return self.load().make_context(info_name, args, parent, **extra)


def make_root() -> TyperGroup:
    """Return the group of all commands."""
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    _skip_validators(root)
    for module, summaries in COMMANDS.items():
        for name, summary in summaries.items():
            root.add_command(LazyCommand(name, summary, partial(_load_command, module, name)))
    for name, (module, variable, summary) in GROUPS.items():
        root.add_command(LazyCommand(name, summary, partial(_load_group, module, variable, name)))
    return root


def _load_command(module: str, name: str) -> Any:
    infos = {command.name: command for command in _import_app(module, "app").registered_commands}
    command = get_command_from_info(infos[name], pretty_exceptions_short=True, rich_markup_mode=app.rich_markup_mode)
    _skip_validators(command)
    return command


def _load_group(module: str, variable: str, name: str) -> Any:
    group = get_group(_import_app(module, variable))
    group.name = name
    for command in group.commands.values():
        _skip_validators(command)
    return group


def _skip_validators(command: Any) -> None:
    """Let a command build no validator for a parameter that is absent or whose value already has its type.

    Typer builds a Pydantic validator for each parameter, which takes as long as the rest of the parsing.
    """
    for parameter in command.params:
        _skip_validator(parameter)
    get_help_option = command.get_help_option

    def get_fast_help_option(context: Any) -> Any:
        option = get_help_option(context)
        if option is not None and not isinstance(option.process_value, partial):
            _skip_validator(option)
        return option

    command.get_help_option = get_fast_help_option


def _skip_validator(parameter: Any) -> None:
    parameter.process_value = partial(_process_value, parameter, parameter.process_value)


def _process_value(parameter: Any, process: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    """Return the value of a parameter. `process` is Typer's own method, for values that must be converted."""
    if value is None and not parameter.required:
        value = () if parameter.multiple or parameter.nargs == -1 else None  # as Typer would return
    elif type(value) is not parameter.type_descriptor.annotation:
        return process(context, value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


def _import_app(module: str, variable: str) -> typer.Typer:
    application: typer.Typer = vars(import_module(f"everhold.interfaces.cli.{module}"))[variable]
    return application
