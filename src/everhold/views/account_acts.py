"""Run and log the operations on accounts, for the verbs on accounts and erasure.

Every operation adds a line to the access log of the organization. The line says what was done to which account, and has
no contents of the account. A write and its line are one commit. The purge of an organization adds no line, because the
log is purged with it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from everhold import clock
from everhold.errors import EverholdError, InvalidInput
from everhold.model import Scope, User
from everhold.model.access import AccessEvent, LoggedOperation, make_access_line
from everhold.model.scope import DEFAULT_ORGANIZATION

if TYPE_CHECKING:
    from everhold.parts import Parts
    from everhold.schema.operations import Put
    from everhold.tenancy import accounts
    from everhold.tenancy.deletion import Deleted


class AccountActs:
    """Read, change and delete one account, with a line in the access log."""

    _parts: "Parts"

    def _read(self, scope: Scope, entity: "type[accounts.Account]", name: str) -> "accounts.Account":
        from everhold.tenancy import accounts

        kind = entity.__name__.lower()
        with self._log_failure(scope, "read", kind):
            row = accounts.read(self._parts.records, entity, scope.organization, name)
        self._note_account(scope, "read", kind, {})
        return row

    def _update(
        self,
        scope: Scope,
        entity: "type[accounts.Account]",
        name: str,
        fields: Mapping[str, Any],
        expected_version: int | None,
    ) -> "accounts.Account":
        from everhold.tenancy import accounts

        kind = entity.__name__.lower()
        with self._log_failure(scope, "update", kind):
            accounts.check_fields(entity, fields)
            line = self._make_line(scope, "update", kind, {"fields": sorted(fields)})
            return accounts.update(
                self._parts.records, entity, scope.organization, name, fields, expected_version, line
            )

    def _set_password(self, scope: Scope, password: str | None, expected_version: int | None) -> User:
        from everhold.tenancy import accounts
        from everhold.tenancy.passwords import hash_password

        with self._log_failure(scope, "update", "user"):
            secret = hash_password(password) if password is not None else None
            line = self._make_line(scope, "update", "user", {"fields": ["password"]})
            return accounts.update(
                self._parts.records,
                User,
                scope.organization,
                str(scope.user),
                {"password_hash": secret},
                expected_version,
                line,
            )

    def _delete(self, kind: str, scope: Scope, name: str, hard: bool, preview: bool) -> "Deleted":
        from everhold.tenancy.deletion import Deleted
        from everhold.views.deletion import count_rows, delete_rows

        with self._log_failure(scope, "delete", kind):
            rows = count_rows(self._parts, kind, scope.organization, name, hard=hard)
            if preview:
                self._note_account(scope, "read", kind, {"preview": sum(rows.values())})
                return Deleted(rows, preview=True)
            line = None
            if not (hard and kind == "organization"):
                # a purged organization has no access log anymore
                line = self._make_line(scope, "delete", kind, {"hard": hard})
            delete_rows(self._parts, kind, scope.organization, name, hard=hard, line=line)
        return Deleted(rows)

    # lines of the access log

    def _make_line(
        self, scope: Scope, operation: LoggedOperation, kind: str, request: Mapping[str, Any] | None = None
    ) -> "Put":
        from everhold.schema.operations import Put

        interface = self._parts.settings.interface
        return Put(
            make_access_line(scope, operation, clock.now(), {"account": kind, **(request or {})}, interface=interface)
        )

    def _note_account(self, scope: Scope, operation: LoggedOperation, kind: str, request: Mapping[str, Any]) -> None:
        """Log a call that wrote nothing."""
        self._parts.access.add(AccessEvent(scope, operation, clock.now(), {"account": kind, **request}))

    def _require_organization(self, organization: str) -> None:
        """Raise InvalidInput for an organization that the layout of the store has no names for."""
        if self._parts.settings.layout == "julep" and organization != DEFAULT_ORGANIZATION:
            raise InvalidInput(
                f"the layout 'julep' has a single organization, {DEFAULT_ORGANIZATION!r}, and not {organization!r}",
                value=organization,
                remedy="leave out the organization, or set layout to everhold",
            )

    @contextmanager
    def _log_failure(self, scope: Scope, operation: LoggedOperation, kind: str) -> Iterator[None]:
        self._require_organization(scope.organization)
        try:
            yield
        except EverholdError as error:
            request = {"account": kind}
            self._parts.access.add(AccessEvent(scope, operation, clock.now(), request, error=type(error).__name__))
            raise
