"""Lines of the access log and their digests."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from everhold.access import chain
from everhold.adapters.in_memory import InMemoryRecords
from everhold.model import AccessLog, Organization, Scope
from everhold.model.access import compute_digest, make_access_line
from everhold.schema.operations import Put

T0 = datetime(2024, 1, 1, tzinfo=UTC)
SCOPE = Scope(organization="acme", project="p", user="alice", agent="bot", session="s1")


def make_line(number: int = 0, scope: Scope = SCOPE, **fields: Any) -> AccessLog:
    fields = {"interface": "library", **fields}
    request = {"memory": f"m{number}", "n": [1, None]}
    return make_access_line(scope, "read", T0 + timedelta(seconds=number), request, **fields)


def test_a_line_names_the_actor_the_operation_and_the_time() -> None:
    log_line = make_line(3, error="NotFound", interface="cli")
    assert (log_line.organization_id, log_line.user_id, log_line.agent_id, log_line.session_id) == (
        "acme",
        "alice",
        "bot",
        "s1",
    )
    assert (log_line.operation, log_line.timestamp, log_line.success) == ("read", T0 + timedelta(seconds=3), False)
    assert (log_line.error_message, log_line.interface) == ("NotFound", "cli")
    assert log_line.request == {"memory": "m3", "n": [1, None], "project": "p", "session": "s1"}
    assert log_line.digest == compute_digest(log_line.__dict__)
    assert len(log_line.digest) == 32


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("organization_id", "bolt"), ("user_id", None), ("user_id", "bob"), ("agent_id", "x"), ("operation", "search"),
        ("timestamp", T0 + timedelta(microseconds=1)), ("request", {}), ("success", False), ("error_message", "x"),
        ("interface", "web"), ("ip_address", "1.2.3.4"),
    ],
)  # fmt: skip
def test_the_digest_covers_every_field(field: str, value: object) -> None:
    log_line = make_line()
    assert compute_digest({**log_line.__dict__, field: value}) != log_line.digest


def test_values_that_join_to_the_same_text_have_different_digests() -> None:
    first = make_access_line(Scope(organization="a", user="bc"), "read", T0, {}, interface="cli")
    second = make_access_line(Scope(organization="ab", user="c"), "read", T0, {}, interface="cli")
    third = make_access_line(Scope(organization="a", agent="bc"), "read", T0, {}, interface="cli")
    assert len({first.digest, second.digest, third.digest}) == 3


def test_the_digest_does_not_depend_on_the_order_of_keys_or_the_zone() -> None:
    first = make_access_line(SCOPE, "read", T0, {"a": 1, "b": 2}, interface="cli")
    second = make_access_line(SCOPE, "read", T0, {"b": 2, "a": 1}, interface="cli")
    assert first.digest == second.digest


def make_sealed_store(count: int) -> InMemoryRecords:
    records = InMemoryRecords()
    records.commit([Put(Organization(id=name, name=name, created_at=T0, updated_at=T0)) for name in ("acme", "bolt")])
    for number in range(count):
        for organization in ("acme", "bolt"):
            records.commit([Put(make_line(number, Scope(organization=organization)))])
    return records


def test_sealing_chains_each_organization_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "_BATCH", 4)
    records = make_sealed_store(7)
    assert chain.seal(records) == 14
    assert chain.seal(records) == 0
    for organization in ("acme", "bolt"):
        lines = records.scan(AccessLog, organization, order="sequence")
        assert [line.sealed for line in lines] == list(range(1, 8))
        assert lines[0].previous_hash == bytes(32)
        assert all(after.previous_hash == before.hash for before, after in pairwise(lines))
        assert chain.verify(records, organization) == chain.Verification(7, True)
    records.commit([Put(make_line(9, Scope(organization="acme")))])
    assert chain.verify(records, "acme").lines == 8
    assert chain.verify(records, "nobody") == chain.Verification(0, True)
