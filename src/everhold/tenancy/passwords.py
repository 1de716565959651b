"""Passwords: only their argon2id hashes are stored."""

from functools import cache
from typing import TYPE_CHECKING

from everhold.errors import InvalidInput, SignInRefused
from everhold.model import User
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where

if TYPE_CHECKING:
    from argon2 import PasswordHasher  # slow to import, and needed only for passwords

MIN_PASSWORD_LENGTH = 8


@cache
def _make_hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher

    # The minimum that OWASP recommends for argon2id: 19 MiB, 2 passes, 1 lane.
    return PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


def hash_password(password: str) -> str:
    """Return the hash of a new password; raise InvalidInput if the password is too short."""
    if len(password) < MIN_PASSWORD_LENGTH:
        raise InvalidInput(f"the password has {len(password)} characters", remedy=f"use at least {MIN_PASSWORD_LENGTH}")
    return _make_hasher().hash(password)


def find_by_email(records: Records, organization_id: str, email: str) -> User | None:
    """Return the live user with this e-mail address, or None."""
    rows = records.scan(User, organization_id, [Where("email", Op.EQ, email)], limit=1)
    return rows[0] if rows else None


def require_password(user: User | None, password: str, message: str) -> User:
    """Return the user if the password is right and the user is active; raise SignInRefused otherwise.

    A refusal takes the same time for an unknown user as for a wrong password.
    """
    from argon2.exceptions import InvalidHashError, VerifyMismatchError

    stored_hash = user.password_hash if user and user.password_hash else _make_decoy()
    try:
        _make_hasher().verify(stored_hash, password)
    except (VerifyMismatchError, InvalidHashError):
        raise SignInRefused(message) from None
    if user is None or user.password_hash is None or user.status != "active":
        raise SignInRefused(message)
    return user


@cache
def _make_decoy() -> str:
    """Return a hash for users without one, so that the time of a refusal does not reveal which addresses exist."""
    return _make_hasher().hash("nobody has this password")
