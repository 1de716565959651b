"""Stores that are files: whether one is there, and whether two are one."""

from pathlib import Path

from everhold.errors import InvalidInput, StoreMissing


def check_there(file: Path | None) -> None:
    """StoreMissing if a store is a file that does not exist, and that opening it would create."""
    if file is not None and not file.exists():
        raise StoreMissing(f"no store at {file.absolute()}", value=str(file), remedy="name one that exists")


def check_apart(source: Path | None, target: Path | None) -> None:
    """InvalidInput if both are one file, by whatever names."""
    if source is None or target is None:
        return
    if source.resolve() == target.resolve() or (target.exists() and source.samefile(target)):
        raise InvalidInput(f"{source} and {target} are the same store", remedy="move into another one")
