"""Check the paths of stores that are files."""

from pathlib import Path

from everhold.errors import InvalidInput, StoreMissing


def require_store_file(file: Path | None) -> None:
    """Raise StoreMissing if a store's file does not exist, because opening the store would create it."""
    if file is not None and not file.exists():
        raise StoreMissing(f"no store at {file.absolute()}", value=str(file), remedy="name one that exists")


def require_different_stores(source: Path | None, target: Path | None) -> None:
    """Raise InvalidInput if both paths name the same file."""
    if source is None or target is None:
        return
    # `samefile` also recognises hard links, which `resolve` does not.
    if source.resolve() == target.resolve() or (target.exists() and source.samefile(target)):
        raise InvalidInput(f"{source} and {target} are the same store", remedy="move into another one")
