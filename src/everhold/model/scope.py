"""Scopes: whose data a call reads and writes."""

from collections.abc import Mapping
from typing import Any

from everhold.model.base import Row
from everhold.model.fields import Id

DEFAULT_ORGANIZATION = "default"
# The namespace of notes that stay in the session in which they were written.
SHORT_TERM = "short-term"
_DIMENSIONS = ("organization", "user", "project", "agent", "session")


def list_dimensions(values: Mapping[str, Any], suffix: str = "") -> list[tuple[str, str]]:
    """Return the dimensions of a scope that are set, for a repr. The default organization is left out."""
    names = _DIMENSIONS[1:] if values[f"organization{suffix}"] == DEFAULT_ORGANIZATION else _DIMENSIONS
    return [(name, value) for name in names if (value := values[f"{name}{suffix}"]) is not None]


class Scope(Row):
    """The owner of the data that a call reads and writes. Dimensions that are set must match; the others are not
    restricted.

    With a user, the session says only where something is written: the scope reads all that the user may see. Without a
    user, a scope with a session reads only that session.
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
        """The dimensions below the organization that are set, by column name."""
        dimensions = {
            "project_id": self.project,
            "user_id": self.user,
            "agent_id": self.agent,
            "session_id": self.session,
        }
        return {column: value for column, value in dimensions.items() if value is not None}

    @property
    def limits(self) -> dict[str, str]:
        """The dimensions that a row must match to be read, by column name."""
        columns = self.columns
        if self.is_open:
            del columns["session_id"]
        return columns

    @property
    def is_open(self) -> bool:
        """Whether the scope reads beyond the session that it names."""
        return self.session is not None and self.user is not None and not self.is_confined

    def confine(self) -> "Scope":
        """Return a scope that reads only the session of this scope; this scope itself if it has no session."""
        return self.narrow(is_confined=True) if self.is_open else self

    def confine_to(self, namespace: str) -> "Scope":
        """Return the scope with which to read a namespace: short-term notes are visible only in the session they are
        from.
        """
        return self.confine() if namespace == SHORT_TERM else self

    @property
    def actor(self) -> str | None:
        """The scope's user, or its agent if it has no user."""
        return self.user or self.agent

    def narrow(self, **dimensions: Any) -> "Scope":
        """Return this scope with more dimensions set."""
        return Scope.model_validate({**self.__dict__, **{k: v for k, v in dimensions.items() if v is not None}})

    def can_read(self, row: Row) -> bool:
        """Return whether this scope may read a row: the row matches every dimension of `limits`."""
        values = row.__dict__
        limits = self.columns if values.get("namespace") == SHORT_TERM else self.limits
        return values["organization_id"] == self.organization and all(
            values[column] == value for column, value in limits.items()
        )

    @property
    def dimensions(self) -> str:
        """The dimensions that are set, as a repr shows them."""
        return ", ".join(f"{name}={value!r}" for name, value in list_dimensions(self.__dict__))

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        confined = [("is_confined", True)] if self.is_confined else []
        return [*list_dimensions(self.__dict__), *confined]

    def __str__(self) -> str:
        names = ("organization", "project", "user", "agent", "session")
        return " ".join(f"{name}={value}" for name in names if (value := getattr(self, name)) is not None)
