"""Store the users of an import. New users are added; existing users get only the values that they lack."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from everhold import clock
from everhold.errors import NotFound
from everhold.model import Scope, User
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.validation import check_created_at, validate_row
from everhold.schema.catalog import get_key
from everhold.schema.operations import Ensure, Patch, Put

if TYPE_CHECKING:
    from everhold.parts import Parts

_OBJECT_FIELDS = ("profile", "preferences", "metadata")


def draft_user(scope: Scope, values: Mapping[str, Any], timezone: str) -> User:
    """Return the validated row of an imported user."""
    now = clock.now()
    created_at = values.get("created_at") or now
    check_created_at(created_at, now)
    names = ("name", "email", "status", *_OBJECT_FIELDS)
    fields = {name: values[name] for name in names if values.get(name) is not None}
    stamps = {"organization_id": scope.organization, "created_at": created_at, "updated_at": now}
    return validate_row(User, {"name": values["id"], "timezone": timezone, **fields, "id": values["id"], **stamps})


def import_user(parts: "Parts", scope: Scope, values: Mapping[str, Any]) -> bool:
    """Add a user. If the user exists, add the missing keys of profile, preferences and metadata instead.

    Return whether anything was added. Raise NotFound if the user has been deleted.
    """
    draft = draft_user(scope, values, parts.settings.timezone)
    stored_user = parts.records.get(User, scope.organization, [draft.id], deleted=True).get(draft.id)
    if stored_user is not None and stored_user.is_deleted:
        raise NotFound(f"user {draft.id!r} has been deleted", value=draft.id, remedy="restore the user first")
    user_scope = scope.narrow(user=draft.id)
    line = Put(
        make_access_line(user_scope, "create", clock.now(), {"user": draft.id}, interface=parts.settings.interface)
    )
    if stored_user is None:
        parts.write_deps.scope_rows.invalidate()  # it may have cached that the user exists
        operations = [
            Put(draft) if isinstance(operation, Ensure) and isinstance(operation.row, User) else operation
            for operation in parts.write_deps.scope_rows.make_missing_rows(user_scope, clock.now())
        ]
        parts.records.commit([*operations, line])
        parts.write_deps.scope_rows.confirm(user_scope)
        return True
    changes: dict[str, Any] = {}
    for name in _OBJECT_FIELDS:
        merged_object = {**draft.__dict__[name], **stored_user.__dict__[name]}
        if merged_object != stored_user.__dict__[name]:
            changes[name] = merged_object
    if stored_user.is_implicit and (changes or draft.name != draft.id):
        changes |= {"name": draft.name, "is_implicit": False}
    if not changes:
        return False
    patch = Patch(User, get_key(stored_user), {**changes, "updated_at": clock.now()}, version=stored_user.version)
    parts.records.commit([patch, line, Put(make_announcement(stored_user))])
    return True
