"""The files, the names in files and the pages that documents mention exist."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from everhold.maintenance_jobs import JOBS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FILE = re.compile(r"`((?:[\w-]+/)*[\w-]+\.(?:py|json))`")
NAME_IN_FILE = re.compile(r"`(\w+)` (?:in|\() ?`((?:[\w-]+/)*\w+\.py)`")
# In the code of a guide, which is indented by seven spaces or more.
IMPORT = re.compile(r"^ {7,}from ((?:everhold|tests)[\w.]*) import (.+)$", re.MULTILINE)
PRIVATE = re.compile(r"^ {7,}.*?(?<![\w.\"])(_[a-z]\w+)", re.MULTILINE)
METHOD = re.compile(r"^ {7,}def (\w+)\(self", re.MULTILINE)
DEFINED = re.compile(r"^ {7,}(?:def|class) (\w+)(?!\w*\(self)", re.MULTILINE)
NEW_FILE = re.compile(r"new file [\w/]*?(\w+)\.py")
LINK = re.compile(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)")


def find_files(path: str, root: Path = ROOT) -> list[Path]:
    """Return the files that a path on a page may mean.

    A path is relative to the repository or to the package. If there is no such file, it may be a part of a longer path.
    """
    exact = [folder / path for folder in (root, root / "src/everhold") if (folder / path).is_file()]
    if exact:
        return exact
    partial = [file for folder in ("src", "tests", "benchmarks") for file in (root / folder).rglob(f"*/{path}")]
    return [file for file in partial if file.is_file()]


def find_mistakes(text: str, page: Path) -> Iterator[str]:
    for path in FILE.findall(text):
        if not find_files(path):
            yield f"no file {path}"
    for name, path in NAME_IN_FILE.findall(text):
        if not any(re.search(rf"\b{name}\b", file.read_text()) for file in find_files(path)):
            yield f"no {name} in {path}"
    for link in LINK.findall(text):
        if not (page.parent / link).is_file():
            yield f"no page {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_names_on_a_page_exist(page: Path) -> None:
    assert list(find_mistakes(page.read_text(), page)) == []


def test_missing_files_and_names_are_reported() -> None:
    text = "See `recall/nothing.py`, `gone_for_good` in `clock.py`, [there](nowhere.md) and `now` in `clock.py`."
    assert list(find_mistakes(text, ROOT / "docs/recall.md")) == [
        "no file recall/nothing.py",
        "no gone_for_good in clock.py",
        "no page nowhere.md",
    ]


def can_import(module: str, name: str) -> bool:
    """Return whether a module has a name or a submodule of that name."""
    if getattr(import_module(module), name, None) is not None:
        return True
    try:
        import_module(f"{module}.{name}")
    except ImportError:
        return False
    return True


def find_unknown_names(guide: str) -> Iterator[str]:
    """Yield names that the code of a guide imports, calls or overrides, and that neither it nor the repository has."""
    defined = {*DEFINED.findall(guide), *NEW_FILE.findall(guide)}
    for module, names in IMPORT.findall(guide):
        for name in set(names.split(", ")) - defined:
            if not can_import(module, name):
                yield f"no {name} in {module}"
    files = [file for folder in ("src", "tests") for file in (ROOT / folder).rglob("*.py")]
    files.remove(Path(__file__))  # it has names that do not exist
    repository_words = {word for file in files for word in re.findall(r"\w+", file.read_text())}
    yield from (f"no {name}" for name in {*PRIVATE.findall(guide), *METHOD.findall(guide)} - repository_words - defined)


def test_names_in_the_guides_exist() -> None:
    assert list(find_unknown_names((ROOT / "CONTRIBUTING.md").read_text())) == []


def test_unknown_names_in_a_guide_are_reported() -> None:
    guide = """
       from everhold.clock import now, yesterday
       from everhold.model import Reminder

       class Reminder(Entity):
           def overridden_by_nobody(self) -> None: ...

       _declare_nothing("reminders")
    """
    assert sorted(find_unknown_names(guide)) == [
        "no _declare_nothing",
        "no overridden_by_nobody",
        "no yesterday in everhold.clock",
    ]


def test_the_page_about_maintenance_lists_every_job_in_order() -> None:
    rows = [
        f"| `{job.name}` | {job.description} | {f'`{job.lease}`' if job.lease else '–'} "
        f"| {job.time_limit.total_seconds() / 60:.0f} minutes |"
        for job in JOBS
    ]
    page = (ROOT / "docs/maintenance.md").read_text()
    assert [line for line in page.splitlines() if line.endswith("minutes |")] == rows
