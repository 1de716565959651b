"""The verbs on organizations, users and projects. They are verbs of the engine, not of a view.

The modules that they need are imported inside the verbs, because most processes use none of them.
"""

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

import everhold
from everhold.arguments.checks import Cursor, Identifier, PageSize, Password
from everhold.arguments.verbs import check_verbs
from everhold.model import Organization, Project, Scope, User
from everhold.model.scope import DEFAULT_ORGANIZATION
from everhold.views.account_acts import AccountActs
from everhold.views.awaited import AsyncFacade, Awaited

_REFUSED = "wrong e-mail address or password"


class OrganizationFields(TypedDict, total=False):
    """The fields of an organization that a caller may set."""

    name: str
    metadata: Mapping[str, Any]


class UserFields(TypedDict, total=False):
    """The fields of a user that a caller may set. An `email` of None removes the address."""

    name: str | None
    email: str | None
    timezone: str | None
    status: str | None
    profile: Mapping[str, Any] | None
    preferences: Mapping[str, Any] | None
    metadata: Mapping[str, Any] | None


class ProjectFields(TypedDict, total=False):
    """The fields of a project that a caller may set."""

    name: str | None
    description: str | None
    metadata: Mapping[str, Any] | None


@check_verbs
class AccountVerbs(AccountActs):
    """Organizations, users and projects: create, read, list, change, delete and restore them."""

    # organizations

    def create_organization(self, organization_id: Identifier, name: str | None = None) -> Organization:
        """Create an organization, or complete one that exists only because a scope named it."""
        from everhold.tenancy import accounts

        scope = Scope(organization=organization_id)
        with self._log_failure(scope, "create", "organization"):
            line = self._make_line(scope, "create", "organization")
            fields = {"name": name} if name is not None else {}
            return accounts.create(self._parts.records, Organization, organization_id, organization_id, fields, line)

    def has_organization(self, organization: Identifier) -> bool:
        """Return whether there is an organization of that name."""
        return bool(self._parts.records.get(Organization, organization, [organization]))

    def get_organization(self, organization: Identifier) -> Organization:
        """Return an organization. Raise NotFound if there is none of that name."""
        return self._read(Scope(organization=organization), Organization, organization)

    def list_organizations(
        self, *, deleted: bool = False, limit: PageSize = 50, cursor: Cursor | None = None
    ) -> "everhold.AccountPage[Organization]":
        """Return the organizations of the store, ordered by id; with `deleted`, the deleted ones that can be
        restored."""
        from everhold.tenancy import accounts

        page = accounts.list_rows(
            self._parts.records, Organization, None, (), deleted=deleted, limit=limit, cursor=cursor
        )
        for organization in page:
            self._note_account(Scope(organization=organization.id), "read", "organization", {"listed": 1})
        return page

    def update_organization(
        self,
        organization: Identifier,
        *,
        expected_version: int | None = None,
        **fields: Unpack[OrganizationFields],
    ) -> Organization:
        """Change an organization's name or metadata. Raise StaleVersion if its version is not `expected_version`."""
        return self._update(Scope(organization=organization), Organization, organization, fields, expected_version)

    def delete_organization(
        self, organization: Identifier, *, hard: bool = False, preview: bool = False
    ) -> "everhold.Deleted":
        """Hide an organization and everything in it; with `hard`, purge it; with `preview`, only count its rows."""
        return self._delete("organization", Scope(organization=organization), organization, hard, preview)

    # users

    def create_user(
        self,
        /,
        user_id: Identifier,
        *,
        organization: Identifier = DEFAULT_ORGANIZATION,
        password: Password | None = None,
        **fields: Unpack[UserFields],
    ) -> User:
        """Create a user, or complete one who exists only because a scope named them.

        Fields: name, email, timezone, status, profile, preferences, metadata. None leaves a field at its default.
        """
        from everhold.tenancy import accounts
        from everhold.tenancy.passwords import hash_password

        scope = Scope(organization=organization, user=user_id)
        values = {"timezone": self._parts.settings.timezone, **_drop_absent(fields)}
        with self._log_failure(scope, "create", "user"):
            secret = hash_password(password) if password is not None else None
            line = self._make_line(scope, "create", "user")
            return accounts.create(self._parts.records, User, organization, user_id, values, line, password_hash=secret)

    def get_user(self, user_id: Identifier, *, organization: Identifier = DEFAULT_ORGANIZATION) -> User:
        """Return a user. Raise NotFound if there is none of that id."""
        return self._read(Scope(organization=organization, user=user_id), User, user_id)

    def list_users(
        self,
        *,
        organization: Identifier = DEFAULT_ORGANIZATION,
        status: str | None = None,
        deleted: bool = False,
        limit: PageSize = 50,
        cursor: Cursor | None = None,
    ) -> "everhold.AccountPage[User]":
        """Return the users of an organization, ordered by id; with `deleted`, the deleted ones that can be restored."""
        from everhold.schema.operations import Op, Where
        from everhold.tenancy import accounts

        where = [Where("status", Op.EQ, status)] if status is not None else []
        page = accounts.list_rows(
            self._parts.records, User, organization, where, deleted=deleted, limit=limit, cursor=cursor
        )
        self._note_account(Scope(organization=organization), "read", "user", {"listed": len(page)})
        return page

    def update_user(
        self,
        /,
        user_id: Identifier,
        *,
        organization: Identifier = DEFAULT_ORGANIZATION,
        expected_version: int | None = None,
        **fields: Unpack[UserFields],
    ) -> User:
        """Change fields of a user. Raise StaleVersion if the version of the user is not `expected_version`.

        Fields: name, email, timezone, status, profile, preferences, metadata. Each replaces the old value. A user
        whose status is not "active" cannot sign in.
        """
        return self._update(Scope(organization=organization, user=user_id), User, user_id, fields, expected_version)

    def set_password(
        self,
        user_id: Identifier,
        password: Password | None,
        *,
        organization: Identifier = DEFAULT_ORGANIZATION,
        expected_version: int | None = None,
    ) -> User:
        """Set a user's password without asking for the old one; None removes it, so that the user cannot sign in."""
        scope = Scope(organization=organization, user=user_id)
        return self._set_password(scope, password, expected_version)

    def change_password(
        self,
        user_id: Identifier,
        old: Password,
        new: Password,
        *,
        organization: Identifier = DEFAULT_ORGANIZATION,
    ) -> User:
        """Give a user a new password if the old one is right. SignInRefused otherwise."""
        from everhold.tenancy.passwords import require_password

        scope = Scope(organization=organization, user=user_id)
        with self._log_failure(scope, "update", "user"):
            user = self._parts.records.get(User, organization, [user_id]).get(user_id)
            version = require_password(user, old, "wrong user or password").version
        return self._set_password(scope, new, version)

    def sign_in(self, email: str, password: Password, *, organization: Identifier = DEFAULT_ORGANIZATION) -> User:
        """Return the user with this email address and password. Raise SignInRefused if there is none."""
        from everhold.tenancy.passwords import find_by_email, require_password

        user = find_by_email(self._parts.records, organization, email)
        scope = Scope(organization=organization, user=user.id if user else None)
        with self._log_failure(scope, "sign_in", "user"):
            user = require_password(user, password, _REFUSED)
        self._note_account(scope, "sign_in", "user", {})
        return user

    def delete_user(
        self,
        user_id: Identifier,
        *,
        organization: Identifier = DEFAULT_ORGANIZATION,
        hard: bool = False,
        preview: bool = False,
    ) -> "everhold.Deleted":
        """Hide a user and everything of the user; with `hard`, purge it; with `preview`, only count its rows."""
        return self._delete("user", Scope(organization=organization, user=user_id), user_id, hard, preview)

    # projects

    def create_project(
        self,
        /,
        project_id: Identifier,
        *,
        organization: Identifier = DEFAULT_ORGANIZATION,
        user: Identifier | None = None,
        **fields: Unpack[ProjectFields],
    ) -> Project:
        """Create a project, or complete one that exists only because a scope named it.

        Fields: name, description, metadata. `user` says who created it.
        """
        from everhold.tenancy import accounts

        scope = Scope(organization=organization, project=project_id)
        values = {**({"user_id": user} if user is not None else {}), **_drop_absent(fields)}
        with self._log_failure(scope, "create", "project"):
            line = self._make_line(scope, "create", "project")
            return accounts.create(self._parts.records, Project, organization, project_id, values, line)

    def get_project(self, project_id: Identifier, *, organization: Identifier = DEFAULT_ORGANIZATION) -> Project:
        """Return a project. Raise NotFound if there is none of that id."""
        return self._read(Scope(organization=organization, project=project_id), Project, project_id)

    def list_projects(
        self,
        *,
        organization: Identifier = DEFAULT_ORGANIZATION,
        user: Identifier | None = None,
        deleted: bool = False,
        limit: PageSize = 50,
        cursor: Cursor | None = None,
    ) -> "everhold.AccountPage[Project]":
        """Return the projects of an organization, ordered by id; with `user`, only the projects that the user created.

        With `deleted`, return the deleted projects that can be restored.
        """
        from everhold.schema.operations import Op, Where
        from everhold.tenancy import accounts

        where = [Where("user_id", Op.EQ, user)] if user is not None else []
        page = accounts.list_rows(
            self._parts.records, Project, organization, where, deleted=deleted, limit=limit, cursor=cursor
        )
        self._note_account(Scope(organization=organization), "read", "project", {"listed": len(page)})
        return page

    def update_project(
        self,
        /,
        project_id: Identifier,
        *,
        organization: Identifier = DEFAULT_ORGANIZATION,
        expected_version: int | None = None,
        **fields: Unpack[ProjectFields],
    ) -> Project:
        """Change a project's name, description or metadata. Raise StaleVersion if its version is not
        `expected_version`."""
        scope = Scope(organization=organization, project=project_id)
        return self._update(scope, Project, project_id, fields, expected_version)

    def delete_project(
        self,
        project_id: Identifier,
        *,
        organization: Identifier = DEFAULT_ORGANIZATION,
        hard: bool = False,
        preview: bool = False,
    ) -> "everhold.Deleted":
        """Hide a project and everything in it; with `hard`, purge it; with `preview`, only count its rows."""
        return self._delete("project", Scope(organization=organization, project=project_id), project_id, hard, preview)

    # sessions, and restoring any account

    def delete_session(
        self,
        session_id: Identifier,
        *,
        organization: Identifier = DEFAULT_ORGANIZATION,
        hard: bool = False,
        preview: bool = False,
    ) -> "everhold.Deleted":
        """Hide a session with its messages and memories; with `hard`, purge it; with `preview`, only count its rows."""
        return self._delete("session", Scope(organization=organization, session=session_id), session_id, hard, preview)

    def restore(self, kind: str, name: Identifier, *, organization: Identifier = DEFAULT_ORGANIZATION) -> None:
        """Restore a deleted organization, user, project, agent or session, and all rows that its deletion hid."""
        from everhold.views.deletion import restore_rows

        dimensions = {kind: name} if kind in ("user", "project", "agent", "session") else {}
        scope = Scope(organization=organization).narrow(**dimensions)
        with self._log_failure(scope, "update", kind):
            line = self._make_line(scope, "update", kind, {"restored": True})
            restore_rows(self._parts, kind, organization, name, line)


