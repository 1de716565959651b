"""Measure the time of `window` in a long and a short session, and the share of prompts that a cache can reuse."""

import json
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from benchmarks.engines import TextModel, build_settings, open_engine
from benchmarks.report import PairedTimes, Report, run_interleaved
from benchmarks.texts import make_sentences
from everhold import Everhold, View
from everhold.settings_sections import DEFAULT_MODEL
from everhold.testing.fake_embedder import FakeEmbedder

LONG, SHORT, QUICK = 10_000, 100, 2_000
BUDGET = 4_000
# A turn of four sentences has about 80 tokens, so that a hundred of them do not fit the budget.
SENTENCES = 4
TURNS = 100


def add_window_figures(report: Report, folder: Path, model: TextModel, *, quick: bool) -> None:
    """Add the figures of `window`: with the time that the model takes to embed each question, and without it."""
    pairs = 30 if quick else 100
    settings = build_settings(folder / "windows.db", sqlite={"synchronous": "NORMAL"})
    # Messages are stored with vectors of a fake model: embedding ten thousand would take minutes.
    with open_engine(settings, FakeEmbedder(DEFAULT_MODEL), model) as engine:
        long, short, fitting = _fill_sessions(engine, QUICK if quick else LONG)
        report.add("window_without_embedding_ratio", _compare_windows(long, short, pairs).ratio)
        # In this session every message fits: nothing is summarised, and little is left to recall.
        report.add("window_than_whole_session_ratio", _compare_windows(long, fitting, pairs).ratio)
    with open_engine(settings, model, model) as engine:
        long, short = (engine.scope(user=name, session=name) for name in ("long", "short"))
        _compare_windows(long, short, pairs).add_to(report, "window", 2.0)
    with open_engine(settings, FakeEmbedder(DEFAULT_MODEL), model) as engine:
        for strategy in ("truncate", "summarise", "adaptive"):
            share = _measure_reuse(engine.scope(user="long", session="long"), strategy)
            report.add(f"window_reused_{strategy}", share)


def _fill_sessions(engine: Everhold, long: int) -> list[View]:
    """Return a long session, a short one that exceeds the budget, and a short one that fits, each of another user."""
    sentences = make_sentences(long * SENTENCES)
    turns = [" ".join(sentences[index : index + SENTENCES]) for index in range(0, len(sentences), SENTENCES)]
    sessions = {"long": turns, "short": turns[:SHORT], "fitting": sentences[:SHORT]}
    views = [engine.scope(user=name, session=name) for name in sessions]
    for view, texts in zip(views, sessions.values(), strict=True):
        _say_all(view, texts)
    return views


def _say_all(view: View, texts: Sequence[str]) -> None:
    for index, text in enumerate(texts):
        view.say(text, role=("user", "assistant")[index % 2])


def _compare_windows(long: View, short: View, pairs: int) -> PairedTimes:
    """Compare windows for questions about messages of both sessions. No question is asked twice."""
    questions = make_sentences(2 * (pairs + 10))
    return run_interleaved(
        lambda number: _build_window(long, questions[2 * number]),
        lambda number: _build_window(short, questions[2 * number + 1]),
        pairs,
    )


def _build_window(view: View, question: str) -> None:
    assert view.window(question, budget=BUDGET).tokens <= BUDGET


def _measure_reuse(view: View, strategy: str) -> float:
    """Return which share of a prompt equals the beginning of the previous prompt, while the conversation continues."""
    reused, total, previous = 0, 0, ""
    for number, text in enumerate(make_sentences(2 * TURNS)):
        view.say(text, role=("user", "assistant")[number % 2])
        if number % 2 == 0:
            window = view.window(budget=BUDGET, strategy=strategy)  # type: ignore[arg-type]
            prompt = json.dumps(window.as_openai())
            if previous:
                character_pairs = zip(previous, prompt, strict=False)
                reused += sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], character_pairs))
                total += len(prompt)
            previous = prompt
    return reused / total
