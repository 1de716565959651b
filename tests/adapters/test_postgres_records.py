"""PostgreSQL: values as they are sent, the feed beside a slow transaction, and the errors of the server."""

import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from everhold import clock
from everhold.adapters.postgres import PostgresOptions, PostgresRecords
from everhold.adapters.postgres.connection import translate_errors
from everhold.adapters.postgres.dialect import encode_jsonb
from everhold.errors import (
    AlreadyExists,
    BrokenReference,
    InvalidInput,
    InvalidSettings,
    StaleVersion,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from everhold.model import Chunk, Memory, Organization, Outbox, User
from everhold.schema.operations import Op, Patch, Put, Where

NOW = clock.now()


class RecordsWithAnalysisRace(PostgresRecords):
    """A store whose countdown to the first analysis another thread ends, after the countdown was read `reads` times."""

    reads = 0

    @property
    def _analyse_after(self) -> int | None:
        self.reads -= 1
        return 400 if self.reads >= 0 else None

    @_analyse_after.setter
    def _analyse_after(self, value: int | None) -> None:
        """Ignore new values: the other thread has ended the countdown."""


@pytest.fixture
def records(postgres_url: str) -> Iterator[PostgresRecords]:
    records = PostgresRecords(PostgresOptions(postgres_url))
    records.commit([Put(Organization(id="o", name="o", created_at=NOW, updated_at=NOW)), Put(make_user("alice"))])
    yield records
    records.close()


def make_user(name: str, **fields: Any) -> User:
    return User(id=name, organization_id="o", name=name, created_at=NOW, updated_at=NOW, **fields)


def make_memory(name: str, **fields: Any) -> Memory:
    fields = {"organization_id": "o", "text": name, **fields}
    return Memory(id=name, created_at=NOW, updated_at=NOW, **fields)


def make_chunk(owner: str, **fields: Any) -> Chunk:
    fields = {"span_start": 0, "span_end": 1, "terms": "a", "known_from": NOW, **fields}
    return Chunk(organization_id="o", owner_id=owner, **fields)


def test_a_commit_succeeds_while_another_thread_analyses_the_tables(postgres_url: str) -> None:
    records = RecordsWithAnalysisRace(PostgresOptions(postgres_url))
    for reads in range(5):
        records.reads = reads
        records.commit([Put(Organization(id=f"o{reads}", name="o", created_at=NOW, updated_at=NOW))])
        assert records.count(Organization, f"o{reads}") == 1
    records.close()


def make_line(name: str) -> Outbox:
    return Outbox(organization_id="o", entity="memories", entity_id=name, operation="put")


class TestValues:
    @pytest.mark.parametrize(
        "number", [1e16, 1e20, 1e23, -1.7976931348623157e308, 123456789012345680.0, 1e-7, 2**63 - 1]
    )
    def test_json_numbers_are_the_same_numbers(self, records: PostgresRecords, number: float) -> None:
        content = {"number": number, "in": [{"a list": number, "text": "1e+20"}], "t": True, "n": None}
        records.commit([Put(make_memory("m", content=content))])
        stored_content = records.get(Memory, "o", ["m"])["m"].content
        assert stored_content == content
        assert type(stored_content["number"]) is type(number)

    def test_json_without_large_numbers_is_spelt_as_usual(self) -> None:
        assert encode_jsonb({"a": [1.5, "e+"]}) == '{"a":[1.5,"e+"]}'

    def test_vectors_of_several_dimensions_live_together(self, records: PostgresRecords) -> None:
        vectors = {
            size: struct.pack(f"<{size}e", *(number / 7 for number in range(1, size + 1))) for size in (1, 384, 1536)
        }
        chunks = [make_chunk("m", model=str(size), dimensions=size, vector=vector) for size, vector in vectors.items()]
        records.commit([Put(make_memory("m")), *map(Put, chunks)])
        assert dict(records.columns(Chunk, "o", ["dimensions", "vector"])) == vectors

    def test_a_vector_of_half_a_number_is_refused(self, records: PostgresRecords) -> None:
        damaged = Chunk.build_unchecked({**make_chunk("m").__dict__, "dimensions": 1, "vector": b"abc"})
        with pytest.raises(InvalidInput, match="3 bytes"):
            records.commit([Put(make_memory("m")), Put(damaged)])
        assert records.count(Memory, "o") == 0

    def test_order_is_by_code_point(self, records: PostgresRecords) -> None:
        names = ["Z", "a", "É", "é", "ก", "東", "🧠"]
        records.commit([Put(make_memory(f"m{index}", text=name)) for index, name in enumerate(reversed(names))])
        assert [row.text for row in records.scan(Memory, "o", order="text")] == sorted(names)

    def test_a_long_text_of_different_words_is_indexed(self, records: PostgresRecords) -> None:
        text = " ".join(f"word{number:06}" for number in range(90_000))
        terms = " ".join([*(f"t{number}" for number in range(2000)), "x" * 20_000])
        records.commit([Put(make_memory("m", text=text)), Put(make_chunk("m", terms=terms))])
        assert records.get(Memory, "o", ["m"])["m"].text == text

    def test_streams_longer_than_a_fetch_are_whole(self, records: PostgresRecords) -> None:
        records.commit([Put(make_memory(f"m{number}")) for number in range(10_050)])
        assert len({key for (key,) in records.columns(Memory, "o", ["id"])}) == 10_050
        assert next(records.columns(Memory, "o", ["id"]))  # a stream that is left half read gives its connection back
        assert records.count(Memory, "o") == 10_050


class TestFeed:
    def test_a_slow_transaction_is_not_skipped(self, records: PostgresRecords, postgres_url: str) -> None:
        insert = """INSERT INTO outbox (organization_id, user_id, entity, entity_id, operation, generation)
            VALUES ('o', '', 'memories', 'slow', 'put', 0)"""
        with psycopg.connect(postgres_url) as slow:
            slow.execute(insert)  # takes its number in the feed now and commits late
            records.commit([Put(make_line("quick"))])
            first = records.feed(0)
            assert [line.entity_id for line in first.lines] == ["quick"]
            assert records.head() == first.position
            slow.commit()
        second = records.feed(first.position)
        assert [line.entity_id for line in second.lines] == ["slow", "quick"]
        third = records.feed(second.position)
        assert (third.lines, third.position) == ([], records.head())

    def test_a_limit_never_splits_a_transaction(self, records: PostgresRecords) -> None:
        start = records.head()
        for number in range(4):
            records.commit([Put(make_line(f"{number}{letter}")) for letter in "abc"])
        entity_ids, position = [], start
        while (feed := records.feed(position, limit=4)).lines:
            assert len(feed.lines) == 6
            entity_ids += [line.entity_id for line in feed.lines]
            position = feed.position
        assert entity_ids == [f"{number}{letter}" for number in range(4) for letter in "abc"]

    def test_a_slow_transaction_does_not_hide_lines_beyond_the_limit(
        self, records: PostgresRecords, postgres_url: str
    ) -> None:
        with psycopg.connect(postgres_url) as slow:
            slow.execute("SELECT pg_current_xact_id()")
            for number in range(5):
                records.commit([Put(make_line(str(number)))])
            assert {line.entity_id for line in records.feed(records.head(), limit=2).lines} == set("01234")

    def test_a_position_of_another_server_starts_again(self, records: PostgresRecords) -> None:
        records.commit([Put(make_line("a"))])
        assert [line.entity_id for line in records.feed(2**60).lines] == ["a"]

    def test_transaction_ids_of_another_server_are_replaced(self, records: PostgresRecords, postgres_url: str) -> None:
        records.commit([Put(make_line("a"))])
        with psycopg.connect(postgres_url) as restored:
            restored.execute("UPDATE outbox SET xid = '1152921504606846976'")
        PostgresRecords(records.options).close()
        feed = records.feed(0)
        assert [line.entity_id for line in feed.lines] == ["a"]
        assert records.feed(feed.position).lines == []


class TestErrors:
    def test_the_error_says_whether_a_key_or_a_unique_rule_is_taken(self, records: PostgresRecords) -> None:
        records.commit([Put(make_memory("m", hash=b"x" * 16, key="k"))])
        for other, rule in (
            (make_memory("m"), "key"),
            (make_memory("n", hash=b"x" * 16), "hash"),
            (make_memory("n", key="k"), "own_key"),
        ):
            with pytest.raises(AlreadyExists) as caught:
                records.commit([Put(other)])
            assert (caught.value.table, caught.value.rule) == ("memories", rule)

    def test_a_missing_target_is_a_broken_reference(self, records: PostgresRecords) -> None:
        for row in (
            make_memory("m", user_id="nobody"),
            make_chunk("nothing"),
            make_chunk("nothing", owner_kind="block"),
        ):
            with pytest.raises(BrokenReference):
                records.commit([Put(row)])

    @pytest.mark.parametrize("changes", [{"importance": 1.5}, {"text": None}, {"kind": "k" * 51}, {"text": "a\x00"}])
    def test_a_value_that_does_not_fit_is_invalid(self, records: PostgresRecords, changes: dict[str, Any]) -> None:
        records.commit([Put(make_memory("m"))])
        with pytest.raises(InvalidInput):
            records.commit([Put(make_memory("n")), Patch(Memory, ("o", "m"), changes)])
        assert records.count(Memory, "o") == 1

    def test_a_stale_version_undoes_the_whole_commit(self, records: PostgresRecords) -> None:
        records.commit([Put(make_memory("m"))])
        with pytest.raises(StaleVersion, match="version 7"):
            records.commit(
                [Put(make_memory("n")), Patch(Memory, ("o", "m"), {"text": "x"}, version=7), Put(make_memory("p"))]
            )
        assert [row.id for row in records.scan(Memory, "o")] == ["m"]

    def test_waiting_for_a_lock_times_out(self, records: PostgresRecords, postgres_url: str) -> None:
        records.commit([Put(make_memory("m"))])
        impatient_records = PostgresRecords(PostgresOptions(postgres_url, query_seconds=0.3))
        with psycopg.connect(postgres_url) as holder:
            holder.execute("SELECT 1 FROM memories FOR UPDATE")
            with pytest.raises(StoreBusy, match=r"0\.3 s"):
                impatient_records.commit([Patch(Memory, ("o", "m"), {"text": "x"})])
        impatient_records.close()

    def test_the_error_of_a_read_only_store_says_that_it_is_read_only(
        self, records: PostgresRecords, postgres_url: str
    ) -> None:
        reader = PostgresRecords(PostgresOptions(postgres_url, read_only=True))
        assert reader.get(User, "o", ["alice"])
        with pytest.raises(StoreReadOnly):
            reader.commit([Put(make_memory("m"))])
        with pytest.raises(StoreReadOnly):
            reader._fetch("INSERT INTO organizations SELECT * FROM organizations", ())
        reader.close()

    @pytest.mark.parametrize(
        ("state", "expected"),
        [
            ("53100", StoreFull),
            ("57P03", StoreUnavailable),
            ("40001", StoreBusy),
            ("XX001", StoreDamaged),
            ("0A000", StoreError),
        ],
    )
    def test_error_states_that_are_hard_to_cause_are_translated(
        self, postgres_url: str, state: str, expected: type[Exception]
    ) -> None:
        failing = f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{state}', MESSAGE = 'it happened'; END $$"
        with (
            psycopg.connect(postgres_url) as connection,
            pytest.raises(expected, match="it happened"),
            translate_errors(PostgresOptions(postgres_url)),
        ):
            connection.execute(failing.encode())

    def test_the_error_of_a_closed_store_says_that_it_is_closed(self, records: PostgresRecords) -> None:
        records.close()
        with pytest.raises(StoreUnavailable, match="closed; open it again"):
            records.count(Memory, "o")

    def test_a_missing_server_is_reported(self) -> None:
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            PostgresRecords(PostgresOptions("postgresql://u:hidden@127.0.0.1:1/db", retries=2))

    @pytest.mark.parametrize("wrong", [("/database_", "/no_database_"), ("//postgres@", "//nobody_here@")])
    def test_a_missing_database_or_role_is_named(self, postgres_url: str, wrong: tuple[str, str]) -> None:
        with pytest.raises(InvalidSettings, match=r"does not exist.*check the user, the password and the database"):
            PostgresRecords(PostgresOptions(postgres_url.replace(*wrong)))

    def test_an_at_sign_in_a_password_does_not_start_a_host(self) -> None:
        with pytest.raises(InvalidSettings, match="write one in a password as %40") as raised:
            PostgresRecords(PostgresOptions("postgresql://u:hid@den@127.0.0.1:1/db"))
        assert "den" not in str(raised.value)

    def test_encryption_can_be_demanded(self) -> None:
        statements: list[bytes] = []

        def refuse_encryption() -> None:
            client, _ = listener.accept()
            statements.append(client.recv(8))
            client.sendall(b"N")
            client.close()

        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=refuse_encryption, daemon=True).start()
            url = f"postgresql://u@127.0.0.1:{listener.getsockname()[1]}/db"
            # Raised at once, because a retry would not help.
            with pytest.raises(StoreUnavailable, match="does not support SSL"):
                PostgresRecords(PostgresOptions(url, ssl="require"))
        assert statements == [struct.pack("!ii", 8, 80877103)]

    def test_the_password_is_never_shown(self) -> None:
        options = PostgresOptions("postgresql://u:hidden@127.0.0.1:1/db", retries=0)
        with pytest.raises(StoreUnavailable) as caught:
            PostgresRecords(options)
        shown = f"{options!r} {options.place} {caught.value!r} {caught.value.__cause__!r}"
        assert "hidden" not in shown
        with pytest.raises(InvalidSettings) as malformed:
            PostgresRecords(PostgresOptions("postgresql://u:hidden@host/db?nonsense"))
        assert "hidden" not in repr(malformed.value)
        assert malformed.value.__cause__ is None


