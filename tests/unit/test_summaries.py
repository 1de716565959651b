"""Summaries that quote their sources."""

import subprocess
import sys

from everhold.text.summaries import summarise


def _count_words(text: str) -> int:
    return len(text.split())


_TEXTS = [
    "Hi! How are you?",
    "Great, thanks. I adopted a greyhound called Juniper from the shelter in Leeds.",
    "Wow, that is so nice!",
    "The greyhound sleeps all day. We drive to Leeds on 4 May for the vaccination.",
]


def test_a_summary_quotes_the_sentences_that_say_most() -> None:
    extract = summarise(_TEXTS, 24, _count_words)
    quoted = [sentence.text for sentence in extract.sentences]
    assert "I adopted a greyhound called Juniper from the shelter in Leeds." in quoted
    assert "Wow, that is so nice!" not in quoted
    assert all(sentence.text in _TEXTS[sentence.source] for sentence in extract.sentences)


def test_topics_are_the_words_that_no_quote_contains() -> None:
    extract = summarise(_TEXTS, 24, _count_words)
    quoted = " ".join(sentence.text for sentence in extract.sentences)
    assert {"vaccination", "sleeps"} & set(extract.topics)
    assert not [topic for topic in extract.topics if topic in quoted.split()]


def test_a_summary_keeps_its_budget() -> None:
    for budget in (12, 20, 40):
        extract = summarise(_TEXTS, budget, _count_words)
        words = [word for sentence in extract.sentences for word in sentence.text.split()]
        assert len(words) + len(extract.topics) <= budget


def test_ignored_words_add_nothing_to_a_sentences_weight() -> None:
    assert summarise(["Juniper. Juniper!"], 10, _count_words, ignored=["Juniper"]).sentences == ()


def test_summaries_are_the_same_in_every_process() -> None:
    # The order of a set depends on the seed of hashes, and the last digit of a sum depends on the order of its terms.
    program = (
        "from benchmarks.texts import make_sentences; from everhold.text.summaries import summarise;"
        "texts = make_sentences(400);"
        "print([summarise(texts[n:n + 20], 90, lambda text: len(text.split())) for n in range(0, 400, 20)])"
    )
    command = [sys.executable, "-c", program]
    outputs = {
        subprocess.run(
            command, capture_output=True, check=True, env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        ).stdout
        for seed in ("1", "2", "3", "4")
    }
    assert len(outputs) == 1
