"""Packages whose exported names are imported when they are first used, so that importing the package is fast."""

import gc
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from everhold.interrupts import uninterrupted


def make_importer(package: str, exports: Mapping[str, Iterable[str]], names: dict[str, Any]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package. `exports` has the exported names by module, `names` is its `globals()`."""
    modules = {name: module for module, exported in exports.items() for name in exported}

    def import_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        collects = gc.isenabled()
        gc.disable()  # imports leave no garbage, and looking for it would take a fifth of their time
        try:
            with uninterrupted:  # the caller may be in the middle of its work
                names[name] = getattr(import_module(f"{package}.{modules[name]}"), name)
        finally:
            if collects:
                gc.enable()
        return names[name]

    return import_name


def list_exports(exports: Mapping[str, Iterable[str]]) -> list[str]:
    """Return all exported names, sorted."""
    return sorted(name for exported in exports.values() for name in exported)
