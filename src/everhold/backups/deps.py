"""What backups are made with."""

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
    """A store with its files, and how its rows become bytes. `store` is the store's own name.

    `records` is the store itself: what it holds encrypted stays encrypted in a backup.
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
