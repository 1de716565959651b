"""Everyday questions to the real model: updates, the past, the first person, long texts, typing mistakes, and `why`."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from everhold import Everhold, View

pytestmark = pytest.mark.model

LONG_NOTE = (
    "A long note so that I stop asking. The oven switch is in the hallway cupboard and sticks a little. The paper goes"
    " out on Tuesday evenings, every second week. The spare key is with Marta on the ground floor. The sauna is ours on"
    " Thursdays from seven to ten, and the light in the yard is on the left of the door."
)
# Dated sentences of one person. With the fillers, there are enough memories for the weights of large scopes.
SENTENCES = [
    ("2025-01-05", "I live in a small flat in Lisbon, third floor, no elevator."),
    ("2025-01-09", "My cell is 503-555-0142 in case you need it for forms."),
    ("2025-01-20", "My sister Tess plays the cello in an orchestra."),
    ("2025-02-11", "I rent a desk at Second Home, 190 a month."),
    ("2025-03-02", "The blood pressure was 158 over 96 at the check-up."),
    ("2025-04-18", "I have moved, I live in a wooden house in Tallinn now."),
    ("2025-05-03", "New number: my cell is 503-555-0977 from today."),
    ("2025-06-21", "My desk is at Lift99 these days, 160 a month with coffee."),
    ("2025-07-07", LONG_NOTE),
    ("2025-03-05", "The Wi-Fi password is purple-otter-88."),
    ("2025-10-05", "Changed the Wi-Fi password, it's now marmot-disco-41."),
    ("2025-08-15", "Tess has a new cat, a grey one that sleeps all day."),
]

FILLERS = [
    "The espresso machine needs a new gasket.", "I read a book about glaciers.", "Went to the market for figs.",
    "The bicycle has a flat tyre.", "Rain all week, the cellar is damp.", "I like my coffee without sugar.",
    "Bought tickets for the puppet theatre.", "The printer is out of toner.", "Planted basil on the balcony.",
    "A neighbour's dog barks at night.", "I prefer trains to planes.", "The lamp in the hall flickers.",
    "Finished the puzzle with the lighthouse.", "I am learning to juggle.", "The tax form is due in spring.",
]  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> Iterator[Everhold]:
    with Everhold.open("memory://") as opened:
        yield opened


@pytest.fixture(scope="module")
def view(engine: Everhold) -> View:
    view = engine.scope(user="jonas")
    for day, text in SENTENCES:
        view.remember(text, occurred_at=datetime.fromisoformat(day).replace(tzinfo=UTC))
    for text in FILLERS:
        view.remember(text, occurred_at=datetime(2025, 2, 1, tzinfo=UTC))
    return view


def ask(view: View, question: str) -> list[str]:
    return [hit.memory.text for hit in view.recall(question, asked_at=datetime(2025, 12, 1, tzinfo=UTC))]


def test_i_is_the_user_whatever_name_is_stored(engine: Everhold) -> None:
    """A speaker's name, the user's own name in the text, other people, and the assistant's words about itself."""
    with_speaker = engine.scope(user="kim")
    with_speaker.remember("I moved to Chiang Mai", speaker="Kim")
    [spoken_hit] = with_speaker.recall("Where do I live?")
    without_speaker = engine.scope(user="kai")
    without_speaker.remember("I moved to Chiang Mai")
    assert [hit.score for hit in without_speaker.recall("Where do I live?")] == [spoken_hit.score]
    valerie = engine.scope(user="valerie", session="chat")
    valerie.add([{"role": "assistant", "text": "I'm a language model, I live in the cloud."}])
    for text in ("Boris is allergic to nuts.", "Valerie moved to Lübeck."):
        valerie.remember(text)
    for question in ("Where do I live?", "Where does Valerie live?"):
        assert [hit.memory.text for hit in valerie.recall(question)] == ["Valerie moved to Lübeck."]
    assert not valerie.recall("Where do I live?", among="message")
    assert valerie.recall("Where do you live?", among="message")
    assert not valerie.recall("Where do you live?")
    assert valerie.recall("Do you know where I live?")
    assert not valerie.recall("What am I allergic to?")
    assert valerie.recall("What is Boris allergic to?")


def test_the_newest_value_comes_first_and_why_names_the_older_one(view: View) -> None:
    hits = view.recall("What is the Wi-Fi password?", asked_at=datetime(2025, 12, 1, tzinfo=UTC))
    assert "marmot" in hits[0].memory.text
    assert hits[0].why.updates is not None
    old = view.get(hits[0].why.updates)
    assert "otter" in old.text
    assert old.superseded_by is None, "nothing is recorded: judging is of one question"
    assert f"newer than {old.id}" in str(hits[0].why)
    assert hits[0].why.judged


def test_the_latest_home_and_number_come_first(view: View) -> None:
    assert "Tallinn" in ask(view, "Where do I live?")[0]
    assert "0977" in ask(view, "What is my phone number?")[0]


