"""Commands on organizations, users and projects."""

import sys
from collections.abc import Callable
from functools import partial
from getpass import getpass
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold.errors import InvalidInput
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command, make_store_call
from everhold.interfaces.cli.deleting import Hard, Preview, Yes, run_deletion
from everhold.interfaces.shared.inputs import parse_object
from everhold.model import Organization, Project, User
from everhold.tenancy.accounts import AccountPage
from everhold.tenancy.deletion import Deleted

organizations = typer.Typer(help="Organizations: isolated tenants.")
users = typer.Typer(help="Users of an organization.")
projects = typer.Typer(help="Projects of an organization.")

AccountId = Annotated[str, typer.Argument(metavar="ID")]
NewName = Annotated[str | None, typer.Option("--name", metavar="NAME", help="The id, if not given.")]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME")]
Email = Annotated[str | None, typer.Option(metavar="ADDRESS")]
Timezone = Annotated[str | None, typer.Option(metavar="ZONE", help="Such as Asia/Bangkok.")]
Status = Annotated[str | None, typer.Option(metavar="WORD", help="Only 'active' users can sign in.")]
Object = Annotated[str | None, typer.Option(metavar="JSON")]
Description = Annotated[str | None, typer.Option(metavar="TEXT")]
OrganizationId = Annotated[str, typer.Option("--org", metavar="ID")]
CreatorId = Annotated[str | None, typer.Option("--user", metavar="ID", help="Who created it.")]
ExpectedVersion = Annotated[int | None, typer.Option(metavar="N", help="Fail if the version differs.")]
AskPassword = Annotated[bool, typer.Option("--password", help="Ask for a password, or read it from standard input.")]
Limit = Annotated[int, typer.Option(metavar="N")]
Cursor = Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue after the previous page.")]
OnlyDeleted = Annotated[bool, typer.Option("--deleted", help="List deleted ones, which can be restored.")]

Row = Organization | User | Project


# organizations


@command(organizations, "create", make_store_call, creates_store=True)
def create_organization(call: Call, own_id: AccountId, name: NewName = None) -> CommandResult:
    """Create an organization."""
    return _show_written(call.engine.create_organization(own_id, name), "created")


@command(organizations, "get", make_store_call)
def get_organization(call: Call, own_id: AccountId) -> CommandResult:
    """Show an organization."""
    return _show_row(call, call.engine.get_organization(own_id))


@command(organizations, "list", make_store_call)
def list_organizations(
    call: Call, deleted: OnlyDeleted = False, limit: Limit = 50, cursor: Cursor = None
) -> CommandResult:
    """List the organizations of the store."""
    return _show_page("organizations", call.engine.list_organizations(deleted=deleted, limit=limit, cursor=cursor))


@command(organizations, "update", make_store_call)
def update_organization(
    call: Call, own_id: AccountId, name: Name = None, metadata: Object = None, expected_version: ExpectedVersion = None
) -> CommandResult:
    """Change an organization."""
    fields = _require_fields(name=name, metadata=_parse("metadata", metadata))
    row = call.engine.update_organization(own_id, expected_version=expected_version, **fields)
    return _show_written(row, "updated")


@command(organizations, "delete", make_store_call)
def delete_organization(
    call: Call, own_id: AccountId, hard: Hard = False, yes: Yes = False, preview: Preview = False
) -> CommandResult:
    """Delete an organization with everything in it. Shows what will be deleted and asks first."""
    return _delete(call, "organization", own_id, own_id, hard=hard, yes=yes, preview=preview)


@command(organizations, "restore", make_store_call)
def restore_organization(call: Call, own_id: AccountId) -> CommandResult:
    """Restore a deleted organization."""
    return _restore(call, "organization", own_id, own_id)


# users


@command(users, "create", make_store_call, creates_store=True)
def create_user(
    call: Call,
    own_id: AccountId,
    organization: OrganizationId = "default",
    name: NewName = None,
    email: Email = None,
    timezone: Timezone = None,
    password: AskPassword = False,
) -> CommandResult:
    """Create a user, or complete one that a scope has named."""
    secret = _read_password() if password else None
    user = call.engine.create_user(
        own_id, organization=organization, name=name, email=email, password=secret, timezone=timezone
    )
    return _show_written(user, "created")


