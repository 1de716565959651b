"""Check every statement before it runs. It is parsed in the dialect of its database and compared with allow lists.

A statement passes if every node, table and function is on a list (`guard_lists.py`). Everything else is refused, even
nodes that later versions of the parser may add. The statement that runs is not the original text, but a text generated
from the checked tree, which is parsed and checked again.
"""

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.tokenizer_core import Token, TokenType

from everhold.ask.guard_columns import check_columns, suggest_spelling
from everhold.ask.guard_lists import (
    CASE_SENSITIVE_COLUMNS,
    CASE_SENSITIVE_TABLES,
    FUNCTIONS,
    NAMED_FUNCTIONS,
    OPERATORS,
    RESERVED_PREFIXES,
    STRUCTURE,
    TYPES,
)  # fmt: skip
from everhold.errors import StatementRefused
from everhold.ports.data_engine import CheckedStatement

_FIRST_TOKENS: Final = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.FROM})
_OPENING: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_JOINS: Final = frozenset({TokenType.JOIN, TokenType.STRAIGHT_JOIN})
_CONDITIONS: Final = frozenset({TokenType.ON, TokenType.USING})
_NAMING: Final = frozenset({TokenType.ALIAS, TokenType.DOT})  # the next token is a name, even if it is the word ON
# Dialects in which a setting of the server decides whether a backslash escapes the quote after it.
_UNCERTAIN_ESCAPES: Final = frozenset({"mysql", "postgres", "redshift"})
_ODD_BACKSLASHES: Final = re.compile(r"""(?<!\\)(?:\\\\)*\\['"`]""")
_WORD: Final = re.compile(r"[A-Za-z_]{1,30}")
# The parser's message for a quote that is not closed: a line, and an offset from the start of the text.
_UNCLOSED: Final = re.compile(r"Missing \S+ from (\d+):(\d+)")
# How much longer than the original a generated text may be.
_GENERATED_FACTOR: Final = 4
_JOIN_KINDS: Final = frozenset({"", "INNER", "OUTER", "CROSS"})
_JOIN_METHODS: Final = frozenset({"", "NATURAL"})
# Errors that the parser raises for text that it cannot read. Some come from bugs in the parser.
_PARSE_ERRORS: Final = (SqlglotError, ValueError, TypeError, AttributeError, LookupError, RecursionError)

# The parser logs text that it cannot read. A statement may contain private data, so its log lines are suppressed.
_is_parsing: ContextVar[bool] = ContextVar("is_parsing", default=False)
logging.getLogger("sqlglot").addFilter(lambda record: not _is_parsing.get())


@dataclass(frozen=True)
class StatementLimits:
    """The maximum size of a statement.

    `nesting` is counted in brackets, `depth` and `nodes` in the parsed tree. `open_joins` are joins whose condition has
    not come yet. The time for parsing grows with the nesting and doubles with every open join, so both are counted
    before parsing.
    """

    characters: int = 20_000
    nesting: int = 40
    depth: int = 160
    nodes: int = 5_000
    joins: int = 16
    open_joins: int = 8
    selects: int = 32


_LIMITS: Final = StatementLimits()


def check_statement(
    sql: str,
    dialect: str,
    tables: Collection[str] | Mapping[str, Collection[str]],
    *,
    row_limit: int = 10_000,
    limits: StatementLimits = _LIMITS,
) -> CheckedStatement:
    """Return a statement that is safe to run, generated from the checked tree, with a limit of `row_limit` + 1 rows.

    `dialect` is a key of `FUNCTIONS`. `tables` are the names of the tables that the statement may read, without a
    schema. If it is a mapping from tables to their columns, columns are checked too. Raise StatementRefused for
    everything that is not known to be harmless.
    """
    if dialect not in FUNCTIONS:
        raise _refuse(f"no guard for the dialect {dialect!r}", dialect, f"use one of {', '.join(sorted(FUNCTIONS))}")
    tree = _parse(sql, dialect, limits)
    check = _Check(dialect, tables, limits)
    check.walk(tree)
    text = _limit_rows(tree, row_limit).sql(dialect=dialect, comments=False, identify=dialect == "postgres")
    if dialect in _UNCERTAIN_ESCAPES and _ODD_BACKSLASHES.search(text):
        raise _refuse("a backslash stands before a quote", remedy="leave out the backslash")
    recheck = _Check(dialect, tables, limits)
    recheck.walk(_parse(text, dialect, limits, is_generated=True))
    return CheckedStatement(text, dialect, frozenset(recheck.used), row_limit, _is_repeatable(tree))


