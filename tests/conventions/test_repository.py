"""The house rules about the repository: imports, glossary, types, and addresses that must not be named."""

import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import everhold.model
from everhold.adapters.postgres.privileges import PRIVILEGES
from everhold.model.base import Row
from everhold.schema.catalog import TABLES
from tests.conventions.source_tree import PACKAGE, REPOSITORY, assert_none, list_repository_files
from tests.exhaustive import LEFT_OUT_FILES

# The names are written in parts, because this file must not contain them either.
REGISTRY_HOSTS = [
    "pypi" + ".org",
    "python" + "hosted.org",
    "npm" + "js.org",
    "npm" + "js.com",
    "deb." + "debian.org",
]
REGISTRY = re.compile(
    "|".join(map(re.escape, REGISTRY_HOSTS))
    + r"|(index-url|index_url|find-links|trusted-host)[\s=:\"']+(https?:|file:|/)"
    + r"|https?://\S+/simple\b"
)

SHORTENS = re.compile(r"^from tests\.exhaustive import .*\bchoose_size\b", re.MULTILINE)


def test_make_contract_runs_every_file_that_make_test_shortens(request: pytest.FixtureRequest) -> None:
    """`make contract` runs each file of which `make test` leaves out tests. Only files collected here are checked."""
    missing_file = REPOSITORY / "tests/unit/test_new.py"
    listed = subprocess.run(["make", "--silent", "list-contract"], cwd=REPOSITORY, capture_output=True, check=True)
    contract_paths = [REPOSITORY / name for name in listed.stdout.decode().split()]
    assert all(path.exists() for path in contract_paths)
    sources = {path: path.read_text() for path in (REPOSITORY / "tests").rglob("test_*.py")}
    shortened = {path for path, source in sources.items() if SHORTENS.search(source)}
    left_out = shortened | request.config.stash[LEFT_OUT_FILES]
    assert find_missing(left_out, contract_paths) == []
    assert find_missing({*left_out, missing_file}, contract_paths) == [missing_file]


def find_missing(files: Iterable[Path], paths: list[Path]) -> list[Path]:
    """Return the files that are neither among the paths nor in a folder among them."""
    return sorted(file for file in files if not any(file.is_relative_to(path) for path in paths))


def test_import_rules_hold() -> None:
    lint_imports = Path(sys.executable).with_name("lint-imports")
    completed = subprocess.run(
        [lint_imports, "--no-cache"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr


def test_types_are_published() -> None:
    assert (PACKAGE / "py.typed").is_file()


def test_the_rights_on_every_table_are_decided() -> None:
    assert PRIVILEGES.keys() == TABLES.keys()
    assert [name for name, rights in PRIVILEGES.items() if rights == ("SELECT",)] == ["schema_versions"]


def test_every_entity_is_in_the_glossary() -> None:
    glossary = (REPOSITORY / "GLOSSARY.md").read_text(encoding="utf-8")
    names = sorted(entity.__name__ for entity in list_entities())
    assert len(names) > 20
    assert_none(find_missing_words(glossary, names), "entities that GLOSSARY.md does not explain:")


def list_entities() -> set[type[Row]]:
    """Return the classes that have a table: all descendants of `Row` except base classes."""
    modules = {module.name for module in pkgutil.iter_modules(everhold.model.__path__, "everhold.model.")}
    for module in modules:
        importlib.import_module(module)
    return {kind for kind in iterate_descendants(Row) if kind.__module__ in modules - {Row.__module__}}


def iterate_descendants(kind: type[Row]) -> Iterator[type[Row]]:
    for child in kind.__subclasses__():
        yield child
        yield from iterate_descendants(child)


def find_missing_words(text: str, words: Iterable[str]) -> Iterator[str]:
    return (word for word in words if not re.search(rf"\b{word}\b", text))


def test_a_missing_word_is_found() -> None:
    assert list(find_missing_words("**Memory**: what was told. Blocks", ["Memory", "Block"])) == ["Block"]


def test_no_registry_is_named() -> None:
    assert_none(
        find_registry_names(list_repository_files()), "package registries and index addresses are the user's to set:"
    )


def find_registry_names(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="ignore").splitlines(), start=1):
            if match := REGISTRY.search(line):
                yield f"{path}:{number} {match[0]}"


def test_a_named_registry_is_found(tmp_path: Path) -> None:
    lines = ["https://" + REGISTRY_HOSTS[0] + "/project/x", "--index" + "-url https://x.y", "the index"]
    page = tmp_path / "page.txt"
    page.write_text("\n".join(lines))
    assert [offender.partition(" ")[0] for offender in find_registry_names([page])] == [f"{page}:1", f"{page}:2"]


def test_the_package_states_its_licence_and_a_readme_without_broken_links() -> None:
    metadata = ProjectMetadata(str(REPOSITORY), PluginManager()).core
    assert metadata.license_expression == "Apache-2.0"
    assert metadata.license_files == ["LICENSE"]
    links = re.findall(r"\]\(([^)]+)\)", metadata.readme)
    assert [link for link in links if not link.startswith(("https:", "#"))] == []
    assert "docs/postgresql.md" in metadata.readme
