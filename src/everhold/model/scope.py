"""The only way to reach data."""

from typing import Any

from everhold.model.base import Row
from everhold.model.fields import Id

DEFAULT_ORGANIZATION = "default"
SHORT_TERM = "short-term"
"""The namespace of notes that stay in the session in which they were written."""


class Scope(Row):
    """Whose data a call is about: given dimensions must match, omitted ones are unrestricted.

    A session is where something is written, not a limit on what its user sees: a scope with a user and a session reads
    all that the user may see. A scope with a session and no user stays inside the session.
    """

    organization: Id = DEFAULT_ORGANIZATION
    project: Id | None = None
    user: Id | None = None
    agent: Id | None = None
    session: Id | None = None
    is_confined: bool = False
    """Whether a scope with a user and a session reads only what was written in the session."""

    @property
    def columns(self) -> dict[str, str]:
        """The given dimensions below the organization, by the column that holds them."""
        named = {
            "project_id": self.project,
            "user_id": self.user,
            "agent_id": self.agent,
            "session_id": self.session,
        }
        return {column: value for column, value in named.items() if value is not None}

    @property
    def limits(self) -> dict[str, str]:
        """The dimensions that a record must share to be read, by the column that holds them."""
        columns = self.columns
        if self.is_open:
            del columns["session_id"]
        return columns

    @property
    def is_open(self) -> bool:
        """Whether the scope reads beyond the session that it names."""
        return self.session is not None and self.user is not None and not self.is_confined

    def confine(self) -> "Scope":
        """Return the scope that reads only what was written in the session, if this one names a session."""
        return self.narrow(is_confined=True) if self.is_open else self

    def confine_to(self, namespace: str) -> "Scope":
        """Return the scope by which a namespace is read: short-term notes are their session's own."""
        return self.confine() if namespace == SHORT_TERM else self

    @property
    def actor(self) -> str | None:
        """Who acts through this scope, as far as it says."""
        return self.user or self.agent

    def narrow(self, **dimensions: Any) -> "Scope":
        """This scope with more dimensions given."""
        return Scope.model_validate({**self.__dict__, **{k: v for k, v in dimensions.items() if v is not None}})

    def covers(self, row: Row) -> bool:
        """Return whether this scope may read a row: it shares every dimension that limits the scope."""
        values = row.__dict__
        limits = self.columns if values.get("namespace") == SHORT_TERM else self.limits
        return values["organization_id"] == self.organization and all(
            values[column] == value for column, value in limits.items()
        )

    def __str__(self) -> str:
        names = ("organization", "project", "user", "agent", "session")
        return " ".join(f"{name}={value}" for name in names if (value := getattr(self, name)) is not None)
