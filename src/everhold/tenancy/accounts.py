"""Organizations, users and projects; deleting them, and sessions."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError

from everhold import clock
from everhold.errors import AlreadyExists, InvalidInput, NotFound, SignInRefused, StaleVersion, UnknownField
from everhold.model import AccessLog, Organization, Project, Scope, Session, User
from everhold.model.access import LoggedOperation, make_access_line
from everhold.model.base import Row
from everhold.model.housekeeping import Outbox
from everhold.model.validation import checked, nearest
from everhold.ports.erasure import note_purge
from everhold.ports.log_heads import record_log_purge
from everhold.ports.records import Records
from everhold.schema.catalog import table_of
from everhold.schema.operations import Delete, Ensure, Hide, Op, Operation, Put, Unhide, Where

R = TypeVar("R", bound=Row)

KINDS: Mapping[str, type[Row]] = {
    "organization": Organization,
    "user": User,
    "project": Project,
    "session": Session,
}
SHORTEST_PASSWORD = 8
_TRIES = 8

# argon2id with at least what OWASP asks for (19 MiB, 2 passes, 1 lane)
_hasher = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


def create_organization(records: Records, organization_id: str, name: str | None, *, interface: str) -> Organization:
    now = clock.now()
    values = {"id": organization_id, "name": name or organization_id, "created_at": now, "updated_at": now}
    organization = checked(Organization, values)
    line = _make_line("create", "organization", organization_id, organization_id, interface=interface)
    _add(records, [Put(organization), Put(line)], "organization", organization_id)
    return organization


def create_user(
    records: Records,
    organization_id: str,
    user_id: str,
    password: str | None,
    values: Mapping[str, Any],
    *,
    interface: str,
) -> User:
    """Creates a user; of the password only its argon2id hash is stored."""
    fields = _fields(User, {"name": user_id, **values}, organization_id, user_id)
    if password is not None:
        fields["password_hash"] = hashed(password)
    user = checked(User, fields)
    line = _make_line("create", "user", organization_id, user_id, interface=interface)
    _add(records, [Ensure(_bare(organization_id)), Put(user), Put(line)], "user", user_id)
    return user


def create_project(
    records: Records, organization_id: str, project_id: str, values: Mapping[str, Any], *, interface: str
) -> Project:
    fields = _fields(Project, {"name": project_id, **values}, organization_id, project_id)
    project = checked(Project, fields)
    line = _make_line("create", "project", organization_id, project_id, interface=interface)
    _add(records, [Ensure(_bare(organization_id)), Put(project), Put(line)], "project", project_id)
    return project


def _add(records: Records, operations: Sequence[Operation], kind: str, name: str) -> None:
    try:
        records.commit(operations)
    except AlreadyExists as error:
        what = f"{kind} {name!r} exists" if error.rule == "key" else f"another {kind} has the same {error.rule}"
        raise AlreadyExists(f"{what}; choose another", table=error.table, rule=error.rule) from None


def sign_in(records: Records, organization_id: str, email: str, password: str) -> User:
    """The user of this address, if the password is right. Refusing takes as long for an unknown address."""
    found = records.scan(User, organization_id, [Where("email", Op.EQ, email)], limit=1)
    user = found[0] if found else None
    stored = user.password_hash if user and user.password_hash else _nobody()
    try:
        _hasher.verify(stored, password)
    except (VerifyMismatchError, InvalidHashError):
        raise SignInRefused("wrong e-mail address or password") from None
    if user is None or user.password_hash is None or user.status != "active":
        raise SignInRefused("wrong e-mail address or password")
    return user


@cache
def _nobody() -> str:
    """What an unknown user's password is compared with, so that refusing takes as long."""
    return _hasher.hash("nobody has this password")


def hashed(password: str) -> str:
    if len(password) < SHORTEST_PASSWORD:
        raise InvalidInput(f"the password has {len(password)} characters; use at least {SHORTEST_PASSWORD}")
    return _hasher.hash(password)


def delete(records: Records, kind: str, organization_id: str, name: str, *, hard: bool, interface: str) -> None:
    """Hide an organization, user, project or session with all that belongs to it, or purge it."""
    entity, _ = _row(records, kind, organization_id, name, deleted=hard)
    key = (name,) if entity is Organization else (organization_id, name)
    act = Delete(entity, key) if hard else Hide(entity, key, clock.make_id("del"), clock.now())
    announced = Put(_announcement(entity, organization_id, name))
    line = _make_line("delete", kind, organization_id, name, {"hard": True} if hard else {}, interface=interface)
    logged = [] if hard and entity is Organization else [Put(line)]  # a purged organization takes its log with it
    for attempt in range(_TRIES):
        purged = record_log_purge(records, organization_id) if hard and entity is Organization else []
        try:
            records.commit([*purged, *(note_purge() if hard else ()), act, *logged, announced])
            return
        except StaleVersion:  # lines of the log were chained in the meantime
            if not purged or attempt == _TRIES - 1:
                raise


def restore(records: Records, kind: str, organization_id: str, name: str, *, interface: str) -> None:
    """Restore exactly what the deletion hid."""
    entity, row = _row(records, kind, organization_id, name, deleted=True)
    deletion_id = row.__dict__["deletion_id"]
    if deletion_id is None:
        raise NotFound(f"{kind} {name!r} is not deleted; there is nothing to restore")
    line = _make_line("update", kind, organization_id, name, {"restored": True}, interface=interface)
    announced = _announcement(entity, organization_id, name)
    records.commit([Unhide(organization_id, deletion_id), Put(line), Put(announced)])


def _make_line(
    operation: LoggedOperation,
    kind: str,
    organization_id: str,
    name: str,
    request: Mapping[str, Any] | None = None,
    *,
    interface: str,
) -> AccessLog:
    scope = checked(Scope, {"organization": organization_id, kind: name})
    return make_access_line(scope, operation, clock.now(), {kind: name, **(request or {})}, interface=interface)


def _row(records: Records, kind: str, organization_id: str, name: str, *, deleted: bool) -> tuple[type[Row], Row]:
    entity = KINDS.get(kind)
    if entity is None:
        raise InvalidInput(f"no kind {kind!r} to delete or restore; {nearest(kind, KINDS)}")
    row = records.get(entity, organization_id, [name], deleted=deleted).get(name)
    if row is None:
        raise NotFound(f"no {kind} {name!r} in organization {organization_id!r}")
    return entity, row


def _announcement(entity: type[Row], organization_id: str, name: str) -> Outbox:
    return Outbox(organization_id=organization_id, entity=table_of(entity).name, entity_id=name, operation="put")


_GIVEN: Mapping[type[Row], Collection[str]] = {
    User: ("name", "email", "timezone", "profile", "preferences", "status", "metadata"),
    Project: ("name", "description", "user_id", "metadata"),
}


def _fields(entity: type[Row], given: Mapping[str, Any], organization_id: str, name: str) -> dict[str, Any]:
    """What a caller may say about a row, and what only we do."""
    for one in given:
        if one not in _GIVEN[entity]:
            raise UnknownField(f"a {entity.__name__.lower()} takes no field {one!r}; {nearest(one, _GIVEN[entity])}")
    now = clock.now()
    return {**given, "id": name, "organization_id": organization_id, "created_at": now, "updated_at": now}


def _bare(organization_id: str) -> Organization:
    now = clock.now()
    values = {"id": organization_id, "name": organization_id, "created_at": now, "updated_at": now}
    return checked(Organization, values)
