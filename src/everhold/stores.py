"""Open the store that the settings name, with its search indexes."""

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from everhold.adapters.address import read_file, read_scheme, read_table, refuse_parameters
from everhold.adapters.sqlite import SqliteOptions, SqliteRecords, SqliteWords
from everhold.adapters.usearch import UsearchVectors
from everhold.arguments.protocols import require_protocol
from everhold.errors import InvalidSettings, MissingExtra
from everhold.ports.records import Records
from everhold.ports.search_indexes import SearchIndexes
from everhold.settings import Settings

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    from everhold.adapters.files import FileBlobs
    from everhold.ports.sql_views import SqlViews
    from everhold.ports.time_partitions import TimePartitions


def open_store(settings: Settings) -> tuple[Records, SearchIndexes]:
    """Return the store that the settings name, and its search indexes."""
    scheme = read_scheme(settings.storage)
    maker = STORES.get(scheme) or _find_installed_store(scheme)
    if maker is None:
        known_schemes = ", ".join([*STORES, *_find_entry_points().names])
        raise InvalidSettings(
            f"no store for {scheme}:// (storage is {describe_place(settings)})", remedy=f"use {known_schemes}"
        )
    if settings.blobs != "auto":
        from everhold.adapters.files import check_place  # slow to import

        check_place(settings.blobs)
    if settings.vectors != "auto":
        refuse_parameters(settings.vectors)
    return choose_vectors(settings, *maker(settings))


# Tables in which opening a store writes rows.
_FIRST_ROWS = ("embedding_models", "schema_versions", "secrets")


def delete_empty_store(settings: Settings) -> bool:
    """Delete the file of a store in which nothing was stored, if no one else uses it; return whether it was deleted."""
    from everhold.schema.catalog import TABLES

    scheme = read_scheme(settings.storage)
    path = read_file(settings.storage).path if scheme in ("sqlite", "duckdb") else None
    if path is None or not path.exists():
        return False
    if scheme == "sqlite":
        from everhold.adapters.sqlite.discarding import delete_empty_file
    else:
        from everhold.adapters.duckdb.discarding import delete_empty_file
    return delete_empty_file(path, [table for table in TABLES if table not in _FIRST_ROWS])


def choose_vectors(settings: Settings, records: Records, candidates: SearchIndexes) -> tuple[Records, SearchIndexes]:
    """Return the store with the vector index that the settings name; the store's own index is the fallback."""
    if settings.vectors == "auto":
        return records, candidates
    try:
        from everhold.adapters.chroma import ChromaVectors, read_address

        address = read_address(settings.vectors)
        if settings.layout == "julep":
            address = replace(address, main_collection=settings.chroma.prefix)
        chroma_vectors = ChromaVectors(records, candidates.vectors, address, **settings.chroma.model_dump())
    except BaseException:
        do_all(candidates.close, records.close)
        raise
    return records, replace(
        candidates,
        vectors=chroma_vectors,
        # The chosen index falls back on the store's own index, so it is closed first.
        close=lambda: do_all(chroma_vectors.close, candidates.close),
        follow=chroma_vectors.follow,
        report=lambda: {**candidates.report(), **chroma_vectors.report()},
        find_problems=lambda: [*candidates.find_problems(), *chroma_vectors.find_problems()],
        rebuild=chroma_vectors.rebuild,
    )


def _find_entry_points() -> "EntryPoints":
    from importlib.metadata import entry_points  # slow to import

    return entry_points(group=STORES_GROUP)


def _find_installed_store(scheme: str) -> "Maker | None":
    """Return the function of another package that opens a store: the entry point with the scheme as its name."""
    for entry_point in _find_entry_points().select(name=scheme):
        return partial(_open_installed, entry_point.load(), f"the store of {entry_point.value}")
    return None


def _open_installed(
    open_records: Callable[[str], Records], name: str, settings: Settings
) -> tuple[Records, SearchIndexes]:
    records = open_records(settings.storage)
    require_protocol(records, Records, name)
    return _add_portable_indexes(records)


def _add_portable_indexes(records: Records) -> tuple[Records, SearchIndexes]:
    """Return a store that has no search indexes, together with indexes that scan its rows."""
    from everhold.adapters.portable.scanned_vectors import ScannedVectors
    from everhold.adapters.portable.scanned_words import ScannedWords

    return records, SearchIndexes(ScannedWords(records), ScannedVectors(records))


def describe_place(settings: Settings) -> str:
    """Return the address of the store without the credentials in it."""
    return settings.storage.rpartition("@")[2]


def _open_sqlite(settings: Settings) -> tuple[Records, SearchIndexes]:
    path, read_only = read_file(settings.storage)
    options = SqliteOptions(path=path, read_only=read_only, **dict(settings.sqlite))
    records = SqliteRecords(options)
    folder = options.path.with_name(options.path.name + ".vectors")
    vectors = UsearchVectors(records, folder)
    return records, SearchIndexes(
        SqliteWords(records), vectors, vectors.close, find_problems=vectors.find_problems, drop_files=vectors.drop_files
    )


