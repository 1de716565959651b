"""The result of an import."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MappedRows:
    """A table or list of another system, the kind of row that its rows became, and their numbers.

    A dry run only counts `rows` and `quarantined`.
    """

    origin: str
    becomes: str
    rows: int = 0
    added: int = 0
    existing: int = 0
    quarantined: int = 0


@dataclass(frozen=True)
class RowsLeftOut:
    """Rows of another system that Everhold cannot represent, and the reason."""

    origin: str
    reason: str
    rows: int


@dataclass(frozen=True)
class RowFault:
    """A row that was not imported: its location in the file, and the reason."""

    origin: str
    place: str
    reason: str


@dataclass(frozen=True)
class ImportResult:
    """The result of an import.

    `existing` counts rows that the store already had. `skipped` counts rows of which the store has another version,
    which stays, and the rows that belong to them. `log_lines` counts lines of the access log, which are not imported.
    `embedded` counts memories of a bundle without vectors of this engine's models, which were embedded.

    If the file is of another system, `source` is its name, `mapped` counts its rows by what they became, `left_out` the
    rows that cannot be stored here and `quarantined` the faulty rows, and `faults` describes the first of these.
    `vectors_kept` counts embeddings that were kept; those of other models (`vectors_replaced`) were computed again.
    `assumed_zone` is the zone in which times without one were read, if there were any. With `is_dry_run`, nothing was
    stored.
    """

    added: int
    existing: int
    skipped: int = 0
    log_lines: int = 0
    embedded: int = 0
    source: str | None = None
    mapped: tuple[MappedRows, ...] = ()
    left_out: tuple[RowsLeftOut, ...] = ()
    quarantined: int = 0
    quarantine: Path | None = None
    faults: tuple[RowFault, ...] = ()
    vectors_kept: int = 0
    vectors_replaced: int = 0
    assumed_zone: str | None = None
    is_dry_run: bool = False

    @property
    def count(self) -> int:
        return self.added + self.existing + self.skipped