@pytest.mark.parametrize(
    ("question", "newest"),
    [
        ("Who is my boss?", "I now report to Farida."),
        ("Where do I work now?", "I left Brudenell and started at Globex."),
    ],
)
def test_a_short_statement_of_a_new_value_needs_no_likeness_to_the_old_one(question: str, newest: str) -> None:
    sentences = [
        "My boss is Alan.", "I work as an engineer at Brudenell.", newest, "We've moved to Sheffield.",
        "My friend Omar moved to Denver.", *FILLERS[:10],
    ]  # fmt: skip
    with Everhold.open("memory://") as engine:
        view = engine.scope(user="priya")
        for day, text in enumerate(sentences, 1):
            view.remember(text, occurred_at=datetime(2025, 1, 1, tzinfo=UTC) + day * timedelta(days=15))
        assert ask(view, question)[0] == newest


def test_the_name_of_the_user_means_the_first_person(view: View) -> None:
    assert ask(view, "What is Jonas's phone number?") == ask(view, "What is my phone number?")


def test_a_question_about_the_time_before_an_event_gets_the_older_value(view: View) -> None:
    assert "Second Home" in ask(view, "Where did I rent a desk before Lift99?")[0]


def test_a_long_text_is_found_by_one_of_its_sentences(view: View) -> None:
    assert ask(view, "Who has the spare key?")[0].startswith("A long note")


def test_typing_mistakes_are_corrected(view: View) -> None:
    assert "cello" in ask(view, "which instrumnet does tess play")[0]


def test_an_old_value_and_a_moved_date_are_found() -> None:
    with Everhold.open("memory://") as engine:
        mia = engine.scope(user="mia")
        mia.remember_many(["I love hiking in the Lake District", "My favourite tea is oolong", "Rex needs his shots"])
        mia.remember_many(["My phone number is 555-0100", "The door code is 4417", "Our wedding date is 12 June"])
        mia.remember("My new phone number is 555-0177")
        mia.remember("Changed the door code, it's 9021 now")
        mia.remember("We pushed the wedding back to 3 September")
        for question, value in (
            ("What was my old number?", "0100"),
            ("What's my number?", "0177"),
            ("What was the old door code?", "4417"),
            ("What's the door code?", "9021"),
            ("When is the wedding?", "3 September"),
        ):
            assert value in mia.recall(question)[0].memory.text, question


def test_a_question_about_a_living_is_not_about_a_home() -> None:
    with Everhold.open("memory://") as engine:
        mia = engine.scope(user="mia")
        mia.remember("I live in Leeds")
        mia.remember("I moved to Sheffield in May")
        assert ask(mia, "What do I do for a living?") == []
        mia.remember("I work at Globex as an analyst")
        assert ask(mia, "What do I do for a living?") == ["I work at Globex as an analyst"]


@pytest.mark.parametrize("question", ["What is my shoe size?", "What is the name of our boat?"])
def test_nothing_is_returned_if_no_memory_answers(view: View, question: str) -> None:
    assert ask(view, question) == []


def test_replaced_memories_can_be_searched_and_form_a_timeline() -> None:
    with Everhold.open("memory://") as engine:
        mia = engine.scope(user="mia")
        old = mia.remember("I live in Porto", occurred_at=datetime(2020, 3, 1, tzinfo=UTC))
        new = mia.supersede(old.id, "I live in Denver", occurred_at=datetime(2024, 6, 1, tzinfo=UTC))
        mia.remember("I like figs")
        question = "Where do I live?"
        assert [hit.memory.id for hit in mia.recall(question)] == [new.id]
        hits = mia.recall(question, include_superseded=True)
        assert {hit.memory.id for hit in hits} == {old.id, new.id}
        missed = mia.why_not(old.id, question)
        assert missed.reasons[0].startswith("it was replaced")
        assert missed.admitted_by == {"include_superseded": True}
        for past_question in ("Where did I live before Denver?", "Where did I use to live?"):
            assert mia.recall(past_question)[0].memory.id == old.id, past_question
        assert mia.why_not(old.id, question, include_superseded=True).returned
        periods = mia.timeline(question)
        assert [period.memory.id for period in periods] == [old.id, new.id]
        assert periods[0].until == periods[1].since == datetime(2024, 6, 1, tzinfo=UTC)
        assert periods[1].until is None
        assert mia.timeline("What is my blood type?") == []


def test_an_overview_lists_the_memories_of_a_person_or_a_tag() -> None:
    with Everhold.open("memory://") as engine:
        mia = engine.scope(user="mia")
        mia.remember("Tess Kroll plays the cello", occurred_at=datetime(2025, 1, 1, tzinfo=UTC))
        mia.remember("Tess broke her wrist", occurred_at=datetime(2025, 5, 1, tzinfo=UTC))
        mia.remember("My sister turns 30 in April", aliases=["Tess"], importance=0.9)
        mia.remember("The cellar is damp", tags=["house"])
        old = mia.remember("Tess lives in Porto")
        mia.supersede(old.id, "Tess lives in Denver", occurred_at=datetime(2024, 1, 1, tzinfo=UTC))
        engine.scope(user="bob").remember("Tess owes Bob ten euros", tags=["house"])
        assert [memory.text for memory in mia.overview("tess")] == [
            "My sister turns 30 in April",
            "Tess broke her wrist",
            "Tess Kroll plays the cello",
            "Tess lives in Denver",
        ]
        assert [memory.text for memory in mia.overview("Tess Kroll")] == ["Tess Kroll plays the cello"]
        assert [memory.text for memory in mia.overview("house")] == ["The cellar is damp"]
        assert mia.overview("tess", k=1)[0].importance == 0.9
        assert mia.overview("nobody") == mia.overview("the") == []