def _open_postgres(settings: Settings) -> tuple[Records, SearchIndexes]:
    """Open a PostgreSQL database, and its replica for searches if the settings name one."""
    try:
        from everhold.adapters.postgres import PostgresCandidates, PostgresOptions, PostgresRecords, ReplicaReading
    except ImportError as error:
        raise MissingExtra(f"psycopg is not installed ({error.name})", remedy=_INSTALL.format("postgres")) from error
    records = PostgresRecords(PostgresOptions(url=settings.storage, **settings.postgres.model_dump()))
    if settings.postgres.replica_url is None:
        proposals = PostgresCandidates(records)
        return records, SearchIndexes(proposals, proposals)
    try:
        replica = ReplicaReading(records, settings.postgres.replica_url)
    except BaseException:
        records.close()
        raise
    proposals = PostgresCandidates(replica)
    return records, SearchIndexes(
        proposals, proposals, replica.close, report=replica.report, find_problems=replica.find_problems, records=replica
    )


def _open_duckdb(settings: Settings) -> tuple[Records, SearchIndexes]:
    try:
        from everhold.adapters.duckdb import DuckdbOptions, DuckdbRecords
    except ImportError as error:
        raise MissingExtra(f"DuckDB is not installed ({error.name})", remedy=_INSTALL.format("duckdb")) from error
    path, read_only = read_file(settings.storage)
    return _add_portable_indexes(DuckdbRecords(DuckdbOptions(path, read_only, **settings.duckdb.model_dump())))


def _open_dynamodb(settings: Settings) -> tuple[Records, SearchIndexes]:
    try:
        from everhold.adapters.dynamodb import DynamoOptions, DynamoRecords
    except ImportError as error:
        raise MissingExtra(f"boto3 is not installed ({error.name})", remedy=_INSTALL.format("dynamodb")) from error
    address = read_table(settings.storage, settings.dynamodb.endpoint)
    options = DynamoOptions(**{**settings.dynamodb.model_dump(), **address._asdict()})
    return _add_portable_indexes(DynamoRecords(options, make_blobs(settings)))


def make_blobs(settings: Settings) -> "FileBlobs":
    """Return the store of large contents."""
    from everhold.adapters.files import FileBlobs  # slow to import

    return FileBlobs(find_blob_place(settings))


def find_blob_place(settings: Settings) -> str:
    """Return the place of large contents: the address in the settings, or a folder beside the store's file or in
    `settings.data`."""
    if settings.blobs != "auto":
        return settings.blobs
    if read_scheme(settings.storage) in ("sqlite", "duckdb"):
        path, _ = read_file(settings.storage)
        return str(path.absolute().with_name(f"{path.name}.blobs"))
    return str(settings.data / "blobs")


def _open_in_memory(settings: Settings) -> tuple[Records, SearchIndexes]:
    from everhold.adapters.in_memory import InMemoryRecords

    refuse_parameters(settings.storage)
    return _add_portable_indexes(InMemoryRecords())


# SQL views are used by few processes, so their modules are imported when they are.


def make_sql_views(settings: Settings, records: Records) -> "SqlViews | None":
    """Return the object that creates SQL views in the store's database, or None if the store cannot have views."""
    maker = SQL_VIEWS.get(read_scheme(settings.storage))
    return None if maker is None else maker(records)


def _make_sqlite_views(records: Records) -> "SqlViews | None":
    from everhold.adapters.sqlite.views import SqliteViews

    return SqliteViews(records) if isinstance(records, SqliteRecords) else None


def _make_duckdb_views(records: Records) -> "SqlViews | None":
    from everhold.adapters.duckdb import DuckdbRecords
    from everhold.adapters.duckdb.views import DuckdbViews

    return DuckdbViews(records) if isinstance(records, DuckdbRecords) else None


def _make_postgres_views(records: Records) -> "SqlViews | None":
    from everhold.adapters.postgres import PostgresRecords
    from everhold.adapters.postgres.views import PostgresViews

    return PostgresViews(records) if isinstance(records, PostgresRecords) else None


def add_partitions(settings: Settings, months: Collection[datetime]) -> None:
    """Create the partitions that memories of these months need, if the store is in partitions."""
    partitions = _make_time_partitions(settings)
    if partitions is not None:
        partitions.add_months(months)


def _make_time_partitions(settings: Settings) -> "TimePartitions | None":
    if read_scheme(settings.storage) not in ("postgresql", "postgres"):
        return None
    from everhold.adapters.postgres import PostgresOptions
    from everhold.adapters.postgres.time_partitions import PostgresTimePartitions

    return PostgresTimePartitions(PostgresOptions(url=settings.storage, **settings.postgres.model_dump()))


SQL_VIEWS: dict[str, "Callable[[Records], SqlViews | None]"] = {
    "sqlite": _make_sqlite_views,
    "postgresql": _make_postgres_views,
    "postgres": _make_postgres_views,
    "duckdb": _make_duckdb_views,
}

Maker = Callable[[Settings], tuple[Records, SearchIndexes]]
STORES_GROUP = "everhold.stores"
_INSTALL = "pip install 'everhold[{}]'"
STORES: dict[str, Maker] = {
    "sqlite": _open_sqlite,
    "postgresql": _open_postgres,
    "postgres": _open_postgres,
    "duckdb": _open_duckdb,
    "dynamodb": _open_dynamodb,
    "memory": _open_in_memory,
}


def do_all(*steps: Callable[[], None]) -> None:
    """Run every step, even after a step has failed, and raise the errors at the end."""
    # An ExitStack runs its callbacks in reverse order, and the remaining ones after an error.
    with ExitStack() as remaining:
        for step in reversed(steps):
            remaining.callback(step)
