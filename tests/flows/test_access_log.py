"""The access log says who did what, when, and whether it succeeded, without texts of memories or questions."""

import inspect
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold, Run, View
from everhold.errors import Conflict, EverholdError, StoreFull
from everhold.model import AccessLog, Episode, QueryPattern, QueryRun, Relationship
from everhold.model.access import caller_address, compute_digest
from everhold.schema.operations import Op, Where
from tests.engines import Store, get_records

CANARY = "canary"


def collect_added_lines(engine: Everhold, view: View, call: Callable[[], object]) -> list[AccessLog]:
    """Return the lines that a call has added, oldest first."""
    engine.flush()
    earlier_sequences = {line.sequence for line in view.log(limit=10_000)}
    call()
    return [line for line in reversed(view.log(limit=10_000)) if line.sequence not in earlier_sequences]


# The operation of a line, and the memory that it is about.
Expected = tuple[str, str | None]

# Verbs of a view that add no line.
UNLOGGED = ("log",)
# A question in a session is also two messages and a run.
LINES_OF_A_QUESTION: list[Expected] = [
    (operation, None) for operation in ("search", "create", "create", "create", "update", "update", "create")
]
# Verbs that need a scope with an agent and nothing else.
OF_AGENT_SCOPES = ("delete_agent", "restore_agent", "import_agent")
# Verbs of an engine that have no argument `organization`, or have it as the first.
WITHOUT_ORGANIZATION = (
    "create_organization", "get_organization", "list_organizations", "update_organization", "delete_organization",
    "maintain", "undo_run",
)  # fmt: skip
UNLOGGED_BY_THE_ENGINE = (
    "open", "scope", "close", "flush", "has_organization", "verify_log", "doctor", "extract", "tokens",
    "move", "install_model", "drop_model", "runs", "draw_chart", "install_views", "remove_views", "list_views",
    "write_view_script", "keys", "create_master_key",
    "backup", "list_backups", "restore_backup", "verify_backup", "forget_backups",  # of the whole store, like a move
    "rotate_keys",  # needs a master key: tests/flows/test_encryption.py
)  # fmt: skip


def list_verbs(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.isroutine) if not name.startswith("_")}


