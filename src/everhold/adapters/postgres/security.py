"""Row-level security: the database itself separates organizations.

Every table with rows of organizations has two policies, with FORCE, so that they apply to its owner too. `own` allows
only rows of the organization that the transaction has named; a transaction that names none reads and writes nothing.
`everything` allows reading the rows of all organizations, for work on the whole store: the feed, sealing, maintenance
and doctor. It allows no writes, except to tables whose keys are generated numbers, which do not name an organization.

The tables of the engine's own state (leases, positions of projections) have the policy `engine`: only a transaction
that names the engine reads or changes them. Secrets can be neither changed nor removed, and the versions of the schema
can only be read (`privileges.py`).

Partitions, and the tables that enforce their unique rules, have row-level security without a policy: only
their owner can query them directly, even if the database grants default privileges.

Transactions name the organization or the engine in a transaction-local setting, so that nothing stays on a connection
that a pooler gives to another client. The engine signs in as a role that owns nothing. A superuser or an owner is
rejected, because they could switch the policies off.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import psycopg

from everhold.adapters.postgres.connection import PostgresOptions
from everhold.adapters.postgres.partitions import RULE_TABLES, restrict_function, restrict_table
from everhold.adapters.postgres.privileges import describe_faults
from everhold.errors import StoreError
from everhold.model.base import Row
from everhold.schema.catalog import TABLES, get_table
from everhold.schema.operations import Ensure, Operation, Put, Unhide
from everhold.schema.sql import quote
from everhold.schema.statements import Compiler, SqlStatement
from everhold.schema.table import Table

Session = psycopg.Connection[tuple[Any, ...]]
Access = Mapping[str, str]

_ORGANIZATION, _EVERYTHING, _ENGINE = "everhold.organization", "everhold.everything", "everhold.engine"
NOTHING: Access = {_ORGANIZATION: "", _EVERYTHING: "", _ENGINE: ""}
EVERYTHING: Access = {**NOTHING, _EVERYTHING: "on"}
ENGINE: Access = {**NOTHING, _ENGINE: "on"}
WHOLE_STORE: Access = {**EVERYTHING, _ENGINE: "on"}
_TENANT_TABLES = tuple(table for table in TABLES.values() if table.tenant)
# The engine's own tables. Any role may read the versions of the schema, and only the owner writes them.
_ENGINE_TABLES = tuple(name for name, table in TABLES.items() if not table.tenant and name != "schema_versions")
_POLICIES = {
    **dict.fromkeys([table.name for table in _TENANT_TABLES], ("everything", "own")),
    **dict.fromkeys(_ENGINE_TABLES, ("engine",)),
}

_STATE = """SELECT c.relname::text, c.relrowsecurity AND c.relforcerowsecurity
    AND coalesce(array_agg(p.polname::text ORDER BY p.polname) FILTER (WHERE p.polname IS NOT NULL), '{}')
      = ARRAY(SELECT split_part(due, ' ', 2) FROM unnest(%s::text[]) AS due
        WHERE split_part(due, ' ', 1) = c.relname ORDER BY 1),
  row_security_active(c.oid), pg_has_role(c.relowner, 'MEMBER')
FROM pg_class c LEFT JOIN pg_policy p ON p.polrelid = c.oid
WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relname = ANY(%s)
GROUP BY c.oid ORDER BY 1"""
_CLOSED = """WITH RECURSIVE found(id, closed) AS (
  SELECT oid, relname = ANY(%(beside)s) FROM pg_class
  WHERE relnamespace = to_regnamespace(quote_ident(current_schema())) AND relname = ANY(%(beside)s || %(kept)s)
  UNION SELECT inhrelid, true FROM pg_inherits JOIN found ON inhparent = id
)
SELECT id::regclass::text, pg_has_role(%(role)s, relowner, 'MEMBER'), relrowsecurity
    AND NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = id)
    AND NOT EXISTS (SELECT FROM aclexplode(relacl) WHERE CASE grantee WHEN 0 THEN true WHEN relowner THEN false
      ELSE pg_has_role(%(role)s, grantee, 'USAGE') END)
