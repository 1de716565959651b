"""The full-text index over the engine's terms, which is filled in batches.

FTS5 indexes 200 chunks in one statement in the time of ten single statements. So a commit does not index the chunks it
adds; the commit that completes a batch indexes the whole batch. The column `folded` is the number of the last row in
the index. A search reads the terms of the few rows after it from the table `chunks`. All of this is transactional SQL,
so the index and the rows always agree, even after a crash.

The index contains the current chunks of live owners, of every kind and namespace. Triggers update it when an indexed
chunk is closed (`known_to` is set), reopened or deleted, or its owner is deleted or restored.
"""

from collections.abc import Iterator

from everhold.schema.catalog import OWNER_TABLES
from everhold.schema.sql import quote

INDEX_AFTER = 256  # chunks; larger batches make the commit that indexes them noticeably slower

TABLES = (
    """CREATE VIRTUAL TABLE "chunk_words" USING fts5(
  "words", content='', columnsize=0, detail=none, tokenize='ascii'
)""",
    """CREATE TABLE "chunk_words_state" ("folded" INTEGER NOT NULL)""",
    """INSERT INTO "chunk_words_state" VALUES (0)""",
)

LAST_INDEXED = """(SELECT "folded" FROM "chunk_words_state")"""


def _select_words(row: str) -> str:
    """Return the SQL for a chunk's words in the index: its search spaces (see `list_space_words`) and its terms."""
    columns = ("organization_id", "model", "owner_kind", "namespace")
    tail = " || 'x' || ".join(f"lower(hex({row}.{column}))" for column in columns)
    return f"'s' || lower(hex({row}.user_id)) || 'x' || {tail} || ' o' || {tail} || ' ' || {row}.terms"


def _match_current(row: str) -> str:
    return f"""{row}."known_to" IS NULL"""


def _match_live(row: str) -> str:
    """Return the condition that a chunk's owner is not deleted.

    With CASE, SQLite runs only the subquery of the owner's kind; with OR, it could run all of them.
    """
    branches = " ".join(
        f"""WHEN '{kind}' THEN EXISTS (SELECT 1 FROM {quote(table)} AS m
    WHERE m."organization_id" = {row}."organization_id" AND m."id" = {row}."owner_id" AND NOT m."is_deleted")"""
        for kind, table in OWNER_TABLES.items()
    )
    return f"""CASE {row}."owner_kind" {branches} END"""


# NOT INDEXED makes SQLite read `chunks` by row number, only the rows after the last indexed one. With an index over
# other columns it would read more rows.
UNINDEXED = f"""FROM "chunks" AS c NOT INDEXED
WHERE c."row" > {LAST_INDEXED} AND {_match_current("c")} AND {_match_live("c")}"""

INDEX_CHUNKS = (
    f"""INSERT INTO "chunk_words" (rowid, "words") SELECT c."row", {_select_words("c")} {UNINDEXED}""",
    """UPDATE "chunk_words_state" SET "folded" = (SELECT coalesce(max("row"), 0) FROM "chunks")""",
)


# Merge the index into one segment, without the terms of deleted chunks.
MERGE = """INSERT INTO "chunk_words" ("chunk_words") VALUES ('optimize')"""

# The approximate number of chunks that are not in the index yet.
COUNT_UNINDEXED = f"""SELECT coalesce(max("row"), 0) - {LAST_INDEXED} FROM "chunks" """


def create_triggers() -> Iterator[str]:
    """Yield the triggers that update the index when indexed chunks or their owners change."""
    insert = f"""INSERT INTO "chunk_words" (rowid, "words") VALUES (NEW."row", {_select_words("NEW")});"""
    old_words = _select_words("OLD")
    delete = f"""INSERT INTO "chunk_words" ("chunk_words", rowid, "words") VALUES ('delete', OLD."row", {old_words});"""
    was_current, is_current = _match_current("OLD"), _match_current("NEW")
    # One trigger for both statements, because SQLite does not define the order of two triggers, and the second must run
    # last: it lowers `folded`, so that a new chunk with the freed row number does not count as indexed.
    yield f"""CREATE TRIGGER "chunks_words_removed" AFTER DELETE ON "chunks" WHEN OLD."row" <= {LAST_INDEXED} BEGIN
  INSERT INTO "chunk_words" ("chunk_words", rowid, "words")
    SELECT 'delete', OLD."row", {_select_words("OLD")} WHERE {was_current} AND {_match_live("OLD")};
  UPDATE "chunk_words_state" SET "folded" = min("folded", (SELECT coalesce(max("row"), 0) FROM "chunks"));
END"""
    yield f"""CREATE TRIGGER "chunks_words_closed" AFTER UPDATE OF "known_to" ON "chunks"
WHEN OLD."row" <= {LAST_INDEXED} AND {was_current} AND NOT ({is_current}) AND {_match_live("OLD")} BEGIN {delete} END"""
    yield f"""CREATE TRIGGER "chunks_words_opened" AFTER UPDATE OF "known_to" ON "chunks"
WHEN NEW."row" <= {LAST_INDEXED} AND {is_current} AND NOT ({was_current}) AND {_match_live("NEW")} BEGIN {insert} END"""
    for kind, table in OWNER_TABLES.items():
        yield from _create_owner_triggers(kind, table)


def _create_owner_triggers(kind: str, table: str) -> Iterator[str]:
    """Yield the triggers that update the index when an owner of chunks is deleted or restored."""
    indexed = f"""FROM "chunks" AS c WHERE c."organization_id" = NEW."organization_id" AND c."owner_id" = NEW."id"
  AND c."owner_kind" = '{kind}' AND c."row" <= {LAST_INDEXED} AND {_match_current("c")}"""
    yield f"""CREATE TRIGGER "{table}_words_hidden" AFTER UPDATE OF "is_deleted" ON {quote(table)}
WHEN NEW."is_deleted" AND NOT OLD."is_deleted" BEGIN
  INSERT INTO "chunk_words" ("chunk_words", rowid, "words") SELECT 'delete', c."row", {_select_words("c")} {indexed};
END"""
    yield f"""CREATE TRIGGER "{table}_words_shown" AFTER UPDATE OF "is_deleted" ON {quote(table)}
WHEN OLD."is_deleted" AND NOT NEW."is_deleted" BEGIN
  INSERT INTO "chunk_words" (rowid, "words") SELECT c."row", {_select_words("c")} {indexed};
END"""
