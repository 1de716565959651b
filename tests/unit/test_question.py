"""Reading a question: its terms, the people it is about, its speaker and its times."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from everhold import clock
from everhold.recall.question import Question, map_speaker_names, read_question
from everhold.testing.fake_embedder import FakeEmbedder

NOW = datetime(2024, 5, 15, 12, tzinfo=UTC)
NAMES = ("Mia Moss", "Tom Reed", "Tom Ash", "Ana", "Anabel Stone", "Stone Hill", "Jean-Luc van Dyk", "José")
EMBEDDER = FakeEmbedder()


def read(query: str, names: tuple[str, ...] = NAMES) -> Question:
    return read_question(EMBEDDER, query, NOW, UTC, map_speaker_names(names))


def embed_words(text: str) -> object:
    [vector] = EMBEDDER.embed([text])
    assert vector is not None
    return vector.tolist()


def read_voice(query: str) -> object:
    voice = read(query).voice
    assert voice is not None
    return voice.tolist()


def test_a_question_about_no_person_has_only_terms() -> None:
    question = read("Which teas, which cakes, and which tea?")
    assert question.terms == ("tea", "cake")
    assert question.words == {"tea", "cake"}
    assert (question.speakers, question.times, question.when, question.voiced) == ((), (), False, False)
    assert question.voice is question.vector is not None


@pytest.mark.parametrize(
    ("query", "speakers"),
    [
        ("What does Mia like?", ("Mia Moss",)),
        ("what does mia moss like?", ("Mia Moss",)),
        ("What is Mia's plan, and what is Mia Moss afraid of?", ("Mia Moss",)),
        ("Does Tom Ash know Tom Reed?", ("Tom Ash", "Tom Reed")),
        ("What does Tom like?", ()),
        ("Where did Jean-Luc van Dyk go?", ("Jean-Luc van Dyk",)),
        ("Where did Jean-Luc go?", ("Jean-Luc van Dyk",)),
        ("What did JOSE say?", ("José",)),
        ("Was Anabel Stone there?", ("Anabel Stone",)),
        ("Do Anabel Stone and Ana sing?", ("Anabel Stone", "Ana")),
        ("Does Ana sing?", ("Ana",)),
        ("Does Stone sing?", ("Stone Hill",)),
        ("Is Miami warm?", ()),
        ("What does Moss do?", ()),
    ],
)
def test_people_in_a_question_are_found(query: str, speakers: tuple[str, ...]) -> None:
    assert read(query).speakers == speakers


def test_the_speakers_name_is_a_word_but_not_a_term() -> None:
    question = read("What tea does Mia Moss drink?")
    assert question.terms == ("tea", "drink")
    assert question.words == {"tea", "drink", "mia", "moss"}
    assert read("What tea does Mia Moss drink?", ()).terms == ("tea", "mia", "moss", "drink")


@pytest.mark.parametrize(
    ("query", "rephrased"),
    [
        ("What does Mia drink?", "What does I drink?"),
        ("What is Mia Moss's tea?", "What is my tea?"),
        ("What is Mia’s tea?", "What is my tea?"),
        ("Does Tom Ash know Ana?", "Does I know I?"),
        ("Does Ana know Ana's plan?", "Does I know my plan?"),
    ],
)
def test_a_question_is_rewritten_in_the_voice_of_the_speaker(query: str, rephrased: str) -> None:
    assert read_voice(query) == embed_words(rephrased)
    assert read(query).voiced


def test_a_first_name_is_used_only_if_one_person_has_it() -> None:
    assert map_speaker_names(["Tom Reed", "Tom Ash", "Mia Moss"]) == {
        "tom reed": "Tom Reed", "tom ash": "Tom Ash", "mia": "Mia Moss", "mia moss": "Mia Moss",
    }  # fmt: skip
    assert map_speaker_names(["Tom", "Tom Ash"])["tom"] == "Tom", "a whole name goes before a first name"
    assert map_speaker_names(["One Two Three Four Five"]) == {}
    assert map_speaker_names([]) == {}


@pytest.mark.parametrize("names", [("  ",), ("...",), ("",), ("\u0301",)])
def test_a_name_without_a_word_is_ignored(names: tuple[str, ...]) -> None:
    assert read("Who is it?", names).speakers == ()


def test_times_in_a_question_are_found() -> None:
    [(start, end)] = read("What did she eat yesterday?").times
    day = datetime(2024, 5, 14, tzinfo=UTC)
    assert (start, end) == (clock.micros(day), clock.micros(day + timedelta(days=1)))
    assert len(read("What happened on 3 May 2023 and on 7 June 2023?").times) == 2


def test_days_begin_where_the_zone_says() -> None:
    zone = ZoneInfo("Asia/Bangkok")
    [(start, _)] = read_question(EMBEDDER, "What did she eat yesterday?", NOW, zone, {}).times
    assert start == clock.micros(datetime(2024, 5, 14, tzinfo=zone))


@pytest.mark.parametrize(
    ("query", "when"), [("When did she leave?", True), ("What day was it?", True), ("Who left when?", False)]
)
def test_questions_that_ask_for_a_time_are_recognised(query: str, when: bool) -> None:
    assert read(query).when is when


def test_a_question_without_words_is_empty() -> None:
    question = read("   ")
    assert (question.terms, question.vector, question.voiced) == ((), None, False)