def test_every_verb_of_a_view_has_its_line(store: Store, tmp_path: Path) -> None:
    engine = store.open(interface="a test", blobs=str(tmp_path / "blobs"))
    (tmp_path / "data.csv").write_text("a,b\n1,2\n")
    view = engine.scope(organization="acme", project="p", user="alice", agent="bot", session="s1")
    first = view.remember("First", tags=["t"], key="first", id="m1")
    view.remember("Second", id="m2")
    view.remember("Third", id="m3")
    calls: list[tuple[str, Callable[[], object], list[Expected]]] = [
        ("remember", lambda: view.remember("Fourth", id="m4"), [("create", "m4")]),
        ("remember", lambda: view.remember("Fourth"), [("update", "m4")]),
        ("remember_many", lambda: view.remember_many([{"text": "a", "id": "a"}, {"text": "b", "id": "b"}]),
         [("create", "a"), ("create", "b")]),
        ("get", lambda: view.get("first"), [("read", "m1")]),
        ("list", view.list, [("read", None)]),
        ("count", view.count, [("read", None)]),
        ("history", lambda: view.history(first.id), [("read", "m1")]),
        ("relations", lambda: view.relations(first.id), [("read", None)]),
        ("tags", view.tags, [("read", None)]),
        ("tags_of", lambda: view.tags_of([first.id]), [("read", None)]),
        ("recall", lambda: view.recall("first"), [("search", None)]),
        ("context", lambda: view.context("first"), [("search", None)]),
        ("why_not", lambda: view.why_not("m1", "first"), [("search", None)]),
        ("window", lambda: view.window("first"), [("search", None)]),
        ("timeline", lambda: view.timeline("first"), [("search", None)]),
        ("overview", lambda: view.overview("first"), [("search", None)]),
        ("run", lambda: view.run("Make tea", id="r1"), [("create", None)]),
        ("resume", view.resume, [("read", None)]),
        ("get_run", lambda: view.get_run("r1"), [("read", None)]),
        ("runs", view.runs, [("read", None)]),
        ("delete_run", lambda: view.delete_run("r1", preview=True), [("read", None)]),
        ("delete_run", lambda: view.delete_run("r1"), [("delete", None)]),
        ("restore_run", lambda: view.restore_run("r1"), [("update", None)]),
        ("how_to", lambda: view.how_to("Make tea"), [("search", None)]),
        ("recall_with_results", lambda: view.recall_with_results("first"), [("search", None)]),
        ("revise", lambda: view.revise(first.id, text="First again"), [("update", "m1")]),
        ("tag", lambda: view.tag(first.id, "u"), [("update", "m1")]),
        ("untag", lambda: view.untag(first.id, "u"), [("update", "m1")]),
        ("relate", lambda: view.relate(first.id, "m2"), [("update", "m1")]),
        ("forget", lambda: view.forget("m3"), [("delete", "m3")]),
        ("undo", lambda: view.undo("m3"), [("update", "m3")]),
        ("forget_where", lambda: view.forget_where(tags="t", preview=True), [("read", None)]),
        ("forget_where", lambda: view.forget_where(where={"id": "m3"}), [("delete", "m3")]),
        ("supersede", lambda: view.supersede("m2", "Second's heir", id="m5"), [("create", "m5"), ("update", "m2")]),
        ("forget", lambda: view.forget("m5", hard=True), [("delete", "m5")]),
        ("merge_duplicates", lambda: view.merge_duplicates(preview=True), [("read", None)]),
        ("remember", lambda: view.remember("The red bicycle stands in the cellar", id="m6"), [("create", "m6")]),
        ("remember", lambda: view.remember("The red bicycle stands in the cellar!", id="m7"), [("create", "m7")]),
        ("merge_duplicates", view.merge_duplicates, [("delete", "m7"), ("update", "m6")]),
        ("relate", lambda: view.relate("m6", "m1", "contradicts"), [("update", "m6")]),
        ("conflicts", view.conflicts, [("read", None)]),
        ("resolve_conflict", lambda: view.resolve_conflict(find_conflict(engine)), [("update", "m6")]),
        ("say", lambda: view.say("Hello"), [("create", None)]),
        ("events", view.events, [("read", None)]),
        ("subscribe", lambda: view.subscribe(print).close(), [("read", None)]),
        ("add", lambda: view.add([{"text": "Hello again", "id": "m8"}]), [("create", None)]),
        ("delete_message", lambda: view.delete_message("m8"), [("delete", None)]),
        ("restore_message", lambda: view.restore_message("m8"), [("update", None)]),
        ("messages", view.messages, [("read", None)]),
        ("messages", lambda: view.messages(around="m8"), [("read", None)]),
        ("search_messages", lambda: view.search_messages("hello"), [("search", None)]),
        ("recent_messages", lambda: view.recent_messages("bot", 5), [("read", None)]),
        ("session", view.session, [("read", None)]),
        ("sessions", view.sessions, [("read", None)]),
        ("episodes", view.episodes, [("read", None)]),
        ("episode", lambda: view.episode(find_episode(engine)), [("read", None)]),
        ("summary", view.summary, [("read", None)]),
        ("update_session", lambda: view.update_session(topic="tea"), [("update", None)]),
        ("conversations", view.conversations, [("read", None)]),
        ("say", lambda: view.say("Hello", conversation="c"), [("create", None)]),
        ("update_conversation", lambda: view.update_conversation("c", name="Tea"), [("update", None)]),
        ("end_session", lambda: view.end_session(summary="Tea"), [("update", None)]),
        ("archive_session", view.archive_session, [("update", None)]),
        ("reopen_session", view.reopen_session, [("update", None)]),
        ("open_session", view.open_session, [("create", None)]),
        ("delete_session", lambda: view.delete_session(preview=True), [("read", None)]),
        ("delete_session", view.delete_session, [("delete", None)]),
        ("restore_session", view.restore_session, [("update", None)]),
        *list_block_calls(view),
        *list_tool_calls(view),
        *list_workspace_calls(view),
        ("upload", lambda: view.upload(str(tmp_path / "data.csv")), [("create", None)]),
        ("upload", lambda: view.upload(str(tmp_path / "data.csv")), [("create", None)]),
        ("sources", view.sources, [("read", None)]),
        ("tables", view.tables, [("read", None)]),
        ("describe", lambda: view.describe("data"), [("read", None)]),
        ("update_description", lambda: view.update_description("data", "Two numbers"), [("update", None)]),
        ("find_tables", lambda: view.find_tables("numbers"), [("search", None)]),
        ("ask", lambda: view.ask("How many rows of data are there?"), LINES_OF_A_QUESTION),
        ("confirm", lambda: view.confirm(find_query(engine)), [("update", None)]),
        ("correct", lambda: view.correct(find_query(engine), sql="SELECT sum(b) FROM data"), [("update", None)]),
        ("reject", lambda: view.reject(find_query(engine)), [("update", None)]),
        ("learned", view.learned, [("read", None)]),
        ("forget_learned", lambda: view.forget_learned(find_pattern(engine)), [("delete", None)]),
        ("sql", lambda: view.sql("SELECT sum(b) FROM data"), [("search", None)]),
        ("delete_source", lambda: view.delete_source("data.csv", preview=True), [("read", None)]),
        ("delete_source", lambda: view.delete_source("data.csv"), [("delete", None)]),
        ("restore_source", lambda: view.restore_source("data.csv"), [("update", None)]),
        *list_connection_calls(view, tmp_path / "shop.sqlite"),
        *list_agent_calls(view, tmp_path / "agent.json"),
    ]  # fmt: skip
    assert {verb for verb, _, _ in calls} == list_verbs(View) - set(UNLOGGED) - set(OF_AGENT_SCOPES)
    without_log_as = {name for name in list_verbs(View) if "logged_operation" not in vars(getattr(View, name))}
    assert without_log_as == set(UNLOGGED), "failed calls of these verbs would not be logged"
    for verb, call, expected in calls:
        began = datetime.now(UTC)
        lines = collect_added_lines(engine, view, call)
        assert [(line.operation, line.memory_id) for line in lines] == expected, verb
        for line in lines:
            assert (line.success, line.error_message, line.interface) == (True, None, "a test"), verb
            actor = (line.organization_id, line.user_id, line.agent_id, line.session_id, line.request["project"])
            assert actor == ("acme", "alice", "bot", "s1", "p"), verb
            assert began <= line.timestamp <= datetime.now(UTC)
            assert line.digest == compute_digest(line.__dict__)
            assert line.memory_id is None or line.request["memory"] == line.memory_id


