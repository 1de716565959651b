"""Compile tables to SQL. The differences between databases are data in a `Dialect`."""

from collections.abc import Iterator, Mapping

from everhold.schema.codec import Convert
from everhold.schema.table import TENANT, Column, Kind, Lookup, Reference, Table, Unique
from everhold.values import Value, value_class


@value_class
class Dialect(Value):
    """The SQL of one database for types, operators and literals.

    - `types` may contain `{width}`.
    - `differs` is the operator "not equal" for which NULL is an ordinary value.
    - `generated` defines the column whose number the database generates.
    - `among` compares a column with a list that is bound as one value; empty if the values are bound one by one.
    - `row_number` defines a column that every table gets in addition to its own; empty for none.
    - `sets_one_null` says whether ON DELETE SET NULL can name one column of a composite foreign key.
    - Without `has_constraints`, tables have no keys, constraints and indexes. The store checks the rules in Python.
    """

    name: str
    placeholder: str
    types: Mapping[Kind, str]
    unbounded_text: str
    encoders: Mapping[Kind, Convert]
    decoders: Mapping[Kind, Convert]
    differs: str
    generated: str
    among: str = ""
    row_number: str = ""
    sets_one_null: bool = True
    has_constraints: bool = True
    true: str = "TRUE"
    false: str = "FALSE"

    def spell_type(self, column: Column) -> str:
        """Return the database's type for a column."""
        if column.kind is Kind.TEXT and column.width is None:
            return self.unbounded_text
        return self.types[column.kind].format(width=column.width)


def quote(name: str) -> str:
    """Return an identifier in quotes."""
    return f'"{name}"'


def quote_names(names: tuple[str, ...] | list[str]) -> str:
    """Return identifiers in quotes, separated by commas."""
    return ", ".join(quote(name) for name in names)


def create_table(table: Table, dialect: Dialect) -> str:
    """Return the CREATE TABLE statement."""
    has_row_number = bool(dialect.row_number) and not table.generated
    parts = [dialect.row_number] if has_row_number else []
    parts += [_define_table_column(table, column, dialect) for column in table.columns]
    if dialect.has_constraints:
        if not table.generated:
            parts.append(f"{'UNIQUE' if has_row_number else 'PRIMARY KEY'} ({quote_names(table.key)})")
        parts += [_define_foreign_key(reference, dialect) for reference in table.references if reference.kind is None]
    return f"CREATE TABLE {quote(table.name)} (\n  " + ",\n  ".join(parts) + "\n)"


def _define_table_column(table: Table, column: Column, dialect: Dialect) -> str:
    if column.name == table.generated:
        return f"{quote(column.name)} {dialect.generated}"
    return define_column(column, dialect)


def define_column(column: Column, dialect: Dialect) -> str:
    """Return a column's definition with its constraints."""
    text = f"{quote(column.name)} {dialect.spell_type(column)}"
    if not dialect.has_constraints:
        return text
    if not column.nullable:
        text += " NOT NULL"
    return text + _define_check(column, dialect)


def _define_check(column: Column, dialect: Dialect) -> str:
    name = quote(column.name)
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


def _define_foreign_key(reference: Reference, dialect: Dialect) -> str:
    if reference.target == "organizations":
        return f"FOREIGN KEY ({quote(TENANT)}) REFERENCES {quote('organizations')} ({quote('id')}) ON DELETE CASCADE"
    columns = quote_names((TENANT, *reference.columns))
    targets = quote_names((TENANT, *reference.target_columns))
    action = " ON DELETE CASCADE"
    if reference.on_delete == "set_null":
        action = f" ON DELETE SET NULL ({quote_names(reference.columns)})" if dialect.sets_one_null else ""
    return f"FOREIGN KEY ({columns}) REFERENCES {quote(reference.target)} ({targets}){action}"


def create_indexes(table: Table, dialect: Dialect) -> Iterator[str]:
    """Yield the CREATE INDEX statements of a table."""
    if not dialect.has_constraints:
        return
    for unique in table.uniques:
        yield create_unique(table, unique, dialect)
    for lookup in table.lookups:
        yield create_lookup(table, lookup, dialect)
    for reference in table.references:
        if reference.target != "organizations" and not _has_index(table, reference):
            yield create_lookup(table, Lookup(reference.columns), dialect)


def _has_index(table: Table, reference: Reference) -> bool:
    """Return whether an index begins with the reference's columns. Without one, a cascade scans the whole table."""
    width = len(reference.columns)
    prefixes = [table.key[1 : 1 + width]]
    prefixes += [lookup.columns[:width] for lookup in table.lookups]
    prefixes += [unique.columns[:width] for unique in table.uniques if unique.always and not unique.when]
    return reference.columns in prefixes


def name_index(table: Table, kind: str, columns: tuple[str, ...]) -> str:
    """Return the name of an index."""
    return f"{kind}_{table.name}_{'_'.join(columns)}"[:63]  # PostgreSQL cuts longer names


def create_lookup(table: Table, lookup: Lookup, dialect: Dialect) -> str:
    """Return the CREATE INDEX statement of a lookup."""
    columns = (TENANT, *lookup.columns) if TENANT in table.by_name else lookup.columns
    first = quote(lookup.columns[0])
    # Rows without a value are never looked up: a partial index is smaller and cheaper to write.
    where = f" WHERE {first} IS NOT NULL" if table.by_name[lookup.columns[0]].nullable else ""
    if lookup.only_false:
        where = f" WHERE {first} = {dialect.false}"
    name = name_index(table, "by", lookup.columns)
    return f"CREATE INDEX {quote(name)} ON {quote(table.name)} ({quote_names(columns)}){where}"


def create_unique(table: Table, unique: Unique, dialect: Dialect) -> str:
    """Return the CREATE UNIQUE INDEX statement of a unique rule."""
    columns = [quote(TENANT)] if TENANT in table.by_name else []
    for name in unique.columns:
        # Databases never count two NULLs as equal, but the rule does.
        may_be_null = table.by_name[name].nullable and name != unique.when
        columns.append(f"coalesce({quote(name)}, '')" if may_be_null else quote(name))
    conditions = []
    if table.soft and not unique.always:
        conditions.append(f"{quote('is_deleted')} = {dialect.false}")
    if unique.when:
        conditions.append(f"{quote(unique.when)} IS NOT NULL")
    if unique.unless:
        conditions.append(f"{quote(unique.unless)} IS NULL")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    name = name_index(table, "one", (unique.name,))
    return f"CREATE UNIQUE INDEX {quote(name)} ON {quote(table.name)} ({', '.join(columns)}){where}"
