"""The commands that back up, restore and verify."""

from pathlib import Path

from tests.interfaces.conftest import Run


def test_a_store_is_backed_up_verified_and_restored(run: Run) -> None:
    run("remember", "Alice drinks tea", "--user", "alice")
    first = run("backup", "copies", "--json").document
    assert first["is_full"]
    run("remember", "Alice plays chess", "--user", "alice")
    assert "changed" in run("backup", "copies", "--keep-last", "5").out
    listed = run("backups", "copies", "--json").document["backups"]
    assert len(listed) == 2
    assert listed[0]["id"] == first["id"]
    assert "every checksum is right" in run("verify", "copies").out
    restored = run("restore", "copies", "--store", "again.db")
    assert (restored.code, "memories" in restored.out) == (0, True)
    assert "chess" in run("list", "--user", "alice", "--store", "again.db").out
    older = run("restore", "copies", first["id"], "--store", "older.db", "--json").document
    assert older["rows"]["memories"] == 1


def test_wrong_input_is_explained(run: Run, tmp_path: Path) -> None:
    run("remember", "Alice drinks tea", "--user", "alice")
    (tmp_path / "file").write_text("x")
    assert "is a file" in run("backup", "file").err
    assert "no backups at" in run("verify", "nothing").err
    assert "keep_last is 0" in run("backup", "copies", "--keep-last", "0").err
    assert "target is empty" in run("backup", "").err
    assert "would be lost" in run("backup", "memory://copies").err
    backup = run("backup", "copies", "--json").document
    used = run("restore", "copies")
    assert (used.code, "--add" in used.err) == (1, True)
    assert "no backup 'bak_none'" in run("restore", "copies", "bak_none", "--store", "other.db").err
    assert "both a backup and a time" in run("restore", "copies", backup["id"], "--as-of", "2026-01-01").err
    manifest = tmp_path / "copies" / "backups" / f"{backup['id']}.backup"
    manifest.write_bytes(manifest.read_bytes()[:-1])
    checked = run("verify", "copies", "--json")
    assert (checked.code, checked.document["intact"]) == (1, False)
    listed = run("backups", "copies")
    assert (listed.code, backup["id"] in listed.out, "problem:" in listed.out) == (1, True, True)
    assert "damaged" in run("restore", "copies", "--store", "other.db").err
    assert "memory" in run("backup", "copies", "--store", "memory://").err