def list_block_calls(view: View) -> list[tuple[str, Callable[[], object], list[Expected]]]:
    create, read, update, delete = ([(operation, None)] for operation in ("create", "read", "update", "delete"))
    return [
        ("create_block", lambda: view.create_block("human", "one"), create),
        ("block", lambda: view.block("human"), read),
        ("blocks", view.blocks, read),
        ("write_block", lambda: view.write_block("human", "two"), update),
        ("append_block", lambda: view.append_block("human", "three"), update),
        ("replace_in_block", lambda: view.replace_in_block("human", "three", "3"), update),
        ("rewrite_block_lines", lambda: view.rewrite_block_lines("human", 1, 1, "2"), update),
        ("update_block", lambda: view.update_block("human", limit=100), update),
        ("block_history", lambda: view.block_history("human"), read),
        ("diff_block", lambda: view.diff_block("human"), read),
        ("undo_block", lambda: view.undo_block("human"), update),
        ("render_blocks", view.render_blocks, read),
        ("block_agents", lambda: view.block_agents("human"), read),
        ("detach_block", lambda: view.detach_block("human"), update),
        ("attach_block", lambda: view.attach_block("human"), update),
        ("delete_block", lambda: view.delete_block("human", preview=True), read),
        ("delete_block", lambda: view.delete_block("human"), delete),
        ("restore_block", lambda: view.restore_block("human"), update),
    ]  # fmt: skip