def _drop_absent(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


class AsyncAccountVerbs(AsyncFacade):
    """The verbs of `AccountVerbs`, awaited."""

    create_organization = Awaited(AccountVerbs.create_organization)
    has_organization = Awaited(AccountVerbs.has_organization)
    get_organization = Awaited(AccountVerbs.get_organization)
    list_organizations = Awaited(AccountVerbs.list_organizations)
    update_organization = Awaited(AccountVerbs.update_organization)
    delete_organization = Awaited(AccountVerbs.delete_organization)
    create_user = Awaited(AccountVerbs.create_user)
    get_user = Awaited(AccountVerbs.get_user)
    list_users = Awaited(AccountVerbs.list_users)
    update_user = Awaited(AccountVerbs.update_user)
    set_password = Awaited(AccountVerbs.set_password)
    change_password = Awaited(AccountVerbs.change_password)
    sign_in = Awaited(AccountVerbs.sign_in)
    delete_user = Awaited(AccountVerbs.delete_user)
    create_project = Awaited(AccountVerbs.create_project)
    get_project = Awaited(AccountVerbs.get_project)
    list_projects = Awaited(AccountVerbs.list_projects)
    update_project = Awaited(AccountVerbs.update_project)
    delete_project = Awaited(AccountVerbs.delete_project)
    delete_session = Awaited(AccountVerbs.delete_session)
    restore = Awaited(AccountVerbs.restore)
