"""How SQLite spells things, and what it needs besides: triggers for the rules its foreign keys cannot say, and the
full-text index over our own terms."""

import json
from collections.abc import Iterator

from recollect import clock
from recollect.schema.codec import json_text
from recollect.schema.sql import Dialect, quoted
from recollect.schema.table import TENANT, Kind, Reference, Table

SQLITE = Dialect(
    name="sqlite",
    placeholder="?",
    types={
        Kind.TEXT: "TEXT",
        Kind.INTEGER: "INTEGER",
        Kind.REAL: "REAL",
        Kind.BOOLEAN: "INTEGER",
        Kind.TIME: "INTEGER",
        Kind.JSON: "TEXT",
        Kind.BYTES: "BLOB",
        Kind.VECTOR: "BLOB",
    },
    unbounded_text="TEXT",
    encoders={Kind.TIME: clock.micros, Kind.JSON: json_text},
    decoders={Kind.TIME: clock.from_micros, Kind.JSON: json.loads, Kind.BOOLEAN: bool},
    same="IS",
    differs="IS NOT",
    drawn="INTEGER PRIMARY KEY",
    row_number='"row" INTEGER PRIMARY KEY',
    clustered=" WITHOUT ROWID",
    sets_one_null=False,
    true="1",
    false="0",
)

WORDS_TABLE = """CREATE VIRTUAL TABLE "chunk_words" USING fts5(
  "words", content='', columnsize=0, detail=none, tokenize='ascii'
)"""


def scope_word(organization_id: str, image: str) -> str:
    """The word that stands for an image in the full-text index, so that scope comes before ranking."""
    return f"s{organization_id.encode().hex()}x{image.encode().hex()}"


def words_triggers() -> Iterator[str]:
    """Keep the full-text index in the transaction of the chunk it indexes, cascades included."""
    scope = "'s' || lower(hex({row}.organization_id)) || 'x' || lower(hex({row}.image)) || ' ' || {row}.terms"
    new, old = scope.format(row="NEW"), scope.format(row="OLD")
    yield f"""CREATE TRIGGER "chunks_words_added" AFTER INSERT ON "chunks" WHEN NEW.known_to IS NULL BEGIN
  INSERT INTO "chunk_words" (rowid, "words") VALUES (NEW."row", {new});
END"""
    remove = f"""INSERT INTO "chunk_words" ("chunk_words", rowid, "words") VALUES ('delete', OLD."row", {old});"""
    yield f"""CREATE TRIGGER "chunks_words_removed" AFTER DELETE ON "chunks" WHEN OLD.known_to IS NULL BEGIN
  {remove}
END"""
    yield f"""CREATE TRIGGER "chunks_words_closed" AFTER UPDATE OF "known_to" ON "chunks"
WHEN OLD.known_to IS NULL AND NEW.known_to IS NOT NULL BEGIN
  {remove}
END"""


def rule_triggers(table: Table) -> Iterator[str]:
    """The references that a foreign key cannot say here: set one column null, or refer by kind."""
    special = [one for one in table.references if one.kind or one.on_delete == "set_null"]
    for reference in special:
        mine = " AND ".join(f"{child} = OLD.{parent}" for child, parent in _pairs(reference)) + _of_kind(reference, "")
        act = f"DELETE FROM {quoted(table.name)}"
        if reference.on_delete == "set_null":
            nulls = ", ".join(f"{quoted(column)} = NULL" for column in reference.columns)
            act = f"UPDATE {quoted(table.name)} SET {nulls}"
        name = f"{table.name}_{reference.columns[-1]}_{reference.target}_gone"
        yield f"""CREATE TRIGGER "{name}" BEFORE DELETE ON {quoted(reference.target)} BEGIN
  {act} WHERE {mine};
END"""
    if special:
        missing = " OR ".join(f"({_missing(reference)})" for reference in special)
        watched = ", ".join(dict.fromkeys(quoted(one.columns[-1]) for one in special))
        for event, suffix in (("INSERT", "put"), (f"UPDATE OF {watched}", "set")):
            yield f"""CREATE TRIGGER "{table.name}_{suffix}" BEFORE {event} ON {quoted(table.name)} WHEN {missing} BEGIN
  SELECT RAISE(ABORT, 'FOREIGN KEY constraint failed');
END"""


def _pairs(reference: Reference) -> list[tuple[str, str]]:
    pairs = zip((TENANT, *reference.columns), (TENANT, *reference.target_columns), strict=True)
    return [(quoted(mine), quoted(target)) for mine, target in pairs]


def _of_kind(reference: Reference, row: str) -> str:
    return f" AND {row}{quoted(reference.kind[0])} = '{reference.kind[1]}'" if reference.kind else ""


def _missing(reference: Reference) -> str:
    wanted = f"NEW.{quoted(reference.columns[-1])} IS NOT NULL" + _of_kind(reference, "NEW.")
    found = " AND ".join(f"{parent} = NEW.{child}" for child, parent in _pairs(reference))
    return f"{wanted} AND NOT EXISTS (SELECT 1 FROM {quoted(reference.target)} WHERE {found})"
