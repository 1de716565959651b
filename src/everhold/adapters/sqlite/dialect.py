"""How SQLite spells things, and what it needs besides: triggers for the rules its foreign keys cannot say, and the
full-text index over our own terms."""

from collections.abc import Iterator

from everhold import clock
from everhold.ports.search_space import SearchSpace
from everhold.schema.codec import decode_json, encode_json
from everhold.schema.sql import Dialect, quote
from everhold.schema.table import TENANT, Kind, Reference, Table

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
    encoders={Kind.TIME: clock.micros, Kind.JSON: encode_json, Kind.BOOLEAN: int},
    decoders={Kind.TIME: clock.from_micros, Kind.JSON: decode_json, Kind.BOOLEAN: bool},
    differs="IS NOT",
    generated="INTEGER PRIMARY KEY AUTOINCREMENT",
    row_number='"row" INTEGER PRIMARY KEY',
    sets_one_null=False,
    true="1",
    false="0",
)


def space_words(space: SearchSpace) -> list[str]:
    """Return the words that stand for a search space in the full-text index, so that scope comes before ranking.

    There is one for each user, or one for the whole organization. Every chunk is indexed under both.
    """
    parts = (space.organization_id, space.model if space.owner.has_vectors else "", space.kind, space.namespace)
    place = "x".join(part.encode().hex() for part in parts)
    return [f"o{place}"] if space.users is None else [f"s{user.encode().hex()}x{place}" for user in space.users]


def rule_triggers(table: Table) -> Iterator[str]:
    """The references that a foreign key cannot say here: set one column null, or refer by kind."""
    special = [one for one in table.references if one.kind or one.on_delete == "set_null"]
    for reference in special:
        mine = " AND ".join(f"{child} = OLD.{parent}" for child, parent in _pairs(reference)) + _of_kind(reference, "")
        act = f"DELETE FROM {quote(table.name)}"
        if reference.on_delete == "set_null":
            nulls = ", ".join(f"{quote(column)} = NULL" for column in reference.columns)
            act = f"UPDATE {quote(table.name)} SET {nulls}"
        name = f"{table.name}_{reference.columns[-1]}_{reference.target}_gone"
        yield f"""CREATE TRIGGER "{name}" BEFORE DELETE ON {quote(reference.target)} BEGIN
  {act} WHERE {mine};
END"""
    if special:
        missing = " OR ".join(f"({_missing(reference)})" for reference in special)
        kinds = [one.kind[0] for one in special if one.kind]
        watched = ", ".join(dict.fromkeys(map(quote, [one.columns[-1] for one in special] + kinds)))
        for event, suffix in (("INSERT", "put"), (f"UPDATE OF {watched}", "set")):
            yield f"""CREATE TRIGGER "{table.name}_{suffix}" AFTER {event} ON {quote(table.name)} WHEN {missing} BEGIN
  SELECT RAISE(ABORT, 'FOREIGN KEY constraint failed');
END"""


def _pairs(reference: Reference) -> list[tuple[str, str]]:
    pairs = zip((TENANT, *reference.columns), (TENANT, *reference.target_columns), strict=True)
    return [(quote(mine), quote(target)) for mine, target in pairs]


def _of_kind(reference: Reference, row: str) -> str:
    return f" AND {row}{quote(reference.kind[0])} = '{reference.kind[1]}'" if reference.kind else ""


def _missing(reference: Reference) -> str:
    wanted = f"NEW.{quote(reference.columns[-1])} IS NOT NULL" + _of_kind(reference, "NEW.")
    found = " AND ".join(f"{parent} = NEW.{child}" for child, parent in _pairs(reference))
    return f"{wanted} AND NOT EXISTS (SELECT 1 FROM {quote(reference.target)} WHERE {found})"
