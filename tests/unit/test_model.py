"""Values that an entity refuses, and the errors it raises."""

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from everhold.model import (
    Agent,
    AgentState,
    Blob,
    Block,
    Chunk,
    Job,
    Memory,
    Message,
    Organization,
    Revision,
    Scope,
    Tag,
    User,
)
from everhold.model.base import Row
from everhold.model.fields import ID_LENGTH
from everhold.model.memory import compute_importance, compute_priority
from everhold.schema.catalog import CATALOG
from everhold.testing.records_rows import NOON, make_family, make_full_row, make_row


def make_nested_list(levels: int) -> Any:
    return [make_nested_list(levels - 1)] if levels else "end"


REFUSED: dict[str, tuple[type[Row], dict[str, Any], str]] = {
    "naive time": (Memory, {"expires_at": datetime(2026, 1, 1)}, "has no zone; pass an aware datetime"),  # noqa: DTZ001
    "time before year 1": (
        Memory,
        {"expires_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=7)))},
        "outside years 1 to 9999 in UTC",
    ),
    "NUL": (Memory, {"text": "a\x00b"}, "NUL byte at position 1; remove it"),
    "surrogate": (Memory, {"text": "ab\ud800"}, r"lone surrogate \(U\+D800\) at position 2"),
    "NUL in JSON": (Memory, {"metadata": {"a": ["\x00"]}}, "NUL byte"),
    "surrogate in a JSON key": (Memory, {"metadata": {"\udfff": 1}}, "lone surrogate"),
    "id with a space at its end": (Memory, {"id": "a b "}, "id 'a b ' is malformed"),
    "id with a space at its start": (Memory, {"id": " a b"}, "malformed"),
    "id with a tab": (Memory, {"id": "a\tb"}, "malformed"),
    "id with a no-break space": (Memory, {"id": "a\u00a0b"}, "malformed"),
    "id with a right-to-left override": (Memory, {"id": "a\u202eb"}, "malformed"),
    "id with an unassigned code point": (Memory, {"id": "a\u0378b"}, "malformed"),
    "id with a line break": (Memory, {"user_id": "a\n"}, "malformed"),
    "empty id": (Memory, {"id": ""}, "malformed"),
    "id too long": (Memory, {"id": "x" * (ID_LENGTH + 1)}, "malformed"),
    "id that is a number": (Memory, {"id": 7}, "valid string"),
    "share over one": (Memory, {"importance": 1.0000001}, "less than or equal to 1"),
    "share below nothing": (Memory, {"confidence": -0.1}, "greater than or equal to 0"),
    "share that is not a number": (Memory, {"trust": math.nan}, "finite|less than|greater than"),
    "infinite number": (Memory, {"score": math.inf}, "finite"),
    "negative count": (Memory, {"access_count": -1}, "greater than or equal to 0"),
    "count over 64 bits": (Memory, {"revision": 2**63}, "less than"),
    "NaN in JSON": (Memory, {"metadata": {"a": {"b": [math.nan]}}}, "JSON cannot hold the number nan"),
    "infinity in JSON": (AgentState, {"state": -math.inf, "agent_id": "a"}, "JSON cannot hold the number -inf"),
    "number as JSON key": (Memory, {"content": {"a": {1: 2}}}, "JSON keys are text, not int"),
    "bytes in JSON": (Memory, {"metadata": {"a": b"x"}}, "JSON cannot hold a value of type bytes"),
    "time in JSON": (Memory, {"metadata": {"a": NOON}}, "JSON cannot hold a value of type datetime"),
    "set in JSON": (AgentState, {"state": {1, 2}, "agent_id": "a"}, "JSON cannot hold a value of type set"),
    "JSON too deep": (AgentState, {"state": make_nested_list(101), "agent_id": "a"}, "deeper than 64 levels"),
    "list for an object": (Memory, {"metadata": []}, "valid dictionary"),
    "label too long": (Memory, {"kind": "k" * 51}, "at most 50 characters"),
    "label empty": (Message, {"role": ""}, "at least 1 character"),
    "tag of 65 characters": (Tag, {"tag": "t" * 65, "memory_id": "m"}, "at most 64 characters"),
    "name too long": (Organization, {"name": "n" * 256}, "at most 255 characters"),
    "word outside its set": (Agent, {"status": "asleep"}, "'active', 'paused' or 'terminated'"),
    "reach outside its set": (Memory, {"reach": "world"}, "'user', 'agent'"),
    "status of a job": (Job, {"kind": "k", "status": "lost"}, "'waiting', 'running', 'done' or 'failed'"),
    "owner of a chunk": (Chunk, {"owner_id": "m", "owner_kind": "nobody"}, "'memory', 'message'"),
    "block over its limit": (
        Block,
        {"label": "human", "value": "x" * 11, "limit": 10},
        "block 'human' would hold 11 characters, 1 over its limit of 10; shorten it or raise the limit",
    ),
    "revision of a block without a limit": (
        Revision,
        {"owner_kind": "block", "owner_id": "b", "value": {"value": "v"}, "known_from": NOON, "known_to": NOON},
        "the revision's value has no 'limit'",
    ),
    "zone unheard of": (User, {"timezone": "Asia/Atlantis"}, "no time zone 'Asia/Atlantis'; use an IANA name"),
    "zone that is a path": (User, {"timezone": "../../etc/passwd"}, "no time zone"),
    "email without a domain": (User, {"email": "alice"}, "'alice' is not an e-mail address; use name@domain"),
    "email with two signs": (User, {"email": "a@b@c"}, "not an e-mail address"),
    "email with a space": (User, {"email": "a b@c"}, "not an e-mail address"),
    "validity that ends before it begins": (
        Memory,
        {"valid_from": NOON, "valid_to": NOON - timedelta(microseconds=1)},
        "valid_to .* is before valid_from",
    ),
    "digest too short": (Memory, {"hash": b"x" * 15}, "at least 16 bytes"),
    "digest too long": (Memory, {"hash": b"x" * 33}, "at most 32 bytes"),
    "sha256 in capitals": (Blob, {"sha256": "A" * 64, "size": 1}, "match pattern"),
    "field unheard of": (Memory, {"colour": "blue"}, "not permitted"),
    "malformed scope": (Scope, {"organization": "a\nb"}, "malformed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_values_are_refused(case: str) -> None:
    entity, fields, message = REFUSED[case]
    with pytest.raises(ValidationError, match=message):
        entity.model_validate(_make_fields(entity) | fields)


def _make_fields(entity: type[Row]) -> dict[str, Any]:
    return {} if entity is Scope else dict(_make_sample(entity).__dict__)


def _make_sample(entity: type[Row]) -> Row:
    """Return a row with every field filled."""
    related = [row for row in make_family("org").values() if type(row) is entity]
    return related[0] if related else make_full_row(entity, "org", "a")


def test_times_are_kept_in_utc() -> None:
    bangkok = timezone(timedelta(hours=7))
    memory = make_row(Memory, "org", "m", expires_at=datetime(2026, 1, 1, 7, tzinfo=bangkok))
    assert memory.expires_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert memory.expires_at is not None
    assert memory.expires_at.tzinfo is UTC


@pytest.mark.parametrize("entity", CATALOG, ids=lambda entity: entity.__name__)
def test_entities_are_frozen(entity: type[Row]) -> None:
    row = _make_sample(entity)
    with pytest.raises(ValidationError, match="frozen"):
        setattr(row, next(iter(entity.model_fields)), "other")


@pytest.mark.parametrize("entity", CATALOG, ids=lambda entity: entity.__name__)
def test_entities_survive_json(entity: type[Row]) -> None:
    row = _make_sample(entity)
    assert entity.model_validate_json(row.model_dump_json()) == row


def test_evolving_an_entity_checks_its_values() -> None:
    memory = make_row(Memory, "org", "m")
    assert memory.evolve(text="other").text == "other"
    assert memory.text != "other"
    with pytest.raises(ValidationError, match="NUL"):
        memory.evolve(text="\x00")


def test_secrets_are_not_shown() -> None:
    user = make_row(User, "org", "u", password_hash="argon2-secret")
    assert "argon2-secret" not in repr(user)


@pytest.mark.parametrize("priority", range(1, 11))
def test_a_priority_is_an_importance(priority: int) -> None:
    assert 0 <= compute_importance(priority) <= 1
    assert compute_priority(compute_importance(priority)) == priority
    assert make_row(Memory, "org", "m", importance=compute_importance(priority)).priority == priority


def test_a_narrowed_scope_has_the_dimensions_that_were_given() -> None:
    scope = Scope(organization="org").narrow(user="u").narrow(session="s", agent=None)
    assert scope.columns == {"user_id": "u", "session_id": "s"}
    assert str(scope) == "organization=org user=u session=s"