def find_read_tables(sql: str, dialect: str) -> frozenset[str]:
    """Return the tables that a statement reads, without those that it defines itself.

    Raise StatementRefused if it is not a query.
    """
    root = parse_query(sql, dialect)
    defined = {expression.alias for expression in root.find_all(exp.CTE)}
    return frozenset(table.name for table in root.find_all(exp.Table) if table.name and table.name not in defined)


def parse_query(sql: str, dialect: str) -> exp.Query:
    """Return the tree of one query without checking its parts. Raise StatementRefused if it is not a query or too
    large."""
    return _parse(sql, dialect, _LIMITS)


def _refuse(fact: str, value: object = None, remedy: str = "ask with a plain SELECT") -> StatementRefused:
    return StatementRefused(fact, value=value, remedy=remedy)


def _refuse_malformed(sql: str, dialect: str, error: BaseException) -> StatementRefused:
    """Return the refusal of a text that cannot be parsed, with the place where parsing stopped if it is known."""
    fact, remedy = f"the statement is not valid {dialect} SQL", "check its spelling"
    details = getattr(error, "errors", None) or [{}]
    line, end, text = (details[0].get(name) for name in ("line", "col", "highlight"))
    if line and end:
        start = max(1, end - len(text or "") + 1)  # the parser gives the last character of what it did not expect
        return _refuse(f"{fact} at line {line}, character {start}", remedy="check the SQL there and before it")
    if unclosed := _UNCLOSED.fullmatch(str(error.__cause__)):
        text_before = sql[: int(unclosed[2])]
        character = len(text_before) - text_before.rfind("\n")
        place = f"line {unclosed[1]}, character {character}"
        return _refuse(f"{fact}: a quote at {place} is not closed", remedy="close it; a quote in a text is doubled")
    return _refuse(fact, remedy=remedy)


def _parse(sql: str, dialect: str, limits: StatementLimits, *, is_generated: bool = False) -> exp.Query:
    """Return the tree of one query.

    `is_generated` allows a longer text, because generated text may be longer than the original.
    """
    _check_text(sql, dialect, limits, _GENERATED_FACTOR if is_generated else 1)
    token = _is_parsing.set(True)
    try:
        trees = sqlglot.parse(sql, read=dialect)
        if dialect == "postgres":  # names without quotes are in lower case there
            trees = [tree and normalize_identifiers(tree, dialect=dialect) for tree in trees]
    except _PARSE_ERRORS as error:
        raise _refuse_malformed(sql, dialect, error) from error
    finally:
        _is_parsing.reset(token)
    statements = [tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)]
    if len(statements) != 1:
        raise _refuse(f"{len(statements)} statements instead of one", len(statements), "run one SELECT at a time")
    tree = statements[0]
    while type(tree) is exp.Subquery and set(_list_arguments(tree)) == {"this"}:
        tree = tree.this
    if type(tree) not in (exp.Select, exp.Union, exp.Intersect, exp.Except):
        raise _refuse(f"a {type(tree).__name__} statement is not allowed", type(tree).__name__)
    assert isinstance(tree, exp.Query)
    return tree


def _check_text(sql: str, dialect: str, limits: StatementLimits, factor: int) -> None:
    """Raise StatementRefused for a text that is too long, nested too deeply or not a query.

    `factor` multiplies the limits of length and nesting.
    """
    if len(sql) > factor * limits.characters:
        raise _refuse(
            f"the statement has {len(sql):,} characters; at most {limits.characters:,} are allowed",
            len(sql),
            "shorten it",
        )
    if "\0" in sql:
        raise _refuse("the statement contains a NUL character", remedy="remove it")
    try:
        tokens = sqlglot.tokenize(sql, read=dialect)
    except _PARSE_ERRORS as error:
        raise _refuse_malformed(sql, dialect, error) from error
    if not tokens or tokens[0].token_type not in _FIRST_TOKENS:
        raise _refuse("only queries are allowed", tokens[0].text if tokens else "", "begin with SELECT or WITH")
    nesting = 0
    for token in tokens:
        nesting += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if nesting > factor * limits.nesting:
            raise _refuse(f"brackets are nested more than {limits.nesting} deep", nesting, "simplify the statement")
    _check_joins(tokens, limits)


