"""The dependencies of making a backup."""

from dataclasses import dataclass

from everhold.backups.history import History
from everhold.backups.objects import Objects
from everhold.backups.sealing import Sealing
from everhold.ports.backup_place import BackupPlace
from everhold.ports.records import Records
from everhold.ports.row_packing import RowPacking
from everhold.ports.stored_files import StoredFiles


@dataclass(frozen=True)
class BackupDeps:
    """A store, its files, and the functions that convert its rows to bytes. `store` is the name of the store.

    `records` is the store below the encryption, so that encrypted values stay encrypted in a backup.
    """

    records: Records
    files: StoredFiles
    packing: RowPacking
    sealing: Sealing
    store: str
    has_user_keys: bool = False

    def open_objects(self, place: BackupPlace) -> Objects:
        return Objects(place, self.packing, self.sealing)

    def open_history(self, place: BackupPlace) -> History:
        return History(place, self.packing)
