"""Store the files outside the records. A file that is in an earlier backup is not stored again."""

from collections.abc import Iterator, Sequence

from everhold.backups.manifest import BackedUpFile, Manifest
from everhold.backups.objects import Objects
from everhold.backups.sealing import RowOwner
from everhold.errors import NotFound
from everhold.ports.store_snapshot import StoreSnapshot
from everhold.ports.stored_files import StoredFile, StoredFiles

CONTEXT = "file"


class FilesMissing(Exception):
    """The store does not have files that the rows of a snapshot name."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(f"{len(names)} files are missing")
        self.names = names


def store_files(
    files: StoredFiles,
    snapshot: StoreSnapshot,
    objects: Objects,
    earlier: Manifest | None,
    existing: set[str],
    expected_missing: Sequence[str] = (),
) -> list[BackedUpFile]:
    """Store the files that the rows of a snapshot name. `existing` has the SHA-256 of the objects at the place.

    Raise FilesMissing if a file is missing that is not in `expected_missing`.
    """
    earlier_entries = {describe_entry(entry): entry for entry in earlier.files} if earlier is not None else {}
    stored: list[BackedUpFile] = []
    missing: list[str] = []
    for file in files.list_files(snapshot):
        entry = earlier_entries.get(describe_file(file))
        if entry is not None and existing.issuperset(part.sha256 for part in entry.parts):
            stored.append(entry)
            continue
        try:
            stored.append(_store_file(files, file, objects))
        except NotFound:
            missing.append(describe_file(file))
    if set(missing) - set(expected_missing):
        raise FilesMissing(tuple(missing))
    return stored


def _store_file(files: StoredFiles, file: StoredFile, objects: Objects) -> BackedUpFile:
    owner = get_owner(file)
    parts = tuple(objects.put_bytes(part, owner, CONTEXT, len(part)) for part in files.read(file))
    return BackedUpFile(**file._asdict(), parts=parts)


def read_file(entry: BackedUpFile, objects: Objects) -> Iterator[bytes | None]:
    """Yield the parts of a file. A part is None if the key of its owner was destroyed."""
    for part in entry.parts:
        yield objects.get_bytes(part, get_owner(get_file(entry)), CONTEXT)


def get_file(entry: BackedUpFile) -> StoredFile:
    return StoredFile(entry.kind, entry.organization, entry.folder, entry.address, entry.user_id)


def get_owner(file: StoredFile) -> RowOwner:
    return RowOwner(file.organization, file.user_id)


def describe_file(file: StoredFile) -> str:
    """Return a unique name of a file for messages."""
    return f"{file.kind} {file.folder}/{file.address} of {file.organization}"


def describe_entry(entry: BackedUpFile) -> str:
    return describe_file(get_file(entry))
