"""Read the files of the repository and their syntax trees, for the house rules."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "src" / "everhold"
HIDDEN_BUT_OURS = {".ci", ".github", ".gitignore", ".editorconfig"}
GENERATED = {"__pycache__", "build", "dist"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A Python file; `name` is its path in the package, such as `adapters/sqlite/records.py`."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=self.name)

    @cached_property
    def _nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))  # many rules read the nodes, and walking takes longer than parsing

    def list_nodes(self) -> Iterator[ast.AST]:
        return iter(self._nodes)

    def list_functions(self) -> Iterator[Function]:
        return (node for node in self.list_nodes() if isinstance(node, Function))

    def locate(self, node: ast.AST) -> str:
        return f"{self.name}:{getattr(node, 'lineno', 1)}"


@cache
def load_package_modules() -> list[Module]:
    """Return every module of the package; all rules share one list, so that each file is parsed once."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return [Module(path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")) for path in paths]


def list_repository_files(folder: Path = REPOSITORY) -> Iterator[Path]:
    """Yield every file of the repository that is neither generated nor installed."""
    for path in sorted(folder.iterdir()):
        is_ours = path.name in HIDDEN_BUT_OURS or not path.name.startswith(".")
        if not is_ours or path.name in GENERATED or path.name.endswith(".egg-info"):
            continue
        if path.is_dir():
            yield from list_repository_files(path)
        else:
            yield path


def get_dotted_name(node: ast.AST | None) -> str:
    """Return the name that an expression spells, such as `datetime.now`; empty if it is not a name."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{get_dotted_name(value)}.{name}"
        case _:
            return ""


def assert_none(offenders: Iterable[str], rule: str) -> None:
    """Fail with the rule and all places that break it, if there are any."""
    places = list(offenders)
    assert not places, f"{rule}\n  " + "\n  ".join(places)