def list_tool_calls(view: View) -> list[tuple[str, Callable[[], object], list[Expected]]]:
    create, read, update, delete = ([(operation, None)] for operation in ("create", "read", "update", "delete"))
    return [
        ("create_tool", lambda: view.create_tool("search"), create),
        ("create_tool_from", lambda: view.create_tool_from({"name": "find", "input_schema": {}}), create),
        ("tool", lambda: view.tool("search"), read),
        ("tools", view.tools, read),
        ("check_call", lambda: view.check_call("search", {}), read),
        ("update_tool", lambda: view.update_tool("search", tags=["web"]), update),
        ("attach_tool", lambda: view.attach_tool("search"), update),
        ("detach_tool", lambda: view.detach_tool("search"), update),
        ("delete_tool", lambda: view.delete_tool("search", preview=True), read),
        ("delete_tool", lambda: view.delete_tool("search"), delete),
        ("restore_tool", lambda: view.restore_tool("search"), update),
    ]  # fmt: skip


def list_connection_calls(view: View, path: Path) -> list[tuple[str, Callable[[], object], list[Expected]]]:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE orders AS SELECT 1 AS id")
    return [
        ("connect", lambda: view.connect("shop", f"sqlite:///{path}"), [("create", None)]),
        ("connections", view.connections, [("read", None)]),
        ("refresh_connection", lambda: view.refresh_connection("shop"), [("update", None)]),
        ("delete_connection", lambda: view.delete_connection("shop", preview=True), [("read", None)]),
        ("delete_connection", lambda: view.delete_connection("shop"), [("delete", None)]),
        ("restore_connection", lambda: view.restore_connection("shop"), [("update", None)]),
    ]


def list_workspace_calls(view: View) -> list[tuple[str, Callable[[], object], list[Expected]]]:
    return [
        ("workspace", lambda: view.workspace("w"), [("create", None), ("read", None)]),
        ("workspaces", view.workspaces, [("read", None)]),
        ("delete_workspace", lambda: view.delete_workspace("w"), [("delete", None)]),
        ("restore_workspace", lambda: view.restore_workspace("w"), [("update", None)]),
    ]


def list_agent_calls(view: View, file: Path) -> list[tuple[str, Callable[[], object], list[Expected]]]:
    create, read, update, delete = ([(operation, None)] for operation in ("create", "read", "update", "delete"))
    return [
        ("create_agent", lambda: view.create_agent(system="Be kind"), create),
        ("agent", view.agent, read),
        ("agents", view.agents, read),
        ("update_agent", lambda: view.update_agent(topic="tea"), update),
        ("buffer_messages", lambda: view.buffer_messages("msg-1"), update),
        ("buffered_messages", view.buffered_messages, read),
        ("set_state", lambda: view.set_state({"step": 1}), update),
        ("update_state", lambda: view.update_state({"step": 2}), update),
        ("state", view.state, read),
        ("clear_state", view.clear_state, delete),
        ("clone_agent", lambda: view.clone_agent("twin"), create),
        ("export_agent", lambda: view.export_agent(file), [("export", None)]),
        ("pause_agent", view.pause_agent, update),
        ("resume_agent", view.resume_agent, update),
        ("terminate_agent", view.terminate_agent, update),
    ]  # fmt: skip


