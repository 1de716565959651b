"""The SQL dialect of SQLite, and triggers for the rules that its foreign keys cannot express."""

from collections.abc import Iterator

from everhold.ports.search_space import SearchSpace
from everhold.schema.plain_values import DECODERS, ENCODERS
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
    encoders=ENCODERS,
    decoders=DECODERS,
    differs="IS NOT",
    generated="INTEGER PRIMARY KEY AUTOINCREMENT",
    row_number='"row" INTEGER PRIMARY KEY',
    sets_one_null=False,
    true="1",
    false="0",
)


def list_space_words(space: SearchSpace) -> list[str]:
    """Return the words of the full-text index that select the chunks of a search space.

    There is one word for each user, or one for the whole organization; every chunk is indexed under both. The parts are
    written in hexadecimal, because a word of the index consists of letters and digits only.
    """
    parts = (space.organization_id, space.model if space.owner.has_vectors else "", space.kind, space.namespace)
    suffix = "x".join(part.encode().hex() for part in parts)
    return [f"o{suffix}"] if space.users is None else [f"s{user.encode().hex()}x{suffix}" for user in space.users]


def create_rule_triggers(table: Table) -> Iterator[str]:
    """Yield triggers for references that SQLite's foreign keys cannot express.

    These are references that set only one of their columns null, and references that apply to rows of one kind.
    """
    special_references = [
        reference for reference in table.references if reference.kind or reference.on_delete == "set_null"
    ]
    for reference in special_references:
        referrers = " AND ".join(f"{child} = OLD.{parent}" for child, parent in _pair_columns(reference))
        referrers += _make_kind_condition(reference, "")
        action = f"DELETE FROM {quote(table.name)}"
        if reference.on_delete == "set_null":
            assignments = ", ".join(f"{quote(column)} = NULL" for column in reference.columns)
            action = f"UPDATE {quote(table.name)} SET {assignments}"
        name = f"{table.name}_{reference.columns[-1]}_{reference.target}_gone"
        yield f"""CREATE TRIGGER "{name}" BEFORE DELETE ON {quote(reference.target)} BEGIN
  {action} WHERE {referrers};
END"""
    if special_references:
        broken_condition = " OR ".join(f"({_make_broken_condition(reference)})" for reference in special_references)
        kinds = [reference.kind[0] for reference in special_references if reference.kind]
        columns = [reference.columns[-1] for reference in special_references]
        watched_columns = ", ".join(dict.fromkeys(map(quote, columns + kinds)))
        for event, suffix in (("INSERT", "put"), (f"UPDATE OF {watched_columns}", "set")):
            yield f"""CREATE TRIGGER "{table.name}_{suffix}" AFTER {event} ON {quote(table.name)}
WHEN {broken_condition} BEGIN
  SELECT RAISE(ABORT, 'FOREIGN KEY constraint failed');
END"""


def _pair_columns(reference: Reference) -> list[tuple[str, str]]:
    pairs = zip((TENANT, *reference.columns), (TENANT, *reference.target_columns), strict=True)
    return [(quote(column), quote(target)) for column, target in pairs]


def _make_kind_condition(reference: Reference, row: str) -> str:
    return f" AND {row}{quote(reference.kind[0])} = '{reference.kind[1]}'" if reference.kind else ""


def _make_broken_condition(reference: Reference) -> str:
    """Return the condition under which the new row refers to a missing row."""
    reference_condition = f"NEW.{quote(reference.columns[-1])} IS NOT NULL" + _make_kind_condition(reference, "NEW.")
    target_condition = " AND ".join(f"{parent} = NEW.{child}" for child, parent in _pair_columns(reference))
    return f"{reference_condition} AND NOT EXISTS (SELECT 1 FROM {quote(reference.target)} WHERE {target_condition})"
