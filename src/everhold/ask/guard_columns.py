"""Check the names of columns in a statement, and the characters of names that the statement defines."""

import re
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Final

from sqlglot import exp

from everhold.errors import StatementRefused

_MAX_COMPARED_LENGTH: Final = 100  # characters of a name that are compared with known names
_SPELLING: Final = "check its name; write texts in single quotes"
# Characters by which a name could end early if a database quoted names in another way than the parser.
_UNUSUAL: Final = re.compile(r"""[\x00-\x1f\x7f'"`\\\[\]]""")


def check_columns(
    root: exp.Query,
    columns: Mapping[str, Collection[str]],
    used: Collection[str],
    fold: Callable[[str], str],
    fold_column: Callable[[str], str],
) -> None:
    """Raise StatementRefused for a name that is neither a column of a used table nor defined by the statement.

    `columns` has the columns of each table, and `used` the tables that the statement reads. Names of tables are folded
    by `fold`, and names of columns by `fold_column`. A column with a table's name before it must be a column of that
    table: in PostgreSQL, `orders.f` calls the function `f` if the table has no such column.
    """
    visible_names = {name for table in used for name in columns[table]} | {
        fold_column(alias.alias) for alias in root.find_all(exp.Alias)
    }
    for alias in root.find_all(exp.TableAlias):
        visible_names.update(fold_column(column.name) for column in alias.args.get("columns") or ())
    sources = _list_sources(root, columns, visible_names, fold, fold_column)
    for column in root.find_all(exp.Column):
        if type(column.this) is exp.Identifier:
            allowed = sources.get(fold(column.table), ()) if column.table else visible_names
            if fold_column(column.name) not in allowed:
                fact = f"no column {column.name!r} in the tables of this statement"
                raise StatementRefused(
                    fact, value=column.name, remedy=suggest_spelling(column.name, visible_names, _SPELLING)
                )
    stored_names = {*map(fold_column, columns), *(name for names in columns.values() for name in names)}
    _check_defined_names(root, stored_names, fold_column)


def suggest_spelling(name: str, known: Collection[str], otherwise: str = "use a table of this data set") -> str:
    """Return the remedy for an unknown name: the known name with nearly the same spelling, or else `otherwise`."""
    # If known names differ only in case, the first of them in alphabetical order is suggested.
    names_by_lower = {known_name.lower(): known_name for known_name in sorted(known, reverse=True)}
    closest = get_close_matches(name[:_MAX_COMPARED_LENGTH].lower(), names_by_lower, n=1)
    return f"did you mean {names_by_lower[closest[0]]!r}?" if closest else otherwise


def _list_sources(
    root: exp.Query,
    columns: Mapping[str, Collection[str]],
    visible_names: Collection[str],
    fold: Callable[[str], str],
    fold_column: Callable[[str], str],
) -> dict[str, Collection[str]]:
    """Return the columns of each table and subquery that a statement reads from, by its name or alias.

    The columns of a subquery are not analysed: any of `visible_names` may be one of them.
    """
    tables: dict[str, set[str]] = {}
    for table in root.find_all(exp.Table):
        name = fold(table.name)
        if name in columns:
            renamed = map(fold_column, table.alias_column_names)
            tables.setdefault(fold(table.alias_or_name), set()).update(columns[name], renamed)
    derived = {fold(table.alias_or_name) for table in root.find_all(exp.Table)} - tables.keys()
    derived |= {fold(node.alias) for node in root.find_all(exp.Subquery, exp.CTE, exp.Lateral) if node.alias}
    for name in derived & tables.keys():
        raise StatementRefused(f"the name {name!r} stands for two tables", value=name, remedy="use another alias")
    return {**tables, **dict.fromkeys(derived, visible_names)}


def _check_defined_names(root: exp.Query, stored_names: Collection[str], fold: Callable[[str], str]) -> None:
    """Raise StatementRefused for a name with a quote, bracket, backslash or line break, unless the data has it."""
    for identifier in root.find_all(exp.Identifier):
        name = identifier.name
        if _UNUSUAL.search(name) and fold(name) not in stored_names:
            raise StatementRefused(
                "a name has a quote, a bracket or a backslash", value=name, remedy="use plain stored_names"
            )
