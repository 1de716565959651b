"""Workspaces on the command line."""

import base64
import tarfile
from pathlib import Path

import pytest

from tests.interfaces.conftest import Run

CODER = ("--agent", "coder")


def test_a_file_is_restored_from_a_snapshot(run: Run, tmp_path: Path) -> None:
    assert "wrote notes/a.md (6 bytes)" in run("workspace", "put", "site", "notes/a.md", *CODER, typed="hello\n").out
    folder = Path(run("workspace", "open", "site", *CODER, "--json").document["folder"])
    (folder / "made.txt").write_text("by a tool")
    (folder / "link").symlink_to("/etc/passwd")
    scanned = run("workspace", "scan", "site", *CODER).out
    assert "made.txt" in scanned
    assert "refused: is a symbolic link" in scanned
    assert "nothing has changed" not in scanned
    first = run("workspace", "snapshot", "site", *CODER, "--json").document["snapshot"]["id"]
    run("workspace", "put", "site", "notes/a.md", *CODER, typed="hello\nworld\n")
    assert "+world" in run("workspace", "diff", "site", first, *CODER).out
    [changed] = run("workspace", "diff", "site", *CODER, "--json").document["differences"]
    assert (changed["path"], changed["change"], changed["size_after"]) == ("notes/a.md", "changed", 12)
    assert "wrote 1 files and removed 0" in run("workspace", "restore", "site", first, *CODER).out
    content = run("workspace", "get", "site", "notes/a.md", *CODER, "--json").document["base64"]
    assert base64.b64decode(content) == b"hello\n"
    assert "wrote out.md" in run("workspace", "get", "site", "notes/a.md", "--to", "out.md", *CODER).out
    assert (tmp_path / "out.md").read_text() == "hello\n"
    assert "notes/a.md" in run("workspace", "files", "site", *CODER).out
    assert len(run("workspace", "snapshots", "site", *CODER, "--json").document["snapshots"]) == 2
    assert "0 problems" in run("workspace", "verify", "site", *CODER).out
    assert "site" in run("workspace", "list", *CODER).out


def test_archives_are_exported_and_garbage_is_collected(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("in")
    run("workspace", "put", "site", "a.txt", "in.txt")
    assert "wrote 1 files to out.tar" in run("workspace", "export", "site", "out.tar").out
    with tarfile.open(tmp_path / "out.tar") as archive:
        assert archive.getnames() == ["a.txt"]
    assert "wrote 1 files" in run("workspace", "extract", "copy", "out.tar", "--into", "in").out
    assert "deleted 0 contents" in run("workspace", "gc", "site").out
    assert "deleted a.txt" in run("workspace", "remove", "site", "a.txt").out
    assert "workspace files" in run("workspace", "delete", "copy", "--preview").out
    assert "deleted workspace copy" in run("workspace", "delete", "copy", "--yes").out
    assert "restored workspace copy" in run("workspace", "undelete", "copy").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("put", "site", "../x"), "has the name '..'"),
        (("get", "none", "a"), "no workspace 'none' in this scope"),
        (("get", "site", "none"), "no file 'none' in the workspace"),
        (("restore", "site", "none"), "no snapshot 'none'"),
        (("extract", "site", "none.tar"), "none.tar cannot be read"),
        (("put", "site", "a", "none.txt"), "none.txt cannot be read"),
        (("put", "site", "a", "\ud800"), "lone surrogate"),
    ],
)
def test_wrong_input_is_explained(run: Run, arguments: tuple[str, ...], message: str) -> None:
    run("workspace", "open", "site")
    result = run("workspace", *arguments)
    assert result.code != 0
    assert message in result.err
