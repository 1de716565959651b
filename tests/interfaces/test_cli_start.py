"""A command imports only the modules that it needs, so that it starts quickly."""

import subprocess
import sys
from pathlib import Path

from tests.interfaces.conftest import Run

RECALL = """
import sys
from everhold.interfaces.cli import main
assert main(["recall", "what is red?", "--user", "alice", "--minimum", "0"]) == 0
print(*sys.modules, file=sys.stderr)
"""


def test_recall_imports_only_the_verbs_that_search(run: Run, tmp_path: Path) -> None:
    run("remember", "The kettle is red", "--user", "alice")
    process = subprocess.run([sys.executable, "-c", RECALL], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "The kettle is red" in process.stdout
    imported = set(process.stderr.split())
    assert {"everhold.views.recall", "everhold.recall.pipeline"} <= imported
    entities = ("change_feed", "history", "session", "tenancy")
    for unneeded in (
        "everhold.engine",
        "everhold.views.view",
        "everhold.views.memories",
        "everhold.maintenance.reembed",
        "everhold.schema.snapshots",
        *(f"everhold.model.{name}" for name in entities),
        "rich",
    ):
        assert unneeded not in imported
