"""An object that does not implement its port is refused when it is passed, and the error names what is missing."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Protocol

import pytest

from everhold import Everhold, ports
from everhold.adapters.in_memory import InMemoryRecords
from everhold.adapters.portable.scanned_vectors import ScannedVectors
from everhold.adapters.portable.scanned_words import ScannedWords
from everhold.arguments.protocols import require_protocol
from everhold.errors import InvalidInput
from everhold.parts import assemble
from everhold.ports.records import Records
from everhold.ports.search_indexes import SearchIndexes
from everhold.settings import validate_settings
from everhold.testing.fake_embedder import FakeEmbedder


def list_protocols() -> Iterator[type]:
    for module in pkgutil.iter_modules(ports.__path__, "everhold.ports."):
        for member in vars(importlib.import_module(module.name)).values():
            if isinstance(member, type) and getattr(member, "_is_protocol", False):
                yield from [member] if member is not Protocol else []


PROTOCOLS = sorted(set(list_protocols()), key=lambda protocol: protocol.__name__)


def list_members(protocol: type) -> dict[str, Any]:
    members = {name: member for kind in protocol.__mro__[::-1] for name, member in vars(kind).items()}
    return {
        name: member
        for name, member in members.items()
        if isinstance(member, FunctionType | property) and not name.startswith("_")
    }


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_every_missing_member_of_every_port_is_named(protocol: type) -> None:
    members = list_members(protocol)
    assert members
    require_protocol(type("Whole", (), dict(members))(), protocol, "it")
    for name, member in members.items():
        other_members = {other: value for other, value in members.items() if other != name}
        shown = f"{name}()" if isinstance(member, FunctionType) else name
        with pytest.raises(InvalidInput, match=rf"it is a Part, which has no {shown[:-2]}.*; implement everhold\."):
            require_protocol(type("Part", (), other_members)(), protocol, "it")


class RerankerWithoutTexts:
    def rerank(self, question: str) -> list[float]:
        return []


class RerankerWithLanguage:
    def rerank(self, question: str, texts: list[str], language: str) -> list[float]:
        return []


class DelegatingRecords:
    """Answers with the methods of another object."""

    def __getattr__(self, name: str) -> Any:
        return getattr(InMemoryRecords(), name)


@pytest.mark.parametrize("reranker_class", [RerankerWithoutTexts, RerankerWithLanguage])
def test_a_method_with_other_parameters_is_refused(reranker_class: Callable[[], Any]) -> None:
    with Everhold.open("memory://", embedder=FakeEmbedder()) as engine:
        with pytest.raises(InvalidInput, match=r"which has a rerank\(\) that does not take \(question, texts\)"):
            engine.scope(user="alice").recall("tea", reranker=reranker_class())
        with pytest.raises(InvalidInput, match=r"reranker is a object, which has no rerank\(\)"):
            engine.scope(user="alice").recall("tea", reranker=object())


def test_an_engine_refuses_parts_when_it_is_built() -> None:
    model = FakeEmbedder()
    store = InMemoryRecords()
    candidates = SearchIndexes(ScannedWords(store), ScannedVectors(store))
    for records, embedder, tokenizer, message in [
        (object(), model, model, "the store is a object, which has no .*commit"),
        (store, object(), model, "the embedder is a object, which has no model, and no dimensions, and no embed"),
        (store, model, object(), "the tokenizer is a object, which has no"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            assemble(validate_settings({}), records, candidates, embedder, tokenizer)
    with pytest.raises(InvalidInput, match=r"the search by words is a object, which has no find_by_words\(\)"):
        assemble(validate_settings({}), store, SearchIndexes(object(), ScannedVectors(store)), model, model)
    with pytest.raises(InvalidInput, match="embedder is a object, which has no"):
        Everhold.open("memory://", embedder=object())


def test_an_object_that_delegates_to_another_is_taken() -> None:
    require_protocol(DelegatingRecords(), Records, "the store")
