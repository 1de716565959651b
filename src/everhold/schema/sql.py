"""Tables as SQL. What differs between databases is data in a `Dialect`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from everhold.schema.codec import Convert
from everhold.schema.table import TENANT, Column, Kind, Lookup, Reference, Table, Unique


@dataclass(frozen=True)
class Dialect:
    """How one database spells things.

    `types` may mention `{width}`. `drawn` is the definition of the number the store draws. `row_number` is a column
    every table gets besides its own, or nothing. `sets_one_null` says whether a composite foreign key can
    null one of its columns. `among` says that a column is one of many values, bound as one list; nothing where the
    values are bound one by one. A `bare` table is its columns and nothing else, neither keys nor rules nor indexes: for
    a store that keeps the rules itself. Statements that only this database needs come from `extras`.
    """

    name: str
    placeholder: str
    types: Mapping[Kind, str]
    unbounded_text: str
    encoders: Mapping[Kind, Convert]
    decoders: Mapping[Kind, Convert]
    differs: str
    drawn: str
    among: str = ""
    row_number: str = ""
    sets_one_null: bool = True
    bare: bool = False
    true: str = "TRUE"
    false: str = "FALSE"

    def type_of(self, column: Column) -> str:
        if column.kind is Kind.TEXT and column.width is None:
            return self.unbounded_text
        return self.types[column.kind].format(width=column.width)


def quoted(name: str) -> str:
    return f'"{name}"'


def listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(quoted(name) for name in names)


def create_table(table: Table, dialect: Dialect) -> str:
    numbered = bool(dialect.row_number) and not table.drawn
    parts = [dialect.row_number] if numbered else []
    parts += [_column(table, column, dialect) for column in table.columns]
    if not dialect.bare:
        if not table.drawn:
            parts.append(f"{'UNIQUE' if numbered else 'PRIMARY KEY'} ({listed(table.key)})")
        parts += [_foreign_key(reference, dialect) for reference in table.references if reference.kind is None]
    return f"CREATE TABLE {quoted(table.name)} (\n  " + ",\n  ".join(parts) + "\n)"


def _column(table: Table, column: Column, dialect: Dialect) -> str:
    if column.name == table.drawn:
        return f"{quoted(column.name)} {dialect.drawn}"
    return define_column(column, dialect)


def define_column(column: Column, dialect: Dialect) -> str:
    text = f"{quoted(column.name)} {dialect.type_of(column)}"
    if dialect.bare:
        return text
    if not column.nullable:
        text += " NOT NULL"
    return text + _check(column, dialect)


def _check(column: Column, dialect: Dialect) -> str:
    name = quoted(column.name)
    conditions = []
    if column.low is not None:
        conditions.append(f"{name} >= {column.low}")
    if column.high is not None:
        conditions.append(f"{name} <= {column.high}")
    if column.width is not None and "{width}" not in dialect.types[column.kind]:
        conditions.append(f"length({name}) <= {column.width}")
    if column.one_of:
        conditions.append(f"{name} IN ({', '.join(repr(value) for value in column.one_of)})")
    return f" CHECK ({' AND '.join(conditions)})" if conditions else ""


def _foreign_key(reference: Reference, dialect: Dialect) -> str:
    if reference.target == "organizations":
        return f"FOREIGN KEY ({quoted(TENANT)}) REFERENCES {quoted('organizations')} ({quoted('id')}) ON DELETE CASCADE"
    columns = listed((TENANT, *reference.columns))
    targets = listed((TENANT, *reference.target_columns))
    action = " ON DELETE CASCADE"
    if reference.on_delete == "set_null":
        action = f" ON DELETE SET NULL ({listed(reference.columns)})" if dialect.sets_one_null else ""
    return f"FOREIGN KEY ({columns}) REFERENCES {quoted(reference.target)} ({targets}){action}"


def create_indexes(table: Table, dialect: Dialect) -> Iterator[str]:
    if dialect.bare:
        return
    for unique in table.uniques:
        yield create_unique(table, unique, dialect)
    for lookup in table.lookups:
        yield create_lookup(table, lookup, dialect)
    for reference in table.references:
        if reference.target != "organizations" and not _led_by(table, reference):
            yield create_lookup(table, Lookup(reference.columns), dialect)


def _led_by(table: Table, reference: Reference) -> bool:
    """Whether some index already starts with the reference's columns, so that a cascade is quick."""
    width = len(reference.columns)
    starts = [table.key[1 : 1 + width]]
    starts += [lookup.columns[:width] for lookup in table.lookups]
    starts += [unique.columns[:width] for unique in table.uniques if unique.always and not unique.when]
    return reference.columns in starts


def index_name(table: Table, kind: str, columns: tuple[str, ...]) -> str:
    return f"{kind}_{table.name}_{'_'.join(columns)}"[:63]


def create_lookup(table: Table, lookup: Lookup, dialect: Dialect) -> str:
    columns = (TENANT, *lookup.columns) if TENANT in table.by_name else lookup.columns
    first = quoted(lookup.columns[0])
    where = f" WHERE {first} IS NOT NULL" if table.by_name[lookup.columns[0]].nullable else ""
    if lookup.only_false:
        where = f" WHERE {first} = {dialect.false}"
    name = index_name(table, "by", lookup.columns)
    return f"CREATE INDEX {quoted(name)} ON {quoted(table.name)} ({listed(columns)}){where}"


def create_unique(table: Table, unique: Unique, dialect: Dialect) -> str:
    columns = [quoted(TENANT)] if TENANT in table.by_name else []
    for name in unique.columns:
        absent_counts = table.by_name[name].nullable and name != unique.when
        columns.append(f"coalesce({quoted(name)}, '')" if absent_counts else quoted(name))
    conditions = []
    if table.soft and not unique.always:
        conditions.append(f"{quoted('is_deleted')} = {dialect.false}")
    if unique.when:
        conditions.append(f"{quoted(unique.when)} IS NOT NULL")
    if unique.unless:
        conditions.append(f"{quoted(unique.unless)} IS NULL")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    name = index_name(table, "one", (unique.name,))
    return f"CREATE UNIQUE INDEX {quoted(name)} ON {quoted(table.name)} ({', '.join(columns)}){where}"