class TestManyAtOnce:
    def test_deadlocks_are_tried_again(self, records: PostgresRecords) -> None:
        records.commit([Put(make_memory("a")), Put(make_memory("b"))])
        failures: list[BaseException] = []

        def write(first: str, second: str) -> None:
            try:
                for number in range(30):
                    records.commit([Patch(Memory, ("o", name), {"revision": number}) for name in (first, second)])
            except BaseException as error:
                failures.append(error)
                raise

        threads = [threading.Thread(target=write, args=names) for names in (("a", "b"), ("b", "a"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert records.get(Memory, "o", ["a"])["a"].version == 61

    def test_nothing_depends_on_the_state_of_a_session_behind_a_pooler(self, postgres_url: str) -> None:
        records = PostgresRecords(PostgresOptions(postgres_url, transaction_pooler=True, query_seconds=5))
        records.commit([Put(Organization(id="o", name="o", created_at=NOW, updated_at=NOW))])
        records.commit([Put(make_memory("m", content={"a": 1}))])
        assert records.scan(Memory, "o", [Where("text", Op.EQ, "m")])[0].created_at == NOW
        assert list(records.columns(Memory, "o", ["created_at"])) == [(NOW,)]
        assert records._fetch("SHOW statement_timeout", ()) == [("5s",)]
        with records._pool.connection() as connection:
            assert connection.execute("SHOW statement_timeout").fetchall() == [("0",)]
            assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchall() == [(0,)]
        records.close()
