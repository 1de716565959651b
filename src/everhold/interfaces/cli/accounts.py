"""Commands on organizations, users and projects."""

import sys
from collections.abc import Callable
from getpass import getpass
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from everhold.errors import InvalidInput
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, Outcome, command, on_store
from everhold.interfaces.cli.inputs import confirm
from everhold.interfaces.shared.inputs import parse_object
from everhold.model import Organization, Project, User
from everhold.tenancy.accounts import AccountPage
from everhold.tenancy.deletion import Deleted

organizations = typer.Typer(help="Organizations: tenants that share nothing.")
users = typer.Typer(help="Users of an organization.")
projects = typer.Typer(help="Projects of an organization.")

AccountId = Annotated[str, typer.Argument(metavar="ID")]
NewName = Annotated[str | None, typer.Option("--name", metavar="NAME", help="The id, if not given.")]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME")]
Email = Annotated[str | None, typer.Option(metavar="ADDRESS")]
Timezone = Annotated[str | None, typer.Option(metavar="ZONE", help="Such as Asia/Bangkok.")]
Status = Annotated[str | None, typer.Option(metavar="WORD", help="Only who is 'active' can sign in.")]
Object = Annotated[str | None, typer.Option(metavar="JSON")]
Description = Annotated[str | None, typer.Option(metavar="TEXT")]
Within = Annotated[str, typer.Option("--org", metavar="ID")]
OfUser = Annotated[str | None, typer.Option("--user", metavar="ID", help="Who created it.")]
ExpectedVersion = Annotated[int | None, typer.Option(metavar="N", help="Refuse if it is at another version.")]
AskPassword = Annotated[bool, typer.Option("--password", help="Ask for a password, or read it from standard input.")]
Limit = Annotated[int, typer.Option(metavar="N")]
Cursor = Annotated[str | None, typer.Option(metavar="CURSOR", help="From the page before.")]
OnlyDeleted = Annotated[bool, typer.Option("--deleted", help="Those that can be restored.")]
Hard = Annotated[bool, typer.Option("--hard", help="For good: it cannot be undone.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Preview = Annotated[bool, typer.Option("--preview", help="Only show what would go.")]

Row = Organization | User | Project


# organizations


@command(organizations, "create", on_store, begins=True)
def create_organization(call: Call, own_id: AccountId, name: NewName = None) -> Outcome:
    """Create an organization."""
    return _show_written(call.engine.create_organization(own_id, name), "created")


@command(organizations, "get", on_store)
def get_organization(call: Call, own_id: AccountId) -> Outcome:
    """Show an organization."""
    return _show_row(call, call.engine.get_organization(own_id))


@command(organizations, "list", on_store)
def list_organizations(call: Call, deleted: OnlyDeleted = False, limit: Limit = 50, cursor: Cursor = None) -> Outcome:
    """List the organizations of the store."""
    return _show_page("organizations", call.engine.list_organizations(deleted=deleted, limit=limit, cursor=cursor))


@command(organizations, "update", on_store)
def update_organization(
    call: Call, own_id: AccountId, name: Name = None, metadata: Object = None, expected_version: ExpectedVersion = None
) -> Outcome:
    """Change an organization."""
    fields = _require_fields(name=name, metadata=_parse("metadata", metadata))
    row = call.engine.update_organization(own_id, expected_version=expected_version, **fields)
    return _show_written(row, "updated")


@command(organizations, "delete", on_store)
def delete_organization(
    call: Call, own_id: AccountId, hard: Hard = False, yes: Yes = False, preview: Preview = False
) -> Outcome:
    """Delete an organization with everything in it. Shows what goes and asks first."""
    return _delete(call, "organization", own_id, own_id, hard=hard, yes=yes, preview=preview)


@command(organizations, "restore", on_store)
def restore_organization(call: Call, own_id: AccountId) -> Outcome:
    """Bring a deleted organization back."""
    return _restore(call, "organization", own_id, own_id)


# users


@command(users, "create", on_store, begins=True)
def create_user(
    call: Call,
    own_id: AccountId,
    organization: Within = "default",
    name: NewName = None,
    email: Email = None,
    timezone: Timezone = None,
    password: AskPassword = False,
) -> Outcome:
    """Create a user, or complete one who was only mentioned."""
    secret = _read_password() if password else None
    made = call.engine.create_user(
        own_id, organization=organization, name=name, email=email, password=secret, timezone=timezone
    )
    return _show_written(made, "created")


@command(users, "get", on_store)
def get_user(call: Call, own_id: AccountId, organization: Within = "default") -> Outcome:
    """Show a user."""
    return _show_row(call, call.engine.get_user(own_id, organization=organization))


@command(users, "list", on_store)
def list_users(
    call: Call,
    organization: Within = "default",
    status: Status = None,
    deleted: OnlyDeleted = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Outcome:
    """List the users of an organization."""
    page = call.engine.list_users(organization=organization, status=status, deleted=deleted, limit=limit, cursor=cursor)
    return _show_page("users", page)


@command(users, "update", on_store)
def update_user(
    call: Call,
    own_id: AccountId,
    organization: Within = "default",
    name: Name = None,
    email: Email = None,
    timezone: Timezone = None,
    status: Status = None,
    profile: Object = None,
    preferences: Object = None,
    metadata: Object = None,
    expected_version: ExpectedVersion = None,
) -> Outcome:
    """Change a user."""
    objects = {"profile": profile, "preferences": preferences, "metadata": metadata}
    fields = _require_fields(
        name=name,
        email=email,
        timezone=timezone,
        status=status,
        **{option: _parse(option, written) for option, written in objects.items()},
    )
    row = call.engine.update_user(own_id, organization=organization, expected_version=expected_version, **fields)
    return _show_written(row, "updated")


@command(users, "password", on_store)
def set_password(
    call: Call,
    own_id: AccountId,
    organization: Within = "default",
    remove: Annotated[bool, typer.Option("--remove", help="Nobody can sign in as this user any more.")] = False,
    expected_version: ExpectedVersion = None,
) -> Outcome:
    """Set a user's password: asked for twice, or one line of standard input."""
    secret = None if remove else _read_password()
    row = call.engine.set_password(own_id, secret, organization=organization, expected_version=expected_version)
    return _show_written(row, "removed the password of" if remove else "set the password of")


@command(users, "delete", on_store)
def delete_user(
    call: Call,
    own_id: AccountId,
    organization: Within = "default",
    hard: Hard = False,
    yes: Yes = False,
    preview: Preview = False,
) -> Outcome:
    """Delete a user with all that belongs to them. Shows what goes and asks first."""
    return _delete(call, "user", own_id, organization, hard=hard, yes=yes, preview=preview)


@command(users, "restore", on_store)
def restore_user(call: Call, own_id: AccountId, organization: Within = "default") -> Outcome:
    """Bring a deleted user back."""
    return _restore(call, "user", own_id, organization)


# projects


@command(projects, "create", on_store, begins=True)
def create_project(
    call: Call,
    own_id: AccountId,
    organization: Within = "default",
    user: OfUser = None,
    name: NewName = None,
    description: Description = None,
) -> Outcome:
    """Create a project."""
    made = call.engine.create_project(own_id, organization=organization, user=user, name=name, description=description)
    return _show_written(made, "created")


@command(projects, "get", on_store)
def get_project(call: Call, own_id: AccountId, organization: Within = "default") -> Outcome:
    """Show a project."""
    return _show_row(call, call.engine.get_project(own_id, organization=organization))


@command(projects, "list", on_store)
def list_projects(
    call: Call,
    organization: Within = "default",
    user: OfUser = None,
    deleted: OnlyDeleted = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Outcome:
    """List the projects of an organization."""
    page = call.engine.list_projects(organization=organization, user=user, deleted=deleted, limit=limit, cursor=cursor)
    return _show_page("projects", page)


@command(projects, "update", on_store)
def update_project(
    call: Call,
    own_id: AccountId,
    organization: Within = "default",
    name: Name = None,
    description: Description = None,
    metadata: Object = None,
    expected_version: ExpectedVersion = None,
) -> Outcome:
    """Change a project."""
    fields = _require_fields(name=name, description=description, metadata=_parse("metadata", metadata))
    row = call.engine.update_project(own_id, organization=organization, expected_version=expected_version, **fields)
    return _show_written(row, "updated")


@command(projects, "delete", on_store)
def delete_project(
    call: Call,
    own_id: AccountId,
    organization: Within = "default",
    hard: Hard = False,
    yes: Yes = False,
    preview: Preview = False,
) -> Outcome:
    """Delete a project with all that belongs to it. Shows what goes and asks first."""
    return _delete(call, "project", own_id, organization, hard=hard, yes=yes, preview=preview)


@command(projects, "restore", on_store)
def restore_project(call: Call, own_id: AccountId, organization: Within = "default") -> Outcome:
    """Bring a deleted project back."""
    return _restore(call, "project", own_id, organization)


# what all share


def _read_password() -> str:
    """Typed twice without being shown, or one line of standard input; never an argument, which others can see."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    first = getpass("Password: ")
    if getpass("Again: ") != first:
        raise InvalidInput("the two passwords differ, so nothing was changed", remedy="try again")
    return first


def _parse(option: str, written: str | None) -> dict[str, Any] | None:
    return None if written is None else parse_object(written, f"--{option}")


def _require_fields(**fields: Any) -> dict[str, Any]:
    """Return the fields that were given. InvalidInput if none was."""
    given = {name: value for name, value in fields.items() if value is not None}
    if not given:
        options = ", ".join(f"--{name}" for name in fields)
        raise InvalidInput("there is nothing to change", remedy=f"pass at least one of {options}")
    return given


def _delete(call: Call, kind: str, name: str, organization: str, *, hard: bool, yes: bool, preview: bool) -> Outcome:
    verbs: dict[str, Callable[..., Deleted]] = {
        "organization": call.engine.delete_organization,
        "user": call.engine.delete_user,
        "project": call.engine.delete_project,
    }
    within = {} if kind == "organization" else {"organization": organization}
    going = verbs[kind](name, **within, hard=hard, preview=True)
    if preview:
        return _show_deleted(going, f"deleting {kind} {name} would take along")
    if not yes:
        Console(stderr=True, highlight=False).print(_counts_table(going))
        if not confirm(f"Delete {kind} {name}{' for good' if hard else ''}?"):
            return Outcome({"rows": {}, "preview": False}, show.plain("nothing was deleted, as you wished"), 1)
    gone = verbs[kind](name, **within, hard=hard)
    ending = " for good" if hard else "; `restore` brings it back"
    return _show_deleted(gone, f"deleted {kind} {name}{ending}")


def _restore(call: Call, kind: str, name: str, organization: str) -> Outcome:
    call.engine.restore(kind, name, organization=organization)
    return Outcome({"restored": {"kind": kind, "id": name}}, show.plain(f"restored {kind} {name}"))


def _show_deleted(deleted: Deleted, heading: str) -> Outcome:
    document = {"rows": deleted.rows, "preview": deleted.preview}
    return Outcome(document, Group(show.plain(heading), _counts_table(deleted)))


def _counts_table(deleted: Deleted) -> RenderableType:
    table = show.table("what", "rows")
    for name, count in deleted.rows.items():
        table.add_row(name.replace("_", " "), f"{count:,}")
    return table


def _show_written(row: Row, done: str) -> Outcome:
    kind = type(row).__name__.lower()
    return Outcome({kind: row}, show.plain(f"{done} {kind} {row.id} ({row.name})"))


def _show_row(call: Call, row: Row) -> Outcome:
    hidden = {"password_hash", "organization_id", "deletion_id", "is_deleted", "deleted_at"}
    values = {name: value for name, value in row.__dict__.items() if name not in hidden}
    return Outcome({type(row).__name__.lower(): row}, show.fields_table(values, call.zone))


_COLUMNS = {"organizations": (), "users": ("email", "status"), "projects": ("user_id", "description")}


def _show_page(what: str, page: AccountPage[Any]) -> Outcome:
    columns = _COLUMNS[what]
    table = show.table("id", "name", *(column.removesuffix("_id") for column in columns))
    for row in page:
        cells = [row.id, row.name, *(row.__dict__[column] or "" for column in columns)]
        table.add_row(*(show.plain(cell, 60) for cell in cells))
    rest: list[RenderableType] = [Text(f"more: --cursor {page.cursor!r}", style="dim")] if page.cursor else []
    shown = Group(table, *rest) if page else show.plain(f"no {what}")
    return Outcome({what: page.rows, "cursor": page.cursor}, shown)
