"""Random attempts to reach data of other scopes read and change nothing of theirs.

`python -m benchmarks.tenancy_fuzz` makes many more.
"""

from pathlib import Path

import pytest

from benchmarks.tenancy_fuzz import WEIGHTS, run
from everhold.model import Session
from everhold.model.scope import Scope
from tests.engines import LASTING, make_store
from tests.exhaustive import choose_size

ATTEMPTS = choose_size(1_500, 3_000)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", LASTING)
def test_random_attempts_reach_no_data_of_other_scopes(
    request: pytest.FixtureRequest, tmp_path: Path, name: str
) -> None:
    store = make_store(name, request, tmp_path)
    try:
        outcome = run(store.open(), ATTEMPTS)
        assert outcome.findings == []
        assert outcome.tried.total() >= ATTEMPTS
        assert len(outcome.tried) == len(WEIGHTS)
        assert outcome.imported > 1000
        assert outcome.own_rows_read > ATTEMPTS, "the attempts must also find what is their own, or they prove nothing"
    finally:
        store.close()


PLANTS = {
    "sessions are open to all": (Session, "is_open_to", lambda self, scope: True),
    "scopes cover the whole organization": (
        Scope,
        "can_read",
        lambda self, row: row.__dict__["organization_id"] == self.organization,
    ),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_the_fuzzer_finds_a_planted_fault(
    plant: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store("in_memory", request, tmp_path)
    entity, method, replacement = PLANTS[plant]
    monkeypatch.setattr(entity, method, replacement)
    try:
        assert run(store.open(), 2000).findings
    finally:
        store.close()
