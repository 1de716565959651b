"""All commands, in the order in which `--help` lists them."""

import logging
from typing import Annotated

import typer

from everhold import __version__
from everhold.interfaces.cli import (
    accounts,
    care,
    contexts,
    evaluations,
    explaining,
    forgetting,
    links,
    memories,
    merging,
    messages,
    sessions,
    shell,
)

app = typer.Typer(
    help="A memory engine for AI agents: keep what was said and done, and find it again by meaning.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: everhold shell --sample",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"everhold {__version__}")
        raise typer.Exit


def _show_log(count: int) -> None:
    """Write the log of the package to standard error: INFO and above, or with two flags DEBUG."""
    if not count:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("everhold")
    logger.setLevel(logging.INFO if count == 1 else logging.DEBUG)
    logger.handlers = [handler]  # a second call in one process replaces the handler of the first


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")] = False,
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, help="Show the log on standard error; -vv shows more.")
    ] = 0,
) -> None:
    """Without a command there is nothing to do."""
    _show_log(verbose)


for group in (memories, messages, explaining, contexts, forgetting, merging, links, shell, care):
    app.add_typer(group.app)
app.add_typer(accounts.organizations, name="org")
app.add_typer(accounts.users, name="user")
app.add_typer(accounts.projects, name="project")
app.add_typer(sessions.app, name="session")
app.add_typer(messages.group, name="messages")
app.add_typer(care.model, name="model")
app.add_typer(evaluations.app, name="eval")
