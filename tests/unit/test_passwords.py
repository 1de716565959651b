"""Passwords: hashes are argon2id, and a refused login does not reveal whether the account exists."""

import time

import pytest

from everhold.errors import InvalidInput, SignInRefused
from everhold.model import User
from everhold.tenancy import passwords
from everhold.testing.records_rows import make_row


def test_a_hash_is_argon2id_as_asked_for() -> None:
    password_hash = passwords.hash_password("correct horse")
    assert password_hash.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert password_hash != passwords.hash_password("correct horse"), "salted"
    assert "correct" not in password_hash


@pytest.mark.parametrize("password", ["", "seven77", "กาแฟเย็"])
def test_a_short_password_is_refused(password: str) -> None:
    with pytest.raises(InvalidInput, match=f"the password has {len(password)} characters; use at least 8"):
        passwords.hash_password(password)


def make_user(name: str, password: str | None) -> User:
    secret = passwords.hash_password(password) if password is not None else None
    return make_row(User, "acme", name, status="active", password_hash=secret)


def test_any_other_password_is_fine() -> None:
    for password in ("12345678", "กาแฟเย็นๆ", "x" * 4000, "with \x00 inside", "  spaces  "):
        alice = make_user("alice", password)
        assert passwords.require_password(alice, password, "refused") is alice
        with pytest.raises(SignInRefused, match="refused"):
            passwords.require_password(alice, password + " ", "refused")


def test_refusing_an_unknown_address_takes_as_long_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash is verified in both cases, so the time does not reveal whether the address exists."""
    people = (make_user("alice", "correct horse"), make_user("bob", None), None)
    verification_seconds: list[float] = []
    hasher = passwords._make_hasher()

    class TimingHasher:
        hash = staticmethod(hasher.hash)

        def verify(self, *arguments: str) -> bool:
            started = time.perf_counter()
            try:
                return bool(hasher.verify(*arguments))
            finally:
                verification_seconds.append(time.perf_counter() - started)

    monkeypatch.setattr(passwords, "_make_hasher", TimingHasher)
    messages = set()
    for person in people:
        with pytest.raises(SignInRefused) as caught:
            passwords.require_password(person, "wrong horse", "refused")
        messages.add(str(caught.value))
    assert len(verification_seconds) == 3
    assert min(verification_seconds) > 0.002, "each a real verification"
    assert messages == {"refused; check both"}
