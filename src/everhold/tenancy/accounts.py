"""Organizations, users, projects and agents: create, read, list and change them.

An implicit row exists only because something was written through a scope that names it. Creating it makes it explicit;
creating an explicit row again raises AlreadyExists.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

from everhold import clock
from everhold.errors import (
    AlreadyExists,
    Argument,
    InvalidInput,
    NotFound,
    Remedy,
    StaleVersion,
    StoreBusy,
    UnknownField,
)
from everhold.model import Agent, Block, Execution, Organization, Project, Session, Tool, User, Workspace
from everhold.model.announcement import make_announcement
from everhold.model.base import Row, Tracked
from everhold.model.fields import is_id
from everhold.model.page import ResultPage
from everhold.model.validation import suggest_name, validate_row
from everhold.ports.records import Records
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.schema.catalog import get_key, get_table
from everhold.schema.operations import Ensure, Op, Operation, Page, Patch, Put, Where

Account = TypeVar("Account", bound=Organization | User | Project | Agent)

KINDS: Mapping[str, type[Tracked]] = {
    "organization": Organization,
    "user": User,
    "project": Project,
    "agent": Agent,
    "session": Session,
    "block": Block,
    "tool": Tool,
    "run": Execution,
    "workspace": Workspace,
}
_KIND_NAMES = {entity: kind for kind, entity in KINDS.items()}
_CALLER_FIELDS: Mapping[type[Row], Collection[str]] = {
    Organization: ("name", "metadata"),
    User: ("name", "email", "timezone", "profile", "preferences", "status", "metadata"),
    Project: ("name", "description", "user_id", "metadata"),
    Agent: (
        "agent_type",
        "name",
        "description",
        "system",
        "topic",
        "message_ids",
        "llm_config",
        "embedding_config",
        "tool_rules",
        "mcp_tools",
        "config",
        "metadata",
    ),
}


@dataclass(frozen=True, repr=False)
class AccountPage(ResultPage[Account]):
    """A page of organizations, users, projects or agents, ordered by id.

    Pass `cursor` to get the next page; it is None on the last one.
    """

    _items_field: ClassVar[str] = "rows"

    rows: tuple[Account, ...]
    cursor: str | None = None


def create(
    records: Records,
    entity: type[Account],
    organization_id: str,
    name: str,
    fields: Mapping[str, Any],
    line: Operation,
    *,
    password_hash: str | None = None,
    actor: str | None = None,
) -> Account:
    """Create a row, or make an implicit one explicit, and return it; `line` adds the call to the access log.

    `actor` is the user who creates it.
    """
    check_fields(entity, fields)
    password_values = {"password_hash": password_hash} if password_hash is not None else {}
    now = clock.now()
    values = {"name": name, **fields, **password_values}
    values |= {"id": name, "created_at": now, "updated_at": now, "created_by_id": actor}
    parents = []
    if get_table(entity).name != "organizations":
        values["organization_id"] = organization_id
        parents = [Ensure(make_implicit_organization(organization_id))]
    row = validate_row(entity, values)
    try:
        records.commit([*parents, Put(row), line, Put(make_announcement(row))])
    except AlreadyExists as error:
        current = records.get(entity, organization_id, [name], deleted=True).get(name)
        if error.rule != "key" or current is None or current.is_deleted or not current.is_implicit:
            raise _explain_taken(error, entity, name, current) from None
        return _make_explicit(
            records, current, {"name": name, **fields, **password_values, "created_by_id": actor}, line
        )
    return row


def _make_explicit(records: Records, row: Account, changes: Mapping[str, Any], line: Operation) -> Account:
    """Make an implicit row explicit with these values, and return it."""
    try:
        return _patch(records, row, {**changes, "is_implicit": False}, line)
    except AlreadyExists as error:
        raise _explain_taken(error, type(row), row.id, row) from None
    except StaleVersion:
        kind = _KIND_NAMES[type(row)]
        raise AlreadyExists(
            f"{kind} {row.id!r} exists", remedy="choose another id", table=get_table(type(row)).name, rule="key"
        ) from None


def _explain_taken(error: AlreadyExists, entity: type[Row], name: str, current: Tracked | None) -> AlreadyExists:
    kind = _KIND_NAMES[cast("type[Tracked]", entity)]
    fact, remedy = f"{kind} {name!r} exists", "choose another id"
    if error.rule != "key":
        fact, remedy = f"another {kind} has the same {error.rule}", "choose another"
    elif current is not None and current.is_deleted:
        fact, remedy = f"{kind} {name!r} has been deleted", "restore it or choose another id"
    return AlreadyExists(fact, remedy=remedy, table=error.table, rule=error.rule)


def require_row(records: Records, kind: str, organization_id: str, name: str, *, deleted: bool = False) -> Tracked:
    """Return a row of one of the KINDS; raise NotFound if it does not exist."""
    entity = KINDS.get(kind)
    if entity is None:
        raise InvalidInput(f"no kind {kind!r} to delete or restore", value=kind, remedy=suggest_name(kind, KINDS))
    row = records.get(entity, organization_id, [name], deleted=deleted).get(name)
    if row is None:
        raise NotFound(f"no {kind} {name!r} in organization {organization_id!r}", value=name, remedy="check its id")
    return row


def read(records: Records, entity: type[Account], organization_id: str, name: str) -> Account:
    return cast("Account", require_row(records, _KIND_NAMES[entity], organization_id, name))


def list_rows(
    records: Records,
    entity: type[Account],
    organization_id: str | None,
    where: Sequence[Where],
    *,
    deleted: bool,
    limit: int,
    cursor: str | None,
) -> AccountPage[Account]:
    """Return a page of rows, ordered by id: of live rows, or with `deleted`, of deleted rows."""
    if cursor is not None and not is_id(cursor):
        raise InvalidInput(
            f"invalid cursor {cursor[:40]!r}", value=cursor, remedy="pass the value from the previous page"
        )
    after = Page(None, make_key(entity, organization_id or "", cursor)) if cursor is not None else None
    only_deleted = [Where("is_deleted", Op.EQ, True)] if deleted else []
    rows = records.scan(
        entity,
        organization_id,
        [*where, *only_deleted],
        after=after,
        limit=limit + 1,
        deleted=deleted,
    )
    page = tuple(rows[:limit])
    return AccountPage(page, page[-1].id if len(rows) > limit else None)


def update(
    records: Records,
    entity: type[Account],
    organization_id: str,
    name: str,
    changes: Mapping[str, Any],
    expected_version: int | None,
    line: Operation,
) -> Account:
    """Change fields of a row and return it; `line` adds the call to the access log.

    Raise StaleVersion if the row is not at the expected version.
    """

    def read_and_patch(_: int) -> Account:
        row = read(records, entity, organization_id, name)
        if expected_version is not None:
            _require_version(row, expected_version)
        try:
            return _patch(records, row, {**changes, "is_implicit": False}, line)
        except AlreadyExists as error:
            raise _explain_taken(error, entity, name, row) from None
        except StaleVersion as error:
            raise TryAgain("another writer changed the row") from error

    busy = StoreBusy(f"{_KIND_NAMES[entity]} {name!r} kept changing while it was updated")
    return retry(f"update a row of {get_table(entity).name}", read_and_patch, CONFLICTS, give_up=lambda _: busy)


def _require_version(row: Tracked, expected: int) -> None:
    if row.version != expected:
        raise StaleVersion(
            f"{_KIND_NAMES[type(row)]} {row.__dict__['id']!r} is at version {row.version}, not {expected}",
            remedy=Remedy("read it again and retry with {}", Argument("expected_version", row.version)),
            current_version=row.version,
        )


def _patch(records: Records, row: Account, changes: Mapping[str, Any], line: Operation) -> Account:
    now = max(clock.now(), row.updated_at)  # another computer's clock may be ahead
    after = validate_row(type(row), {**row.__dict__, **changes, "updated_at": now, "version": row.version + 1})
    values = {**{name: after.__dict__[name] for name in changes}, "updated_at": now}
    patch = Patch(type(row), get_key(row), values, row.version)
    records.commit([patch, line, Put(make_announcement(after))])
    return after


def make_key(entity: type[Row], organization_id: str, name: str) -> tuple[str, ...]:
    return (name,) if get_table(entity).name == "organizations" else (organization_id, name)


def check_fields(entity: type[Row], fields: Mapping[str, Any]) -> None:
    """Raise UnknownField for a field that callers cannot set."""
    for name in fields:
        if name not in _CALLER_FIELDS[entity]:
            kind = entity.__name__.lower()
            raise UnknownField(
                f"{kind} takes no field {name!r}", value=name, remedy=suggest_name(name, _CALLER_FIELDS[entity])
            )


def make_implicit_organization(organization_id: str) -> Organization:
    now = clock.now()
    values = {"id": organization_id, "name": organization_id, "created_at": now, "updated_at": now, "is_implicit": True}
    return validate_row(Organization, values)
