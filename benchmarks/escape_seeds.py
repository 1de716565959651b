"""Statements that try to leave the sandbox, and mutations that disguise them.

`{secret}` is a file outside the data, `{write}` a file that must not appear, `{port}` a port that counts connections.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Final

DUCKDB: Final = (
    "SELECT * FROM read_csv('{secret}')", "SELECT * FROM read_text('{secret}')", "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM glob('/**')", "SELECT * FROM read_json('{secret}', format='auto')",
    "SELECT * FROM read_csv('/proc/self/environ')", "SELECT * FROM read_text('/proc/self/cmdline')",
    "SELECT * FROM '{secret}.csv'", 'SELECT * FROM "{secret}.parquet"',
    "COPY orders FROM '{secret}.csv'", "COPY (SELECT 1) TO '{write}'", "COPY (SELECT 1) TO '{data}' (FORMAT parquet)",
    "EXPORT DATABASE '{write}'", "ATTACH '{secret}.duckdb' AS other", "ATTACH '{write}' AS other",
    "ATTACH ':memory:' AS other", "INSTALL httpfs", "LOAD httpfs",
    "SELECT * FROM read_csv('http://127.0.0.1:{port}/x')", "SET enable_external_access = true",
    "RESET enable_external_access", "SET lock_configuration = false", "SET temp_directory = '/tmp'",
    "SELECT * FROM query('SELECT * FROM read_text(''{secret}'')')", "SELECT * FROM query_table('{secret}')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM read_text(''{secret}'')'))",
    "SELECT * FROM canary_frame", "PRAGMA profile_output = '{write}'",
    "CALL enable_logging(storage_path = '{write}')", "SELECT * FROM read_text('.tmp/../{secret}')",
    "COPY (SELECT 1) TO '.tmp/../{write}'", "SELECT * FROM read_duckdb('{secret}.duckdb')",
    "SELECT * FROM sqlite_scan('{secret}.sqlite', 'secret')",
    "SELECT * FROM parquet_metadata('{secret}.parquet')", "SELECT * FROM sniff_csv('{secret}')",
    "PREPARE stolen AS SELECT * FROM read_text('{secret}')", "SELECT 1 IN (FROM secret)",
    "SELECT * FROM orders POSITIONAL JOIN secret", "SELECT getenv('CANARY')", "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()", "DROP TABLE orders", "CREATE OR REPLACE MACRO sum(x) AS 1",
    "CREATE TABLE copied AS SELECT * FROM read_text('{secret}')", "SET VARIABLE stolen = 1", "CHECKPOINT",
    "SELECT repeat('x', 2000000000)", "SELECT repeat('x', 1000000000) || repeat('y', 1000000000)",
    "SELECT lpad('x', 2147483647, 'y')", "SELECT printf('%1000000000d', 1)", "SELECT range(1000000000)",
    "SELECT levenshtein(repeat('a', 100000), repeat('b', 100000))",
    "SELECT list_reduce(range(100000000), lambda x, y: x + y)",
    "SELECT string_agg(x::VARCHAR, '') FROM range(1000000000) AS r(x)",
    "SELECT sum(a.x * b.x) FROM range(1000000) AS a(x), range(1000000) AS b(x)",
    "SELECT count(*) FROM orders a, orders b, orders c, orders d, orders e",
)  # fmt: skip

SQLITE: Final = (
    "ATTACH '{secret}.sqlite' AS other", "ATTACH '{write}' AS other", "DETACH main", "VACUUM INTO '{write}'", "VACUUM",
    "PRAGMA writable_schema = 1", "PRAGMA query_only = 0", "PRAGMA journal_mode = WAL", "PRAGMA table_info(orders)",
    "SELECT * FROM pragma_database_list", "SELECT * FROM pragma_compile_options()", "SELECT load_extension('{secret}')",
    "SELECT fts3_tokenizer('simple')", "SELECT * FROM dbstat", "SELECT * FROM sqlite_dbpage",
    "SELECT * FROM sqlite_master", "SELECT readfile('{secret}')", "SELECT writefile('{write}', 'x')",
    "SELECT * FROM fsdir('/')", "SELECT edit('x')", "CREATE TABLE copied (a)", "CREATE TEMP TABLE copied (a)",
    "CREATE VIRTUAL TABLE copied USING fts5(a)", "CREATE TEMP VIEW copied AS SELECT 1",
    "INSERT INTO orders VALUES (1, 'x')",
    "UPDATE orders SET name = 'x'", "DELETE FROM orders", "DROP TABLE orders", "REINDEX", "ANALYZE",
    "BEGIN EXCLUSIVE", "SAVEPOINT stolen", "SELECT * FROM secret",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
    "WITH t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t",
    "SELECT 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab' LIKE '%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%ac'",
    "SELECT json_extract(json_group_array(1), '$[0]')", "SELECT json('[[[[[[[[[[[[[[[[[[[[[[[[')",
    "SELECT printf('%.*c', 1000000000, 'x')", "SELECT zeroblob(1000000000)", "SELECT hex(randomblob(400000000))",
    "SELECT replace(hex(zeroblob(10000000)), '0', 'xxxxxxxxxx')",
    "SELECT group_concat(a.name) FROM orders a, orders b, orders c",
    "SELECT count(*) FROM orders a, orders b, orders c, orders d, orders e",
)  # fmt: skip

POSTGRES: Final = (
    "SELECT pg_read_file('{secret}')", "SELECT * FROM pg_read_file('{secret}')",
    "SELECT pg_read_binary_file('{secret}')",
    "SELECT * FROM pg_ls_dir('/')", "SELECT pg_stat_file('{secret}')", "SELECT lo_import('{secret}')",
    "SELECT lo_export(1, '{write}')", "SELECT lo_from_bytea(0, 'x')", "COPY orders TO '{write}'",
    "COPY orders TO PROGRAM 'touch {write}'", "COPY orders FROM '{secret}'",
    "SELECT * FROM dblink('host=127.0.0.1 port={port}', 'SELECT 1') AS t(a int)",
    "SELECT dblink_connect('host=127.0.0.1 port={port}')", "CREATE EXTENSION postgres_fdw",
    "SELECT set_config('role', 'postgres', false)", "SELECT set_config('app.tenant', 'other', false)",
    "SELECT set_config('transaction_read_only', 'off', false)", "SET ROLE postgres", "RESET SESSION AUTHORIZATION",
    "COMMIT; DROP TABLE orders", "SELECT 1; COMMIT; DELETE FROM orders", "DO $$ BEGIN DELETE FROM orders; END $$",
    "SELECT nextval('numbers')", "SELECT setval('numbers', 1)", "SELECT pg_terminate_backend(pg_backend_pid())",
    "SELECT pg_advisory_lock(1)", "SELECT pg_sleep(60)", "SELECT * FROM pg_stats", "SELECT * FROM pg_authid",
    "SELECT * FROM information_schema.tables", "SELECT 'secret'::regclass::oid", "SELECT * FROM secret",
    "SELECT CAST((SELECT note FROM secret LIMIT 1) AS int)",
    "SELECT query_to_xml('SELECT * FROM secret', true, true, '')",
    "SELECT database_to_xml(true, true, '')", "SELECT table_to_xml('secret', true, true, '')", "LISTEN stolen",
    "NOTIFY stolen", "SELECT pg_notify('stolen', 'x')", "INSERT INTO orders VALUES (1, 'x')", "DELETE FROM orders",
    "WITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone", "SELECT * INTO copied FROM orders",
    "SELECT * FROM orders FOR UPDATE", "TABLE secret", "CREATE TEMP TABLE copied (a int)", "PREPARE stolen AS SELECT 1",
    "LOAD '{secret}'", "SELECT current_setting('data_directory')", "SELECT version()",
    "SELECT count(*) FROM generate_series(1, 10000000000)", "SELECT length(repeat('x', 500000000))",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
    "SELECT count(*) FROM orders a, orders b, orders c, orders d, orders e",
)  # fmt: skip

MYSQL: Final = (
    "SELECT LOAD_FILE('{secret}')", "SELECT name FROM orders INTO OUTFILE '{write}'",
    "SELECT 'x' INTO DUMPFILE '{write}'", "LOAD DATA INFILE '{secret}' INTO TABLE orders",
    "LOAD DATA LOCAL INFILE '{secret}' INTO TABLE orders", "SELECT SLEEP(60)", "DO SLEEP(60)",
    "SELECT BENCHMARK(1000000000, SHA2('x', 512))", "SELECT GET_LOCK('stolen', 60)", "SELECT RELEASE_ALL_LOCKS()",
    "SELECT @@version", "SELECT @@datadir", "SELECT VERSION()", "SELECT USER()", "SELECT @stolen := 1",
    "SELECT name INTO @stolen FROM orders LIMIT 1", "SET @stolen = 1", "SET SESSION TRANSACTION READ WRITE",
    "SET GLOBAL general_log = 1", "SET GLOBAL general_log_file = '{write}'", "SET SESSION max_statement_time = 0",
    "SELECT * FROM secret", "SELECT * FROM escapes.secret", "SELECT * FROM hidden.secret", "SELECT * FROM mysql.user",
    "SELECT * FROM information_schema.tables", "SELECT * FROM performance_schema.threads", "SHOW TABLES",
    "SHOW GRANTS", "DESCRIBE orders", "TABLE secret", "HANDLER orders OPEN", "CALL stolen()", "DROP TABLE orders",
    "TRUNCATE orders", "INSERT INTO orders VALUES (1, 'x')", "UPDATE orders SET name = 'x'", "DELETE FROM orders",
    "REPLACE INTO orders VALUES (1, 'x')", "CREATE TABLE copied AS SELECT * FROM orders",
    "CREATE TEMPORARY TABLE copied (a int)", "CREATE FUNCTION f RETURNS STRING SONAME 'x.so'", "INSTALL SONAME 'x'",
    "ALTER TABLE orders ADD a int", "RENAME TABLE orders TO stolen", "GRANT ALL ON *.* TO reader", "FLUSH TABLES",
    "LOCK TABLES orders WRITE", "KILL 1", "COMMIT; DROP TABLE orders", "SELECT 1; DELETE FROM orders",
    "/*!50000 DELETE FROM orders */", "SELECT 1 /*!50000 INTO OUTFILE '{write}' */", "/*M! DROP TABLE orders */",
    "SELECT /*! SLEEP(60) */", "PREPARE stolen FROM 'SELECT 1'", "EXECUTE IMMEDIATE 'DELETE FROM orders'",
    "XA START 'x'", "SELECT * FROM orders FOR UPDATE", "SELECT * FROM orders LOCK IN SHARE MODE",
    "SELECT * FROM orders PROCEDURE ANALYSE()", "SELECT EXTRACTVALUE(1, CONCAT('~', (SELECT note FROM secret)))",
    "SELECT UPDATEXML(1, CONCAT('~', (SELECT note FROM secret)), 1)", "SELECT NEXT VALUE FOR numbers",
    "SELECT REPEAT('x', 2000000000)", "SELECT LPAD('x', 2000000000, 'y')", "SELECT SPACE(2000000000)",
    "SELECT MASTER_POS_WAIT('x', 1)", "SELECT UUID_SHORT()", "SELECT SYS_GUID()",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM orders a, orders b, orders c, orders d, orders e",
)  # fmt: skip

# The statements for DuckDB and SQLite run on uploaded files and on connected databases.
SEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "duckdb": DUCKDB,
    "sqlite": SQLITE,
    "postgres": POSTGRES,
    "mysql": MYSQL,
}

_CALL = re.compile(r"\b([a-z_0-9]{3,})\(")
_LITERAL = re.compile(r"'([^']{4,})'")


def _quote_functions(sql: str, rng: Random) -> str:
    return _CALL.sub(r'"\1"(', sql)


def _qualify_functions(sql: str, rng: Random) -> str:
    return _CALL.sub(lambda match: f"{rng.choice(('main', 'pg_catalog', 'system.main'))}.{match[1]}(", sql)


def _mix_case(sql: str, rng: Random) -> str:
    parts = re.split(r"('[^']*')", sql)
    return "".join(
        part if part.startswith("'") else "".join(rng.choice((c.upper(), c.lower())) for c in part) for part in parts
    )


def _use_full_width_letters(sql: str, rng: Random) -> str:
    """Write one word in full-width letters, which some systems fold to plain ones."""
    words = re.findall(r"[a-z_]{4,}", sql) or ["SELECT"]
    word = rng.choice(words)
    return sql.replace(word, "".join(chr(ord(c) + 0xFEE0) if c.isalpha() else c for c in word), 1)


def _split_literals(sql: str, rng: Random) -> str:
    return _LITERAL.sub(lambda match: f"'{match[1][:2]}' || '{match[1][2:]}'", sql)


def _replace_spaces(blank: str) -> Callable[[str, Random], str]:
    return lambda sql, rng: sql.replace(" ", blank)


def _wrap(before: str, after: str) -> Callable[[str, Random], str]:
    return lambda sql, rng: f"{before}{sql}{after}"


MUTATIONS: Final[tuple[Callable[[str, Random], str], ...]] = (
    _replace_spaces("/**/"), _replace_spaces(" --x\n"), _replace_spaces("/* /* SELECT */ */"),
    _replace_spaces("\t\n\f\r "), _mix_case, _quote_functions,
    _qualify_functions, _use_full_width_letters, _split_literals,
    _wrap("/* harmless */ ", ""), _wrap("", "; --"), _wrap("SELECT 1; ", ""), _wrap("", "; SELECT 1"),
    _wrap("SELECT * FROM (", ") AS t"), _wrap("WITH t AS (", ") SELECT * FROM t"),
    _wrap("WITH orders AS (", ") SELECT * FROM orders"), _wrap("SELECT * FROM orders, LATERAL (", ") AS t"),
    _wrap("SELECT id FROM orders UNION ALL ", ""), _wrap("SELECT CAST((", ") AS VARCHAR)"),
    _wrap("SELECT * FROM orders WHERE id IN (", ")"), _wrap("SELECT COALESCE((", "), 1)"),
    _wrap("EXPLAIN ANALYZE ", ""),
    _wrap("(", ")"), _wrap("SELECT id FROM orders EXCEPT (", ")"), _wrap("SELECT id FROM orders ORDER BY (", ")"),
    _wrap("PREPARE p AS ", ""), _wrap("WITH secret AS (SELECT 1) ", ""), _wrap("\ufeff", ""), _wrap("\u200b", ""),
)  # fmt: skip


def mutate(sql: str, count: int, rng: Random) -> Iterator[str]:
    """Yield a statement and up to `count` variants of it, each different."""
    seen = {sql}
    yield sql
    for mutation in MUTATIONS:
        variant = mutation(sql, rng)
        if variant not in seen and len(seen) <= count:
            seen.add(variant)
            yield variant
