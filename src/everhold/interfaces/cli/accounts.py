"""Commands that create organizations, users and projects."""

import sys
from getpass import getpass
from typing import Annotated

import typer

from everhold.errors import InvalidInput
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, Outcome, command, on_store
from everhold.model import Organization, Project, User

organizations = typer.Typer(help="Organizations: tenants that share nothing.")
users = typer.Typer(help="Users of an organization.")
projects = typer.Typer(help="Projects of an organization.")

NewId = Annotated[str, typer.Argument(metavar="ID")]
Name = Annotated[str | None, typer.Option(metavar="NAME", help="The id, if not given.")]
Within = Annotated[str, typer.Option("--org", metavar="ID")]


@command(organizations, "create", on_store, begins=True)
def create_organization(call: Call, own_id: NewId, name: Name = None) -> Outcome:
    """Create an organization."""
    return _created(call, call.engine.create_organization(own_id, name))


@command(users, "create", on_store, begins=True)
def create_user(
    call: Call,
    own_id: NewId,
    organization: Within = "default",
    name: Name = None,
    email: Annotated[str | None, typer.Option(metavar="ADDRESS")] = None,
    timezone: Annotated[str | None, typer.Option(metavar="ZONE", help="Such as Asia/Bangkok.")] = None,
    password: Annotated[
        bool, typer.Option("--password", help="Ask for a password, or read it from standard input.")
    ] = False,
) -> Outcome:
    """Create a user."""
    secret = _password() if password else None
    made = call.engine.create_user(
        own_id, organization=organization, name=name, email=email, password=secret, timezone=timezone
    )
    return _created(call, made)


def _password() -> str:
    """Typed twice without being shown, or one line of standard input; never an argument, which others can see."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    first = getpass("Password: ")
    if getpass("Again: ") != first:
        raise InvalidInput("the two passwords differ", remedy="nothing was created, try again")
    return first


@command(projects, "create", on_store, begins=True)
def create_project(
    call: Call,
    own_id: NewId,
    organization: Within = "default",
    user: Annotated[str | None, typer.Option(metavar="ID", help="Whose it is.")] = None,
    name: Name = None,
    description: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
) -> Outcome:
    """Create a project."""
    made = call.engine.create_project(own_id, organization=organization, user=user, name=name, description=description)
    return _created(call, made)


def _created(call: Call, made: Organization | User | Project) -> Outcome:
    kind = type(made).__name__.lower()
    return Outcome({kind: made}, show.plain(f"created {kind} {made.id} ({made.name})"))
