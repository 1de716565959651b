"""The old SQL of other memory systems reads data that was written with Everhold's verbs, through SQL views."""

import sqlite3
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest

from everhold.testing.fake_embedder import FakeEmbedder
from tests.engines import make_store
from tests.flows.legacy_data import EXPECTED, LONG, write_everything
from tests.flows.legacy_database import SQL_STORES, Report

# All tests of views run in one process, because they share stores that take a second to fill.
pytestmark = pytest.mark.xdist_group("sql views")

VIEWS = [(preset, view) for preset, views in EXPECTED.items() for view in views]


@pytest.fixture(scope="module", params=SQL_STORES)
def reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Report]]:
    """A store with a row of every kind and all views, with a report's connection for each preset."""
    folder = tmp_path_factory.mktemp("views")
    store = make_store(request.param, request, folder)
    engine = store.open(data=folder / "data")
    write_everything(engine, folder)
    for preset in EXPECTED:
        engine.install_views(preset)
    scripts = {preset: engine.write_view_script(preset) for preset in EXPECTED}
    engine.close()
    yield {preset: Report(store, script) for preset, script in scripts.items()}
    reopened = store.open(data=folder / "data")
    for preset in EXPECTED:
        reopened.remove_views(preset)
    store.close()


@pytest.mark.parametrize(("preset", "view"), VIEWS, ids=[f"{preset}-{view}" for preset, view in VIEWS])
def test_every_column_of_every_view_has_its_value(reports: dict[str, Report], preset: str, view: str) -> None:
    rows = reports[preset].read(preset, view)
    expected = EXPECTED[preset][view]
    assert all(list(row) == list(expected) for row in rows)
    differences = [{name: row[name] for name in expected if expected[name] != row[name]} for row in rows]
    assert {} in differences, min(differences, key=len, default="no rows")


# Queries of the legacy systems, by preset: those that their documents have, and those that their indexes are for. Each
# comes with its values and with the first column of the rows that it must return.
QUERIES: list[tuple[str, str, list[Any], list[Any]]] = [
    ("julep", "SELECT * FROM memory_facts WHERE id IN (?, ?)", ["m1", "missing"], ["m1"]),
    ("julep", "SELECT id FROM memory_facts WHERE fact_type = 'user_fact'", [], ["m2"]),
    (
        "julep",
        (
            "SELECT m.id FROM messages m JOIN conversations c ON m.conversation_id = c.id WHERE c.session_id = ?"
            " ORDER BY m.timestamp"
        ),
        ["s1"],
        ["msg1", "msg2"],
    ),
    ("julep", "SELECT count(*) FROM messages GROUP BY role ORDER BY role", [], [1, 1]),
    (
        "agentmem",
        "SELECT id FROM messages WHERE agent_id = ? AND is_deleted = FALSE ORDER BY created_at DESC LIMIT 10",
        ["bot"],
        ["msg2", "msg1"],
    ),
    (
        "agentmem",
        (
            "SELECT b.value FROM blocks b JOIN blocks_agents a ON a.block_id = b.id AND a.block_label = b.label"
            " WHERE a.agent_id = ? AND b.label = 'human'"
        ),
        ["bot"],
        ["Alice is an engineer"],
    ),
    ("agentmem", "SELECT id FROM agents WHERE organization_id = ? AND is_deleted = FALSE", ["default"], ["bot"]),
    ("agentmem", "SELECT id FROM memories WHERE agent_id = ? AND memory_type = 'fact'", ["bot"], ["m2"]),
    ("agentmem", "SELECT count(*) FROM memories GROUP BY organization_id ORDER BY 1", [], [1, 4]),
    (
        "memory_orchestrator",
        (
            "SELECT e.memory_id FROM memory_entries e JOIN sessions s ON s.session_id = e.session_id"
            " JOIN memory_tags g ON g.memory_id = e.memory_id"
            " WHERE g.tag = 'tea' AND e.is_active = TRUE AND e.priority >= 8 AND s.session_type = 'task'"
        ),
        [],
        ["m1"],
    ),
    (
        "memory_orchestrator",
        "SELECT memory_id FROM memory_entries WHERE memory_type = 'conversation' ORDER BY created_at",
        [],
        ["msg1", "msg2"],
    ),
    (
        "memory_orchestrator",
        (
            "SELECT memory_id FROM memory_entries WHERE created_at >= '2024-05-06' AND created_at < '2024-05-07'"
            " AND memory_type = 'user_preference'"
        ),
        [],
        ["m1"],
    ),
    (
        "memory_orchestrator",
        (
            "SELECT e.memory_id FROM memory_entries e JOIN vector_embeddings v ON v.memory_id = e.memory_id"
            " WHERE e.source_agent = 'bot' AND e.memory_type <> 'conversation' ORDER BY 1"
        ),
        [],
        ["m1"],
    ),
    ("memory_orchestrator", "SELECT user_id FROM user_profiles WHERE is_active = TRUE", [], ["alice"]),
    (
        "memory_orchestrator",
        (
            "SELECT t.text_content FROM memory_relationships r"
            " JOIN memory_entries t ON t.memory_id = r.target_memory_id"
            " WHERE r.source_memory_id = ? AND r.relationship_type = 'follow_up'"
        ),
        ["m1"],
        ["Alice lives in Rome"],
    ),
    (
        "memory_orchestrator",
        "SELECT DISTINCT operation FROM memory_access_logs WHERE memory_id = ? AND success = TRUE ORDER BY 1",
        ["m1"],
        ["create", "update"],
    ),
    (
        "agent_lifecycle",
        (
            'SELECT r."summary" FROM "AgentCycle" c JOIN "ActionResult" r ON r."cycleId" = c."id"'
            ' WHERE c."agentId" = ? ORDER BY c."cycleIndex" LIMIT 1'
        ),
        ["bot"],
        ["Water is hot"],
    ),
    (
        "agent_lifecycle",
        (
            'SELECT r."content" FROM "MemoryIndex" i JOIN "MemoryRecord" r ON r."id" = i."memoryId"'
            """ WHERE i."namespace" = 'long-term' AND r."cycleId" IS NOT NULL"""
        ),
        [],
        ["The water is hot"],
    ),
    (
        "agent_lifecycle",
        'SELECT f."path" FROM "Workspace" w JOIN "WorkspaceFile" f ON f."workspaceId" = w."id" WHERE w."agentId" = ?',
        ["bot"],
        ["notes.md"],
    ),
    (
        "agentic_memory",
        (
            'SELECT u.email FROM "user" u JOIN project p ON p.user_id = u.id JOIN chat_session s ON s.project_id = p.id'
            " JOIN conversation c ON c.session_id = s.id WHERE c.role = 'user'"
        ),
        [],
        ["alice@x.org"],
    ),
    (
        "agentic_memory",
        "SELECT e.task FROM conversation c JOIN agent_execution e ON e.conversation_id = c.id",
        [],
        ["Make tea"],
    ),
    (
        "agentic_memory",
        (
            "SELECT f.field_name FROM source s JOIN metadata m ON m.source_id = s.id"
            " JOIN field_metadata f ON f.metadata_id = m.id JOIN source_metadata v ON v.metadata_id = m.id"
            " WHERE s.name = 'orders.csv' ORDER BY 1"
        ),
        [],
        ["item", "order_id"],
    ),
    ("agentic_memory", "SELECT count(*) FROM episode WHERE session_id = ? AND level = 1", ["s1"], [2]),
]


