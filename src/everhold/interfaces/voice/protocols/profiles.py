"""Profiles and digital twins of users: fields of the engine's users."""

from collections.abc import Callable
from typing import Any

from everhold import User
from everhold.errors import AlreadyExists, NotFound, StaleVersion
from everhold.interfaces.voice.service import VoiceService
from everhold.retries import CONFLICTS, retry

_DEFAULT_NAME = "User"
_TWIN = "digital_twin"


def find_user(service: VoiceService, user_id: str) -> User | None:
    """Return the user with an id, or None if no such user exists."""
    try:
        return service.engine.get_user(user_id, organization=service.organization)
    except NotFound:
        return None


def get_profile(service: VoiceService, user_id: str) -> dict[str, Any]:
    """Return the profile of a user: name, preferences, taught commands and all other fields that were stored in it."""
    user = find_user(service, user_id)
    if user is None:
        return {"name": _DEFAULT_NAME, "preferences": {}, "taught_commands": {}}
    return {
        "name": _DEFAULT_NAME if user.name == user.id else user.name,  # an implicit user is named after its id
        "preferences": user.preferences,
        "taught_commands": {},
        **user.profile,
    }


def update_profile(service: VoiceService, user_id: str, updates: dict[str, Any]) -> None:
    """Set fields of a user's profile. `name` and `preferences` are fields of the user itself."""
    profile_fields = {name: value for name, value in updates.items() if name not in ("name", "preferences")}
    user_fields: dict[str, Any] = {name: updates[name] for name in ("name", "preferences") if name in updates}
    _change(service, user_id, lambda user: {**user_fields, "profile": {**user.profile, **profile_fields}})


def get_twin(service: VoiceService, user_id: str) -> dict[str, Any] | None:
    """Return the digital twin of a user, or None."""
    user = find_user(service, user_id)
    return None if user is None else user.metadata.get(_TWIN)


def update_twin(service: VoiceService, user_id: str, twin: dict[str, Any]) -> None:
    """Set fields of a user's digital twin."""
    _change(
        service,
        user_id,
        lambda user: {"metadata": {**user.metadata, _TWIN: {**user.metadata.get(_TWIN, {}), **twin}}},
    )


def delete_twin(service: VoiceService, user_id: str) -> bool:
    """Delete the digital twin of a user; return whether there was one."""
    if get_twin(service, user_id) is None:
        return False
    _change(
        service,
        user_id,
        lambda user: {"metadata": {name: value for name, value in user.metadata.items() if name != _TWIN}},
    )
    return True


def _change(service: VoiceService, user_id: str, make_fields: Callable[[User], dict[str, Any]]) -> None:
    """Change fields of a user, who is created if missing. Two clients may do this at the same time."""
    organization = service.organization

    def change(_: int) -> User:
        user = find_user(service, user_id) or service.engine.create_user(user_id, organization=organization)
        fields = make_fields(user)
        return service.engine.update_user(user_id, organization=organization, expected_version=user.version, **fields)

    retry("change a user", change, CONFLICTS, on=(StaleVersion, AlreadyExists))