def test_deleting_an_agent_and_importing_one_have_their_lines(store: Store, tmp_path: Path) -> None:
    engine = store.open()
    agent, twin = engine.scope(agent="bot"), engine.scope(agent="twin")
    agent.create_agent(system="Be kind")
    agent.export_agent(tmp_path / "agent.json")
    assert [line.operation for line in collect_added_lines(engine, agent, agent.delete_agent)] == ["delete"]
    assert [line.operation for line in collect_added_lines(engine, agent, agent.restore_agent)] == ["update"]
    imported = collect_added_lines(engine, twin, lambda: twin.import_agent(tmp_path / "agent.json"))
    assert [line.operation for line in imported] == ["create"]


def test_every_verb_of_a_run_has_its_line(store: Store) -> None:
    engine = store.open(interface="a test")
    view = engine.scope(organization="acme", user="alice", agent="bot", session="s1", project="p")
    run = view.run("Make tea")
    calls: list[tuple[str, Callable[[], object], list[str]]] = [
        ("propose", lambda: run.propose("boil"), ["create"]),
        ("complete", lambda: run.complete(error="cold"), ["update"]),
        ("retry", run.retry, ["create"]),
        ("pause", run.pause, ["update"]),
        ("complete", lambda: run.complete("hot", memories=["The kettle works"]), ["update", "create"]),
        ("fork", lambda: run.fork(0), ["create"]),
        ("steps", run.steps, ["read"]),
        ("story", run.story, ["read"]),
        ("compare", lambda: run.compare(run.id), ["read"]),
        ("known_at", lambda: run.known_at(1, "kettle"), ["search"]),
        ("finish", run.finish, ["update", "create"]),
        ("fail", lambda: view.run("Make coffee").fail("No beans"), ["create", "update"]),
        ("cancel", lambda: view.run("Make coffee").cancel(), ["create", "update"]),
    ]
    assert {verb for verb, _, _ in calls} == list_verbs(Run) - {"step"}
    for verb, call, expected in calls:
        lines = collect_added_lines(engine, view, call)
        assert [line.operation for line in lines] == expected, verb
        assert all(line.request["run"] for line in lines if line.memory_id is None), verb
        actors = {(line.organization_id, line.user_id, line.agent_id, line.session_id) for line in lines}
        assert actors == {("acme", "alice", "bot", "s1")}, verb
    [line] = collect_added_lines(engine, view, lambda: expect_conflict(run.propose))
    assert (line.operation, line.success, line.error_message) == ("create", False, "Conflict")


def expect_conflict(verb: Callable[[], object]) -> None:
    with pytest.raises(Conflict):
        verb()


def find_conflict(engine: Everhold) -> str:
    """Return the id of the only conflict, without a line in the log."""
    [link] = get_records(engine).scan(Relationship, None, [Where("relationship_type", Op.EQ, "contradicts")])
    return link.id


def find_episode(engine: Everhold) -> str:
    """Return the id of an episode, without a line in the log."""
    return get_records(engine).scan(Episode, None, limit=1)[0].id


def find_query(engine: Everhold) -> str:
    """Return the id of a question about data, without a line in the log."""
    return get_records(engine).scan(QueryRun, None, limit=1)[0].id


def find_pattern(engine: Everhold) -> str:
    """Return the id of a learned pattern, without a line in the log."""
    return get_records(engine).scan(QueryPattern, None, limit=1)[0].id


