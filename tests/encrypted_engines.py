"""Open engines with encryption, and read what their stores really hold."""

import json
from pathlib import Path
from typing import Any

from everhold import Everhold
from everhold.ports.records import Records
from everhold.schema.catalog import CATALOG
from tests.engines import Store, get_parts

CANARY = "xylophonequartz"


def make_key(folder: Path, name: str = "master.key") -> str:
    """Create a master key and return its source."""
    Everhold.create_master_key(folder / name)
    return f"file:{folder / name}"


def open_encrypted(store: Store, folder: Path, **settings: Any) -> Everhold:
    """Open an engine that encrypts, with a master key in the folder."""
    path = folder / "master.key"
    source = f"file:{path}" if path.exists() else make_key(folder)
    return store.open(encryption={"master_key": source, **settings})


def get_stored_records(engine: Everhold) -> Records:
    """Return the store below the encryption."""
    encryption = get_parts(engine).encryption
    assert encryption is not None
    return encryption.stored


def find_tables_with(records: Records, word: str = CANARY) -> set[str]:
    """Return the names of the tables with a stored row that contains the word."""
    names = set()
    for entity, table in CATALOG.items():
        for row in records.scan(entity, None, deleted=True):
            if word in json.dumps(row.__dict__, default=repr, ensure_ascii=False):
                names.add(table.name)
    return names
