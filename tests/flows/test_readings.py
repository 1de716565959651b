"""An image caches the statements of judged memories until these change or are forgotten."""

import pytest

from everhold import Everhold
from everhold.recall import answers
from everhold.recall.image import Image
from tests.engines import get_parts


def get_image(engine: Everhold) -> Image:
    images = get_parts(engine).recall_deps.images
    return images.use([images.space("default", "mia")], lambda images: images[0])


def test_readings_are_kept_and_follow_changes(engine: Everhold) -> None:
    mia = engine.scope(user="mia")
    home, work = mia.remember("I rent a flat in Porto"), mia.remember("I work at Nordwind")
    mia.recall("Where do I live?", minimum=0)
    first = dict(get_image(engine).readings)
    assert len(first) == 2
    mia.recall("Where do I work?", minimum=0)
    assert all(get_image(engine).readings[row] is reading for row, reading in first.items())
    mia.revise(home.id, text="I rent a flat in Tallinn")
    mia.recall("Where do I live?", minimum=0)
    assert any("tallinn" in reading.terms for reading in get_image(engine).readings.values())
    mia.forget(work.id, hard=True)
    mia.recall("Where do I live?", minimum=0)
    assert not any("nordwind" in reading.terms for reading in get_image(engine).readings.values())


def test_a_question_without_an_attribute_reads_no_text(engine: Everhold) -> None:
    mia = engine.scope(user="mia")
    mia.remember("The glacier calves into the fjord")
    mia.recall("glacier and fjord", minimum=0)
    assert get_image(engine).readings == {}


def test_an_image_keeps_a_limited_number_of_readings(engine: Everhold, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_MAX_READINGS", 3)
    mia = engine.scope(user="mia")
    for city in ("Porto", "Oslo", "Turku"):
        mia.remember(f"I rent a flat in {city}")
    mia.recall("Where do I live?", minimum=0)
    mia.remember("I work at Nordwind")
    mia.recall("Where do I live?", minimum=0)
    assert len(get_image(engine).readings) == 4, "those of the last question are kept"
