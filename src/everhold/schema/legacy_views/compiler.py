"""Compiles legacy views to SQL. The differences between databases are data in a `ViewDialect`."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from everhold.schema.catalog import TABLES
from everhold.schema.legacy_views.declarations import (
    AbsentColumn,
    ColumnSource,
    HexDigest,
    LegacyView,
    RenamedValues,
    RowNumber,
    SqlExpression,
    ViewPreset,
    ViewRows,
)
from everhold.schema.sql import quote
from everhold.schema.table import TENANT, Kind

_WORD = re.compile(r"@(\w+)")
# The columns that end the time in which a row is shown, and the columns that begin it.
_ENDS = {"memories": ("superseded_at", "expires_at", "valid_to"), "agent_states": ("expires_at",)}
_BEGINNINGS = {"memories": ("valid_from",)}


@dataclass(frozen=True)
class ViewDialect:
    """The SQL of one database for the columns of legacy views.

    - `types` are the types of columns that are NULL.
    - `values` turn a stored value (`{value}`) into the shown one, for kinds that are not shown as they are stored.
    - `local_time` turns a stored time into the local time at `{hours}` hours from UTC; `zoned_time` into a time with
    its zone, if the database can show one.
    - `now` is the current time in the form in which times are stored.
    - `row_number` is an expression for the number of a row of `t`; `{key}` is replaced by the columns of its key.
    - `words` replace names after `@` in the SQL of declarations.
    - `join` follows the table in FROM. It may keep the database from accepting writes to a view.
    """

    types: Mapping[Kind, str]
    values: Mapping[Kind, str]
    local_time: str
    hex_digest: str
    now: str
    row_number: str
    words: Mapping[str, str]
    zoned_time: str | None = None
    join: str = ""
    true: str = "TRUE"
    false: str = "FALSE"


@dataclass(frozen=True)
class ViewCompiler:
    """Compiles the views of one preset for one database.

    `schema` is the schema of the catalog's tables. With `organization`, the views show the rows of this one only.
    """

    preset: ViewPreset
    dialect: ViewDialect
    schema: str
    organization: str | None = None

    def compile_select(self, view: LegacyView) -> str:
        """Return the SELECT statement of a view."""
        return "\nUNION ALL\n".join(self._select_rows(rows) for rows in view.rows)

    def _select_rows(self, rows: ViewRows) -> str:
        columns = ",\n  ".join(
            f"{self._write_column(rows.table, source)} AS {quote(name)}" for name, source in rows.columns.items()
        )
        conditions = "\n  AND ".join(self._list_conditions(rows)) or self.dialect.true
        return f"SELECT {columns}\nFROM {self._name_table(rows.table)} AS t{self.dialect.join}\nWHERE {conditions}"

    def _name_table(self, table: str) -> str:
        return f"{quote(self.schema)}.{quote(table)}"

    # columns

    def _write_column(self, table: str, source: ColumnSource) -> str:
        """Return the SQL expression of a column of a view."""
        match source:
            case str():
                return self._write_value(TABLES[table].by_name[source].kind, f"t.{quote(source)}")
            case SqlExpression(_, sql):
                return self._expand(sql)
            case RenamedValues(column, names):
                cases = " ".join(f"WHEN {quote_text(ours)} THEN {quote_text(name)}" for ours, name in names.items())
                return f"CASE t.{quote(column)} {cases} ELSE t.{quote(column)} END"
            case HexDigest(column):
                return self.dialect.hex_digest.format(value=f"t.{quote(column)}")
            case RowNumber():
                return self.dialect.row_number.format(key=", ".join(f"t.{quote(name)}" for name in TABLES[table].key))
            case AbsentColumn(kind, _):
                null = f"CAST(NULL AS {self.dialect.types[kind]})"
                return self._write_time(null) if kind is Kind.TIME else null

    def _write_value(self, kind: Kind, value: str) -> str:
        if kind is Kind.TIME:
            return self._write_time(value)
        return self.dialect.values.get(kind, "{value}").format(value=value)

    def _write_time(self, value: str) -> str:
        if self.preset.has_zones and self.dialect.zoned_time is not None:
            return self.dialect.zoned_time.format(value=value)
        return self.dialect.local_time.format(value=value, hours=self.preset.utc_offset_hours)

    def _expand(self, sql: str) -> str:
        """Return the SQL of a declaration with each name after `@` replaced."""
        words = {**self.dialect.words, "true": self.dialect.true, "false": self.dialect.false, "now": self.dialect.now}
        return _WORD.sub(lambda match: words.get(match[1]) or self._name_table(match[1]), sql)

    # conditions

    def _list_conditions(self, rows: ViewRows) -> Iterator[str]:
        table = TABLES[rows.table]
        if self.organization is not None:
            yield f"t.{quote(table.tenant or TENANT)} = {quote_text(self.organization)}"
        yield from self._list_live_conditions(rows.table, "t")
        for column, target in (rows.owners or {}).items():
            is_owner = f"o.{quote('id')} = t.{quote(column)}"
            if target != "organizations":
                is_owner += f" AND o.{quote(TENANT)} = t.{quote(TENANT)}"
            conditions = " AND ".join([is_owner, *self._list_live_conditions(target, "o")])
            yield f"EXISTS (SELECT 1 FROM {self._name_table(target)} AS o WHERE {conditions})"
        if rows.where:
            yield self._expand(rows.where)

    def _list_live_conditions(self, table: str, alias: str) -> Iterator[str]:
        """Yield the conditions that a row is neither deleted nor expired, and that a memory is current."""
        if TABLES[table].soft:
            yield f"{alias}.{quote('is_deleted')} = {self.dialect.false}"
        for name in _BEGINNINGS.get(table, ()):
            yield f"({alias}.{quote(name)} IS NULL OR {alias}.{quote(name)} <= {self.dialect.now})"
        for name in _ENDS.get(table, ()):
            yield f"({alias}.{quote(name)} IS NULL OR {alias}.{quote(name)} > {self.dialect.now})"


def quote_text(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