FROM found JOIN pg_class ON pg_class.oid = id WHERE closed ORDER BY 1"""
_OPEN_FUNCTIONS = """SELECT oid::regprocedure::text FROM pg_proc
WHERE pronamespace = to_regnamespace(quote_ident(current_schema())) AND proname = ANY(%s)
  AND (proconfig IS DISTINCT FROM ARRAY['search_path=' || quote_ident(current_schema()) || ', pg_temp']
    OR has_function_privilege(%s, oid, 'EXECUTE')) ORDER BY 1"""
_RIGHTS = """SELECT rolsuper OR rolbypassrls, current_user::text FROM pg_roles WHERE rolname = current_user"""


# what a transaction may read and write


def access_organization(organization_id: str) -> Access:
    """Return the settings for the rows of one organization."""
    return {**NOTHING, _ORGANIZATION: organization_id}


def choose_access(entity: type[Row], organization_id: str | None) -> Access:
    """Return the settings to read one organization's rows; without one, all rows or the engine's own tables."""
    if organization_id is not None:
        return access_organization(organization_id)
    return EVERYTHING if get_table(entity).tenant else ENGINE


def make_access_statement(access: Access) -> SqlStatement:
    """Return the statement that applies the settings to the rest of the transaction."""
    calls = ", ".join(["set_config(%s, %s, true)"] * len(access))
    return SqlStatement(f"SELECT {calls}", [part for setting in access.items() for part in setting])


def set_access(connection: Session, access: Access) -> None:
    """Apply settings to the rest of the transaction."""
    statement = make_access_statement(access)
    connection.execute(statement.sql.encode(), statement.values)


def compile_with_access(operations: Iterable[Operation], compiler: Compiler) -> Iterator[SqlStatement]:
    """Yield the SQL of the operations, and the settings before each change of organization."""
    access: Access = NOTHING
    for operation in operations:
        needed_access = _find_access(operation)
        if needed_access != access:
            yield make_access_statement(needed_access)
            access = needed_access
        yield from compiler.compile(operation)


def _find_access(operation: Operation) -> Access:
    match operation:
        case Put(row) | Ensure(row):
            tenant = get_table(type(row)).tenant
            return access_organization(row.__dict__[tenant]) if tenant else ENGINE
        case Unhide(organization_id):
            return access_organization(organization_id)
        case _:
            table = get_table(operation.entity)
            if table.tenant is None:
                return ENGINE
            return access_organization(operation.key[0]) if table.key[0] == table.tenant else EVERYTHING


# creating the policies


def secure(owner: Session, role: str) -> None:
    """Give every table exactly its policies, and close partitions, rule tables and functions to the role."""
    for table in [TABLES[name] for name, in_force, *_ in _read_states(owner) if not in_force]:
        _drop_policies(owner, quote(table.name))
        owner.execute(";\n".join(_create_policies(table)).encode())
    for name, _, is_closed in _read_closed_tables(owner, role):
        if not is_closed:
            _drop_policies(owner, name)
            owner.execute(restrict_table(name, role).encode())
    for function in _list_open_functions(owner, role):
        owner.execute(restrict_function(function, role).encode())


def _drop_policies(owner: Session, table: str) -> None:
    query = "SELECT polname::text FROM pg_policy WHERE polrelid = to_regclass(%s)"
    for (policy,) in owner.execute(query, [table]).fetchall():
        owner.execute(f"DROP POLICY {quote(policy)} ON {table}".encode())


def _create_policies(table: Table) -> Iterator[str]:
    name = quote(table.name)
    if table.name in _ENGINE_TABLES:
        engine = f"(SELECT current_setting('{_ENGINE}', true)) = 'on'"
        yield f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
        yield f'CREATE POLICY "engine" ON {name} USING ({engine}) WITH CHECK ({engine})'
        return
    own = f"{quote(table.tenant or '')} = (SELECT current_setting('{_ORGANIZATION}', true))"
    everything = f"(SELECT current_setting('{_EVERYTHING}', true)) = 'on'"
    yield f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
    yield f'CREATE POLICY "own" ON {name} USING ({own}) WITH CHECK ({own})'
    yield f'CREATE POLICY "everything" ON {name} FOR {"ALL" if table.generated else "SELECT"} USING ({everything})'


# checking the policies


def read_role(connection: Session) -> str:
    [(_, role)] = connection.execute(_RIGHTS).fetchall()
    return str(role)


def require_isolation(connection: Session, options: PostgresOptions) -> None:
    """Raise StoreError unless row-level security is as the settings say."""
    if options.row_security:
        faults = find_faults(connection)
        if faults:
            raise StoreError.from_sentence(f"{options.place}: {faults[0]}")
    elif any(active for _, _, active, _ in _read_states(connection)):
        raise StoreError(f"{options.place} has row-level security in force", remedy="set postgres.row_security to true")


def find_faults(connection: Session) -> list[str]:
    """Return what prevents row-level security from separating organizations for the current role."""
    [(bypasses_policies, role)] = connection.execute(_RIGHTS).fetchall()
    if bypasses_policies:
        return [f"role {role!r} is above row-level security; sign in as one without SUPERUSER and BYPASSRLS"]
    states, closed = _read_states(connection), _read_closed_tables(connection, role)
    owned_tables = [name for name, _, _, is_owned in states if is_owned] + [
        name for name, is_owned, _ in closed if is_owned
    ]
    if owned_tables:
        remedy = "sign in as another role, and name the owner's address in postgres.owner_url"
        return [f"role {role!r} owns {owned_tables[0]} and could switch row-level security off; {remedy}"]
    secured = {name for name, in_force, active, _ in states if in_force and active}
    unsecured = sorted(_POLICIES.keys() - secured)
    remedy = "open the store once with postgres.owner_url"
    full_remedy = f"{remedy}, and revoke what is granted to groups of the role"
    open_tables = [
        f"table {name} is open to role {role!r} by its own name; {full_remedy}"
        for name, _, is_closed in closed
        if not is_closed
    ]
    functions = _list_open_functions(connection, role)
    return [
        *(f"table {name} lacks its row-level security; {remedy}" for name in unsecured),
        *open_tables,
        *(f"function {name} runs as its owner and is open to role {role!r}; {full_remedy}" for name in functions),
        *describe_faults(connection, role),
    ]


def _read_closed_tables(connection: Session, role: str) -> Sequence[tuple[Any, ...]]:
    """Return the name of each partition and rule table, whether the role owns it, and whether it is closed to it."""
    names = {"beside": list(RULE_TABLES), "kept": [table.name for table in _TENANT_TABLES], "role": role}
    return connection.execute(_CLOSED, names, binary=True).fetchall()


def _list_open_functions(connection: Session, role: str) -> list[str]:
    rows = connection.execute(_OPEN_FUNCTIONS, [list(RULE_TABLES.values()), role]).fetchall()
    return [name for (name,) in rows]


def _read_states(connection: Session) -> Sequence[tuple[Any, ...]]:
    expected = [f"{name} {policy}" for name, policies in _POLICIES.items() for policy in policies]
    return connection.execute(_STATE, [expected, list(_POLICIES)], binary=True).fetchall()
