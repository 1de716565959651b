"""Imports from other systems on the command line: a plan, a result, rows to correct, and wrong input."""

import json
from pathlib import Path

import pytest

from tests import import_samples as samples
from tests.interfaces.conftest import Run


def test_a_dry_run_shows_the_plan_of_an_import(run: Run, tmp_path: Path) -> None:
    samples.orchestrator(tmp_path)
    planned = run("import", "orchestrator.db", "--dry-run")
    assert planned.code == 0
    assert "memory_relationships   relationship" in planned.out
    assert "left out: 1 of memory_access_logs" in planned.out
    assert "times without a zone would be read as times in UTC; --timezone names another" in planned.out
    assert "would import orchestrator.db (orchestrator): 6 rows" in planned.out
    document = run("import", "orchestrator.db", "--json").document
    assert (document["source"], document["added"], document["quarantined"]) == ("orchestrator", 6, 0)
    assert document["assumed_zone"] == "UTC"
    assert "0 added, 6 already there" in run("import", "orchestrator.db").out
    assert "Hugo keeps bees" in run("recall", "who keeps bees?", "--user", "hugo").out


def test_rows_are_quarantined_and_corrected(run: Run, tmp_path: Path) -> None:
    (tmp_path / "j.json").write_text(json.dumps({"default": [{"timestamp": "soon", "memory": "The gate is green"}]}))
    result = run("import", "j.json")
    assert "not imported: 'default' [0]: 'soon' is not a time" in result.out
    quarantine = tmp_path / "j.json.quarantine.jsonl"
    quarantine.write_text(quarantine.read_text().replace("soon", "2024-03-01 18:00"))
    result = run(
        "import", quarantine.name, "--rename-user", "default=alice", "--user", "alice", "--timezone", "Asia/Tokyo"
    )
    assert "1 added" in result.out
    [memory] = run("list", "--user", "alice", "--json").document["memories"]
    assert (memory["text"], memory["occurred_at"][:16]) == ("The gate is green", "2024-03-01T09:00")
    assert run("import", "j.json", "--quarantine", quarantine.name).code != 0
    assert run("import", "j.json").code == 0
    assert (tmp_path / "j.json.quarantine-2.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("j.json", "--from", "jarvs"), "no source 'jarvs'; did you mean 'jarvis'?"),
        (("j.json", "--from", "slack"), "j.json holds nothing that slack writes; import it without naming a source"),
        (("session_memory.db", "--from", "langgraph"), "session_memory.db is not LangGraph's SqliteStore"),
        (("j.json", "--timezone", "Mars"), "no time zone 'Mars'"),
        (("j.json", "--date-order", "dym"), "no order of dates 'dym'; use one of dmy, mdy, ymd"),
        (("j.json", "--rename-user", "x"), "write OLD=NEW"),
        (("folder",), "folder is not the export of a known system"),
        (("notes.md", "--dry-run"), "is for data of other systems, and the file is a list or a text"),
    ],
)
def test_wrong_input_is_refused(run: Run, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    samples.session_memory(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.md").write_text("The office opens at eight.")
    (tmp_path / "j.json").write_text(json.dumps({"eve": [{"timestamp": 1, "memory": "x"}]}))
    result = run("import", *arguments)
    assert result.code == 2
    assert words in result.err
