"""Bundles that were tampered with reach nobody else; and the search for such bundles finds what is planted.

The full size is `python -m benchmarks.import_fuzz`.
"""

import pytest

from benchmarks import import_fuzz
from recollect.exchange import bundle, comparing
from recollect.recall import filters, pipeline

BUNDLES = {"sqlite": 25, "memory": 40}


@pytest.mark.parametrize("store", BUNDLES)
def test_no_bundle_reaches_another_organization_or_user(store: str) -> None:
    findings = import_fuzz.run(store, BUNDLES[store])
    assert findings.wrong == []
    assert findings.counts["taken"] > 0
    assert findings.counts["refused"] > 0


def test_importing_internal_tables_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "_is_exported", lambda table: True)
    findings = import_fuzz.run("memory", BUNDLES["memory"])
    assert findings.wrong


def test_taking_another_entity_for_the_same_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With recall's own check switched off, which would hide it."""
    monkeypatch.setattr(comparing, "_is_same_entity", lambda *_: True)
    monkeypatch.setattr(comparing.Comparison, "_is_left_out", lambda *_: False)
    monkeypatch.setattr(pipeline, "visible_to", lambda *_: lambda memory: True)
    assert filters.visible_to is not pipeline.visible_to
    findings = import_fuzz.run("memory", 150)
    assert findings.wrong
