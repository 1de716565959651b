"""Filters of recall, list and forget_where, with every field and operator, have the same meaning on every store."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from everhold import Everhold, View
from everhold.errors import InvalidInput, UnknownField
from everhold.model import Memory
from everhold.recall.filters import make_filter
from everhold.schema.conditions import is_match
from tests.engines import Store, fetch_all_pages

START = datetime(2030, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def store_memories(view: View) -> list[Memory]:
    memories = view.remember_many(
        {
            "text": f"Tea number {number}",
            "kind": ("fact", "plan", "conversation")[number % 3],
            "priority": number % 10 + 1,
            "confidence": number / 20,
            "trust": 1 - number / 40,
            "level": f"L{number % 4}",
            "score": None if number % 5 == 0 else float(number),
            "expires_at": START + number * DAY if number % 2 else None,
            "occurred_at": START + number * DAY,
            "valid_to": START + number * DAY if number % 4 == 0 else None,
            "pinned": number % 6 == 0,
            "speaker": None if number % 7 == 0 else f"Speaker {number % 3}",
            "source_agent": f"agent-{number % 2}",
            "key": f"key/{number}" if number < 4 else None,
            "id": f"mem_{number:02}",
            "aliases": [f"alias{number % 3}", "Tee"] if number % 3 else [],
            "content": {"n": number, "flag": number % 2 == 0, "list": [number, "x"]},
            "provenance": {"file": {"name": f"file{number % 2}.md"}},
            "metadata": {"device": {"os": ("linux", "mac")[number % 2]}, "n": number, "a'b": number},
            "tags": [f"t{number % 2}", f"u{number % 3}"],
        }
        for number in range(20)
    )
    for memory in memories[:5]:
        view.get(memory.id)
    return memories


WHERE: list[dict[str, Any]] = [
    {"id": "mem_03"}, {"id": ["mem_03", "mem_04", "nothing"]}, {"id": {"!=": "mem_03"}}, {"id": {">": "mem_15"}},
    {"id": {"contains": "_1"}}, {"id": []},
    {"kind": "fact"}, {"kind": ["fact", "plan"]}, {"kind": {"in": ("plan",)}}, {"kind": {"!=": "fact"}},
    {"kind": {"contains": "CONV"}},
    {"priority": 5}, {"priority": [1, 10]}, {"priority": {">=": 8}}, {"priority": {"<": 3, ">": 1}},
    {"priority": {"in": [2, 3]}},
    {"importance": {">": 0.5}}, {"importance": 0}, {"confidence": {"<=": 0.25}}, {"confidence": {"=": 0.5}},
    {"trust": {">": 0.9}}, {"level": "L2"}, {"level": {"!=": "L0"}}, {"level": {"<": "L2"}}, {"score": None},
    {"score": {"!=": None}},
    {"score": {">=": 7}}, {"score": {"<": 7.5}}, {"score": [None, 3.0]},
    {"expires_at": None}, {"expires_at": {">": START + 5 * DAY}}, {"occurred_at": {"<=": START + 3 * DAY}},
    {"occurred_at": {">": START + 2 * DAY, "<": START + 6 * DAY}}, {"occurred_at": [START, START + DAY]},
    {"occurred_at": START + 4 * DAY}, {"valid_to": {"!=": None}}, {"valid_from": None},
    {"pinned": True}, {"pinned": False}, {"pinned": {"!=": True}}, {"pinned": [True]},
    {"speaker": "Speaker 1"}, {"speaker": None}, {"speaker": {"contains": "speaker"}}, {"speaker": {">": "Speaker 0"}},
    {"source_agent": "agent-1"}, {"key": "key/2"}, {"key": {"!=": None}}, {"text": {"contains": "NUMBER 1"}},
    {"text": "Tea number 7"}, {"reach": "user"}, {"reach": "session"}, {"user_id": "alice"}, {"user_id": "bob"},
    {"project_id": None}, {"agent_id": None}, {"session_id": None}, {"cycle_id": None},
    {"superseded_by": None}, {"superseded_at": None}, {"organization_id": "default"}, {"organization_id": "other"},
    {"version": 1}, {"version": {">": 1}}, {"revision": 0}, {"is_deleted": False}, {"created_by_id": "alice"},
    {"access_count": 0}, {"last_accessed": None}, {"deleted_at": None},
    {"aliases": {"contains": "Tee"}}, {"aliases": {"contains": "tee"}}, {"aliases": {"=": ["alias1", "Tee"]}},
    {"aliases": {"!=": []}},
    {"content.n": 4}, {"content.n": {">=": 15}}, {"content.n": [1, 2]}, {"content.n": {"<": "text"}},
    {"content.flag": True}, {"content.flag": 1}, {"content.list": {"contains": 3}}, {"content.missing": None},
    {"content.missing.deeper": {"!=": None}},
    {"metadata.device.os": "linux"}, {"metadata.device.os": {"contains": "MA"}}, {"metadata.device": {"os": "mac"}},
    {"metadata.n": {"in": [3, 5]}}, {"metadata.a'b": 3}, {'metadata.a"b': None}, {"provenance.file.name": "file1.md"},
    {"metadata": {"nothing": 1}}, {"content": {}},
    {"kind": "fact", "level": {">": "L0"}, "pinned": False},
    {"or": [{"kind": "fact"}, {"level": "L3"}]}, {"or": [{"kind": "fact", "level": "L0"}, {"pinned": True}]},
    {"not": {"score": {"<": 7}}}, {"not": {"score": None}}, {"not": {"kind": "fact", "level": {">": "L0"}}},
    {"not": {"not": {"score": {"<": 7}}}},
    {"not": {"or": [{"score": {">": 3}}, {"expires_at": {"<": START + 9 * DAY}}]}},
    {"and": [{"level": {">": "L0"}}, {"or": [{"pinned": True}, {"speaker": {"!=": None}}]}], "kind": ["fact", "plan"]},
    {"or": [{"metadata.n": {">": 15}}, {"kind": "plan"}], "not": {"content.flag": True}},
    {"or": [{"id": []}, {"level": {}}]}, {"not": {"speaker": {"contains": "1"}}}, {"metadata.or": None},
    {"metadata": {"or": [1]}}, {"or": [{"priority": {">=": 8}}, {"not": {"importance": {">": 0.1}}}]},
    {"kind": "'; DROP TABLE memories; --"}, {"text": {"contains": "%"}}, {"text": {"contains": "_"}},
]  # fmt: skip


def make_nested_filter(depth: int) -> dict[str, Any]:
    where: dict[str, Any] = {"level": "L1"}
    for _ in range(depth):
        where = {"not": where}
    return where


def match_in_python(memories: Iterable[Memory], where: dict[str, Any]) -> list[str]:
    """Return the ids of the matching memories, found by checking each memory in Python."""
    conditions = make_filter(where).all_conditions
    return sorted(memory.id for memory in memories if is_match(memory, conditions))


def test_every_field_and_operator_works_on_every_store(engine: Everhold, alice: View) -> None:
    store_memories(alice)
    engine.scope(user="bob").remember("Tea number 7")
    engine.scope(organization="other", user="alice").remember("Tea number 7", id="mem_07")
    engine.flush()
    memories = [memory for memory in engine._parts.records.scan(Memory, "default") if memory.user_id == "alice"]
    matching, empty = 0, 0  # filters
    for where in WHERE:
        expected = match_in_python(memories, where)
        matching, empty = matching + bool(expected), empty + (not expected)
        assert sorted(memory.id for memory in alice.list(where=where, limit=100)) == expected, where
        hits = alice.recall("tea", where=where, k=100, minimum=0)
        assert sorted(hit.memory.id for hit in hits) == expected, where
        assert alice.forget_where(where=where, preview=True).count == len(expected), where
    assert matching > 70
    assert empty > 8


def test_every_field_can_be_named(engine: Everhold, alice: View) -> None:
    store_memories(alice)
    engine.flush()
    for name in Memory.model_fields:
        expected = match_in_python(engine._parts.records.scan(Memory, "default"), {name: {"!=": None}})
        assert sorted(memory.id for memory in alice.list(where={name: {"!=": None}})) == expected, name


def test_a_memory_must_have_all_tags_of_the_filter(alice: View) -> None:
    store_memories(alice)
    for tags in ("t0", ["t0"], ["t0", "u1"], ["t0", "t1"], ["nothing"], ("u2",)):
        words = [tags] if isinstance(tags, str) else tags
        expected = {f"mem_{n:02}" for n in range(20) if set(words) <= {f"t{n % 2}", f"u{n % 3}"}}
        assert {memory.id for memory in alice.list(tags=tags)} == expected
        assert {hit.memory.id for hit in alice.recall("tea", tags=tags, k=50, minimum=0)} == expected
        assert {hit.memory.id for hit in alice.recall("tea", where={"tags": tags}, k=50, minimum=0)} == expected


def test_tags_can_be_combined_by_and_or_not(alice: View) -> None:
    store_memories(alice)
    cases: list[tuple[dict[str, Any], Callable[[int], bool]]] = [
        ({"or": [{"tags": "t0"}, {"kind": "plan"}]}, lambda n: n % 2 == 0 or n % 3 == 1),
        ({"or": [{"tags": ["t0", "u0"]}, {"tags": "u1"}]}, lambda n: n % 6 == 0 or n % 3 == 1),
        ({"not": {"tags": "t0"}}, lambda n: n % 2 == 1),
        ({"not": {"tags": ["t0", "u0"]}}, lambda n: n % 6 != 0),
        ({"not": {"or": [{"tags": "t0"}, {"tag": "nothing"}]}, "tags": "u1"}, lambda n: n % 2 == 1 and n % 3 == 1),
        ({"or": [{"tags": "u2"}, {"content.n": 0}]}, lambda n: n % 3 == 2 or n == 0),
    ]
    for where, is_expected in cases:
        expected = {f"mem_{n:02}" for n in range(20) if is_expected(n)}
        assert {memory.id for memory in alice.list(where=where)} == expected, where
        assert {hit.memory.id for hit in alice.recall("tea", where=where, k=50, minimum=0)} == expected, where
        assert alice.forget_where(where=where, preview=True).count == len(expected), where
    assert alice.why_not("mem_00", "tea", where={"not": {"tags": "t0"}}).reasons[0] == "the filter excludes it"


def test_memories_are_filtered_by_kind_and_time(alice: View) -> None:
    first = alice.remember_many([f"Tea early {n}" for n in range(3)])
    middle = datetime.now(UTC)
    second = alice.remember_many([{"text": f"Tea late {n}", "kind": "plan"} for n in range(4)])
    early, late = {memory.id for memory in first}, {memory.id for memory in second}
    for verb in (
        lambda **filters: {memory.id for memory in alice.list(**filters)},
        lambda **filters: {hit.memory.id for hit in alice.recall("tea", k=50, **filters, minimum=0)},
    ):
        assert verb(after=middle) == late
        assert verb(before=middle) == early
        assert verb(after=first[0].created_at, before=second[0].created_at) == early
        assert verb(after=second[0].created_at) == late
        assert verb(kind="plan") == late
        assert verb(kind=["plan", "observation"]) == early | late
        assert verb(kind="plan", before=middle) == set()


@pytest.mark.parametrize(
    ("where", "error", "words"),
    [
        ({"knd": "fact"}, UnknownField, "no field 'knd' to filter by; did you mean 'kind'"),
        ({"tagz": "x"}, UnknownField, "did you mean 'tag'"),
        ({"kind.inner": "x"}, UnknownField, "no field 'kind.inner'"),
        ({"kind": {"~": "x"}}, InvalidInput, "kind: no operator '~'; use one of =, !=, <, <=, >, >=, in, contains"),
        ({"kind": 5}, InvalidInput, "kind is a text; it cannot be compared with 5"),
        ({"kind": {"in": "fact"}}, InvalidInput, "'in' has 'fact'; pass a list of values"),
        ({"kind": {"=": ["fact"]}}, InvalidInput, "kind is a text; it cannot be compared with"),
        ({"revision": "2"}, InvalidInput, "revision is a"),
        ({"revision": True}, InvalidInput, "revision is a"),
        ({"revision": {"contains": 2}}, InvalidInput, "'contains' finds part of a text"),
        ({"pinned": 1}, InvalidInput, "pinned is a"),
        ({"created_at": "2020-01-01"}, InvalidInput, "created_at is a"),
        ({"created_at": {">": datetime(2020, 1, 1)}}, InvalidInput, "has no zone"),  # noqa: DTZ001
        ({"created_at": {"in": [datetime(2020, 1, 1)]}}, InvalidInput, "has no zone"),  # noqa: DTZ001
        ({"priority": "high"}, InvalidInput, "cannot be compared with 'high'"),
        ({"text": "a\x00b"}, InvalidInput, "NUL byte at position 1"),
        ({"text": {"in": ["\ud800"]}}, InvalidInput, "lone surrogate"),
        ({"tags": 5}, InvalidInput, "a word or a list of words"),
        ({"tags": [5]}, InvalidInput, "is not a word"),
        ({"or": {"kind": "fact"}}, InvalidInput, "'or' holds {'kind': 'fact'}; write a list of dictionaries"),
        ({"or": []}, InvalidInput, "'or' holds []; write a list of dictionaries of conditions, none of them empty"),
        ({"and": [{"kind": "fact"}, {}]}, InvalidInput, "'and' holds"),
        ({"not": {}}, InvalidInput, "'not' holds {}; write a dictionary of conditions"),
        ({"not": [{"kind": "fact"}]}, InvalidInput, "where holds [{'kind': 'fact'}]; write a dictionary"),
        ({"or": [{"knd": "fact"}]}, UnknownField, "did you mean 'kind'"),
        (
            {"or": [{"revision": n} for n in range(60)], "and": [{"revision": n} for n in range(60)]},
            InvalidInput,
            "where has 120 conditions; use at most 100",
        ),
        (make_nested_filter(11), InvalidInput, "where is nested deeper than 10 levels"),
    ],
)
def test_invalid_filters_are_refused(
    sqlite_store: Store, where: dict[str, Any], error: type[Exception], words: str
) -> None:
    alice = sqlite_store.open().scope(user="alice")
    for verb in (
        lambda: alice.list(where=where),
        lambda: alice.recall("x", where=where),
        lambda: alice.forget_where(where=where),
    ):
        with pytest.raises(error, match=re.escape(words)):
            verb()


def test_other_arguments_are_checked_too(sqlite_store: Store) -> None:
    alice = sqlite_store.open().scope(user="alice")
    naive = datetime(2020, 1, 1)  # noqa: DTZ001
    for arguments in ({"after": naive}, {"before": naive}, {"kind": 5}, {"kind": ["\x00"]}, {"tags": "\ud800"}):
        with pytest.raises(InvalidInput):
            alice.list(**arguments)
        with pytest.raises(InvalidInput):
            alice.recall("x", **arguments)
    with pytest.raises(InvalidInput, match="as_of: time 2020-01-01T00:00:00 has no zone"):
        alice.recall("x", as_of=naive)
    with pytest.raises(InvalidInput, match="limit is 0; pass 1 to"):
        alice.list(limit=0)
    for arguments in ({"asked_at": naive}, {"asked_at": "now"}, {"k": "5"}, {"k": True}, {"minimum": "high"}):
        with pytest.raises(InvalidInput, match=next(iter(arguments))):
            alice.recall("x", **arguments)
    for limit in (-1, "5"):
        with pytest.raises(InvalidInput, match="limit is"):
            alice.log(limit=limit)


# listing


def test_a_listing_is_read_in_pages(alice: View) -> None:
    memory_ids = [alice.remember(f"Item {n}").id for n in range(5)]
    memory_ids += [memory.id for memory in alice.remember_many(f"Same moment {n}" for n in range(20))]
    for oldest_first in (False, True):
        for limit in (1, 4, 24, 25, 26):
            arguments = {"limit": limit, "oldest_first": oldest_first}
            pages = fetch_all_pages(lambda cursor, arguments=arguments: alice.list(cursor=cursor, **arguments))
            assert [memory.id for page in pages for memory in page.memories] == sorted(
                memory_ids, reverse=not oldest_first
            )


def test_a_filtered_listing_is_read_in_pages(alice: View) -> None:
    store_memories(alice)
    pages = fetch_all_pages(lambda cursor: alice.list(limit=2, cursor=cursor, where={"content.flag": True}, tags="u0"))
    assert [memory.id for page in pages for memory in page.memories] == ["mem_18", "mem_12", "mem_06", "mem_00"]
