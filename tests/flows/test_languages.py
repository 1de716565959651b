"""Words of any language, and any other text, can be stored and searched."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everhold import View
from everhold.errors import EmptyQuery, InvalidInput
from tests.engines import Store, ranking, texts

TEXTS_AND_QUERIES = [
    ("ฉันชอบดื่มกาแฟเย็นตอนเช้า", "กาแฟ"),
    ("ฉันชอบดื่มกาแฟเย็นตอนเช้า", "ตอนเช้า"),
    ("我昨天去了東京鐵塔", "東京"),
    ("我昨天去了東京鐵塔", "塔"),
    ("北京大学的学生", "大学"),
    ("昨日、東京タワーに行きました", "タワー"),
    ("昨日、東京タワーに行きました", "東京"),
    ("サーバーが落ちた", "サーバー"),
    ("어제 서울에서 커피를 마셨다", "서울"),
    ("어제 서울에서 커피를 마셨다", "커피"),
    ("ຂ້ອຍມັກກາເຟ", "ກາເຟ"),
    ("ខ្ញុំចូលចិត្តកាហ្វេ", "កាហ្វេ"),
    ("Я живу в Москве", "москве"),
    ("Μένω στην Αθήνα", "ΑΘΗΝΑ"),
    ("मुझे चाय पसंद है", "चाय"),
    ("أحب القهوة", "القهوة"),
    ("Le café est à côté de la gare", "CAFE"),
    ("cafe latte", "café"),
    ("Die Straße ist naß", "STRASSE"),
    ("Jalapeño peppers", "jalapeno"),
    ("Ｆｕｌｌ　ｗｉｄｔｈ", "full width"),
    ("The ﬁle is oﬃcial", "official file"),
    ("She was running quickly", "run"),
    ("Two wolves", "wolf wolves"),
    ("user_id in snake_case", "snake case"),
    ("Version 2.0.1 of node.js", "node.js 2.0.1"),
    ("émigré", "e\u0301migre\u0301"),
]  # fmt: skip


# Recall searches an image, a copy of the scope in memory; above `max_memories`, the indexes of the store propose
# candidates.
@pytest.mark.parametrize("max_memories", [200_000, 0], ids=["images", "candidates"])
def test_a_text_is_found_by_words_of_its_language(store: Store, max_memories: int) -> None:
    alice = store.open().scope(user="alice")
    alice.remember_many({"text": text, "kind": "conversation"} for text in {text for text, _ in TEXTS_AND_QUERIES})
    alice.remember_many(f"Filler sentence number {n}" for n in range(20))
    reader = store.open(images={"max_memories": max_memories}).scope(user="alice")
    for text, query in TEXTS_AND_QUERIES:
        hits = reader.recall(query, recipe="words", minimum=1e-6, k=50)
        assert text in texts(hits), query
        assert hits[texts(hits).index(text)].why.matched, query


NASTY = [
    '"', '""', "'", "`", '"unclosed', "a OR b", "a AND", "NOT", "NOT tea", "NEAR(tea coffee)", "tea*", "*", "^tea",
    "-tea", "+tea", "tea -coffee", "words:tea", "{words}:tea", "(tea", "tea)", "()", "tea & coffee", "tea | coffee",
    "!tea", "tea <-> coffee", "tea:*", "'; DROP TABLE memories; --", "%", "_", "\\", "\\'", "/* */", "--", ";", "$1",
    "%s", "{}", "{0}", "tea\ncoffee", "\t", "a" * 5000, "tea " * 2000, "🍵", "👩\u200d👧", "\u202etea", "\u200b",
    "\ufeff", "tea\u0301\u0302", "ก", "東", "ﷺ", "İstanbul", "ẞ", "𝓽𝓮𝓪", "ⅷ", "½", "\U0010ffff", "\ufffd", "..",
    "C++", "c#", "a.b.c", "a/b", "a@b.c", "http://x.y/?q=1&r=2", "SELECT * FROM memories", "0", "-1", "1e309", "NaN",
    "null", "true", "[]", '{"a": 1}', "sdefault",
]  # fmt: skip


@pytest.mark.parametrize("max_memories", [200_000, 0], ids=["images", "candidates"])
def test_special_characters_are_searched_as_plain_text(store: Store, max_memories: int) -> None:
    writer = store.open().scope(user="alice")
    memories = writer.remember_many({"text": f"tea {text}", "kind": "conversation"} for text in NASTY)
    assert [memory.text for memory in memories] == [f"tea {text}" for text in NASTY]
    alice = store.open(images={"max_memories": max_memories}).scope(user="alice")
    texts_before = texts(alice.recall("tea coffee", k=3, minimum=0))
    for query in NASTY:
        try:
            hits = alice.recall(query, k=3, minimum=0)
        except EmptyQuery:
            assert not query.strip()
            continue
        assert len(hits) == 3, query
    assert texts(alice.recall('"tea" AND (coffee)', k=3, recipe="words")) != []
    assert texts(alice.recall("tea coffee", k=3, minimum=0)) == texts_before
    for memory in memories:
        assert writer.get(memory.id).text == memory.text


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> tuple[View, View]:
    store = Store("sqlite", str(tmp_path_factory.mktemp("any") / "memories.db"))
    engine = store.open()
    engine.scope(user="alice").remember_many(f"tea number {n} กาแฟ 東京 {chr(0x250 + n)}" for n in range(50))
    return store.open().scope(user="alice"), store.open(images={"max_memories": 0}).scope(user="alice")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60) | st.text(alphabet="\"'*()-:^+&|!<>\\ teaORNDกา東京\x00\ud800", max_size=30))
def test_any_question_is_answered_or_refused(views: tuple[View, View], query: str) -> None:
    from_images, from_candidates = views
    try:
        hits = from_images.recall(query, k=5, minimum=0)
    except InvalidInput:
        is_blank = not query.strip()
        assert is_blank or "\x00" in query or any(0xD800 <= ord(letter) <= 0xDFFF for letter in query)
        with pytest.raises(InvalidInput):
            from_candidates.recall(query, k=5)
        return
    assert ranking(hits) == ranking(from_candidates.recall(query, k=5, minimum=0))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=80))
def test_any_text_is_stored_unchanged(views: tuple[View, View], text: str) -> None:
    from_images, _ = views
    try:
        stored = from_images.remember(text, kind="conversation", metadata={"own": text})
    except InvalidInput:
        assert not text.strip() or "\x00" in text
        return
    memory = from_images.get(stored.id)
    assert (memory.text, memory.metadata) == (text, {"own": text})
    from_images.forget(stored.id, hard=True)
