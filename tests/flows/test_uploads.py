"""Uploaded files: they are stored once, versioned, described, found and deleted, and only their project sees them."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import duckdb
import pytest

from everhold import Everhold, InvalidInput, NotFound, UnreadableFile, View
from everhold.adapters.data_files.process import ChildReader
from everhold.ask.schema import ColumnRef, ForeignKey
from everhold.ask.sources.content import load_reader, load_scope, open_tables
from everhold.model import Chunk, FieldMetadata, Source, TableMetadata
from everhold.progress import StepProgress
from everhold.schema.operations import Operation, Put
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.views import data_deps
from everhold.views.data_deps import make_data_deps
from tests.engines import Store, get_parts, get_records

ORDERS = "id,customer_id,day,amount,status\n" + "".join(
    f"{number},{number % 3 + 1},2023-01-{number % 28 + 1:02},{number}.5,{'paid' if number % 4 else 'refunded'}\n"
    for number in range(1, 41)
)
CUSTOMERS = "id,name,country\n1,Anna,Germany\n2,Bert,France\n3,Cora,Spain\n"

# An upload stores the uploaded file, the rows of its table and the values of its columns.
FILES_PER_UPLOAD = 3


@pytest.fixture(autouse=True)
def blobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of stored sources. Temporary files are in a folder of the test too, so both can be counted."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(data_deps, "mkdtemp", partial(tempfile.mkdtemp, dir=temporary))
    monkeypatch.setenv("EVERHOLD_BLOBS", str(tmp_path / "blobs"))
    yield tmp_path / "blobs"
    assert not [path for path in temporary.iterdir() if path.name.startswith("everhold-upload-")]


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    path = tmp_path / "orders.csv"
    path.write_text(ORDERS)
    return path


@pytest.fixture
def customers(tmp_path: Path) -> Path:
    path = tmp_path / "customers.csv"
    path.write_text(CUSTOMERS)
    return path


def count_files(blobs: Path) -> int:
    return sum(1 for path in blobs.rglob("*") if path.is_file())


def count_rows(engine: Everhold) -> int:
    records = get_records(engine)
    return sum(records.count(entity, None, deleted=True) for entity in (Source, TableMetadata, FieldMetadata, Chunk))


def test_an_upload_describes_its_table(alice: View, orders: Path, customers: Path) -> None:
    steps: list[StepProgress] = []
    file, customers_file = alice.upload(str(orders), str(customers), progress=steps.append)
    assert (file.source.name, file.source.row_count, file.is_new) == ("orders.csv", 40, True)
    assert (file.details["format"], file.details["separator"]) == ("CSV", "comma")
    assert [table.table_name for table in alice.tables()] == ["customers", "orders"]
    described = alice.describe("orders")
    kinds = {field.name: (field.data_type, field.semantic_type) for field in described.fields}
    assert kinds == {
        "id": ("BIGINT", "id"),
        "customer_id": ("BIGINT", "id"),
        "day": ("DATE", "date"),
        "amount": ("DOUBLE", "measure"),
        "status": ("VARCHAR", "category"),
    }
    assert described.table.primary_key == ["id"]
    # The customers were uploaded after the orders; their upload found the key that links the two tables.
    [key] = described.table.foreign_keys
    assert (key["column"], key["to_table"], key["to_column"], key["declared"]) == (
        "customer_id",
        "customers",
        "id",
        False,
    )
    status = next(field for field in described.fields if field.name == "status")
    assert status.metadata["top_values"] == [["paid", 30], ["refunded", 10]]
    assert (status.distinct_count, status.null_share, status.nullable) == (2, 0.0, False)
    assert customers_file.tables[0].table.row_count == 3
    assert {step.step for step in steps} >= {"copying", "reading orders.csv", "profiling", "storing"}


def test_uploaded_tables_are_a_schema_for_questions(engine: Everhold, orders: Path, customers: Path) -> None:
    view = engine.scope(project="shop")
    view.upload(str(customers), str(orders))
    deps = make_data_deps(get_parts(engine))
    scope_tables = load_scope(deps, view.scope)
    reader = load_reader(deps, scope_tables, scope_tables.tables, "duckdb")
    assert reader.schema.foreign_keys == (ForeignKey("orders", "customer_id", "customers", "id", 0.8),)
    [match] = reader.values.find_exact(["germany"])
    assert match.value.ref == ColumnRef("customers", "country")
    with open_tables(deps, view.tables()) as paths:
        total = duckdb.connect().execute(f"SELECT sum(amount) FROM read_parquet('{paths['orders']}')").fetchall()
    assert total == [(840.0,)]  # 1.5 + 2.5 + … + 40.5


def test_the_same_content_changes_nothing(engine: Everhold, blobs: Path, orders: Path) -> None:
    alice = engine.scope(user="alice")
    [first] = alice.upload(str(orders))
    rows, files = count_rows(engine), count_files(blobs)
    [repeated] = alice.upload(str(orders))
    assert (repeated.is_new, repeated.source.id) == (False, first.source.id)
    assert [described.table.id for described in repeated.tables] == [described.table.id for described in first.tables]
    assert (count_rows(engine), count_files(blobs)) == (rows, files)


def test_a_file_of_the_same_name_is_a_new_version(alice: View, orders: Path) -> None:
    [first] = alice.upload(str(orders))
    alice.update_description("orders", "What customers bought")
    alice.update_description("orders", "In euros, with tax", field="amount")
    orders.write_text(ORDERS + "41,1,2024-05-05,7.5,paid\n")
    [second] = alice.upload(str(orders))
    assert second.source.metadata["file_version"] == 2
    assert second.source.metadata["replaces"] == first.source.id
    assert [source.id for source in alice.sources()] == [second.source.id]
    assert [source.status for source in alice.sources(every_version=True)] == ["ready", "replaced"]
    [table] = alice.tables()
    assert (table.row_count, table.description) == (41, "What customers bought")
    assert alice.describe("orders").fields[3].description == "In euros, with tax"
    assert len(alice.find_tables("orders")) == 1


def test_descriptions_are_searched(alice: View, orders: Path, customers: Path) -> None:
    alice.upload(str(orders), str(customers))
    assert alice.find_tables("who lives in Germany?")[0].values == (("country", "Germany"),)
    assert alice.find_tables("refunded orders")[0].table.table_name == "orders"
    alice.update_description("customers", "The zebra register")
    assert alice.find_tables("zebra")[0].table.table_name == "customers"
    [hit] = alice.find_tables("anything", field="country", value="spain")
    assert (hit.table.table_name, hit.values) == ("customers", (("country", "spain"),))
    assert not alice.find_tables("anything", value="Atlantis")
    assert [hit.source.name for hit in alice.find_tables("id", source="orders.csv")] == ["orders.csv"]


def test_data_belongs_to_its_project(engine: Everhold, orders: Path, customers: Path) -> None:
    alice, bob = engine.scope(user="alice"), engine.scope(user="bob")
    shop = engine.scope(project="shop", user="alice")
    other_organization = engine.scope(organization="other")
    alice.upload(str(orders))
    shop.upload(str(customers))
    assert [table.table_name for table in alice.tables()] == ["orders"]
    assert [table.table_name for table in shop.tables()] == ["customers"]
    assert [table.table_name for table in engine.scope(project="shop", user="bob").tables()] == ["customers"]
    assert [table.table_name for table in engine.scope().tables()] == ["customers", "orders"]
    [table] = alice.tables()
    for stranger in (bob, other_organization, shop):
        assert not [hit for hit in stranger.find_tables("orders and amounts") if hit.table.id == table.id]
        for call in (
            lambda view=stranger: view.describe(table.id),
            lambda view=stranger: view.update_description(table.id, "mine"),
            lambda view=stranger: view.delete_source("orders.csv", hard=True),
            lambda view=stranger: view.find_tables("amounts", source="orders.csv"),
            lambda view=stranger: view.tables(source=alice.sources()[0].id),
        ):
            with pytest.raises(NotFound):
                call()


def test_an_unreadable_file_leaves_nothing_behind(engine: Everhold, blobs: Path, tmp_path: Path, orders: Path) -> None:
    alice = engine.scope(user="alice")
    alice.upload(str(orders))
    rows, files = count_rows(engine), count_files(blobs)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    for path in (broken, tmp_path / "missing.csv", tmp_path):
        with pytest.raises(UnreadableFile):
            alice.upload(str(path))
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(UnreadableFile, match="not a regular file"):
        alice.upload(str(tmp_path / "pipe.csv"))
    with pytest.raises(UnreadableFile, match="addresses are not read"):
        alice.upload("memory://a.csv")
    assert (count_rows(engine), count_files(blobs)) == (rows, files)


def test_a_failed_commit_leaves_no_files(
    engine: Everhold, blobs: Path, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = get_records(engine)
    commit, file_counts = records.commit, []

    def fail(operations: Sequence[Operation]) -> None:
        if any(isinstance(operation, Put) and isinstance(operation.row, Source) for operation in operations):
            file_counts.append(count_files(blobs))
            raise KeyboardInterrupt
        commit(operations)

    monkeypatch.setattr(records, "commit", fail)
    with pytest.raises(KeyboardInterrupt):
        engine.scope(user="alice").upload(str(orders))
    monkeypatch.undo()
    assert file_counts == [FILES_PER_UPLOAD]
    assert count_files(blobs) == 0
    assert count_rows(engine) == 0


def test_an_interrupt_ends_the_child(engine: Everhold, blobs: Path, tmp_path: Path) -> None:
    (tmp_path / "large.csv").write_text("a,b\n" + "1,2\n" * 500_000)

    def stop(progress: StepProgress) -> None:
        if progress.step.startswith("reading"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.scope(user="alice").upload(str(tmp_path / "large.csv"), progress=stop)
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert not [child for child in children if b"data_files" in Path(f"/proc/{child}/cmdline").read_bytes()]
    assert count_files(blobs) == 0


def test_a_source_is_deleted_and_restored(engine: Everhold, blobs: Path, orders: Path) -> None:
    alice = engine.scope(user="alice")
    alice.upload(str(orders))
    orders.write_text(ORDERS + "41,1,2024-05-05,7.5,paid\n")
    alice.upload(str(orders))
    preview = alice.delete_source("orders.csv", preview=True)
    assert (preview.rows["sources"], preview.rows["table_metadata"], preview.rows["field_metadata"]) == (2, 2, 10)
    assert alice.delete_source("orders.csv").rows == preview.rows
    assert not alice.tables()
    assert not alice.find_tables("orders")
    alice.restore_source("orders.csv")
    assert alice.find_tables("orders")[0].table.row_count == 41
    assert count_files(blobs) == 2 * FILES_PER_UPLOAD
    alice.delete_source("orders.csv", hard=True)
    assert count_files(blobs) == 0
    assert count_rows(engine) == 0
    with pytest.raises(NotFound):
        alice.restore_source("orders.csv")


def test_a_hidden_source_can_be_purged(engine: Everhold, blobs: Path, orders: Path) -> None:
    alice = engine.scope(user="alice")
    alice.upload(str(orders))
    alice.delete_source("orders.csv")
    assert alice.delete_source("orders.csv", hard=True).rows == {}
    assert (count_files(blobs), count_rows(engine)) == (0, 0)


def test_purging_a_project_deletes_its_files(engine: Everhold, blobs: Path, orders: Path, customers: Path) -> None:
    engine.scope(project="kept").upload(str(customers))
    engine.scope(project="gone").upload(str(orders))
    engine.delete_project("gone", hard=True)
    assert count_files(blobs) == FILES_PER_UPLOAD
    assert engine.scope(project="kept").describe("customers").table.row_count == 3
    engine.delete_organization("default", hard=True)
    assert count_files(blobs) == 0


def test_tables_of_the_same_name_get_numbers(alice: View, tmp_path: Path) -> None:
    for folder, text in (("a", "x,y\n1,2\n"), ("b", "x,y\n3,4\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "data.csv").write_text(text)
    alice.upload(str(tmp_path / "a" / "data.csv"))
    alice.upload(str(tmp_path / "b" / "data.csv"), name="other data.csv")
    (tmp_path / "c.json").write_text(json.dumps({"data": [{"x": 1}], "more": [{"x": 1}]}))
    alice.upload(str(tmp_path / "c.json"))
    assert [table.table_name for table in alice.tables()] == ["data", "data_2", "more", "other_data"]


def test_wrong_calls_are_refused(alice: View, orders: Path) -> None:
    with pytest.raises(InvalidInput, match="names no file"):
        alice.upload()
    with pytest.raises(InvalidInput, match="one name for 2 files"):
        alice.upload(str(orders), str(orders), name="x")
    alice.upload(str(orders))
    with pytest.raises(NotFound, match="did you mean 'orders'"):
        alice.describe("order")
    with pytest.raises(NotFound, match="has no column 'amuont'"):
        alice.update_description("orders", "x", field="amuont")


def test_addresses_are_read_if_allowed(store: Store, orders: Path) -> None:
    engine = store.open(uploads={"addresses": True})
    [file] = engine.scope(user="alice").upload(f"file://{orders}")
    assert (file.source.name, file.tables[0].table.row_count) == ("orders.csv", 40)


def test_limits_come_from_the_settings(store: Store, tmp_path: Path) -> None:
    engine = store.open(uploads={"max_megabytes": 1})
    (tmp_path / "large.csv").write_text("a,b\n" + "1,2\n" * 300_000)
    with pytest.raises(UnreadableFile, match="more than 1 MB"):
        engine.scope(user="alice").upload(str(tmp_path / "large.csv"))
    assert ChildReader()


def test_a_move_takes_the_files_along(tmp_path: Path, orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVERHOLD_BLOBS")
    old, moved = tmp_path / "old.db", tmp_path / "moved.db"
    with Everhold.open(old, embedder=FakeEmbedder()) as engine:
        engine.scope(project="shop").upload(str(orders))
    Everhold.move(str(old), str(moved))
    shutil.rmtree(tmp_path / "old.db.blobs")
    with Everhold.open(moved, embedder=FakeEmbedder()) as engine:
        view = engine.scope(project="shop")
        deps = make_data_deps(get_parts(engine))
        with open_tables(deps, view.tables()) as paths:
            assert paths["orders"].is_file()
        scope_tables = load_scope(deps, view.scope)
        assert load_reader(deps, scope_tables, scope_tables.tables, "duckdb").values.find_exact(["refunded"])
