"""Measure the time per message of building episodes, early and late in a session of 100,000 messages."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from statistics import median

from benchmarks.engines import build_settings, open_engine
from benchmarks.report import Report
from benchmarks.texts import make_sentences
from everhold import Everhold
from everhold.episodes.updating import update_session
from everhold.model import Message, Session
from everhold.ports.tokenizer import Tokenizer
from everhold.remember.chunks import make_chunks
from everhold.schema.operations import Patch, Put
from everhold.testing.fake_embedder import FakeEmbedder

EARLY, LATE, QUICK = 1_000, 100_000, 10_000
# Where time is measured, episodes are updated after every 20 messages. The last 600 messages before EARLY and LATE are
# measured.
STEP, MEASURED = 20, 600
# Elsewhere, episodes are updated after this many messages.
UNMEASURED_STEP = 240
START = datetime(2024, 1, 1, tzinfo=UTC)
MESSAGE_INTERVAL = timedelta(seconds=40)
USER, SESSION = "alice", "long"


def add_episode_figures(report: Report, folder: Path, tokenizer: Tokenizer, *, quick: bool) -> None:
    """Add the time of episodes per message. A fake model makes the vectors, which takes hardly any time."""
    late = QUICK if quick else LATE
    settings = build_settings(folder / "episodes.db", sqlite={"synchronous": "NORMAL"})
    texts = make_sentences(2_000)
    with open_engine(settings, FakeEmbedder(), tokenizer) as engine:
        engine.scope(user=USER, session=SESSION).open_session()
        seconds: dict[int, list[float]] = {EARLY: [], late: []}
        message_count = 0
        while message_count < late:
            point = EARLY if message_count < EARLY else late
            is_measured = message_count >= point - MEASURED
            step = STEP if is_measured else min(UNMEASURED_STEP, point - MEASURED - message_count)
            _store_messages(engine, texts, message_count, step)
            seconds_spent = _update_episodes(engine)
            if is_measured:
                seconds[point].append(seconds_spent / step)
            message_count += step
        early_cost, late_cost = (median(seconds[point]) for point in (EARLY, late))
        report.add("episodes_cost_ratio", late_cost / early_cost, "<=", 1.5)
        report.add("episodes_ms_per_message_early", 1000 * early_cost)
        report.add("episodes_ms_per_message_late", 1000 * late_cost)
        report.add("episodes_messages", late)
        _measure_summary(report, engine)


def _store_messages(engine: Everhold, texts: Sequence[str], first: int, count: int) -> None:
    """Store messages as `say` does, but many in one commit."""
    parts = engine._parts
    messages = [
        Message(
            id=f"msg-{number:06}",
            organization_id="default",
            user_id=USER,
            session_id=SESSION,
            position=number,
            role=("user", "assistant")[number % 2],
            text=f"{texts[number * 7 % len(texts)]} It was the {number}th time.",
            created_at=START + number * MESSAGE_INTERVAL,
            updated_at=START + number * MESSAGE_INTERVAL,
        )
        for number in range(first, first + count)
    ]
    chunks = make_chunks(messages, parts.write_deps.chunking)
    last_active = Patch(Session, ("default", SESSION), {"last_active": messages[-1].created_at})
    puts = [*map(Put, messages), *map(Put, chain.from_iterable(chunks))]
    parts.records.commit([*puts, last_active])


def _update_episodes(engine: Everhold) -> float:
    """Build the episodes of the messages so far, and return the seconds that it took."""
    deps = engine._parts.episode_deps
    session = deps.records.get(Session, "default", [SESSION])[SESSION]
    started = time.perf_counter()
    for _ in update_session(deps, session):
        pass
    return time.perf_counter() - started


def _measure_summary(report: Report, engine: Everhold) -> None:
    view = engine.scope(user=USER)
    started = time.perf_counter()
    summary = view.summary(START + timedelta(days=1, hours=7), START + timedelta(days=4, hours=3), budget=400)
    report.add("episodes_summary_ms", 1000 * (time.perf_counter() - started))
    report.add("episodes_summary_tokens", summary.tokens, "<=", 400)
