"""The comparison with other stores: its embedding endpoint, its judgement of answers, and its report."""

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest

from benchmarks.peers import __main__ as peers
from benchmarks.peers.endpoint import Endpoint, VectorTable
from benchmarks.peers.lines import FigureLine
from benchmarks.peers.measures import K, Timing, Truth, make_filtered_queries, make_memories, rotate_processes
from benchmarks.peers.protocol import DIMENSIONS, Memory, Query
from benchmarks.peers.workers import REPOSITORY, Process
from benchmarks.report import Report
from everhold.testing.fake_embedder import FakeEmbedder

TEXTS = [f"Alma keeps lantern {number} on shelf {number * 7}" for number in range(1000)]


@pytest.fixture
def table() -> VectorTable:
    return VectorTable(FakeEmbedder("all-MiniLM-L6-v2"))


def post(url: str, **body: Any) -> Any:
    request = Request(f"{url}/embeddings", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request) as answer:
        return json.loads(answer.read())


def test_the_endpoint_serves_the_same_vector_as_numbers_and_as_bytes(table: VectorTable) -> None:
    expected = table.make_matrix(TEXTS[:2])
    with Endpoint(table) as endpoint:
        plain = post(endpoint.url, input=TEXTS[:2], encoding_format="float")["data"]
        packed = post(endpoint.url, input=TEXTS[:2], encoding_format="base64")["data"]
        assert endpoint.requests == 2
    assert [item["index"] for item in plain] == [0, 1]
    assert np.array_equal(np.array([item["embedding"] for item in plain], np.float32), expected)
    unpacked = [np.frombuffer(base64.b64decode(item["embedding"]), np.float32) for item in packed]
    assert np.array_equal(np.array(unpacked), expected)


def test_a_text_that_was_not_prepared_is_counted(table: VectorTable) -> None:
    table.prepare(TEXTS[:1])
    with Endpoint(table) as endpoint:
        post(endpoint.url, input=TEXTS[0])
        assert table.unforeseen == 0
        post(endpoint.url, input=[TEXTS[0], TEXTS[1]])
        assert table.unforeseen == 1
        assert len(post(endpoint.url, input=TEXTS[1])["data"][0]["embedding"]) == DIMENSIONS


def test_the_filters_match_10_2_and_1_percent_of_the_memories() -> None:
    memories = make_memories(TEXTS)
    sizes = {
        filter_name: {sum(_passes(memory, query) for memory in memories) for query in queries}
        for filter_name, queries in make_filtered_queries(
            [f"where is lantern {number}?" for number in range(60)]
        ).items()
    }
    assert sizes == {"user": {100}, "user_and_kind": {20}, "user_and_tag": {10}}


def _passes(memory: Memory, query: Query) -> bool:
    return memory.user == query.user and query.kind in {None, memory.kind} and query.tag in {None, memory.tag}


def test_the_reference_finds_the_nearest_under_the_filter(table: VectorTable) -> None:
    memories = make_memories(TEXTS[:200])
    query = Query(TEXTS[3], memories[3].user)
    memories_of_user = [memory for memory in memories if memory.user == query.user]
    scores = table.make_matrix([memory.text for memory in memories_of_user]) @ table.make_matrix([query.text])[0]
    nearest = [memories_of_user[index].ref for index in np.argsort(-scores)]
    truth = Truth(table, memories)
    others = [memory.ref for memory in memories if memory.user != query.user]
    answers = [nearest[:K], nearest[: K - 1], [*nearest[: K - 2], *others[:2]], others[:K]]
    assert truth.measure_shares([query] * 4, answers) == [1.0, 0.9, 0.8, 0.0]


def test_the_overhead_excludes_the_round_trips() -> None:
    assert Timing([0.010, 0.012, 0.014], [0.002, 0.002, 0.002], requests=3).overhead_ms == pytest.approx(10)
    assert Timing([0.010, 0.012, 0.014], [0.002, 0.002, 0.002], requests=6).overhead_ms == pytest.approx(8)


def test_stores_take_turns_at_being_first(table: VectorTable, tmp_path: Path) -> None:
    with Endpoint(table) as endpoint:
        processes = {name: Process(name, tmp_path, endpoint) for name in "abc"}
    assert "".join(process.name for _, process in rotate_processes(processes, 3)) == "abcbcacab"


@pytest.mark.parametrize(
    ("better", "ours", "ahead", "short"),
    [
        ("lower", 1.0, True, []),
        ("lower", 3.0, False, ["speed_ratio"]),
        ("higher", 3.0, True, []),
        ("higher", 1.0, False, ["speed_difference"]),
        ("higher", 2.0, False, []),
    ],
)
def test_a_line_is_ahead_or_has_a_reason(better: Any, ours: float, ahead: bool, short: list[str]) -> None:
    peers_values = {"one": 2.0, "other": 2.5} if better == "lower" else {"one": 2.0, "other": 1.5}
    line = FigureLine("speed", "ms", better, ours, peers_values, {"one": "it does less"})
    report = Report("peers")
    line.add_to(report)
    values = report.figures["speed"]
    assert (values["best_peer"], values["ahead"], report.short) == ("one", ahead, short)
    if ahead:
        assert "why" not in values
    else:
        assert values["why"].startswith("level with one") if ours == 2.0 else values["why"].endswith("it does less")


def test_our_worker_adds_and_finds_through_the_endpoint(table: VectorTable, tmp_path: Path) -> None:
    memories = make_memories(TEXTS[:60])
    with Endpoint(table) as endpoint:
        process = Process("everhold", tmp_path, endpoint)
        process.start()
        try:
            process.open()
            process.ask("load", memories=memories[:50])
            added = process.ask("add", memories=memories[50:])
            query = Query(memories[55].text, memories[55].user, by_meaning=True)
            answer = process.ask("search", queries=[query], k=3)
        finally:
            process.stop()
    assert len(added["seconds"]) == 10
    assert answer["found"][0][0] == "55"
    assert {memories[int(ref)].user for ref in answer["found"][0]} == {memories[55].user}


def test_the_error_about_missing_peers_says_how_to_install_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(peers, "PEERS_PYTHON", tmp_path / "python")
    assert peers.main([]) == 2
    assert "run make peers" in capsys.readouterr().err


def test_no_peer_brings_torch() -> None:
    expected = (REPOSITORY / "benchmarks" / "peers" / "requirements.txt").read_text("utf-8").splitlines()
    names = {line.partition("==")[0] for line in expected if line and not line.startswith("#")}
    assert {"mem0ai", "chromadb", "langgraph"} <= names
    assert not {name for name in names if name.startswith(("torch", "triton", "nvidia"))}


def test_the_worker_of_the_peers_imports_nothing_of_ours() -> None:
    code = "import sys, benchmarks.peers.worker; print([name for name in sys.modules if name.startswith('everhold')])"

    result = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    assert result.stdout.strip() == "[]"