def test_every_verb_of_an_engine_has_its_line(store: Store, tmp_path: Path) -> None:
    log = {"flush_seconds": 3600, "key": "k" * 32, "heads": tmp_path / "heads"}
    engine = store.open(interface="a test", grace_days=0, log=log, maintenance={"max_memories": 1})
    acme, bundle = engine.scope(organization="acme"), tmp_path / "out.jsonl"
    called: set[str] = set()

    def check(
        operation: str,
        verb: Callable[..., object],
        *args: Any,
        expected_ids: dict[str, str] | None = None,
        **fields: str,
    ) -> None:
        arguments = {} if verb.__name__ in WITHOUT_ORGANIZATION else {"organization": "acme"}
        lines = collect_added_lines(engine, acme, lambda: verb(*args, **arguments, **fields))
        assert {(line.operation, line.success, line.interface) for line in lines} == {(operation, True, "a test")}, verb
        for line in lines:
            ids = {"user_id": line.user_id, "session_id": line.session_id, "memory_id": line.memory_id}
            assert {name: value for name, value in ids.items() if value} == (expected_ids or {}), verb
            assert line.digest == compute_digest(line.__dict__)
        called.add(verb.__name__)

    check("create", engine.create_organization, "acme")
    check("create", engine.create_user, "alice", expected_ids={"user_id": "alice"})
    check("create", engine.create_project, "p")
    alice: dict[str, Any] = {"expected_ids": {"user_id": "alice"}}
    for verb, *args in (
        (engine.get_organization, "acme"), (engine.list_organizations,), (engine.list_users,), (engine.list_projects,),
        (engine.get_project, "p"),
    ):  # fmt: skip
        check("read", verb, *args)
    check("read", engine.get_user, "alice", **alice)
    check("update", engine.update_organization, "acme", name="Acme")
    check("update", engine.update_project, "p", name="P")
    check("update", engine.update_user, "alice", email="a@x.org", **alice)
    check("update", engine.set_password, "alice", "long enough", **alice)
    check("update", engine.change_password, "alice", "long enough", "longer still", **alice)
    check("sign_in", engine.sign_in, "a@x.org", "longer still", **alice)
    engine.scope(organization="acme", session="s1").say("Hello")
    acme.remember("Old", id="old")
    check("export", engine.export, bundle)
    check("import", engine.load, bundle)
    check("accept", engine.accept_log)
    check("delete", engine.delete_session, "s1", expected_ids={"session_id": "s1"})
    check("update", engine.restore, "session", "s1", expected_ids={"session_id": "s1"})
    check("delete", engine.delete_project, "p")
    check("update", engine.restore, "project", "p")
    check("delete", engine.delete_user, "alice", expected_ids={"user_id": "alice"})
    check("update", engine.restore, "user", "alice", expected_ids={"user_id": "alice"})
    engine.create_user("bob", organization="acme")
    check("delete", engine.erase, "bob", expected_ids={"user_id": "bob"})
    check("delete", engine.delete_organization, "acme")
    engine.restore("organization", "acme", organization="acme")
    acme.forget("old")
    check("delete", engine.maintain, expected_ids={"memory_id": "old"})
    acme.remember_many([{"text": "First", "id": "m1"}, {"text": "Second", "id": "m2"}])
    check("update", engine.undo_run, engine.maintain(["prune"]).run_id, expected_ids={"memory_id": "m1"})
    assert called == list_verbs(Everhold) - set(UNLOGGED_BY_THE_ENGINE)


def test_failed_calls_have_a_line(engine: Everhold, alice: View) -> None:
    alice.remember("Here", id="m1")
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: alice.remember(""), "create"),
        (lambda: alice.remember("x", priority=11), "create"),
        (lambda: alice.remember_many(["a", {"text": "b", "nonsense": 1}]), "create"),
        (lambda: alice.get("nothing"), "read"),
        (lambda: alice.list(limit=0), "read"),
        (lambda: alice.list(where={"nonsense": 1}), "read"),
        (lambda: alice.list(cursor="nonsense"), "read"),
        (lambda: alice.history("nothing"), "read"),
        (lambda: alice.relations("nothing"), "read"),
        (lambda: alice.relations("m1", depth=99), "read"),
        (lambda: alice.recall(""), "search"),
        (lambda: alice.recall("x", where={"nonsense": 1}), "search"),
        (lambda: alice.revise("nothing", text="x"), "update"),
        (lambda: alice.revise("m1", nonsense="x"), "update"),
        (lambda: alice.supersede("nothing", "x"), "update"),
        (lambda: alice.undo("nothing"), "update"),
        (lambda: alice.tag("nothing", "x"), "update"),
        (lambda: alice.untag("nothing", "x"), "update"),
        (lambda: alice.relate("m1", "nothing"), "update"),
        (lambda: alice.forget("nothing"), "delete"),
        (alice.forget_where, "delete"),
        (lambda: alice.forget_where(where={"nonsense": 1}), "delete"),
    ]
    for call, operation in calls:
        error_names: list[str] = []

        def fail(call: Callable[[], object] = call, error_names: list[str] = error_names) -> None:
            with pytest.raises(EverholdError) as caught:
                call()
            error_names.append(type(caught.value).__name__)

        [line] = collect_added_lines(engine, alice, fail)
        assert (line.operation, line.success, line.error_message) == (operation, False, error_names[0])
        assert line.user_id == "alice"
    assert engine.verify_log().intact


