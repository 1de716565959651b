"""Organizations, their users and their projects."""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from everhold.model.base import Entity, Tracked
from everhold.model.fields import Flag, Id, JsonObject, Label, Name, Text, Timezone, check_text


def check_email(value: str) -> str:
    mailbox, at_sign, domain = value.partition("@")
    if not at_sign or not mailbox or not domain or "@" in domain or any(map(str.isspace, value)):
        raise PydanticCustomError("email", f"{value!r} is not an e-mail address; use name@domain")
    return value


Email = Annotated[str, StringConstraints(max_length=255), AfterValidator(check_text), AfterValidator(check_email)]


class Organization(Tracked):
    """A tenant. Every other entity belongs to exactly one organization.

    `is_implicit` says that nobody created the organization (or the user or the project) explicitly: it was added when
    something was written in a scope that names it. Creating or updating it makes it explicit.
    """

    id: Id
    name: Name
    is_implicit: Flag = False


class User(Entity):
    """A person who talks to agents or runs them."""

    name: Name
    email: Email | None = None
    password_hash: Name | None = Field(default=None, repr=False)
    status: Label = "active"
    timezone: Timezone = "UTC"
    profile: JsonObject = Field(default_factory=dict)
    preferences: JsonObject = Field(default_factory=dict)
    is_implicit: Flag = False


class Project(Entity):
    """A body of work: its sessions, sources and memories.

    It belongs to the organization. `user_id` only says which user created it: deleting that user does not delete it.
    """

    user_id: Id | None = None
    name: Name
    description: Text | None = None
    is_implicit: Flag = False
