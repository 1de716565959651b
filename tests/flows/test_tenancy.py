"""Organizations, users and projects: creating them, signing in, deleting and restoring them."""

import pytest

from everhold import Everhold
from everhold.errors import AlreadyExists, NotFound, SignInRefused
from everhold.model import User
from tests.engines import Store, find_tables_with, get_records, read_all_rows, texts


def test_accounts_are_created(engine: Everhold) -> None:
    organization = engine.create_organization("acme", "Acme Corporation")
    assert (organization.id, organization.name) == ("acme", "Acme Corporation")
    user = engine.create_user(
        "alice", organization="acme", name="Alice", email="a@x.org", password="correct horse", timezone="Asia/Bangkok",
        profile={"age": 30}, preferences={"theme": "dark"}, metadata={"m": 1},
    )  # fmt: skip
    project = engine.create_project("p", organization="acme", user="alice", name="P", description="A project")
    records = get_records(engine)
    assert records.get(User, "acme", ["alice"])["alice"] == user
    assert (user.name, user.timezone, user.profile, user.preferences) == (
        "Alice", "Asia/Bangkok", {"age": 30}, {"theme": "dark"},
    )  # fmt: skip
    assert (project.user_id, project.description) == ("alice", "A project")
    for create in (
        lambda: engine.create_organization("acme"),
        lambda: engine.create_user("alice", organization="acme"),
        lambda: engine.create_user("bob", organization="acme", email="a@x.org"),
        lambda: engine.create_project("p", organization="acme"),
    ):
        with pytest.raises(AlreadyExists):
            create()
    engine.create_user("alice", organization="bolt", email="a@x.org")
    assert engine.scope(organization="acme", user="alice", project="p").remember("Fits").user_id == "alice"


def test_new_users_have_the_configured_time_zone(store: Store) -> None:
    engine = store.open(timezone="Asia/Tokyo")
    engine.create_user("alice")
    engine.scope(user="bob").remember("x")
    zones = {user.id: user.timezone for user in get_records(engine).scan(User, "default")}
    assert zones == {"alice": "Asia/Tokyo", "bob": "Asia/Tokyo"}


def test_signing_in_needs_the_right_password(engine: Everhold) -> None:
    engine.create_user("alice", organization="acme", email="a@x.org", password="correct horse")
    engine.create_user("bob", organization="acme", email="b@x.org")
    assert engine.sign_in("a@x.org", "correct horse", organization="acme").id == "alice"
    for email, password, organization in (
        ("a@x.org", "wrong horse", "acme"), ("a@x.org", "", "acme"), ("b@x.org", "", "acme"),
        ("b@x.org", "nobody has this password", "acme"), ("c@x.org", "nobody has this password", "acme"),
        ("a@x.org", "correct horse", "bolt"), ("a@x.org", "correct horse", "default"),
    ):  # fmt: skip
        with pytest.raises(SignInRefused, match="wrong e-mail address or password"):
            engine.sign_in(email, password, organization=organization)
    engine.create_user("carol", organization="acme", email="c@x.org", password="long enough", status="suspended")
    with pytest.raises(SignInRefused):
        engine.sign_in("c@x.org", "long enough", organization="acme")
    engine.delete_user("alice", organization="acme")
    with pytest.raises(SignInRefused):
        engine.sign_in("a@x.org", "correct horse", organization="acme")
    engine.restore("user", "alice", organization="acme")
    assert engine.sign_in("a@x.org", "correct horse", organization="acme").id == "alice"


def test_a_password_is_not_stored(engine: Everhold) -> None:
    engine.create_user("alice", email="a@x.org", password="correct horse")
    row = get_records(engine).get(User, "default", ["alice"])["alice"]
    assert str(row.password_hash).startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert "argon2" not in repr(row)
    assert find_tables_with(engine, "correct horse") == []


def test_deleting_a_user_hides_the_memories_of_the_user(engine: Everhold) -> None:
    alice, bob = engine.scope(user="alice", session="s1"), engine.scope(user="bob")
    hidden = alice.remember("Hers", tags=["t"])
    forgotten = alice.remember("Hers, forgotten before")
    alice.forget(forgotten.id)
    bob.remember("His")
    alice.relate(hidden.id, alice.remember("Hers too").id)
    before = read_all_rows(engine)
    engine.delete_user("alice")
    assert texts(engine.scope().recall("hers his", minimum=0)) == ["His"]
    with pytest.raises(NotFound):
        alice.get(hidden.id)
    with pytest.raises(NotFound):
        engine.delete_user("alice")
    engine.restore("user", "alice")
    assert sorted(texts(engine.scope().recall("hers his", minimum=0))) == ["Hers", "Hers too", "His"]
    after = read_all_rows(engine)
    for name in ("memories", "memory_tags", "memory_relationships", "sessions", "chunks", "users"):
        assert after[name].keys() == before[name].keys()
        for key, row in before[name].items():
            assert _remove_version(after[name][key]) == _remove_version(row), name


def test_deleting_a_project_hides_its_memories(engine: Everhold) -> None:
    engine.create_project("garden", name="The garden")
    engine.scope(user="alice", project="garden").remember("Roses in May")
    engine.scope(user="alice").remember("Likes tea")
    engine.delete_project("garden")
    assert texts(engine.scope(user="alice").recall("roses tea", minimum=0)) == ["Likes tea"]
    with pytest.raises(NotFound, match="no project 'garden'"):
        engine.delete_project("garden")
    engine.restore("project", "garden")
    assert texts(engine.scope(project="garden").recall("roses", minimum=0)) == ["Roses in May"]
    engine.delete_project("garden", hard=True)
    assert texts(engine.scope(user="alice").recall("roses tea", minimum=0)) == ["Likes tea"]
    with pytest.raises(NotFound):
        engine.restore("project", "garden")


def _remove_version(row: object) -> object:
    changing = ("version", "access_count", "last_accessed")
    return {name: value for name, value in row.__dict__.items() if name not in changing}


def test_purging_a_user_leaves_nothing(engine: Everhold) -> None:
    alice = engine.scope(user="alice", session="s1", project="p", agent="bot")
    memory = alice.remember("Canary of hers", tags=["t"])
    alice.revise(memory.id, text="Canary again")
    engine.scope().revise(memory.id, text="Canary by another")
    engine.scope(user="bob").remember("His")
    engine.delete_user("alice", hard=True)
    rows = read_all_rows(engine)
    assert find_tables_with(engine, "canary") == []
    assert [row.user_id for row in rows["memories"].values()] == ["bob"]  # type: ignore[attr-defined]
    assert {row.owner_id for row in rows["chunks"].values()} == {  # type: ignore[attr-defined]
        row.id
        for row in rows["memories"].values()  # type: ignore[attr-defined]
    }
    assert rows["sessions"] == {}
    assert engine.doctor().problems == []


def test_purging_an_organization_leaves_nothing(engine: Everhold) -> None:
    for organization in ("acme", "bolt"):
        view = engine.scope(organization=organization, user="alice", session="s1")
        memory = view.remember("Canary", tags=["t"])
        view.recall("canary")
        view.revise(memory.id, text="Canary two")
    engine.delete_organization("acme", hard=True)
    rows = read_all_rows(engine)
    for name, table in rows.items():
        if name not in ("outbox", "log_heads"):  # the head records how many lines were purged
            owners = {row.__dict__.get("organization_id", row.__dict__.get("id")) for row in table.values()}
            assert "acme" not in owners, name
    assert texts(engine.scope(organization="bolt", user="alice").recall("canary", minimum=0)) == ["Canary two"]
    assert engine.scope(organization="acme", user="alice").list().memories == ()
