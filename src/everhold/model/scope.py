"""The only way to reach data."""

from typing import Any

from everhold.model.base import Row
from everhold.model.fields import Id

DEFAULT_ORGANIZATION = "default"


class Scope(Row):
    """Whose data a call is about: given dimensions must match, omitted ones are unrestricted."""

    organization: Id = DEFAULT_ORGANIZATION
    project: Id | None = None
    user: Id | None = None
    agent: Id | None = None
    session: Id | None = None

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
    def actor(self) -> str | None:
        """Who acts through this scope, as far as it says."""
        return self.user or self.agent

    def narrow(self, **dimensions: Any) -> "Scope":
        """This scope with more dimensions given."""
        return Scope.model_validate({**self.__dict__, **{k: v for k, v in dimensions.items() if v is not None}})

    def covers(self, row: Row) -> bool:
        """Whether a row is of this scope: it has every dimension that is given."""
        values = row.__dict__
        return values["organization_id"] == self.organization and all(
            values[column] == value for column, value in self.columns.items()
        )

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in self.__dict__.items() if value is not None]
        return " ".join(parts)
