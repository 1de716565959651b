"""The files of a store outside its records, for backups: archived messages, contents of workspaces, uploaded data."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from everhold.blob_places import make_archive_files, make_contents
from everhold.errors import InvalidInput, InvalidSettings, NotFound
from everhold.model import ArchiveFile, Blob, SessionArchive, Source, Workspace, WorkspaceFile
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.ports.store_snapshot import StoreSnapshot
from everhold.ports.stored_files import StoredFile
from everhold.schema.catalog import get_table
from everhold.schema.operations import Ensure
from everhold.schema.plain_values import PlainRow, make_plain_decoder
from everhold.sessions.archive_files import ArchiveFiles
from everhold.settings import Settings
from everhold.stores import find_blob_place
from everhold.views.data_deps import make_private_folder, make_source_files
from everhold.workspaces.contents import Contents, find_address

_ARCHIVE, _CONTENT, _SOURCE = "archive", "workspace", "source"
_PART_BYTES = 16 * 1024 * 1024


class _ContentOwner(NamedTuple):
    organization: str
    sha256: str


class EngineFiles:
    """The files of one store.

    `contents` has the contents of its workspaces; by default, they are in the place that the settings name.
    """

    def __init__(self, settings: Settings, records: Records, contents: Contents | None = None) -> None:
        self._settings, self._records = settings, records
        self._contents = contents or make_contents(find_blob_place(settings), records)

    # listing

    def list_files(self, snapshot: StoreSnapshot) -> Iterator[StoredFile]:
        for values in _read_rows(snapshot, SessionArchive):
            if values["address"] is not None:
                users = values["user_ids"]
                user = users[0] if len(users) == 1 else None
                yield StoredFile(_ARCHIVE, values["organization_id"], "", values["address"], user)
        yield from self._list_contents(snapshot)
        for values in _read_rows(snapshot, Source):
            organization, source_id = values["organization_id"], values["id"]
            for address in sorted(self._sources.blobs.list_addresses(_name_folder(organization, source_id))):
                yield StoredFile(_SOURCE, organization, source_id, address)

    def _list_contents(self, snapshot: StoreSnapshot) -> Iterator[StoredFile]:
        blobs = [Blob.build_complete(dict(values)) for values in _read_rows(snapshot, Blob) if not values["is_leaving"]]
        owners = _find_content_owners(snapshot) if blobs else {}
        for blob in blobs:
            user = owners.get(_ContentOwner(blob.organization_id, blob.sha256))
            yield StoredFile(_CONTENT, blob.organization_id, "", find_address(blob), user)

    # reading and writing

    def read(self, file: StoredFile) -> Iterator[bytes]:
        if file.kind == _ARCHIVE:
            # An encrypted archive is not decrypted.
            return _split_into_parts(self._require_archives().blobs.get(file.organization, file.address))
        if file.kind == _CONTENT:
            return _split_into_parts(self._contents.blobs.read(file.organization, file.address))
        return self._read_source(file)

    def _read_source(self, file: StoredFile) -> Iterator[bytes]:
        with make_private_folder() as folder:
            blobs = self._sources.blobs
            path = blobs.fetch_file(_name_folder(file.organization, file.folder), file.address, folder / "file")
            with path.open("rb") as stream:
                while part := stream.read(_PART_BYTES):
                    yield part

    def write(self, file: StoredFile, parts: Iterable[bytes]) -> None:
        if file.kind == _ARCHIVE:
            archives = self._require_archives()
            self._records.commit([Ensure(ArchiveFile(address=file.address, whose=file.organization))])
            if archives.blobs.put(file.organization, b"".join(parts)) != file.address:
                raise _make_mismatch_error(file)
        elif file.kind == _CONTENT:
            self._contents.blobs.write(file.organization, file.address, b"".join(parts))
        elif file.kind == _SOURCE:
            self._write_source(file, parts)
        else:
            raise InvalidInput(f"the backup has a file of unknown kind {file.kind!r:.40}", remedy="upgrade Everhold")

    def _write_source(self, file: StoredFile, parts: Iterable[bytes]) -> None:
        with make_private_folder() as folder:
            path: Path = folder / "file"
            with path.open("wb") as stream:
                for part in parts:
                    stream.write(part)
            stored_address = self._sources.blobs.put_file(_name_folder(file.organization, file.folder), path)
            if stored_address != file.address:
                self._sources.blobs.delete(_name_folder(file.organization, file.folder), stored_address)
                raise _make_mismatch_error(file)

    @property
    def _sources(self) -> Any:
        return make_source_files(self._settings, self._records)

    def _require_archives(self) -> ArchiveFiles:
        files = make_archive_files(self._settings, self._records)
        if files is None:
            raise InvalidSettings(
                "archived messages of the backup are in files, and the settings name no `blobs`",
                remedy="set `blobs` to a folder or an fsspec address",
            )
        return files


def _find_content_owners(snapshot: StoreSnapshot) -> dict[_ContentOwner, str]:
    """Return the user of each content that is in workspaces of only one user."""
    workspaces = {(row["organization_id"], row["id"]): row["user_id"] for row in _read_rows(snapshot, Workspace)}
    users: dict[_ContentOwner, set[str | None]] = {}
    for row in _read_rows(snapshot, WorkspaceFile):
        key = _ContentOwner(row["organization_id"], row["sha256"])
        users.setdefault(key, set()).add(workspaces.get((row["organization_id"], row["workspace_id"])))
    return {key: user for key, (user, *others) in users.items() if not others and user is not None}


def _read_rows(snapshot: StoreSnapshot, entity: type[Row]) -> Iterator[Mapping[str, Any]]:
    names, decode = get_table(entity).names, make_plain_decoder(entity)
    rows: list[PlainRow] = []
    for _ in snapshot.read(entity, rows.append):
        for row in rows:
            yield dict(zip(names, decode(*row), strict=True))
        rows.clear()


def _split_into_parts(content: bytes) -> Iterator[bytes]:
    for start in range(0, max(len(content), 1), _PART_BYTES):
        yield content[start : start + _PART_BYTES]


def _name_folder(organization: str, source_id: str) -> str:
    return f"{organization}\n{source_id}"


def _make_mismatch_error(file: StoredFile) -> NotFound:
    return NotFound(
        f"the SHA-256 of a file in the backup is not its address {file.address}", remedy="use another backup"
    )
