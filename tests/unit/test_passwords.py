"""Passwords: argon2id, and nothing told to who does not have one."""

import time

import pytest

from everhold.adapters.in_memory import InMemoryRecords
from everhold.errors import InvalidInput, SignInRefused
from everhold.tenancy import accounts


def test_a_hash_is_argon2id_as_asked_for() -> None:
    made = accounts.hashed("correct horse")
    assert made.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert made != accounts.hashed("correct horse"), "salted"
    assert "correct" not in made


@pytest.mark.parametrize("password", ["", "seven77", "กาแฟเย็"])
def test_a_short_password_is_refused(password: str) -> None:
    with pytest.raises(InvalidInput, match=f"the password has {len(password)} characters; use at least 8"):
        accounts.hashed(password)


def test_any_other_password_is_fine() -> None:
    records = InMemoryRecords()
    for n, password in enumerate(["12345678", "กาแฟเย็นๆ", "x" * 4000, "with \x00 inside", "  spaces  "]):
        accounts.create_user(records, "acme", f"user{n}", password, {"email": f"{n}@x.org"}, interface="test")
        assert accounts.sign_in(records, "acme", f"{n}@x.org", password).id == f"user{n}"
        with pytest.raises(SignInRefused):
            accounts.sign_in(records, "acme", f"{n}@x.org", password + " ")


def test_refusing_takes_as_long_for_an_unknown_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash is verified either way; so the time does not tell whether the address exists."""
    records = InMemoryRecords()
    accounts.create_user(records, "acme", "alice", "correct horse", {"email": "a@x.org"}, interface="test")
    accounts.create_user(records, "acme", "bob", None, {"email": "b@x.org"}, interface="test")
    verified: list[float] = []
    verify = accounts._hasher.verify

    class Counting:
        hash = staticmethod(accounts._hasher.hash)

        def verify(self, *given: str) -> bool:
            started = time.perf_counter()
            try:
                return bool(verify(*given))
            finally:
                verified.append(time.perf_counter() - started)

    monkeypatch.setattr(accounts, "_hasher", Counting())
    messages = set()
    for email in ("a@x.org", "b@x.org", "unknown@x.org"):
        with pytest.raises(SignInRefused) as caught:
            accounts.sign_in(records, "acme", email, "wrong horse")
        messages.add(str(caught.value))
    assert len(verified) == 3
    assert min(verified) > 0.002, "each a real verification"
    assert messages == {"wrong e-mail address or password"}
