"""SQL views on PostgreSQL: under row-level security, in other schemas, and beside what others have created."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import psycopg
import pytest

from everhold import Everhold, parts, settings
from everhold.adapters.postgres import PostgresCandidates, PostgresOptions, PostgresRecords
from everhold.adapters.postgres.views import PostgresViews
from everhold.errors import StoreError, StoreReadOnly
from everhold.ports.search_indexes import SearchIndexes
from everhold.sql_views.installing import install_views, list_presets, remove_views
from everhold.testing.fake_embedder import FakeEmbedder
from tests.engines import CALM
from tests.servers.postgres import PostgresServer

READ_FACTS = "SELECT content FROM julep.memory_facts"


@pytest.fixture
def secured_options(postgres_server: PostgresServer, empty_postgres_url: str) -> PostgresOptions:
    postgres_server.create_role("application")
    return PostgresOptions(
        empty_postgres_url.replace("postgres@", "application@"), row_security=True, owner_url=empty_postgres_url
    )


@pytest.fixture
def engine(secured_options: PostgresOptions) -> Iterator[Everhold]:
    """An engine under row-level security, with a memory in each of two organizations."""
    security = {"row_security": True, "owner_url": secured_options.owner_url}
    loaded_settings = settings.load(secured_options.url, postgres=security, **CALM)
    records, embedder = PostgresRecords(secured_options), FakeEmbedder()
    candidates = PostgresCandidates(records)
    with Everhold(
        parts.assemble(loaded_settings, records, SearchIndexes(candidates, candidates), embedder, embedder)
    ) as engine:
        for organization in ("acme", "bolt"):
            engine.scope(organization=organization, user="u").remember(f"A memory of {organization}")
        yield engine


@contextmanager
def install(options: PostgresOptions, schema: str | None = None) -> Iterator[PostgresViews]:
    """Install views without an engine."""
    with closing(PostgresRecords(options)) as records:
        views = PostgresViews(records)
        install_views(views, "s4", organization=None, schema=schema, prefix=None)
        yield views


def test_policies_apply_to_views(engine: Everhold, secured_options: PostgresOptions) -> None:
    assert engine.install_views("s4").organization is None
    with psycopg.connect(secured_options.url, autocommit=True) as reporter:
        assert reporter.execute(READ_FACTS).fetchall() == []
        for organization in ("acme", "bolt"):
            reporter.execute("SELECT set_config('everhold.organization', %s, false)", [organization])
            assert reporter.execute(READ_FACTS).fetchall() == [(f"A memory of {organization}",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reporter.execute("DROP VIEW julep.memory_facts")
    assert engine.doctor().problems == []
    assert engine.install_views("s4", organization="bolt").organization == "bolt"
    with psycopg.connect(secured_options.url, autocommit=True) as reporter:
        reporter.execute("SET everhold.organization = 'acme'")
        assert reporter.execute(READ_FACTS).fetchall() == []
    # Opening the store checks that the role has no right that it does not need.
    with closing(PostgresRecords(replace(secured_options, owner_url=None))) as records:
        views = PostgresViews(records)
        with pytest.raises(StoreError, match=r"role may not create or drop views; set postgres\.owner_url"):
            remove_views(views, "s4")
        assert not views.can_change
        assert [preset.state for preset in list_presets(views) if preset.views] == ["installed"]


def test_a_role_for_reports_sees_what_its_organization_has(
    engine: Everhold, secured_options: PostgresOptions, postgres_server: PostgresServer
) -> None:
    engine.install_views("s4")
    postgres_server.create_role("reporter")
    owner_url = secured_options.owner_url or ""
    with psycopg.connect(owner_url, autocommit=True) as owner:  # as in docs/sql-views.md
        owner.execute("GRANT USAGE ON SCHEMA julep, public TO reporter")
        owner.execute("GRANT SELECT ON ALL TABLES IN SCHEMA julep TO reporter")
        owner.execute("GRANT SELECT ON memories, memory_tags, messages, sessions, conversations TO reporter")
        [(database,)] = owner.execute("SELECT quote_ident(current_database())").fetchall()
        owner.execute(f"ALTER ROLE reporter IN DATABASE {database} SET everhold.organization = 'acme'".encode())
        owner.execute(f"ALTER ROLE reporter IN DATABASE {database} SET search_path = julep, public".encode())
    engine.install_views("s4", organization="acme")  # installing creates the views again
    with psycopg.connect(owner_url.replace("postgres@", "reporter@")) as reporter:
        assert reporter.execute("SELECT content FROM memory_facts").fetchall() == [("A memory of acme",)]


def test_views_are_created_in_the_schema_of_the_tables(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        owner.execute("CREATE SCHEMA everhold")
    separator = "&" if "?" in empty_postgres_url else "?"
    options = PostgresOptions(f"{empty_postgres_url}{separator}options=-csearch_path%3Deverhold,public")
    with install(options) as views, psycopg.connect(empty_postgres_url) as reporter:
        assert views.read_table_schema() == "everhold"
        assert reporter.execute(READ_FACTS).fetchall() == []


def test_views_that_others_created_stay(empty_postgres_url: str) -> None:
    options = PostgresOptions(empty_postgres_url)
    PostgresRecords(options).close()
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        owner.execute("CREATE SCHEMA reports")
        with install(options, "reports") as views:
            owner.execute("CREATE VIEW public.mine AS SELECT * FROM reports.memory_facts")
            with pytest.raises(StoreError, match="other objects depend on it; drop what depends on it first"):
                remove_views(views, "s4")
            assert len(views.list_views()) == 3
            owner.execute("DROP VIEW public.mine")
            remove_views(views, "s4")
        assert owner.execute("SELECT to_regnamespace('reports') IS NOT NULL").fetchall() == [(True,)]


def test_roles_and_stores_that_may_not_have_views_are_refused(
    empty_postgres_url: str, postgres_server: PostgresServer
) -> None:
    PostgresRecords(PostgresOptions(empty_postgres_url)).close()
    postgres_server.create_role("writer")
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        owner.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO writer")
    options = PostgresOptions(empty_postgres_url.replace("postgres@", "writer@"))
    with pytest.raises(StoreError, match=r"permission denied for database .*; grant it to the role"), install(options):
        pass
    options = PostgresOptions(empty_postgres_url, read_only=True)
    with pytest.raises(StoreReadOnly, match="open it without read_only"), install(options):
        pass