@command(users, "get", make_store_call)
def get_user(call: Call, own_id: AccountId, organization: OrganizationId = "default") -> CommandResult:
    """Show a user."""
    return _show_row(call, call.engine.get_user(own_id, organization=organization))


@command(users, "list", make_store_call)
def list_users(
    call: Call,
    organization: OrganizationId = "default",
    status: Status = None,
    deleted: OnlyDeleted = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> CommandResult:
    """List the users of an organization."""
    page = call.engine.list_users(organization=organization, status=status, deleted=deleted, limit=limit, cursor=cursor)
    return _show_page("users", page)


@command(users, "update", make_store_call)
def update_user(
    call: Call,
    own_id: AccountId,
    organization: OrganizationId = "default",
    name: Name = None,
    email: Email = None,
    timezone: Timezone = None,
    status: Status = None,
    profile: Object = None,
    preferences: Object = None,
    metadata: Object = None,
    expected_version: ExpectedVersion = None,
) -> CommandResult:
    """Change a user."""
    object_options = {"profile": profile, "preferences": preferences, "metadata": metadata}
    fields = _require_fields(
        name=name,
        email=email,
        timezone=timezone,
        status=status,
        **{option: _parse(option, text) for option, text in object_options.items()},
    )
    row = call.engine.update_user(own_id, organization=organization, expected_version=expected_version, **fields)
    return _show_written(row, "updated")


@command(users, "password", make_store_call)
def set_password(
    call: Call,
    own_id: AccountId,
    organization: OrganizationId = "default",
    remove: Annotated[bool, typer.Option("--remove", help="Remove the password, which prevents signing in.")] = False,
    expected_version: ExpectedVersion = None,
) -> CommandResult:
    """Set a user's password: asked for twice, or one line of standard input."""
    secret = None if remove else _read_password()
    row = call.engine.set_password(own_id, secret, organization=organization, expected_version=expected_version)
    return _show_written(row, "removed the password of" if remove else "set the password of")


@command(users, "delete", make_store_call)
def delete_user(
    call: Call,
    own_id: AccountId,
    organization: OrganizationId = "default",
    hard: Hard = False,
    yes: Yes = False,
    preview: Preview = False,
) -> CommandResult:
    """Delete a user with all that belongs to them. Shows what will be deleted and asks first."""
    return _delete(call, "user", own_id, organization, hard=hard, yes=yes, preview=preview)


@command(users, "restore", make_store_call)
def restore_user(call: Call, own_id: AccountId, organization: OrganizationId = "default") -> CommandResult:
    """Restore a deleted user."""
    return _restore(call, "user", own_id, organization)


# projects


@command(projects, "create", make_store_call, creates_store=True)
def create_project(
    call: Call,
    own_id: AccountId,
    organization: OrganizationId = "default",
    user: CreatorId = None,
    name: NewName = None,
    description: Description = None,
) -> CommandResult:
    """Create a project."""
    project = call.engine.create_project(
        own_id, organization=organization, user=user, name=name, description=description
    )
    return _show_written(project, "created")


@command(projects, "get", make_store_call)
def get_project(call: Call, own_id: AccountId, organization: OrganizationId = "default") -> CommandResult:
    """Show a project."""
    return _show_row(call, call.engine.get_project(own_id, organization=organization))


@command(projects, "list", make_store_call)
def list_projects(
    call: Call,
    organization: OrganizationId = "default",
    user: CreatorId = None,
    deleted: OnlyDeleted = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> CommandResult:
    """List the projects of an organization."""
    page = call.engine.list_projects(organization=organization, user=user, deleted=deleted, limit=limit, cursor=cursor)
    return _show_page("projects", page)


@command(projects, "update", make_store_call)
def update_project(
    call: Call,
    own_id: AccountId,
    organization: OrganizationId = "default",
    name: Name = None,
    description: Description = None,
    metadata: Object = None,
    expected_version: ExpectedVersion = None,
) -> CommandResult:
    """Change a project."""
    fields = _require_fields(name=name, description=description, metadata=_parse("metadata", metadata))
    row = call.engine.update_project(own_id, organization=organization, expected_version=expected_version, **fields)
    return _show_written(row, "updated")


@command(projects, "delete", make_store_call)
def delete_project(
    call: Call,
    own_id: AccountId,
    organization: OrganizationId = "default",
    hard: Hard = False,
    yes: Yes = False,
    preview: Preview = False,
) -> CommandResult:
    """Delete a project with all that belongs to it. Shows what will be deleted and asks first."""
    return _delete(call, "project", own_id, organization, hard=hard, yes=yes, preview=preview)


@command(projects, "restore", make_store_call)
def restore_project(call: Call, own_id: AccountId, organization: OrganizationId = "default") -> CommandResult:
    """Restore a deleted project."""
    return _restore(call, "project", own_id, organization)


# shared by all three


def _read_password() -> str:
    """Return a password typed twice, or a line of standard input. An argument would be visible to other users."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    first = getpass("Password: ")
    if getpass("Again: ") != first:
        raise InvalidInput("the two passwords differ, so nothing was changed", remedy="try again")
    return first


def _parse(option: str, text: str | None) -> dict[str, Any] | None:
    return None if text is None else parse_object(text, f"--{option}")


def _require_fields(**fields: Any) -> dict[str, Any]:
    """Return the fields that were given. Raise InvalidInput if none was."""
    changes = {name: value for name, value in fields.items() if value is not None}
    if not changes:
        options = ", ".join(f"--{name}" for name in fields)
        raise InvalidInput("there is nothing to change", remedy=f"pass at least one of {options}")
    return changes


def _delete(
    call: Call, kind: str, name: str, organization: str, *, hard: bool, yes: bool, preview: bool
) -> CommandResult:
    verbs: dict[str, Callable[..., Deleted]] = {
        "organization": call.engine.delete_organization,
        "user": call.engine.delete_user,
        "project": call.engine.delete_project,
    }
    scope = {} if kind == "organization" else {"organization": organization}
    return run_deletion(partial(verbs[kind], name, **scope), f"{kind} {name}", hard=hard, yes=yes, preview=preview)


def _restore(call: Call, kind: str, name: str, organization: str) -> CommandResult:
    call.engine.restore(kind, name, organization=organization)
    return CommandResult({"restored": {"kind": kind, "id": name}}, show.render_text(f"restored {kind} {name}"))


def _show_written(row: Row, action: str) -> CommandResult:
    kind = type(row).__name__.lower()
    return CommandResult({kind: row}, show.render_text(f"{action} {kind} {row.id} ({row.name})"))


def _show_row(call: Call, row: Row) -> CommandResult:
    hidden_fields = {"password_hash", "organization_id", "deletion_id", "is_deleted", "deleted_at"}
    values = {name: value for name, value in row.__dict__.items() if name not in hidden_fields}
    return CommandResult({type(row).__name__.lower(): row}, show.make_fields_table(values, call.zone))


_COLUMNS = {"organizations": (), "users": ("email", "status"), "projects": ("user_id", "description")}


def _show_page(noun: str, page: AccountPage[Any]) -> CommandResult:
    columns = _COLUMNS[noun]
    table = show.make_table("id", "name", *(column.removesuffix("_id") for column in columns))
    for row in page:
        cells = [row.id, row.name, *(row.__dict__[column] or "" for column in columns)]
        table.add_row(*(show.render_text(cell, 60) for cell in cells))
    footer: list[RenderableType] = [Text(f"more: --cursor {page.cursor!r}", style="dim")] if page.cursor else []
    output = Group(table, *footer) if page else show.render_text(f"no {noun}")
    return CommandResult({noun: page.rows, "cursor": page.cursor}, output)
