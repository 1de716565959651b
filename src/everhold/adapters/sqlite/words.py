"""The full-text index over our own terms, fed many chunks at a time.

FTS5 takes two hundred chunks in the time it takes ten one by one. So a chunk is not indexed by the commit that adds
it; the commit that completes a batch folds the whole batch in. `folded` says up to which row the index has come: rows
after it are few, and who searches reads their terms from the chunks themselves. All of it is ordinary transactional
SQL, so the index and the rows never disagree, whatever happens in between.

Indexed are the current chunks of live owners, of every kind and namespace. Triggers keep it so when a folded chunk is
closed, opened or deleted, or its owner deleted or restored.
"""

from collections.abc import Iterator

from everhold.schema.catalog import OWNER_TABLES
from everhold.schema.sql import quote

FOLD_AFTER = 256

TABLES = (
    """CREATE VIRTUAL TABLE "chunk_words" USING fts5(
  "words", content='', columnsize=0, detail=none, tokenize='ascii'
)""",
    """CREATE TABLE "chunk_words_state" ("folded" INTEGER NOT NULL)""",
    """INSERT INTO "chunk_words_state" VALUES (0)""",
)

FOLDED = """(SELECT "folded" FROM "chunk_words_state")"""


def _words(row: str) -> str:
    """Return what a chunk is indexed under: the words of its spaces (see `space_words`), and its terms."""
    columns = ("organization_id", "model", "owner_kind", "namespace")
    tail = " || 'x' || ".join(f"lower(hex({row}.{column}))" for column in columns)
    return f"'s' || lower(hex({row}.user_id)) || 'x' || {tail} || ' o' || {tail} || ' ' || {row}.terms"


def _is_current(row: str) -> str:
    return f"""{row}."known_to" IS NULL"""


def _is_live(row: str) -> str:
    """Return the condition that a chunk's owner is not deleted. SQLite evaluates the branch of its kind only."""
    branches = " ".join(
        f"""WHEN '{kind}' THEN EXISTS (SELECT 1 FROM {quote(table)} AS m
    WHERE m."organization_id" = {row}."organization_id" AND m."id" = {row}."owner_id" AND NOT m."is_deleted")"""
        for kind, table in OWNER_TABLES.items()
    )
    return f"""CASE {row}."owner_kind" {branches} END"""


UNFOLDED = f"""FROM "chunks" AS c NOT INDEXED WHERE c."row" > {FOLDED} AND {_is_current("c")} AND {_is_live("c")}"""
"""Read by row number from where the index ends, however many other rows an index over columns might offer."""

FOLD = (
    f"""INSERT INTO "chunk_words" (rowid, "words") SELECT c."row", {_words("c")} {UNFOLDED}""",
    """UPDATE "chunk_words_state" SET "folded" = (SELECT coalesce(max("row"), 0) FROM "chunks")""",
)


MERGE = """INSERT INTO "chunk_words" ("chunk_words") VALUES ('optimize')"""
"""Merges the index into one segment, which leaves out the terms of deleted chunks."""

WAITING = f"""SELECT coalesce(max("row"), 0) - {FOLDED} FROM "chunks" """
"""About how many chunks the index has not taken in yet."""


def triggers() -> Iterator[str]:
    add = f"""INSERT INTO "chunk_words" (rowid, "words") VALUES (NEW."row", {_words("NEW")});"""
    drop = (
        f"""INSERT INTO "chunk_words" ("chunk_words", rowid, "words") VALUES ('delete', OLD."row", {_words("OLD")});"""
    )
    was, becomes = _is_current("OLD"), _is_current("NEW")
    # One trigger for both steps, because SQLite does not say in which order two would run. The second step keeps a
    # row number that is free again from passing for a folded one; after it, the first would no longer find the row.
    yield f"""CREATE TRIGGER "chunks_words_removed" AFTER DELETE ON "chunks" WHEN OLD."row" <= {FOLDED} BEGIN
  INSERT INTO "chunk_words" ("chunk_words", rowid, "words")
    SELECT 'delete', OLD."row", {_words("OLD")} WHERE {was} AND {_is_live("OLD")};
  UPDATE "chunk_words_state" SET "folded" = min("folded", (SELECT coalesce(max("row"), 0) FROM "chunks"));
END"""
    yield f"""CREATE TRIGGER "chunks_words_closed" AFTER UPDATE OF "known_to" ON "chunks"
WHEN OLD."row" <= {FOLDED} AND {was} AND NOT ({becomes}) AND {_is_live("OLD")} BEGIN {drop} END"""
    yield f"""CREATE TRIGGER "chunks_words_opened" AFTER UPDATE OF "known_to" ON "chunks"
WHEN NEW."row" <= {FOLDED} AND {becomes} AND NOT ({was}) AND {_is_live("NEW")} BEGIN {add} END"""
    for kind, table in OWNER_TABLES.items():
        yield from _owner_triggers(kind, table)


def _owner_triggers(kind: str, table: str) -> Iterator[str]:
    """Yield the triggers that follow an owner of chunks when it is deleted and restored."""
    mine = f"""FROM "chunks" AS c WHERE c."organization_id" = NEW."organization_id" AND c."owner_id" = NEW."id"
  AND c."owner_kind" = '{kind}' AND c."row" <= {FOLDED} AND {_is_current("c")}"""
    yield f"""CREATE TRIGGER "{table}_words_hidden" AFTER UPDATE OF "is_deleted" ON {quote(table)}
WHEN NEW."is_deleted" AND NOT OLD."is_deleted" BEGIN
  INSERT INTO "chunk_words" ("chunk_words", rowid, "words") SELECT 'delete', c."row", {_words("c")} {mine};
END"""
    yield f"""CREATE TRIGGER "{table}_words_shown" AFTER UPDATE OF "is_deleted" ON {quote(table)}
WHEN OLD."is_deleted" AND NOT NEW."is_deleted" BEGIN
  INSERT INTO "chunk_words" (rowid, "words") SELECT c."row", {_words("c")} {mine};
END"""
