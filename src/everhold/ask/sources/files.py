"""The files of sources: the original, a Parquet file for each table, and the values of columns.

A connection to a database has only the values of its columns. Each source has its own folder, so that deleting a source
never deletes files of another source with the same content. A file is written before the rows that refer to it, and
deleted after them.
"""

import json
import shutil
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from everhold.errors import StoreDamaged
from everhold.model import Connection, Source
from everhold.ports.blobs import BlobFiles
from everhold.ports.records import Records
from everhold.ports.table_content import Cell

Values = Mapping[str, Sequence[Cell]]
_MAX_VALUES_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class SourceFiles:
    """The files of one store's sources."""

    blobs: BlobFiles

    def put_file(self, organization: str, source_id: str, path: Path, sha256: str | None = None) -> str:
        """Store a file of a source and return its address; this may move the file away from its path."""
        return self.blobs.put_file(_make_folder(organization, source_id), path, sha256)

    def put_values(self, organization: str, source_id: str, values: Sequence[Values]) -> str:
        """Store the values of the columns of all tables of a source and return their address."""
        content = zlib.compress(json.dumps(values, ensure_ascii=False).encode(), 1)
        return self.blobs.put(_make_folder(organization, source_id), content)

    def read_values(self, organization: str, source_id: str, address: str) -> Sequence[Values]:
        """Return the values of the columns of each table of a source."""
        content = self.blobs.get(_make_folder(organization, source_id), address)
        try:
            values: Sequence[Values] = json.loads(zlib.decompressobj().decompress(content, _MAX_VALUES_BYTES))
        except (ValueError, zlib.error) as error:
            raise StoreDamaged(
                f"the values of source {source_id} are damaged", value=address, remedy="restore the blobs from a backup"
            ) from error
        return values

    def fetch(self, organization: str, source_id: str, address: str, target: Path) -> Path:
        """Return the path of a local file with a content of a source.

        A copy, if one is needed, is written to `target`.
        """
        return self.blobs.fetch_file(_make_folder(organization, source_id), address, target)

    def has_all(self, organization: str, source_id: str, addresses: Collection[str]) -> bool:
        """Return whether all of these files of a source exist."""
        return set(addresses) <= set(self.blobs.list_addresses(_make_folder(organization, source_id)))

    def delete(self, organization: str, source_ids: Iterable[str]) -> None:
        """Delete all files of sources."""
        for source_id in source_ids:
            folder = _make_folder(organization, source_id)
            for address in list(self.blobs.list_addresses(folder)):
                self.blobs.delete(folder, address)

    def delete_others(self, organization: str, connection_id: str, kept: str) -> None:
        """Delete all files of a connection except the file at the address `kept`."""
        folder = _make_folder(organization, connection_id)
        for address in list(self.blobs.list_addresses(folder)):
            if address != kept:
                self.blobs.delete(folder, address)

    def sweep(self, records: Records, before: datetime, *, dry_run: bool = False) -> int:
        """Delete files that were stored before a time and whose source has no row; return the number of files.

        Such files remain if a process is killed before the commit of an upload, or if maintenance purges a source. With
        `dry_run` they are only counted.
        """
        folders = [_make_folder(organization, owner_id) for organization, owner_id in list_owners(records)]
        return self.blobs.delete_stale(folders, before, dry_run=dry_run)

    def copy_from(self, source: "SourceFiles", records: Records, make_target: Callable[[], Path]) -> None:
        """Copy the files of the sources and connections in `records` from another store.

        `make_target` returns a new path for a temporary file.
        """
        for organization, owner_id in list_owners(records):
            folder = _make_folder(organization, owner_id)
            for address in source.blobs.list_addresses(folder):
                path, target = source.blobs.fetch_file(folder, address, make_target()), make_target()
                shutil.copyfile(path, target)  # the original must stay where it is
                self.blobs.put_file(folder, target, address)


def list_owners(records: Records) -> list[tuple[str, str]]:
    """Return the organization and the id of every source and connection, including deleted ones."""
    names = ("organization_id", "id")
    rows = [row for entity in (Source, Connection) for row in records.columns(entity, None, names, deleted=True)]
    return [(str(organization), str(owner_id)) for organization, owner_id in rows]


def _make_folder(organization: str, source_id: str) -> str:
    # Ids contain no line breaks, so different pairs have different names.
    return f"{organization}\n{source_id}"
