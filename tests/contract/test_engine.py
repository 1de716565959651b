"""Every combination of a store, a search index and a session cache gives the same answers."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from everhold import Everhold, parts, settings, stores
from everhold.adapters.chroma import ChromaVectors
from everhold.adapters.portable.scanned_vectors import ScannedVectors
from everhold.adapters.portable.scanned_words import ScannedWords
from everhold.ports.records import Records
from everhold.ports.search_indexes import SearchIndexes
from everhold.settings import Settings
from everhold.testing.engine_contract import EngineContract
from everhold.testing.fake_embedder import FakeEmbedder
from tests.chroma_store import SECONDS
from tests.engines import CALM
from tests.exhaustive import TIMES, choose_size
from tests.servers.dynamodb import CREDENTIALS

STORES = ("sqlite", "postgres", "duckdb", "dynamodb")
SEARCHES = ("native", "portable", "chroma")
CACHES = ("in_process", "redis")
NOT_NATIVE = {
    "duckdb": "its fts and vss extensions would have to be downloaded at run time",
    "dynamodb": "it searches neither words nor vectors",
}


class Combination(NamedTuple):
    store: str
    search: str
    cache: str


COMBINATIONS = [
    pytest.param(combination, id="_".join(combination), marks=pytest.mark.xdist_group("_".join(combination)))
    for combination in map(Combination._make, product(STORES, SEARCHES, CACHES))
    if combination.search != "native" or combination.store not in NOT_NATIVE
]


@pytest.fixture(scope="module", params=COMBINATIONS)
def combination(request: pytest.FixtureRequest) -> Combination:
    combination: Combination = request.param
    return combination


@pytest.fixture(scope="module")
def combination_settings(
    combination: Combination, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The settings that make the combination."""
    folder = tmp_path_factory.mktemp("_".join(combination))
    values: dict[str, Any] = {**CALM, "storage": make_address(combination.store, request, folder)}
    if combination.store == "dynamodb":
        endpoint = request.getfixturevalue("dynamodb_server").url
        values |= {"dynamodb": {"endpoint": endpoint, "seconds": 60}, "blobs": str(folder / "blobs")}
    if combination.search == "chroma":
        uses_server = combination.store in ("postgres", "dynamodb")
        values["vectors"] = (
            request.getfixturevalue("chroma_server").url if uses_server else f"chroma:///{folder / 'chroma'}"
        )
    if combination.cache == "redis":
        values["sessions"] = request.getfixturevalue("valkey_server").url
    return values


def make_address(store: str, request: pytest.FixtureRequest, folder: Path) -> str:
    match store:
        case "postgres":
            return str(request.getfixturevalue("postgres_server").create_database())
        case "dynamodb":
            return f"dynamodb://eu-north-1/{folder.name}"
    return f"{store}:///{folder / 'memories'}.{store}"


@pytest.fixture(scope="module")
def exit_stack(combination_settings: dict[str, Any], combination: Combination) -> Iterator[ExitStack]:
    with pytest.MonkeyPatch.context() as patched, ExitStack() as exit_stack:
        for name, value in CREDENTIALS.items():
            patched.setenv(name.upper(), value)
        yield exit_stack


def open_engine(combination_settings: dict[str, Any], search: str, exit_stack: ExitStack, **options: Any) -> Everhold:
    chosen = settings.load(**{**combination_settings, **options})
    records, candidates = stores.open_store(chosen)
    if search == "portable":
        candidates = SearchIndexes(ScannedWords(records), ScannedVectors(records), candidates.close)
    return exit_stack.enter_context(assemble_engine(chosen, records, candidates))


def open_other_engine(engine: Everhold, exit_stack: ExitStack) -> Everhold:
    """Open another engine on the records of the first one, for a store that a process can open only once."""
    records = engine._parts.records
    portable = SearchIndexes(ScannedWords(records), ScannedVectors(records))
    _, candidates = stores.choose_vectors(engine.settings, records, portable)
    other_engine = assemble_engine(engine.settings, records, candidates)
    exit_stack.callback(candidates.close)
    exit_stack.callback(other_engine._parts.access.close)  # but not the store, which the first engine closes
    return other_engine


def assemble_engine(chosen: Settings, records: Records, candidates: SearchIndexes) -> Everhold:
    embedder = FakeEmbedder()
    engine = Everhold(parts.assemble(chosen, records, candidates, embedder, embedder))
    if isinstance(candidates.vectors, ChromaVectors):
        assert candidates.vectors.wait(SECONDS), engine.doctor().problems
    return engine


@pytest.fixture(scope="module")
def engine(combination_settings: dict[str, Any], combination: Combination, exit_stack: ExitStack) -> Everhold:
    """An engine without images, so that the indexes are used even for a few memories."""
    return open_engine(combination_settings, combination.search, exit_stack, images={"max_memories": 0})


@pytest.fixture(scope="module")
def other_engine(
    engine: Everhold, combination_settings: dict[str, Any], combination: Combination, exit_stack: ExitStack
) -> Everhold:
    """A second engine on the store. It keeps images of small scopes in memory, as by default."""
    if combination.store == "duckdb":
        return open_other_engine(engine, exit_stack)
    return open_engine(combination_settings, combination.search, exit_stack)


@pytest.fixture(scope="module")
def reference(exit_stack: ExitStack) -> Everhold:
    """An engine in memory, whose answers every combination must give."""
    return open_engine({**CALM, "storage": "memory://"}, "portable", exit_stack)


class TestEngine(EngineContract):
    """Every test of the contract, on every combination."""

    steps = choose_size(80, EngineContract.steps) * TIMES

    @pytest.fixture(autouse=True)
    def shorten_walk(self, combination: Combination) -> None:
        """In `make contract`, take a tenth of the steps on DynamoDB, whose server for tests is slow."""
        if combination.store == "dynamodb":
            self.steps = choose_size(80, EngineContract.steps // 10) * TIMES


@pytest.mark.parametrize(
    "store",
    [
        pytest.param(name, marks=pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError))
        for name, reason in NOT_NATIVE.items()
    ],
)
def test_each_store_searches_by_its_own_indexes(
    store: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    combination_settings: dict[str, Any] = {"storage": make_address(store, request, tmp_path)}
    if store == "dynamodb":
        combination_settings["dynamodb"] = {"endpoint": request.getfixturevalue("dynamodb_server").url}
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name.upper(), value)
    records, candidates = stores.open_store(settings.load(**combination_settings))
    records.close()
    assert not isinstance(candidates.words, ScannedWords)
