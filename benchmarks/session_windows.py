"""Measure the window of a session: its time in a long and in a short session, and what a prompt cache can reuse."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

from benchmarks.engines import build_settings, open_engine
from benchmarks.report import Pairs, Report, run_interleaved
from benchmarks.texts import make_sentences
from everhold import View
from everhold.ports.tokenizer import Tokenizer
from everhold.testing.fake_embedder import FakeEmbedder

LONG, SHORT, QUICK = 10_000, 100, 2_000
BUDGET = 4_000
# A turn of four sentences has about 80 tokens, so that a hundred of them do not fit the budget.
SENTENCES = 4
TURNS = 100


def add_window_figures(report: Report, folder: Path, tokenizer: Tokenizer, *, quick: bool) -> None:
    """Add the figures of windows. Vectors are made by a fake model, whose time is next to nothing."""
    pairs = 30 if quick else 100
    with _open_sessions(folder, tokenizer, QUICK if quick else LONG) as (long, short, whole):
        times = _compare_windows(long, short, pairs)
        times.add_to(report, "window", 2.0)
        # In this session every message fits: nothing is summarised, and little is left to recall.
        report.add("window_than_whole_session_ratio", _compare_windows(long, whole, pairs).ratio)
        for strategy in ("truncate", "summarise", "adaptive"):
            report.add(f"window_reused_{strategy}", _measure_reuse(long, strategy))


@contextmanager
def _open_sessions(folder: Path, tokenizer: Tokenizer, long: int) -> Iterator[list[View]]:
    """Open a long session, a short one that exceeds the budget, and a short one that fits; each of its own user."""
    sentences = make_sentences(long * SENTENCES)
    turns = [" ".join(sentences[place : place + SENTENCES]) for place in range(0, len(sentences), SENTENCES)]
    sessions = {"long": turns, "short": turns[:SHORT], "whole": sentences[:SHORT]}
    settings = build_settings(folder / "windows.db", sqlite={"synchronous": "NORMAL"})
    with open_engine(settings, FakeEmbedder(), tokenizer) as engine:
        views = [engine.scope(user=name, session=name) for name in sessions]
        for view, texts in zip(views, sessions.values(), strict=True):
            _say_all(view, texts)
        yield views


def _say_all(view: View, texts: Sequence[str]) -> None:
    for place, text in enumerate(texts):
        view.say(text, role=("user", "assistant")[place % 2])


def _compare_windows(long: View, short: View, pairs: int) -> Pairs:
    questions = make_sentences(pairs + 10)
    return run_interleaved(
        lambda number: _build(long, questions[number]), lambda number: _build(short, questions[number]), pairs
    )


def _build(view: View, question: str) -> None:
    assert view.window(question, budget=BUDGET).tokens <= BUDGET


def _measure_reuse(view: View, strategy: str) -> float:
    """Return the share of each prompt that stands at the beginning of the prompt before it, while people talk on."""
    reused, total, previous = 0, 0, ""
    for number, text in enumerate(make_sentences(2 * TURNS)):
        view.say(text, role=("user", "assistant")[number % 2])
        if number % 2 == 0:
            window = view.window(budget=BUDGET, strategy=strategy)  # type: ignore[arg-type]
            prompt = json.dumps(window.as_openai())
            if previous:
                same = zip(previous, prompt, strict=False)
                reused += sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], same))
                total += len(prompt)
            previous = prompt
    return reused / total
