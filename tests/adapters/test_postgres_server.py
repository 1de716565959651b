"""The PostgreSQL server of other tests: it starts as any user, has pgvector and keeps every acknowledged commit."""

import psycopg
import pytest

from tests.servers.postgres import PostgresServer


def read_pgvector_version(url: str) -> tuple[int, ...]:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE EXTENSION vector")
        row = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    assert row is not None
    return tuple(int(part) for part in row[0].split("."))


def test_pgvector_is_recent_enough(empty_postgres_url: str) -> None:
    assert read_pgvector_version(empty_postgres_url) >= (0, 8, 2)


def test_each_test_gets_an_empty_database(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        extensions = connection.execute("SELECT count(*) FROM pg_extension WHERE extname = 'vector'").fetchone()
    assert (tables, extensions) == ((0,), (0,))


def test_words_of_any_language_are_kept(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        row = connection.execute("SELECT upper('ä') || %s", ["กาแฟ 東京"]).fetchone()
    assert row == ("Äกาแฟ 東京",)


def test_a_kill_loses_nothing_acknowledged() -> None:
    with PostgresServer(durable=True) as server:
        url = server.create_database("ledger")
        connection = psycopg.connect(url, autocommit=True)
        connection.execute("CREATE TABLE line (number int PRIMARY KEY)")
        for number in range(50):
            connection.execute("INSERT INTO line VALUES (%s)", [number])

        server.kill()

        assert not server.is_running
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        connection.close()
        server.restart()
        with psycopg.connect(url) as new_connection:
            assert new_connection.execute("SELECT count(*) FROM line").fetchone() == (50,)


def test_stop_keeps_the_data_and_close_removes_it() -> None:
    server = PostgresServer()
    server.start()
    url = server.create_database("kept")
    server.stop()
    assert not server.is_running
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    server.start()
    psycopg.connect(url).close()
    server.close()
    assert not server._home.exists()


def test_a_server_that_cannot_start_says_why() -> None:
    server = PostgresServer(settings={"shared_buffers": "nonsense"})
    try:
        with pytest.raises(RuntimeError, match='invalid value for parameter "shared_buffers"'):
            server.start()
    finally:
        server.close()
