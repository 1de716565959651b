"""Messages of ended sessions move to cold storage, and back into the tables when they are needed."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold, View, clock
from everhold.adapters.files import FileBlobs
from everhold.adapters.sqlite import SqliteRecords
from everhold.errors import InvalidSettings, NotFound
from everhold.exchange.moving import hash_row
from everhold.model import ArchiveFile, Chunk, Lease, Message, Session, SessionArchive, User
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.schema.catalog import CATALOG
from everhold.schema.operations import Delete, Op, Patch, Where
from everhold.testing.fake_embedder import FakeEmbedder
from tests.engines import EVERY_STORE, Store, find_tables_with, get_records, make_store

SECRET = "zanzibar"


@pytest.fixture(params=[*(f"{name}-records" for name in EVERY_STORE), "sqlite-files", "postgres-files"])
def archive_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, dict[str, Any]]]:
    """A store, with settings that put archives into its records or into files."""
    name, _, location = request.param.partition("-")
    store = make_store(name, request, tmp_path)
    yield store, {"blobs": str(tmp_path / "blobs")} if location == "files" else {}
    store.close()


def talk(engine: Everhold, session: str = "s1", user: str | None = "alice", count: int = 3) -> View:
    view = engine.scope(user=user, session=session)
    for number in range(count):
        view.say(f"{SECRET} number {number} of {session}", id=f"{session}-{number}")
    return view


def archive(engine: Everhold) -> dict[str, int]:
    return dict(engine.maintain(["archive"])["archive"].counts)


def hash_rows(records: Records) -> list[int]:
    """Return the hashes of all messages and of their chunks."""
    chunks = records.scan(Chunk, None, [Where("owner_kind", Op.EQ, "message")])
    rows: list[Row] = [*records.scan(Message, None, deleted=True), *chunks]
    return sorted(hash_row(row, CATALOG[type(row)]) for row in rows)


def read_texts(view: View) -> list[str | None]:
    return [message.text for message in view.messages(oldest_first=True)]


def test_messages_leave_the_tables_and_come_back_unchanged(archive_store: tuple[Store, dict[str, Any]]) -> None:
    store, settings = archive_store
    engine = store.open(**settings)
    view, records = talk(engine), get_records(engine)
    texts, hashes_before = read_texts(view), hash_rows(records)
    view.archive_session()
    assert engine.maintain(["archive"], dry_run=True)["archive"].counts == {"sessions": 1}
    assert archive(engine) == {"sessions": 1, "messages": 3}
    assert not records.scan(Message, None, deleted=True)
    assert not records.scan(Chunk, None, [Where("owner_kind", Op.EQ, "message")])
    assert engine.scope(user="alice").recall(SECRET, among="message").hits == ()
    assert [session.archived_messages for session in view.sessions()] == [3]
    assert archive(engine) == {}

    assert read_texts(view) == texts
    assert hash_rows(records) == hashes_before
    assert not records.scan(SessionArchive, None, deleted=True)
    assert not records.scan(ArchiveFile, None)
    assert len(engine.scope(user="alice").recall(SECRET, among="message").hits) == 3
    assert archive(engine) == {}  # it has just been read


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def engine(sqlite_store: Store, files: Path) -> Everhold:
    return sqlite_store.open(blobs=str(files))


def list_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def archive_new_session(engine: Everhold, **session: Any) -> View:
    view = talk(engine, **session)
    view.archive_session()
    archive(engine)
    assert get_records(engine).count(SessionArchive, "default") == 1
    return view


# what is archived, and when


def test_sessions_are_archived_some_days_after_their_end(sqlite_store: Store) -> None:
    engine = sqlite_store.open(archive_days=90)
    for session in ("open", "fresh", "old"):
        talk(engine, session)
    engine.scope(user="alice", session="fresh").end_session()
    past = clock.now() - timedelta(days=91)
    get_records(engine).commit([Patch(Session, ("default", "old"), {"ended_at": past})])
    assert archive(engine) == {"sessions": 1, "messages": 3}
    archived = {session.id: session.archived_messages for session in engine.scope(user="alice").sessions()}
    assert archived == {"open": 0, "fresh": 0, "old": 3}


def test_a_long_session_has_several_archives(engine: Everhold) -> None:
    view = talk(engine, count=260)
    texts = read_texts(view)
    view.archive_session()
    assert archive(engine) == {"sessions": 1, "messages": 260}
    assert get_records(engine).count(SessionArchive, "default") == 2
    assert view.messages(limit=1, oldest_first=True).messages[0].text == texts[0]
    assert read_texts(view)[:50] == texts[:50]


def test_a_reopened_session_continues_where_it_ended(engine: Everhold) -> None:
    view = archive_new_session(engine)
    view.reopen_session()
    assert view.say("hello again").position == 3
    assert len(view.messages()) == 4
    assert archive(engine) == {}


@pytest.mark.parametrize("verb", ["messages", "around", "session", "search", "context", "window", "delete"])
def test_every_verb_that_reads_messages_puts_them_back(engine: Everhold, verb: str) -> None:
    view = archive_new_session(engine)
    text = f"{SECRET} number 2 of s1"
    result = {
        "messages": lambda: view.messages(limit=1),
        "around": lambda: view.messages(around="s1-2"),
        "session": lambda: view.session().history,
        "search": lambda: view.search_messages(text),
        "context": lambda: view.context(text),
        "window": lambda: view.window(text),
        "delete": lambda: view.delete_message("s1-2"),
    }[verb]()
    assert text in str(result)
    assert not get_records(engine).scan(SessionArchive, None)


def test_an_archived_session_is_found_through_its_episodes(engine: Everhold) -> None:
    archive_new_session(engine)
    [hit, *_] = engine.scope(user="alice").recall(f"{SECRET} number 2 of s1", among="episode")
    assert hit.record.__dict__["session_id"] == "s1"
    assert get_records(engine).scan(SessionArchive, None)


def test_a_retry_of_an_archived_message_changes_nothing(engine: Everhold) -> None:
    view = archive_new_session(engine)
    assert view.say(f"{SECRET} number 0 of s1", id="s1-0").position == 0
    assert len(view.messages()) == 3


def test_no_message_is_lost_if_its_id_is_reused(engine: Everhold) -> None:
    view = archive_new_session(engine)
    engine.scope(user="alice", session="s2").say("another one", id="s1-1")
    assert read_texts(view) == [f"{SECRET} number {number} of s1" for number in range(3)]
    assert view.messages(oldest_first=True).messages[1].metadata == {"archived_id": "s1-1"}


def test_a_session_without_its_files_says_what_to_do(sqlite_store: Store, engine: Everhold, files: Path) -> None:
    view = archive_new_session(engine)
    with pytest.raises(InvalidSettings, match="set `blobs`"):
        sqlite_store.open().scope(user="alice", session="s1").messages()
    [file] = list_files(files)
    file.rename(files / "elsewhere")
    with pytest.raises(NotFound, match="restore it from a backup"):
        view.messages()
    (files / "elsewhere").rename(file)
    assert len(view.messages()) == 3


def test_doctor_reads_every_archive(sqlite_store: Store, engine: Everhold, files: Path) -> None:
    archive_new_session(engine)
    assert engine.doctor().problems == []
    [problem] = sqlite_store.open().doctor().problems
    assert problem.endswith("set `blobs` to the location of the archived files")
    [file] = list_files(files)
    content = file.read_bytes()
    for damaged in (content[:-1], content + b"!", b"", bytes([content[0] ^ 1]) + content[1:]):
        file.write_bytes(damaged)
        [problem] = engine.doctor().problems
        assert problem.startswith("1 archive of messages cannot be read; session 's1' of organization 'default'")
        assert "has another SHA-256 than its name; restore it from a backup" in problem
    file.unlink()
    [problem] = engine.doctor().problems
    assert f"no blob {file.name}" in problem
    file.write_bytes(content)
    assert engine.doctor().problems == []


def test_doctor_reads_archives_in_the_records(sqlite_store: Store) -> None:
    engine = sqlite_store.open()
    archive_new_session(engine)
    [row] = get_records(engine).scan(SessionArchive, None)
    get_records(engine).commit([Patch(SessionArchive, ("default", row.id), {"content": (row.content or b"")[:-9]})])
    [problem] = engine.doctor().problems
    assert "the content of an archive cannot be read" in problem


def test_chunks_of_a_retired_model_are_made_again(sqlite_store: Store) -> None:
    view = archive_new_session(sqlite_store.open())
    engine = sqlite_store.open(FakeEmbedder("another", 16))
    view = engine.scope(user="alice", session="s1")
    engine.maintain(["reembed"])
    assert len(view.messages()) == 3
    chunks = get_records(engine).scan(Chunk, None, [Where("owner_kind", Op.EQ, "message")])
    assert [chunk.model for chunk in chunks] == ["another"] * 3
    assert view.recall(f"{SECRET} number 2 of s1", among="message")[0].message.id == "s1-2"


# deletion


def assert_erased(engine: Everhold, files: Path) -> None:
    assert find_tables_with(engine, SECRET) == []
    assert list_files(files) == []
    assert not get_records(engine).scan(ArchiveFile, None)


def test_a_deleted_session_is_restored_with_its_archive(engine: Everhold) -> None:
    view = archive_new_session(engine)
    assert engine.delete_session("s1", preview=True).rows["messages"] == 3
    engine.delete_session("s1")
    with pytest.raises(NotFound):
        view.messages()
    engine.restore("session", "s1")
    assert len(view.messages()) == 3


def test_a_purged_session_leaves_nothing_behind(engine: Everhold, files: Path) -> None:
    view = engine.scope(user="alice", session="s1")
    view.add([f"I live in {SECRET.title()}"])
    assert engine.scope(user="alice").list().memories
    view.archive_session()
    archive(engine)
    engine.delete_session("s1", hard=True)
    assert_erased(engine, files)
    assert engine.scope(user="alice").list().memories == ()


@pytest.mark.parametrize("kind", ["session", "user", "organization"])
def test_purging_after_the_grace_period_deletes_all_rows(sqlite_store: Store, files: Path, kind: str) -> None:
    engine = sqlite_store.open(blobs=str(files), grace_days=0)
    view = engine.scope(user="alice", session="s1")
    view.add([f"I live in {SECRET.title()}"])
    view.archive_session()
    archive(engine)
    getattr(engine, f"delete_{kind}")({"session": "s1", "user": "alice", "organization": "default"}[kind])
    assert engine.maintain(["purge"], dry_run=True)["purge"].counts["messages"] == 1
    engine.maintain()
    assert_erased(engine, files)


@pytest.mark.parametrize("kind", ["user", "organization"])
def test_a_hard_deletion_leaves_nothing_behind(engine: Everhold, files: Path, kind: str) -> None:
    archive_new_session(engine)
    getattr(engine, f"delete_{kind}")({"user": "alice", "organization": "default"}[kind], hard=True)
    assert_erased(engine, files)


def make_group(engine: Everhold) -> View:
    """Archive a session without an owner in which two users spoke."""
    for user in ("alice", "bob"):
        engine.create_user(user)
    group = engine.scope(session="group")
    group.say("hello all")
    for user in ("alice", "bob"):
        engine.scope(user=user, session="group").say(f"{SECRET} of {user}")
    group.archive_session()
    archive(engine)
    assert group.sessions()[0].archived_messages == 3
    return group


def test_archived_group_messages_follow_a_deleted_and_restored_user(engine: Everhold) -> None:
    group = make_group(engine)
    engine.delete_user("alice")
    archive(engine)
    assert read_texts(group) == ["hello all", f"{SECRET} of bob"]
    engine.restore("user", "alice")
    assert read_texts(group) == ["hello all", f"{SECRET} of alice", f"{SECRET} of bob"]


def test_a_purged_user_is_not_in_the_archive_of_a_group(engine: Everhold, files: Path) -> None:
    group = make_group(engine)
    engine.delete_user("alice", hard=True)
    assert find_tables_with(engine, f"{SECRET} of alice") == []
    assert list_files(files) == []
    assert read_texts(group) == ["hello all", f"{SECRET} of bob"]


def test_messages_of_a_user_deleted_during_archiving_stay_hidden(engine: Everhold) -> None:
    """An archive is committed between the time when the deletion reads the archives and the deletion itself."""
    group = make_group(engine)
    records = get_records(engine)
    deleted = {"is_deleted": True, "deleted_at": clock.now(), "deletion_id": "del-1"}
    records.commit([Patch(User, ("default", "alice"), deleted)])
    archive(engine)
    assert not records.scan(SessionArchive, None)
    assert read_texts(group) == ["hello all", f"{SECRET} of bob"]


def test_one_archived_message_is_deleted_and_restored(engine: Everhold, files: Path) -> None:
    view = archive_new_session(engine)
    alice = engine.scope(user="alice")
    with pytest.raises(NotFound):
        engine.scope(user="bob").delete_message("s1-1")
    assert get_records(engine).scan(SessionArchive, None)
    alice.delete_message("s1-1")
    assert len(view.messages()) == 2
    alice.restore_message("s1-1")
    assert len(view.messages()) == 3
    alice.delete_message("s1-1", hard=True)
    assert find_tables_with(engine, f"{SECRET} number 1") == []
    assert list_files(files) == []


def test_forgetting_names_archived_messages(engine: Everhold) -> None:
    view = engine.scope(user="alice", session="s1")
    [memory] = view.add(["I live in Bergen"]).memories
    view.archive_session()
    archive(engine)
    forgotten = engine.scope(user="alice").forget_where(kind=memory.kind)
    assert [message.text for message in forgotten.messages] == ["I live in Bergen"]


# other copies


def test_an_export_holds_archived_messages(engine: Everhold, tmp_path: Path) -> None:
    view = talk(engine)
    hashes_before = hash_rows(get_records(engine))
    view.archive_session()
    archive(engine)
    engine.export(tmp_path / "bundle.jsonl")
    assert view.sessions()[0].archived_messages == 3  # an export puts nothing back
    with Everhold.open("memory://", embedder=FakeEmbedder()) as copy:
        copy.load(tmp_path / "bundle.jsonl")
        assert hash_rows(get_records(copy)) == hashes_before
        assert len(copy.scope(user="alice", session="s1").messages()) == 3
    assert engine.load(tmp_path / "bundle.jsonl").added == 0
    assert len(view.messages()) == 3


def test_a_move_takes_the_files_along(sqlite_store: Store, engine: Everhold, files: Path, tmp_path: Path) -> None:
    view = archive_new_session(engine)
    engine.flush()
    target = tmp_path / "moved.db"
    with pytest.raises(InvalidSettings, match="set `blobs`"):
        Everhold.move(sqlite_store.storage, target)
    Everhold.move(sqlite_store.storage, target, blobs=str(files))
    assert len(view.messages()) == 3  # and the file of the first store is deleted
    moved = sqlite_store.open(storage=str(target), blobs=str(files))
    assert read_texts(moved.scope(user="alice", session="s1")) == read_texts(view)
    assert list_files(files) == []


# killed processes


class SimulatedKill(BaseException):
    """Simulates a killed process: no code catches it."""


class KillAfterSteps:
    """Raises `SimulatedKill` after `steps_left` steps. Each write to a store or file is two steps: before and after."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.steps_left: float = float("inf")
        for owner, name in ((SqliteRecords, "commit"), (FileBlobs, "put"), (FileBlobs, "delete")):
            patched.setattr(owner, name, self._count(getattr(owner, name)))

    def _count(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            self._take()
            answer = write(*arguments)
            self._take()
            return answer

        return run

    def _take(self) -> None:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise SimulatedKill


@pytest.mark.parametrize("action", ["archive", "read"])
def test_a_kill_at_any_step_loses_nothing(
    sqlite_store: Store, files: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    kill = KillAfterSteps(monkeypatch)
    for step in range(100):
        engine = sqlite_store.open(blobs=str(files))
        view = talk(engine, f"s{step}")
        view.archive_session()
        if action == "read":
            archive(engine)
        kill.steps_left = step
        with suppress(SimulatedKill):
            archive(engine) if action == "archive" else view.messages()
        survived, kill.steps_left = kill.steps_left >= 0, float("inf")
        engine = sqlite_store.open(blobs=str(files))
        records = get_records(engine)
        records.commit([Delete(Lease, ("archive",))])  # as if the lease of the dead process had expired
        archived = itertools.chain(*(ids for (ids,) in records.columns(SessionArchive, None, ("message_ids",))))
        listed = [message.id for message in records.scan(Message, None)]
        assert sorted([*archived, *listed]) == sorted(f"s{step}-{number}" for number in range(3))
        archive(engine)
        assert len(list_files(files)) == records.count(ArchiveFile, None) == records.count(SessionArchive, None)
        assert len(engine.scope(user="alice", session=f"s{step}").messages()) == 3
        assert list_files(files) == []
        engine.delete_session(f"s{step}", hard=True)
        if survived:
            assert step >= 6  # it was interrupted at several steps before
            return
    pytest.fail("the work has more steps than were tried")
