"""Keys and erasure on the command line."""

from pathlib import Path

import pytest

from tests.interfaces.conftest import Run


@pytest.fixture
def encrypted(run: Run, tmp_path: Path) -> Run:
    """Commands on a store with a master key."""
    assert run("keys", "create", "master.key").code == 0
    (tmp_path / "everhold.yaml").write_text(
        "storage: sqlite:///memory.db\nencryption:\n  master_key: file:master.key\n"
    )
    run("remember", "The PIN is 4711", "--kind", "vault", "--user", "alice", "--tag", "bank")
    return run


def test_a_master_key_is_never_replaced(run: Run, tmp_path: Path) -> None:
    document = run("keys", "create", "master.key", "--json").document
    content = (tmp_path / "master.key").read_bytes()
    assert len(document["fingerprint"]) == 16
    repeated = run("keys", "create", "master.key")
    assert (repeated.code, "name another file" in repeated.err) == (1, True)
    assert (tmp_path / "master.key").read_bytes() == content


def test_keys_are_listed_and_rotated(encrypted: Run) -> None:
    report = encrypted("keys", "list", "--json").document
    assert (report["status"], report["per_user"], report["problems"]) == ("on", True, [])
    assert {key["user"] for key in report["keys"]} == {"alice", None}
    assert "agents.system" in encrypted("keys", "list").out
    rotated = encrypted("keys", "rotate", "--json").document
    assert (rotated["replaced"], rotated["unreadable"]) == (1, 0)
    assert "4711" in encrypted("list", "--user", "alice").out
    assert "wrapped 0 keys" in encrypted("keys", "rotate", "--master-only").out
    assert report["master_fingerprint"] in encrypted("doctor").out.replace("\n", " ")


def test_without_the_key_commands_say_what_is_missing(encrypted: Run, tmp_path: Path) -> None:
    (tmp_path / "master.key").rename(tmp_path / "elsewhere.key")
    result = encrypted("list", "--user", "alice")
    assert (result.code != 0, "master.key cannot be read" in result.err) == (True, True)
    (tmp_path / "everhold.yaml").write_text("storage: sqlite:///memory.db\n")
    assert "set encryption.master_key" in encrypted("list", "--user", "alice").err
    assert encrypted("keys", "list").code == 1
    assert "no master key" in encrypted("keys", "rotate").err


def test_a_store_without_encryption_has_no_keys(run: Run) -> None:
    run("remember", "Alice drinks tea", "--user", "alice")
    assert "nothing is encrypted" in run("keys", "list").out


def test_an_export_must_say_that_it_decrypts(encrypted: Run) -> None:
    assert "--decrypt" in encrypted("export", "out.jsonl").err
    assert encrypted("export", "out.jsonl", "--decrypt").code == 0


def test_erase_asks_first_and_prints_a_proof(encrypted: Run) -> None:
    assert encrypted("erase", "alice", "--preview", "--json").document["rows"]["memories"] == 1
    declined = encrypted("erase", "alice", typed="n\n")
    assert (declined.code, "nothing was erased" in declined.out) == (1, True)
    proof = encrypted("erase", "alice", "--yes", "--json").document
    assert (proof["complete"], proof["remaining"], len(proof["digest"])) == (True, {}, 64)
    assert proof["digest"] in encrypted("log", "--operation", "delete", "--json").out
    result = encrypted("erase", "alice", "--yes")
    assert (result.code, "no user 'alice'" in result.err) == (1, True)


def test_erase_shows_the_proof(encrypted: Run) -> None:
    erased = encrypted("erase", "alice", typed="y\n")
    assert erased.code == 0
    for word in ("memories", "session cache", "proof era_", "SHA-256"):
        assert word in erased.out
