"""Write the catalog's tables to `first_tables.json`, the first version of the schema.

    python -m everhold.schema.freeze

Run it after every change to the catalog until the first release. A released version is never rewritten: append a
`Version` in `changes.py` instead.
"""

import json
from pathlib import Path

from everhold.schema.catalog import TABLES
from everhold.schema.changes import FIRST_TABLES, encode_table

PATH = Path(__file__).with_name(FIRST_TABLES)


def render_first_tables() -> str:
    """Return the catalog as the text of `first_tables.json`, one table per line."""
    lines = [json.dumps(encode_table(table), separators=(",", ":")) for table in TABLES.values()]
    return "[\n" + ",\n".join(lines) + "\n]\n"


if __name__ == "__main__":
    PATH.write_text(render_first_tables(), "utf-8")
