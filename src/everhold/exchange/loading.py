"""Import lists of memories and texts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from everhold import clock
from everhold.errors import InvalidInput
from everhold.exchange import documents
from everhold.import_results import ImportResult
from everhold.model import Memory
from everhold.ports.tokenizer import Tokenizer
from everhold.progress import ReportProgress, StepCounter, ignore_progress

# Stores memories and returns them; the function is called with the size of each batch that is stored.
Remember = Callable[[Iterable[Any], Callable[[int], None]], Sequence[Memory]]

# The number of characters read to find the header of a bundle, so that one very long line is not read completely.
_MAX_FIRST_LINE = 65_536


def read_first_line(path: Path) -> str:
    """Return the first line of a file; raise InvalidInput if the path is not a file or the file is empty."""
    if not path.is_file():
        raise InvalidInput(f"no file {str(path)!r} to import", value=str(path), remedy="check the path")
    with path.open(encoding="utf-8", errors="replace") as file:
        line = file.readline(_MAX_FIRST_LINE)
    if not line:
        raise InvalidInput(f"{path} is empty", remedy="there is nothing to import")
    return line


def load_document(
    path: Path, tokenizer: Tokenizer, remember: Remember, report: ReportProgress = ignore_progress
) -> ImportResult:
    """Store the memories of a list, or the passages of a text, except those that the store already has."""
    started_at = clock.now()
    # The first pass finds errors before anything is stored. Collecting the memories instead would need more memory.
    count = sum(1 for _ in _read_memories(path, tokenizer))
    stored = remember(_read_memories(path, tokenizer), StepCounter(report, "importing", count).add)
    # For a duplicate, `remember` returns the stored memory, so only its age shows whether it was added now.
    added_count = len({memory.id for memory in stored if memory.created_at >= started_at})
    return ImportResult(added_count, len(stored) - added_count)


def _read_memories(path: Path, tokenizer: Tokenizer) -> Iterator[Any]:
    if path.suffix in documents.LIST_SUFFIXES:
        return documents.read_list(path)
    if path.suffix in documents.TEXT_SUFFIXES:
        return documents.read_passages(path, tokenizer)
    suffixes = ", ".join((*documents.LIST_SUFFIXES, *documents.TEXT_SUFFIXES))
    raise InvalidInput(
        f"{path.name} is neither a bundle nor a file of a known kind", value=path.name, remedy=f"use one of {suffixes}"
    )
