"""Import lists of memories and texts, and the result of every import."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everhold import clock
from everhold.errors import InvalidInput
from everhold.exchange import documents
from everhold.model import Memory
from everhold.ports.tokenizer import Tokenizer
from everhold.progress import ReportProgress, StepCounter, ignore_progress

# Stores memories and returns them; the function is called with the size of each batch that is stored.
Remember = Callable[[Sequence[Any], Callable[[int], None]], Sequence[Memory]]


@dataclass(frozen=True)
class ImportResult:
    """The result of an import.

    `existing` counts rows that the store already had. `skipped` counts rows of which the store has another version,
    which stays, and the rows that belong to them. `log_lines` counts lines of the access log, which are not imported.
    `embedded` counts memories of a bundle without vectors of this engine's models, which were embedded.
    """

    added: int
    existing: int
    skipped: int = 0
    log_lines: int = 0
    embedded: int = 0

    @property
    def count(self) -> int:
        return self.added + self.existing + self.skipped


def read_first_line(path: Path) -> str:
    """Return the first line of a file; raise InvalidInput if the path is not a file or the file is empty."""
    if not path.is_file():
        raise InvalidInput(f"no file {str(path)!r} to import", value=str(path), remedy="check the path")
    with path.open(encoding="utf-8", errors="replace") as lines:
        line = next(lines, "")
    if not line:
        raise InvalidInput(f"{path} is empty", remedy="there is nothing to import")
    return line


def load_document(
    path: Path, tokenizer: Tokenizer, remember: Remember, report: ReportProgress = ignore_progress
) -> ImportResult:
    """Store the memories of a list, or the passages of a text, except those that the store holds already."""
    started_at = clock.now()
    memories = list(_read_memories(path, tokenizer))
    stored = remember(memories, StepCounter(report, "importing", len(memories)).add)
    # `remember` returns the stored memory for a duplicate, so only its age tells what was added now.
    added = len({memory.id for memory in stored if memory.created_at >= started_at})
    return ImportResult(added, len(stored) - added)


def _read_memories(path: Path, tokenizer: Tokenizer) -> Iterator[Any]:
    if path.suffix in documents.LISTS:
        return documents.read_listed(path)
    if path.suffix in documents.TEXT:
        return documents.read_passages(path, tokenizer)
    known = ", ".join((*documents.LISTS, *documents.TEXT))
    raise InvalidInput(
        f"{path.name} is neither a bundle nor a file of a known kind", value=path.name, remedy=f"use one of {known}"
    )