def _check_joins(tokens: Sequence[Token], limits: StatementLimits) -> None:
    """Raise StatementRefused for too many joins, or too many joins whose condition has not come yet."""
    joins = max_open_joins = nesting = 0
    depths: list[int] = []  # the nesting of each join whose condition has not come yet
    previous_kind = None
    for token in tokens:
        kind = token.token_type
        nesting += (kind in _OPENING) - (kind in _CLOSING)
        if kind in _JOINS:
            joins += 1
            depths.append(nesting)
        elif kind in _CONDITIONS and previous_kind not in _NAMING and depths and depths[-1] == nesting:
            depths.pop()
        max_open_joins = max(max_open_joins, len(depths))
        previous_kind = kind
    if joins > limits.joins or max_open_joins > limits.open_joins:
        fact = f"the statement has {joins} joins, {max_open_joins} of them without a condition"
        raise _refuse(f"{fact}; at most {limits.joins} and {limits.open_joins} are allowed", joins, "use JOIN … ON")


def _list_arguments(node: exp.Expr) -> Iterator[str]:
    return (name for name, value in node.args.items() if value not in (None, False, [], ""))


class _Check:
    """One check of a tree. After `walk`, `used` has the tables that the statement reads."""

    def __init__(
        self, dialect: str, tables: Collection[str] | Mapping[str, Collection[str]], limits: StatementLimits
    ) -> None:
        self._dialect, self._limits = dialect, limits
        self._tables = {self._fold(name): name for name in tables}
        self._columns = tables if isinstance(tables, Mapping) else None
        self.used: set[str] = set()

    def walk(self, root: exp.Query) -> None:
        """Check every node of a query. Raise StatementRefused for the first part that is not allowed."""
        counts: dict[type[exp.Expr], int] = {exp.Join: 0, exp.Select: 0}
        stack: list[tuple[exp.Expr, int, frozenset[str]]] = [(root, 0, frozenset())]
        nodes = 0
        while stack:
            node, depth, visible = stack.pop()
            nodes += 1
            if depth > self._limits.depth or nodes > self._limits.nodes:
                raise _refuse("the statement is too complex", nodes, "split it or shorten its lists")
            if type(node) in counts:
                counts[type(node)] += 1
            self._check_node(node, visible)
            stack.extend((child, depth + 1, names) for child, names in self._list_children(node, visible))
        if counts[exp.Join] > self._limits.joins or counts[exp.Select] > self._limits.selects:
            raise _refuse(
                f"the statement has {counts[exp.Join]} joins and {counts[exp.Select]} SELECTs; at most "
                f"{self._limits.joins} and {self._limits.selects} are allowed", remedy="simplify the statement",
            )  # fmt: skip
        if self._columns is not None:
            columns = {self._fold(table): set(map(self._fold_column, names)) for table, names in self._columns.items()}
            check_columns(root, columns, set(map(self._fold, self.used)), self._fold, self._fold_column)

    def _list_children(self, node: exp.Expr, visible: frozenset[str]) -> Iterator[tuple[exp.Expr, frozenset[str]]]:
        """Yield the children of a node, each with the names of the common table expressions that it can see.

        A common table expression sees the ones before it, but not itself: inside `WITH t AS (SELECT * FROM t)`, the
        inner `t` is the table.
        """
        with_clause = node.args.get("with_")
        if with_clause is not None:
            for expression in with_clause.expressions:
                yield expression, visible
                visible |= {self._fold(expression.alias)}
        for child in node.iter_expressions():
            if child is not with_clause:
                yield child, visible
            else:
                self._check_with(with_clause)

    def _check_with(self, clause: exp.Expr) -> None:
        self._check_arguments(clause)
        for expression in clause.expressions:
            if type(expression) is not exp.CTE or self._fold(expression.alias) in self._tables:
                raise _refuse(
                    f"WITH gives a second meaning to the table {expression.alias!r}",
                    expression.alias,
                    "use another name",
                )

    def _check_node(self, node: exp.Expr, visible: frozenset[str]) -> None:
        kind = type(node)
        if kind in STRUCTURE:
            self._check_arguments(node)
            self._check_details(node, visible)
        elif kind is exp.Anonymous:
            name = node.this
            if not isinstance(name, str) or name.lower() not in NAMED_FUNCTIONS.get(self._dialect, ()):
                raise _refuse(f"the function {name!s} is not allowed", str(name), "use another function")
        elif kind not in OPERATORS and kind not in FUNCTIONS[self._dialect]:
            name = node.sql_name() if isinstance(node, exp.Func) else kind.__name__
            raise _refuse(f"{name} is not allowed", name, "leave it out")

    def _check_arguments(self, node: exp.Expr) -> None:
        unknown = set(_list_arguments(node)) - STRUCTURE[type(node)]
        if unknown:
            name = min(unknown).strip("_").upper()
            raise _refuse(f"{name} is not allowed in {type(node).__name__}", name, "leave it out")

    def _check_details(self, node: exp.Expr, visible: frozenset[str]) -> None:
        """Refuse a node of a statement whose table, type, join, name or alias is not allowed."""
        match node:
            case exp.Table():
                self._check_table(node, visible)
            case exp.Join():
                method, kind = (node.args.get(name) or "" for name in ("method", "kind"))
                if str(method).upper() not in _JOIN_METHODS or str(kind).upper() not in _JOIN_KINDS:
                    raise _refuse(f"a {method or kind} JOIN is not allowed", str(method or kind), "use JOIN … ON")
            case exp.Lateral() if type(node.this) is not exp.Subquery:
                raise _refuse("LATERAL is allowed for subqueries only")
            case exp.DataType() if node.this not in TYPES:
                raise _refuse(f"the type {node.this!s} is not allowed", str(node.this), "cast to a plain type")
            case exp.Var() if not isinstance(node.this, str) or not _WORD.fullmatch(node.this):
                raise _refuse(f"{node.this!s} is not allowed", str(node.this))
            case exp.Column() if type(node.this) not in (exp.Identifier, exp.Star):
                raise _refuse("a column must be a name")
            case exp.Alias() if type(node.args.get("alias")) is not exp.Identifier:
                raise _refuse("an alias must be a name")
            case _:
                return

    def _check_table(self, table: exp.Table, visible: frozenset[str]) -> None:
        # A table function, such as read_text('…'), is a Table whose `this` is the call; its name would be empty.
        if type(table.this) is not exp.Identifier:
            raise _refuse("only tables may be read, not functions or files")
        # Schema and name are checked separately, because a name may itself contain a dot.
        schema, name = table.args.get("db"), table.name
        if schema is not None:
            raise _refuse(f"no table '{schema.name}.{name}' may be read", name, "leave out the schema")
        folded = self._fold(name)
        if folded in visible:
            return
        is_reserved = folded.startswith(RESERVED_PREFIXES.get(self._dialect, ()))
        if folded not in self._tables or is_reserved:
            raise _refuse(f"no table {name!r} may be read", name, suggest_spelling(name, self._tables.values()))
        self.used.add(self._tables[folded])

    def _fold(self, name: str) -> str:
        """Return a table's name for comparison: in lower case, unless the dialect distinguishes case."""
        return name if self._dialect in CASE_SENSITIVE_TABLES else name.lower()

    def _fold_column(self, name: str) -> str:
        return name if self._dialect in CASE_SENSITIVE_COLUMNS else name.lower()


def _is_repeatable(root: exp.Query) -> bool:
    """Return whether the query has the same result on the same data whenever it runs."""
    if root.find(exp.CurrentDate, exp.CurrentTimestamp):
        return False
    if any(str(node.this).lower() == "now" for node in root.find_all(exp.Literal, exp.Anonymous)):
        return False
    # age() with one argument counts from today, and SQLite's functions of time without arguments mean the present.
    return not any(
        len(node.expressions) < (2 if str(node.this).lower() == "age" else 1) for node in root.find_all(exp.Anonymous)
    ) and not any(node.this is None for node in root.find_all(exp.Date))


def _limit_rows(root: exp.Query, row_limit: int) -> exp.Query:
    """Return the query with a limit of one row more than `row_limit`, so that longer results are noticed."""
    limit = root.args.get("limit")
    max_rows = row_limit + 1
    if limit is not None:
        count = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression
        if not isinstance(count, exp.Literal) or not str(count.this).isdecimal():
            raise _refuse("LIMIT must be a whole number", remedy="write the number of rows")
        max_rows = min(max_rows, int(count.this))
    root.set("limit", exp.Limit(expression=exp.Literal.number(max_rows)))
    return root