def test_a_store_that_fails_is_logged_as_a_failure(
    engine: Everhold, alice: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice.remember("Here")

    def fail(*_: object) -> None:
        raise StoreFull("no room")

    def remember_without_room() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(type(get_records(engine)), "commit", fail)
            with pytest.raises(StoreFull):
                alice.remember("Not kept")

    [line] = collect_added_lines(engine, alice, remember_without_room)
    assert (line.operation, line.success, line.error_message) == ("create", False, "StoreFull")


def test_no_word_of_a_memory_or_a_question_is_in_the_log(engine: Everhold, alice: View) -> None:
    def make_text(number: int) -> str:
        return f"{CANARY} text {number}"

    memory = alice.remember(
        make_text(1), tags=[f"{CANARY}-tag"], speaker=CANARY, aliases=[CANARY], metadata={"m": CANARY}
    )
    second = alice.remember(
        content={"text": make_text(2), CANARY: CANARY}, provenance={"p": CANARY}, source_agent=CANARY
    )
    alice.revise(memory.id, text=make_text(3), reason=f"{CANARY} reason", metadata={CANARY: CANARY})
    alice.supersede(second.id, make_text(4))
    alice.recall(make_text(5), where={"text": {"contains": CANARY}}, tags=f"{CANARY}-tag", minimum=0.1)
    alice.list(where={"metadata.m": CANARY}, tags=CANARY)
    alice.relate(memory.id, second.id, CANARY, metadata={"note": CANARY})
    alice.tag(memory.id, CANARY)
    alice.undo(memory.id)
    for call in (
        lambda: alice.remember(f"{CANARY}\x00"),
        lambda: alice.remember(CANARY, **{f"{CANARY}_field": CANARY}),
        lambda: alice.recall(f"{CANARY}\x00"),
        lambda: alice.recall(CANARY, where={f"{CANARY}_field": CANARY}),
        lambda: alice.recall(CANARY, cursor=f"{CANARY} cursor"),
        lambda: alice.get(f"{CANARY} typed where a name belongs"),
        lambda: alice.list(kind=[CANARY, 5]),
        lambda: alice.revise(memory.id, text=f"{CANARY}\x00"),
        lambda: alice.forget_where(where={CANARY: CANARY}),
    ):
        with pytest.raises(EverholdError):
            call()
    alice.forget_where(where={"text": {"contains": CANARY}})
    engine.flush()
    lines = get_records(engine).scan(AccessLog, None)
    assert len(lines) > 20
    for line in lines:
        content = repr({**line.__dict__, "request": {k: v for k, v in line.request.items() if k != "relationship"}})
        assert CANARY not in content, line


def test_lines_of_reads_are_written_and_sealed_in_the_background(store: Store) -> None:
    engine = store.open(log={"flush_seconds": 0.3})
    alice = engine.scope(user="alice")
    memory = alice.remember("Seen")
    alice.recall("seen")
    other_engine = store.open()
    deadline = time.monotonic() + 150
    while time.monotonic() < deadline:
        lines = get_records(other_engine).scan(AccessLog, "default")
        if len(lines) == 2 and all(line.sealed for line in lines):
            break
        time.sleep(0.05)
    assert [line.operation for line in lines] == ["create", "search"]
    assert [line.sealed for line in lines] == [1, 2], "the sealer follows by itself"
    assert other_engine.scope(user="alice").get(memory.id).access_count == 1


def test_by_default_lines_are_written_within_a_second(sqlite_store: Store) -> None:
    assert sqlite_store.open(log={}).settings.log.flush_seconds == 1.0


def test_the_line_of_a_write_is_in_its_commit(store: Store) -> None:
    store.open().scope(user="alice").remember("Seen")
    assert [line.operation for line in get_records(store.open()).scan(AccessLog, "default")] == ["create"]


def test_strict_mode_writes_before_it_answers(store: Store) -> None:
    engine, other_engine = store.open(log={"mode": "strict"}), store.open()
    alice = engine.scope(user="alice")
    memory = alice.remember("Seen")
    alice.recall("seen")
    alice.get(memory.id)
    with pytest.raises(EverholdError):
        alice.get("nothing")
    lines = get_records(other_engine).scan(AccessLog, "default", order="sequence")
    assert [(line.operation, line.success) for line in lines] == [
        ("create", True), ("search", True), ("read", True), ("read", False),
    ]  # fmt: skip
    assert other_engine.scope(user="alice").get(memory.id).access_count == 2


def test_closing_writes_waiting_lines(store: Store) -> None:
    engine = store.open()
    alice = engine.scope(user="alice")
    alice.remember("Seen")
    for _ in range(5):
        alice.recall("seen")
    store.opened.remove(engine)
    engine.close()
    operations = [line.operation for line in get_records(store.open()).scan(AccessLog, "default", order="sequence")]
    assert operations == ["create", *["search"] * 5]


def test_a_line_about_a_purged_memory_still_names_it(engine: Everhold, alice: View) -> None:
    """The memory is purged after it was read and before the line of the read is written."""
    memory = alice.remember("Short-lived")
    alice.get(memory.id)
    session = engine.scope(user="alice", session="s1")
    session.recall("nothing there")  # no such session row
    engine.scope(organization="never-written").recall("nothing there")
    alice.forget(memory.id, hard=True)
    engine.flush()
    lines = [line for line in get_records(engine).scan(AccessLog, None, order="sequence") if line.operation != "delete"]
    assert [(line.operation, line.memory_id, line.session_id) for line in lines] == [
        ("create", memory.id, None), ("read", memory.id, None), ("search", None, "s1"),
    ]  # fmt: skip
    assert lines[1].request["memory"] == memory.id
    assert engine.verify_log().intact


def test_the_log_is_filtered_and_paged(engine: Everhold, alice: View) -> None:
    memory = alice.remember("One")
    middle = datetime.now(UTC)
    alice.get(memory.id)
    alice.recall("one")
    engine.scope(user="bob").remember("His")
    assert [line.operation for line in alice.log()] == ["search", "read", "create"]
    assert [line.operation for line in alice.log(operation="read")] == ["read"]
    assert [line.operation for line in alice.log(memory_id=memory.id)] == ["read", "create"]
    assert [line.operation for line in alice.log(after=middle)] == ["search", "read"]
    assert [line.operation for line in alice.log(before=middle)] == ["create"]
    assert [line.operation for line in alice.log(limit=1)] == ["search"]
    assert len(engine.scope().log()) == 4
    with pytest.raises(EverholdError):
        alice.log(after=datetime(2020, 1, 1))  # noqa: DTZ001


def test_lines_name_the_address_of_the_client_that_a_server_works_for(engine: Everhold) -> None:
    alice = engine.scope(user="alice")
    token = caller_address.set("203.0.113.7")
    try:
        alice.remember("Alice drinks tea")
        alice.recall("tea")
    finally:
        caller_address.reset(token)
    alice.recall("coffee")  # also writes the waiting line of the recall before; this call has no address
    lines = {(line.operation, line.ip_address) for line in alice.log()}
    assert lines == {("create", "203.0.113.7"), ("search", "203.0.113.7"), ("search", None)}
    assert engine.verify_log().intact
