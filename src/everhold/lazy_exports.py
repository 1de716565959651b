"""Packages whose exported names are imported when they are first used, so that importing the package is fast."""

import gc
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from everhold.interrupts import uninterrupted


class ImportSection:
    """A section that imports modules in the middle of a caller's work, without interrupts and garbage collections."""

    def __enter__(self) -> None:
        uninterrupted.__enter__()
        self._collects = gc.isenabled()
        gc.disable()  # imports leave no garbage, and looking for it would take a fifth of their time

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._collects:
            gc.enable()
        uninterrupted.__exit__(kind, error, trace)


def make_importer(package: str, exports: Mapping[str, Iterable[str]], names: dict[str, Any]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package. `exports` has the exported names by module, `names` is its `globals()`."""
    modules = {name: module for module, exported in exports.items() for name in exported}

    def import_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with ImportSection():
            names[name] = getattr(import_module(f"{package}.{modules[name]}"), name)
        return names[name]

    return import_name


def list_exports(exports: Mapping[str, Iterable[str]]) -> list[str]:
    """Return all exported names, sorted."""
    return sorted(name for exported in exports.values() for name in exported)
