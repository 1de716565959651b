"""Check a SQL statement that a language model wrote, and correct its quotes and the spelling of its values.

The guard decides what may run. These checks decide what may be shown: a result must come from the tables, so a
statement must not carry text of the model as a constant, a comment or a long alias.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import sqlglot
from sqlglot import exp

from everhold.ask.guard import parse_query
from everhold.ask.language.tokens import split_words
from everhold.ask.language_model.quoting import shorten
from everhold.ask.schema import AskSchema, ColumnRef
from everhold.ask.values import ValueIndex
from everhold.errors import StatementRefused

_ALIAS: Final = re.compile(r"[\w .%/()#-]{1,40}")
_MAX_DESCRIPTION_CHARACTERS: Final = 300
_TEXT_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.In)


class ModelStatement(NamedTuple):
    """A statement to run: without comments, and with values spelled as they are stored.

    `description` says in words what it selects. `assumptions` has a line about each value that was replaced.
    """

    sql: str
    description: str
    assumptions: tuple[str, ...] = ()


def prepare_statement(sql: str, dialect: str, schema: AskSchema, values: ValueIndex) -> ModelStatement:
    """Return a statement in the form that is run and shown. It must have passed the guard, which limits its size.

    Raise StatementRefused if it reads no table, selects a constant, or has an alias that is not a short name.
    """
    tree = sqlglot.parse_one(sql, read=dialect)
    assert isinstance(tree, exp.Query)
    _check_output(tree)
    assumptions = tuple(_correct_values(tree, schema, values))
    description = shorten(describe_query(tree, dialect), _MAX_DESCRIPTION_CHARACTERS)
    return ModelStatement(tree.sql(dialect=dialect, comments=False), description, assumptions)


def correct_quotes(sql: str, dialect: str, schema: AskSchema) -> str:
    """Return a statement in which compared quoted_texts are in single quotes: many models write WHERE city = "Rome".

    A quoted name is a text if no table, column or alias has that name. The statement is not checked yet;
    raise StatementRefused if it is not a query, or too large to be parsed.
    """
    tree = parse_query(sql, dialect)
    names = {name.casefold() for column in schema.columns() for name in (column.table, column.name)}
    names |= {alias.casefold() for alias in _list_aliases(tree)}
    quoted_texts = [
        column
        for comparison in tree.find_all(*_TEXT_COMPARISONS, exp.Like, exp.ILike)
        for column in comparison.iter_expressions()
        if isinstance(column, exp.Column) and not column.table and isinstance(column.this, exp.Identifier)
        if column.this.quoted and column.name.casefold() not in names
    ]
    for column in quoted_texts:
        column.replace(exp.Literal.string(column.name))
    return tree.sql(dialect=dialect, comments=False) if quoted_texts else sql


def _check_output(tree: exp.Query) -> None:
    """Raise StatementRefused for columns of the result that come from no table, and for aliases that are sentences."""
    if tree.find(exp.Table) is None:
        raise StatementRefused("the statement reads no table", remedy="select from a table")
    for select in tree.find_all(exp.Select):
        is_exists = select.find_ancestor(exp.Exists) is not None  # EXISTS (SELECT 1 …) is usual, and returns no 1
        for item in select.expressions:
            if not is_exists and item.find(exp.Column, exp.Star) is None:
                raise StatementRefused("the statement selects a constant", remedy="select columns")
    for name in _list_aliases(tree):
        if not _ALIAS.fullmatch(name):
            raise StatementRefused("an alias is not a short name", value=name, remedy="use short aliases")


def _list_aliases(tree: exp.Query) -> Iterator[str]:
    yield from (alias.alias for alias in tree.find_all(exp.Alias))
    for table_alias in tree.find_all(exp.TableAlias):
        yield from (name for name in (table_alias.name, *(column.name for column in table_alias.columns)) if name)


def _correct_values(tree: exp.Query, schema: AskSchema, values: ValueIndex) -> Iterator[str]:
    """Replace texts that a column holds in another spelling by that spelling; yield a line about each.

    So the model need not know the stored values: it may repeat the words of the question.
    """
    tables = _map_aliases(tree, schema)
    for comparison in list(tree.find_all(*_TEXT_COMPARISONS)):
        column = next((item for item in (comparison.this, comparison.args.get("expression")) if _is_column(item)), None)
        ref = None if column is None else _resolve(column, tables, schema)
        if ref is None:
            continue
        compared = [comparison.this, comparison.args.get("expression"), *comparison.args.get("expressions", ())]
        for literal in compared:
            if isinstance(literal, exp.Literal) and literal.is_string:
                stored = _find_stored(str(literal.this), ref, values)
                if stored is not None:
                    yield f"{literal.this!r} means the value {stored!r} of {ref.table}.{ref.column}"
                    literal.replace(exp.Literal.string(stored))


def _is_column(item: object) -> bool:
    return isinstance(item, exp.Column) and isinstance(item.this, exp.Identifier)


def _map_aliases(tree: exp.Query, schema: AskSchema) -> dict[str, str]:
    """Return the tables of a statement by the names that it uses for them."""
    names = {table.name.casefold(): table.name for table in schema.tables}
    return {
        (table.alias or table.name).casefold(): names[table.name.casefold()]
        for table in tree.find_all(exp.Table)
        if table.name.casefold() in names
    }


def _resolve(column: exp.Column, tables: Mapping[str, str], schema: AskSchema) -> ColumnRef | None:
    """Return the column that a name in a statement stands for; None if it is not certain."""
    owners = [tables.get(column.table.casefold(), "")] if column.table else list(dict.fromkeys(tables.values()))
    refs = [
        item.ref
        for owner in owners
        if owner
        for item in schema.table(owner).columns
        if item.name.casefold() == column.name.casefold()
    ]
    return refs[0] if len(refs) == 1 else None


def _find_stored(text: str, ref: ColumnRef, values: ValueIndex) -> str | None:
    """Return the one value of a column that has the words of a text in another spelling; None if there are several."""
    matches = [match for match in values.find_exact(split_words(text)) if match.value.ref == ref]
    stored = list(dict.fromkeys(str(match.value.raw) for match in matches))
    return stored[0] if len(stored) == 1 and stored[0] != text else None


def describe_query(tree: exp.Query, dialect: str) -> str:
    """Describe a statement in a few words: what it selects, from which tables, and how.

    Aliases are left out: they are words of the model, and say nothing about what is computed.
    """
    if not isinstance(tree, exp.Select):
        return f"a combination of {' and '.join(_list_tables(tree))}"
    selected = ", ".join(_format_sql(item.unalias(), dialect) for item in tree.expressions)
    parts = [f"{selected} of {' and '.join(_list_tables(tree))}"]
    for name, words in (("where", "where"), ("group", "per"), ("having", "having"), ("order", "sorted by")):
        clause = tree.args.get(name)
        if clause is not None:
            expressions = clause.expressions or [clause.this]
            parts.append(f"{words} {', '.join(_format_sql(item, dialect) for item in expressions)}")
    if tree.args.get("limit") is not None:
        parts.append(f"the first {_format_sql(tree.args['limit'].expression, dialect)}")
    return ", ".join(parts)


def _list_tables(tree: exp.Query) -> list[str]:
    defined = {expression.alias for expression in tree.find_all(exp.CTE)}
    return list(dict.fromkeys(table.name for table in tree.find_all(exp.Table) if table.name not in defined))


def _format_sql(item: exp.Expr, dialect: str) -> str:
    return item.sql(dialect=dialect, comments=False).replace('"', "").replace("`", "")
