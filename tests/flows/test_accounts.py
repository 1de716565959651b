"""Organizations, users and projects are read, listed, changed, completed and deleted, and each call is logged."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from everhold import AsyncEverhold, Everhold
from everhold.errors import (
    AlreadyExists,
    InvalidInput,
    MalformedId,
    NotFound,
    SignInRefused,
    StaleVersion,
    UnknownField,
)
from everhold.model import AccessLog
from tests.engines import Store, get_records


def read_log(engine: Everhold, organization: str = "acme") -> list[tuple[Any, ...]]:
    engine.flush()
    lines = get_records(engine).scan(AccessLog, organization, order="sequence")
    return [(line.operation, line.request.get("account"), line.user_id, line.error_message) for line in lines]


def test_accounts_are_read_and_changed(engine: Everhold) -> None:
    engine.create_organization("acme", "Acme")
    user = engine.create_user("John Doe", organization="acme", email="j@x.org", name="John")
    engine.create_project("moon", organization="acme", user="John Doe")
    assert engine.get_user("John Doe", organization="acme") == user
    changed = engine.update_user(
        "John Doe", organization="acme", expected_version=user.version, name="J", email=None, preferences={"a": 1}
    )
    assert changed == engine.get_user("John Doe", organization="acme")
    assert (changed.name, changed.email, changed.preferences, changed.version) == ("J", None, {"a": 1}, 2)
    assert engine.update_organization("acme", name="Acme Ltd").name == "Acme Ltd"
    assert engine.get_organization("acme").name == "Acme Ltd"
    assert engine.update_project("moon", organization="acme", description="Land").description == "Land"
    project = engine.get_project("moon", organization="acme")
    assert (project.description, project.user_id, project.name) == ("Land", "John Doe", "moon")
    assert read_log(engine) == [
        ("create", "organization", None, None),
        ("create", "user", "John Doe", None),
        ("create", "project", None, None),
        ("update", "user", "John Doe", None),
        ("update", "organization", None, None),
        ("update", "project", None, None),
        *[("read", "user", "John Doe", None)] * 2,
        ("read", "organization", None, None),
        ("read", "project", None, None),
    ]


REFUSED: dict[str, tuple[Callable[[Everhold], object], type[Exception], str]] = {
    "nobody": (lambda e: e.get_user("nobody"), NotFound, "no user 'nobody' in organization 'default'"),
    "no organization": (lambda e: e.get_organization("none"), NotFound, "no organization 'none'"),
    "no project": (lambda e: e.update_project("none", name="x"), NotFound, "no project 'none'"),
    "malformed": (lambda e: e.get_user("a\n"), MalformedId, "malformed"),
    "field": (lambda e: e.update_user("alice", nam="x"), UnknownField, "did you mean 'name'"),
    "own field": (lambda e: e.update_user("alice", password_hash="x"), UnknownField, "'password_hash'"),
    "email": (lambda e: e.update_user("alice", email="nonsense"), InvalidInput, "not an e-mail address"),
    "no name": (lambda e: e.update_user("alice", name=None), InvalidInput, "name"),
    "taken email": (lambda e: e.update_user("alice", email="b@x.org"), AlreadyExists, "has the same email"),
    "version": (lambda e: e.update_user("alice", expected_version=9, name="x"), StaleVersion, "is at version 1, not 9"),
    "short": (lambda e: e.set_password("alice", "short"), InvalidInput, "use at least 8"),
    "old password": (lambda e: e.change_password("alice", "wrong one", "long enough"), SignInRefused, "wrong user or"),
    "unknown user": (lambda e: e.change_password("no", "wrong one", "long enough"), SignInRefused, "wrong user or"),
    "cursor": (lambda e: e.list_users(cursor="a\n"), InvalidInput, "invalid cursor"),
    "kind": (lambda e: e.restore("usr", "alice"), InvalidInput, "did you mean 'user'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_call_changes_nothing(sqlite_store: Store, case: str) -> None:
    engine = sqlite_store.open()
    engine.create_user("alice", email="a@x.org", password="correct horse")
    engine.create_user("bob", email="b@x.org")
    before = engine.list_users()
    verb, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        verb(engine)
    assert engine.list_users() == before


def test_accounts_are_listed_in_pages(engine: Everhold) -> None:
    for number in range(5):
        engine.create_user(f"user {number}", organization="acme", status="away" if number == 3 else "active")
    engine.create_user("elsewhere", organization="bolt")
    engine.delete_user("user 1", organization="acme")
    first = engine.list_users(organization="acme", limit=3)
    assert [user.id for user in first.rows] == ["user 0", "user 2", "user 3"]
    second_page = engine.list_users(organization="acme", limit=3, cursor=first.cursor)
    assert ([user.id for user in second_page.rows], second_page.cursor) == (["user 4"], None)
    assert [user.id for user in engine.list_users(organization="acme", status="away")] == ["user 3"]
    assert [user.id for user in engine.list_users(organization="acme", deleted=True)] == ["user 1"]
    assert [organization.id for organization in engine.list_organizations()] == ["acme", "bolt"]
    assert [organization.id for organization in engine.list_organizations(limit=1, cursor="acme")] == ["bolt"]
    for project in ("p1", "p2"):
        engine.create_project(project, organization="acme", user="user 0" if project == "p1" else None)
    assert [project.id for project in engine.list_projects(organization="acme")] == ["p1", "p2"]
    assert [project.id for project in engine.list_projects(organization="acme", user="user 0")] == ["p1"]
    assert engine.list_users(organization="nowhere").rows == ()


def test_an_implicit_account_is_completed_by_creating_it(engine: Everhold) -> None:
    memory = engine.scope(organization="acme", user="alice", project="moon").remember("Alice rows")
    assert engine.get_user("alice", organization="acme").is_implicit
    alice = engine.create_user("alice", organization="acme", email="a@x.org", password="correct horse", name="Alice")
    assert (alice.name, alice.email, alice.is_implicit) == ("Alice", "a@x.org", False)
    assert engine.sign_in("a@x.org", "correct horse", organization="acme") == alice
    assert engine.scope(organization="acme", user="alice").get(memory.id).text == "Alice rows"
    assert engine.create_project("moon", organization="acme", name="Moon").name == "Moon"
    assert engine.create_organization("acme", "Acme").name == "Acme"
    repeated_calls: tuple[Callable[[], object], ...] = (
        lambda: engine.create_user("alice", organization="acme"),
        lambda: engine.create_project("moon", organization="acme"),
        lambda: engine.create_organization("acme"),
    )
    for create in repeated_calls:
        with pytest.raises(AlreadyExists, match="exists; choose another id"):
            create()
    engine.scope(organization="acme", user="bob").remember("Bob rows")
    with pytest.raises(AlreadyExists, match="another user has the same email"):
        engine.create_user("bob", organization="acme", email="a@x.org")
    assert engine.get_user("bob", organization="acme").is_implicit
    engine.delete_user("bob", organization="acme")
    with pytest.raises(AlreadyExists, match="'bob' has been deleted; restore it"):
        engine.create_user("bob", organization="acme")


def test_passwords_change(engine: Everhold) -> None:
    engine.create_user("alice", email="a@x.org", password="the first one")
    engine.change_password("alice", "the first one", "the second one")
    with pytest.raises(SignInRefused):
        engine.sign_in("a@x.org", "the first one")
    assert engine.sign_in("a@x.org", "the second one").version == 2
    engine.set_password("alice", "the third one")
    assert engine.sign_in("a@x.org", "the third one").version == 3
    engine.set_password("alice", None)
    for password in ("the third one", "nobody has this password"):
        with pytest.raises(SignInRefused):
            engine.sign_in("a@x.org", password)
    lines = [line for line in read_log(engine, "default") if line[0] == "sign_in"]
    refused, accepted = ("sign_in", "user", "alice", "SignInRefused"), ("sign_in", "user", "alice", None)
    assert lines == [refused, accepted, accepted, refused, refused]
    stored = str([line.request for line in get_records(engine).scan(AccessLog, "default")])
    assert "one" not in stored
    assert "a@x.org" not in stored


def test_a_preview_shows_what_a_deletion_would_delete(engine: Everhold) -> None:
    alice = engine.scope(user="alice", session="s1")
    alice.say("Hello")
    alice.remember("Alice rows", tags=["sport"])
    engine.scope(user="bob").remember("Bob swims")
    expected = {"users": 1, "sessions": 1, "messages": 1, "memories": 1, "memory_tags": 1}
    preview = engine.delete_user("alice", preview=True)
    assert (dict(preview.rows), preview.preview) == (expected, True)
    assert engine.get_user("alice").is_implicit
    deleted = engine.delete_user("alice")
    assert (dict(deleted.rows), deleted.preview) == (expected, False)
    with pytest.raises(NotFound):
        engine.get_user("alice")
    engine.restore("user", "alice")
    assert [memory.text for memory in alice.list()] == ["Alice rows"]
    all_rows = engine.delete_organization("default", preview=True)
    assert (all_rows.rows["users"], all_rows.rows["memories"], all_rows.rows["organizations"]) == (2, 2, 1)
    engine.delete_user("alice", hard=True)
    operations = [line[:3] for line in read_log(engine, "default") if line[1] == "user" and line[0] != "read"]
    assert operations == [(operation, "user", "alice") for operation in ("delete", "update", "delete")]
    assert engine.verify_log().intact


def test_the_verbs_on_accounts_can_be_awaited(sqlite_store: Store) -> None:
    async def run() -> None:
        engine = AsyncEverhold(sqlite_store.open())
        await engine.create_user("alice", email="a@x.org", password="correct horse")
        await engine.update_user("alice", name="Alice")
        await engine.change_password("alice", "correct horse", "another horse")
        assert (await engine.sign_in("a@x.org", "another horse")).name == "Alice"
        assert [user.id for user in (await engine.list_users()).rows] == ["alice"]
        await engine.close()

    asyncio.run(run())