@pytest.mark.parametrize(("preset", "sql", "values", "expected"), QUERIES)
def test_queries_of_the_legacy_systems_run_unchanged(
    reports: dict[str, Report], preset: str, sql: str, values: list[Any], expected: list[Any]
) -> None:
    rows = reports[preset].query(sql, *values)
    assert [next(iter(row.values())) for row in rows] == expected


POSTGRES_QUERIES = [
    """SELECT memory_id FROM memory_entries
    WHERE to_tsvector('english', text_content) @@ plainto_tsquery('english', 'drinking tea')
    AND memory_type <> 'conversation'""",
    """SELECT memory_id FROM memory_entries WHERE content @> '{"cup": "blue"}' AND content->>'text' = text_content""",
    """SELECT v.memory_id FROM vector_embeddings v
    ORDER BY v.embedding <=> (SELECT embedding FROM vector_embeddings WHERE memory_id = 'm1') LIMIT 1""",
    """SELECT 'm1' FROM user_profiles WHERE preferences @> '{"theme": "dark"}'""",
    "SELECT memory_id FROM memory_entries WHERE expires_at > now() AT TIME ZONE 'UTC'",
]


@pytest.mark.parametrize("reports", ["postgres"], indirect=True)
@pytest.mark.parametrize("sql", POSTGRES_QUERIES)
def test_full_text_json_and_vectors_work_on_postgresql(reports: dict[str, Report], sql: str) -> None:
    assert [tuple(row.values()) for row in reports["memory_orchestrator"].query(sql)] == [("m1",)]


def test_vectors_are_those_that_were_stored(reports: dict[str, Report]) -> None:
    [row] = [row for row in reports["memory_orchestrator"].read("memory_orchestrator", "vector_embeddings")
             if row["memory_id"] == "m1"]  # fmt: skip
    [vector] = FakeEmbedder().embed([LONG])
    assert np.allclose(row["embedding"], vector, atol=1e-3)


def test_views_refuse_to_be_written(reports: dict[str, Report]) -> None:
    for preset, view, column in (("julep", "messages", "content"), ("agentmem", "users", "name")):
        with pytest.raises((sqlite3.OperationalError, duckdb.Error, psycopg.Error), match=r"view|base table"):
            reports[preset].query(f"UPDATE {view} SET {column} = 'x'")


def test_absent_columns_have_their_type(reports: dict[str, Report]) -> None:
    [row] = reports["agentic_memory"].query('SELECT coalesce(password, ?) AS password FROM "user"', "none")
    assert row == {"password": "none"}
