"""Every example in the README and docs/ runs: Python blocks, in one namespace per page, and `everhold` commands.

A block that cannot run here, because it needs an account or a server, is marked ```` ```python no-run ````. Examples
share one loaded model, and commands without pipes run in this process, because a new process for each would be slow.
"""

import contextlib
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from everhold import embedders, settings
from everhold.embedders import EmbeddingParts
from everhold.interfaces.cli import main
from everhold.settings import Settings
from everhold.settings_sections import DEFAULT_MODEL
from tests.conventions.source_tree import REPOSITORY

FENCE = re.compile(r"^ *```(?P<language>\w+) *(?P<note>[^\n]*)\n(?P<body>.*?)^ *```", re.MULTILINE | re.DOTALL)
SHELL_LANGUAGES = {"bash", "console", "sh", "shell"}
COMMAND_SECONDS = 600
QUOTED = re.compile("\"[^\"$`]*\"|'[^']*'")
SHELL_SYNTAX = re.compile(r"[|<>$&;`*?~]")


@dataclass(frozen=True)
class Block:
    language: str
    body: str
    line: int


def list_blocks(text: str) -> Iterator[Block]:
    for match in FENCE.finditer(text):
        if "no-run" not in match["note"].split():
            line = text.count("\n", 0, match.start("body"))
            yield Block(match["language"], textwrap.dedent(match["body"]), line)


def list_commands(block: Block) -> Iterator[str]:
    """Yield the `everhold` commands of a block: lines after a prompt, and in blocks without output also other lines."""
    for line in block.body.replace("\\\n", " ").splitlines():
        if line.startswith("$ everhold"):
            yield line.removeprefix("$ ")
        elif block.language != "console" and line.startswith("everhold "):
            yield line


def run_page(name: str, text: str, folder: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in list_blocks(text):
        if block.language == "python":
            source = "\n" * block.line + block.body  # so that an error names the line of the page
            exec(compile(source, name, "exec"), namespace)
        elif block.language in SHELL_LANGUAGES:
            for command in list_commands(block):
                run_command(command, f"{name}:{block.line}", folder)


def run_command(command: str, location: str, folder: Path) -> None:
    needs_shell = SHELL_SYNTAX.search(QUOTED.sub("", command))
    code, output = run_in_shell(command, folder) if needs_shell else run_here(command)
    assert code == 0, f"{location} {command}\nexited {code}\n{output}"


def run_here(command: str) -> tuple[int, str]:
    output = io.StringIO()
    with (
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        code = main(shlex.split(command)[1:])
    return code, output.getvalue()


def run_in_shell(command: str, folder: Path) -> tuple[int, str]:
    programs = Path(sys.executable).parent
    completed = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    return completed.returncode, completed.stdout + completed.stderr


@pytest.fixture(scope="session")
def model() -> EmbeddingParts:
    return embedders.make_embedder(settings.load())


PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: EmbeddingParts) -> Path:
    """Work in an empty folder, with the default settings and the shared model."""
    make_embedder = embedders.make_embedder

    def share_model(chosen: Settings) -> EmbeddingParts:
        is_default = chosen.embedding.url is None and chosen.embedding.model == DEFAULT_MODEL
        return model if is_default else make_embedder(chosen)

    monkeypatch.setattr(embedders, "make_embedder", share_model)
    for name in [name for name in os.environ if name.startswith("EVERHOLD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_examples_run(page: Path, empty_folder: Path) -> None:
    run_page(str(page), page.read_text(encoding="utf-8"), empty_folder)


def test_the_chat_remembers_across_sessions(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["chat_with_memory.py", "--demo"])
    runpy.run_path(str(REPOSITORY / "examples" / "chat_with_memory.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    answers = {line: lines[number + 1] for number, line in enumerate(lines) if line.startswith("you:")}
    assert "Lisbon" in answers["you:       Where do I live?"]
    assert "repairs violins" in answers["you:       What does Rosa do?"]
    assert "Porto" in answers["you:       Where do I live now?"]
    assert "summary of monday:" in lines


def test_the_voice_assistant_talks_to_a_gateway(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["voice_assistant.py", "--demo"])
    runpy.run_path(str(REPOSITORY / "examples" / "voice_assistant.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert "assistant: You told me: My kettle is in the garage." in lines
    assert "assistant: You told me: I fly to Oslo on Friday." in lines
    assert any(line.startswith("8 turns are stored") for line in lines)
    assert "8 events told of messages" in lines


def test_the_readme_shows_python_and_the_command_line() -> None:
    blocks = list(list_blocks(PAGES[0].read_text(encoding="utf-8")))
    assert any(block.language == "python" for block in blocks)
    assert any(command for block in blocks if block.language in SHELL_LANGUAGES for command in list_commands(block))


PAGE = """
```python
x = 1
```
text
```python no-run
x = 2
```
```python
assert x == {expected}
```
"""


def test_blocks_of_a_page_share_one_namespace(tmp_path: Path) -> None:
    run_page("page.md", PAGE.format(expected=1), tmp_path)


def test_an_example_that_fails_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as failure:
        run_page("page.md", PAGE.format(expected=2), tmp_path)
    assert failure.traceback[-1].lineno == 9


def test_a_command_that_fails_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no-such-verb"):
        run_page("page.md", "```console\n$ everhold no-such-verb\nits output\n```\n", tmp_path)


def test_commands_and_output_are_distinguished() -> None:
    (block,) = list_blocks("```console\n$ make run\n$ everhold log \\\n    --json\neverhold 0.1\n```\n")
    assert [command.split() for command in list_commands(block)] == [["everhold", "log", "--json"]]
