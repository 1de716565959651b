"""Whatever a public verb takes or returns can be imported from `everhold`."""

import ast
import dataclasses
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, get_args, get_type_hints

import pytest
from pydantic import BaseModel

import everhold
from everhold import AsyncEverhold, AsyncView, Everhold, Settings, View, errors, model


def list_verbs(kind: type) -> Iterator[Any]:
    for name, member in inspect.getmembers(kind):
        if not name.startswith("_"):
            verb = member.fget if isinstance(member, property) else member
            verb = inspect.unwrap(verb) if callable(verb) else None
            if isinstance(getattr(verb, "__func__", verb), FunctionType):
                yield verb


def list_types(annotation: Any) -> Iterator[type]:
    """Yield the classes of ours that an annotation names, at any depth."""
    for part in get_args(annotation):
        yield from list_types(part)
    if isinstance(annotation, type) and annotation.__module__.startswith("everhold."):
        yield annotation


def list_public_types() -> set[type]:
    """Return the types of every verb, and of the fields of what verbs return."""
    public_types: set[type] = set()
    pending = [part_type for kind in (Everhold, View, AsyncEverhold, AsyncView) for verb in list_verbs(kind)
               for hint in get_type_hints(verb).values() for part_type in list_types(hint)]  # fmt: skip
    while pending:
        kind = pending.pop()
        if kind not in public_types:
            public_types.add(kind)
            pending += [part_type for hint in list_fields(kind) for part_type in list_types(hint)]
    return public_types


def list_fields(kind: type) -> list[Any]:
    """Return the annotations of the fields that a value shows; the sections of `Settings` are read, not passed."""
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        fields = [field for field in dataclasses.fields(kind) if field.repr and not field.name.startswith("_")]
        return [hints[field.name] for field in fields]
    if issubclass(kind, BaseModel) and kind is not Settings:
        return [field.annotation for field in kind.model_fields.values()]
    return []


def test_the_types_of_public_verbs_are_exported() -> None:
    types = list_public_types()
    assert len(types) > 20
    assert {kind.__name__ for kind in types if getattr(everhold, kind.__name__, None) is not kind} == set()


def test_every_error_is_exported() -> None:
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.EverholdError):
            assert getattr(everhold, name) is kind
            assert name in everhold.__all__


@pytest.mark.parametrize("name", everhold.__all__)
def test_every_exported_name_exists(name: str) -> None:
    assert getattr(everhold, name) is not None


@pytest.mark.parametrize("package", [everhold, model], ids=lambda package: package.__name__)
def test_type_checkers_see_what_is_exported(package: Any) -> None:
    stub = ast.parse(Path(package.__file__).with_suffix(".pyi").read_text("utf-8"))
    imports = [statement for statement in stub.body if isinstance(statement, ast.ImportFrom)]
    assert {alias.name: imported.module for imported in imports for alias in imported.names} == {
        name: f"{package.__name__}.{module}" for module, names in package._EXPORTS.items() for name in names
    }
    [published] = [
        ast.literal_eval(statement.value)
        for statement in stub.body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__"
    ]
    assert published == package.__all__


def list_imported_modules(statement: str) -> list[str]:
    """Return the modules that a new process has imported after a statement."""
    code = f"{statement}; import sys; print(*sys.modules)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_importing_the_package_imports_only_the_lazy_loader() -> None:
    imported = [name for name in list_imported_modules("import everhold") if name.startswith(("everhold.", "numpy"))]
    assert sorted(imported) == [
        "everhold.error_values",
        "everhold.errors",
        "everhold.interrupts",
        "everhold.lazy_exports",
    ]


def test_importing_the_engine_does_not_import_entities_that_it_does_not_use() -> None:
    unused = {f"everhold.model.{name}" for name in ("dataset", "episode", "execution", "workspace")}
    assert unused.isdisjoint(list_imported_modules("from everhold import Everhold"))
