"""A language model reads facts from messages, through a real HTTP endpoint whose answers each test writes."""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold, View, clock
from everhold.errors import InvalidSettings, MissingExtra, ModelError, ModelUnavailable
from everhold.language_models import make_language_model
from everhold.maintenance.extraction import Extracted, extract
from everhold.maintenance.grounding import Utterance, check_answer
from everhold.maintenance_jobs import _remember
from everhold.model import Job, Lease, Memory, Message, Scope
from everhold.schema.operations import Op, Patch, Where
from everhold.settings import load
from tests.engines import Store, get_records, make_store
from tests.http_endpoint import Answer, HttpEndpoint

KEY = "sk-very-secret"
MONDAY = datetime(2024, 5, 6, 9, tzinfo=UTC)


class Endpoint(HttpEndpoint):
    """A model that answers with the items of `script`, then with an empty list."""

    def __init__(self) -> None:
        super().__init__()
        self.script: list[Any] = []

    def add_answer(self, *items: Any) -> None:
        self.script.append(json.dumps(items))

    def read_prompt_messages(self, request_number: int) -> list[dict[str, Any]]:
        """Return the messages of the conversation that a prompt contains, in its order."""
        prompt: str = self.requests[request_number]["messages"][0]["content"]
        return [json.loads(line) for line in prompt.splitlines() if line.startswith('{"message"')]

    def answer(self, body: dict[str, Any]) -> Answer:
        reply = self.script.pop(0) if self.script else "[]"
        if isinstance(reply, int):
            return reply, {}, KEY.encode()
        if isinstance(reply, bytes):
            return 200, {}, reply
        return 200, {}, {"choices": [{"message": {"role": "assistant", "content": reply}}]}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint.serve() as endpoint:
        yield endpoint


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each pause between two attempts. No test waits for them."""
    pauses: list[float] = []
    monkeypatch.setattr("everhold.retries.time.sleep", pauses.append)
    return pauses


@pytest.fixture(params=("sqlite", "in_memory"))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = make_store(request.param, request, tmp_path)
    yield store
    store.close()


def open_with_llm(store: Store, endpoint: Endpoint, *, grace_days: int = 30, **options: Any) -> Everhold:
    """Open an engine in which only the endpoint's model reads facts from messages."""
    llm = {"url": endpoint.url, "model": "reader", "api_key": KEY, **options}
    return store.open(llm=llm, remember={"extract": False}, grace_days=grace_days)


def say(view: View, text: str, speaker: str | None = "Maya", **fields: Any) -> Memory:
    return view.remember(text, kind="conversation", speaker=speaker, **fields)


def make_item(text: str, message: Any = 1, kind: Any = "fact") -> dict[str, Any]:
    return {"message": message, "text": text, "kind": kind}


def get_facts_by_text(view: View) -> dict[str, Memory]:
    where = {"or": [{"provenance.memory": {"!=": None}}, {"provenance.message": {"!=": None}}]}
    return {memory.text: memory for memory in view.list(where=where)}


# which facts are kept


def test_a_grounded_fact_is_kept_with_where_it_came_from(store: Store, endpoint: Endpoint) -> None:
    engine = open_with_llm(store, endpoint)
    chat_view = engine.scope(user="maya", session="monday", project="trip")
    message = say(chat_view, "After all these years pottery still calms me down", occurred_at=MONDAY)
    endpoint.add_answer(make_item("Pottery calms Maya down.", kind="preference"))
    assert engine.extract() == Extracted(read=1, kept=1, refused=0)

    [fact] = get_facts_by_text(engine.scope(user="maya")).values()
    assert (fact.text, fact.kind, fact.confidence) == ("Pottery calms Maya down.", "preference", 0.7)
    assert fact.provenance == {"memory": message.id, "by": "reader"}
    assert (fact.session_id, fact.project_id, fact.reach, fact.occurred_at) == (None, "trip", "user", MONDAY)
    [hit] = engine.scope(user="maya").recall("what calms Maya?", where={"provenance.memory": {"!=": None}})
    assert hit.memory.id == fact.id


def test_a_request_has_the_form_of_a_chat_completion(store: Store, endpoint: Endpoint) -> None:
    engine = open_with_llm(store, endpoint)
    maya = engine.scope(user="maya")
    say(maya, "Pottery\ncalms me", occurred_at=MONDAY)
    say(maya, "Nobody is named here", speaker=None, occurred_at=MONDAY)
    maya.remember("A note is not a message", kind="observation")
    engine.maintain()
    [request] = endpoint.requests
    assert (request["path"], request["model"], request["temperature"]) == ("/v1/chat/completions", "reader", 0)
    assert [headers["Authorization"] for headers in endpoint.headers] == [f"Bearer {KEY}"]
    assert endpoint.read_prompt_messages(0) == [
        {"message": 1, "speaker": "Maya", "date": "2024-05-06", "text": "Pottery\ncalms me"},
        {"message": 2, "speaker": "User", "date": "2024-05-06", "text": "Nobody is named here"},
    ]


def test_facts_belong_to_the_owner_of_their_message(store: Store, endpoint: Endpoint) -> None:
    engine = open_with_llm(store, endpoint)
    say(engine.scope(user="maya"), "My cat is called Biscuit")
    say(engine.scope(user="omar"), "My dog is called Pepper", speaker="Omar")
    say(engine.scope(session="open"), "My parrot is called Echo", speaker="Ida")
    endpoint.add_answer(
        make_item("Maya's cat is called Biscuit."),
        make_item("Omar's dog is called Pepper.", 2),
        make_item("Ida's parrot is called Echo.", 3),
    )
    assert engine.extract().kept == 3
    assert set(get_facts_by_text(engine.scope(user="maya"))) == {"Maya's cat is called Biscuit."}
    assert set(get_facts_by_text(engine.scope(user="omar"))) == {"Omar's dog is called Pepper."}
    [fact] = get_facts_by_text(engine.scope(session="open")).values()
    assert (fact.text, fact.reach) == ("Ida's parrot is called Echo.", "session")


def test_a_fact_that_is_known_is_reinforced(store: Store, endpoint: Endpoint) -> None:
    engine = open_with_llm(store, endpoint)
    maya = engine.scope(user="maya")
    memory = maya.remember("Maya plays the oboe", kind="fact")
    say(maya, "I've played the oboe since school")
    endpoint.add_answer(make_item("Maya plays the oboe."))
    engine.extract()
    assert maya.get(memory.id).access_count == memory.access_count + 1
    assert get_facts_by_text(maya) == {}


def test_a_fact_that_only_the_model_extracts_supersedes_an_older_one(store: Store, endpoint: Endpoint) -> None:
    engine = open_with_llm(store, endpoint)
    maya = engine.scope(user="maya")
    old = maya.remember("Maya lives in Bangkok.", speaker="Maya")
    say(maya, "Bangkok is behind me, Chiang Mai is where Maya lives these days!")
    assert maya.get(old.id).superseded_by is None, "the patterns see nothing in it"
    endpoint.add_answer(make_item("Maya lives in Chiang Mai."))
    engine.extract()
    [new] = get_facts_by_text(maya).values()
    assert maya.get(old.id).superseded_by == new.id
    maya.undo(old.id)
    assert maya.get(old.id).superseded_by is None


def test_a_fact_from_an_older_message_supersedes_nothing_newer(store: Store, endpoint: Endpoint) -> None:
    engine = open_with_llm(store, endpoint)
    maya = engine.scope(user="maya")
    say(maya, "So here I am, settled: Bergen is where I live", occurred_at=MONDAY)
    newer = maya.remember("Maya lives in Turin.", kind="fact")
    endpoint.add_answer(make_item("Maya lives in Bergen."))
    engine.extract()
    assert maya.get(newer.id).superseded_by is None
    assert get_facts_by_text(maya)["Maya lives in Bergen."].valid_to is not None


@pytest.mark.parametrize("fence", ["```json\n{}\n```", "\n```\n{}```\n", "  {}\n"])
def test_an_answer_may_be_in_a_code_fence(store: Store, endpoint: Endpoint, fence: str) -> None:
    engine = open_with_llm(store, endpoint)
    say(engine.scope(user="maya"), "My cat is called Biscuit")
    endpoint.script.append(fence.replace("{}", json.dumps([make_item("Maya's cat is called Biscuit.")])))
    assert engine.extract() == Extracted(1, 1, 0)


# which answers are refused

TURN_TEXT = "Dr. Lund and I adopted 12 hens in spring, they lay green eggs near Oslo"
REFUSED = {
    "ungrounded": make_item("Maya collects antique clocks."),
    "mostly ungrounded": make_item("Maya adopted hens and sells omelettes downtown every weekend."),
    "another number": make_item("Maya adopted 13 hens in spring."),
    "another number in words": make_item("Maya adopted twenty hens in spring."),
    "part of a number": make_item("Maya adopted 1 hens in spring."),
    "another name": make_item("Maya and Petra adopted 12 hens in spring."),
    "another name first": make_item("Petra adopted 12 hens in spring."),
    "turned round": make_item("Maya's hens do not lay green eggs."),
    "out of range": make_item("Maya adopted 12 hens.", 2),
    "message zero": make_item("Maya adopted 12 hens.", 0),
    "negative": make_item("Maya adopted 12 hens.", -1),
    "true is not a number": make_item("Maya adopted 12 hens.", True),
    "number as text": make_item("Maya adopted 12 hens.", "1"),
    "unknown kind": make_item("Maya adopted 12 hens.", kind="conversation"),
    "kind of no text": make_item("Maya adopted 12 hens.", kind=["fact"]),
    "text of no text": {"message": 1, "text": 12, "kind": "fact"},
    "nothing": {},
    "no object": "Maya adopted 12 hens.",
    "too short": make_item("12"),
    "too long": make_item("Maya adopted 12 hens in spring" + " in spring" * 30),
    "two sentences": make_item("Maya adopted 12 hens. They lay green eggs."),
    "two lines": make_item("Maya adopted 12 hens\nin spring"),
    "control character": make_item("Maya adopted 12\x07 hens."),
    "reversed writing": make_item("Maya adopted \u202e12 hens."),
    "lone surrogate": make_item("Maya adopted 12 hens \ud800."),
    "first person": make_item("I adopted 12 hens in spring."),
    "nobody named": make_item("They adopted 12 hens in spring."),
    "no words": make_item("12 12 12"),
    "a sign that is a word": make_item("㎏㎏㎏"),
}


@pytest.fixture(scope="module")
def message() -> Utterance:
    return Utterance("memory", "m", TURN_TEXT, "Maya", MONDAY, Scope(organization="o"))


@pytest.mark.parametrize("name", REFUSED)
def test_a_fact_that_the_turn_does_not_support_is_refused(message: Utterance, name: str) -> None:
    assert check_answer(json.dumps([REFUSED[name]]), [message]) == ([], 1)


@pytest.mark.parametrize(
    "text",
    [
        "Maya adopted 12 hens in spring.",
        "Dr. Lund adopted 12 hens.",
        "The hens lay green eggs",
        "Maya's hens lay green eggs near Oslo!",
    ],
)
def test_a_supported_fact_is_kept_once(message: Utterance, text: str) -> None:
    accepted, refused = check_answer(json.dumps([make_item(text), make_item(text)]), [message])
    assert ([fact.text for fact in accepted], refused) == ([text], 0)


def test_good_items_are_kept_beside_refused_ones(store: Store, endpoint: Endpoint) -> None:
    engine = open_with_llm(store, endpoint)
    maya = engine.scope(user="maya")
    say(maya, TURN_TEXT)
    endpoint.add_answer(*REFUSED.values(), make_item("Maya adopted 12 hens in spring.", kind="episodic"))
    assert engine.extract() == Extracted(1, 1, len(REFUSED))
    assert set(get_facts_by_text(maya)) == {"Maya adopted 12 hens in spring."}


@pytest.mark.parametrize("answer", ["I found nothing.", "", '{"message": 1}', "null", "[" * 100_000, '[{"message": 1,'])
def test_an_answer_that_is_not_a_list_refuses_only_its_batch(store: Store, endpoint: Endpoint, answer: str) -> None:
    engine = open_with_llm(store, endpoint, batch=1)
    maya = engine.scope(user="maya")
    say(maya, "My dog is called Pepper")
    say(maya, "My cat is called Biscuit")
    endpoint.script.append(answer)
    endpoint.add_answer(make_item("Maya's cat is called Biscuit."))
    engine.maintain()
    assert set(get_facts_by_text(maya)) == {"Maya's cat is called Biscuit."}
    assert len(endpoint.requests) == 2
    assert engine.extract() == Extracted(0, 0, 0)


# each message is read once


def test_nothing_is_read_twice_even_by_another_engine(store: Store, endpoint: Endpoint) -> None:
    engine = open_with_llm(store, endpoint, batch=2)
    maya = engine.scope(user="maya")
    for number, name in enumerate(["zz", "mm", "aa"]):  # the caller's own ids, in another order than the times
        say(maya, f"Message {number}", id=name)
    assert engine.extract().read == 3
    second_engine = open_with_llm(store, endpoint, batch=2)
    assert second_engine.extract() == Extracted(0, 0, 0)
    say(maya, "Message 3", id="0")
    assert second_engine.extract().read == 1
    texts = [message["text"] for number in range(3) for message in endpoint.read_prompt_messages(number)]
    assert texts == ["Message 0", "Message 1", "Message 2", "Message 3"]
    assert len(endpoint.requests) == 3


def test_forgotten_expired_and_too_long_messages_are_not_sent(store: Store, endpoint: Endpoint) -> None:
    engine = open_with_llm(store, endpoint)
    maya = engine.scope(user="maya")
    maya.forget(say(maya, "This is forgotten").id)
    say(maya, "This has expired", expires_at=MONDAY)
    say(maya, "word " * 5000)
    say(maya, "a " * 9000)
    say(maya, "b " * 9000)
    say(maya, "This stays")
    assert engine.extract().read == 3
    texts = [[message["text"][:10] for message in endpoint.read_prompt_messages(number)] for number in range(2)]
    assert texts == [["a a a a a ", "b b b b b "], ["This stays"]]


def test_a_crash_before_the_progress_is_stored_repeats_nothing(store: Store, endpoint: Endpoint) -> None:
    engine = open_with_llm(store, endpoint)
    maya = engine.scope(user="maya")
    say(maya, "My cat is called Biscuit")
    endpoint.add_answer(make_item("Maya's cat is called Biscuit."))
    records, model = engine._parts.records, engine._parts.language_model
    assert model is not None

    def store_and_crash(scope: Any, items: Any) -> None:
        _remember(engine._parts, scope, items)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(records, model, store_and_crash, 20)
    [fact_before] = get_facts_by_text(maya).values()
    assert not records.scan(Job, "default", [Where("kind", Op.EQ, "llm-extraction")])

    endpoint.add_answer(make_item("Maya's cat is called Biscuit."))
    assert engine.extract().read == 1
    assert get_facts_by_text(maya) == {fact_before.text: fact_before}


def expire_leases(engine: Everhold) -> None:
    """Let every lease expire."""
    records = get_records(engine)
    records.commit([Patch(Lease, (lease.name,), {"until": clock.now()}) for lease in records.scan(Lease, None)])


def test_two_engines_that_read_at_the_same_time_keep_one_fact(store: Store, endpoint: Endpoint) -> None:
    engine, other_engine = open_with_llm(store, endpoint, batch=1), open_with_llm(store, endpoint, batch=1)
    maya = engine.scope(user="maya")
    say(maya, "My cat is called Biscuit")
    say(maya, "My dog is called Pepper")
    endpoint.add_answer(make_item("Maya's cat is called Biscuit."))
    endpoint.add_answer(make_item("Maya's cat is called Biscuit."))
    endpoint.add_answer(make_item("Maya's dog is called Pepper."))
    model = engine._parts.language_model
    assert model is not None

    def store_after_another_engine(scope: Any, items: Any) -> None:
        assert other_engine.extract() == Extracted()  # the messages that another engine is reading are left to it
        expire_leases(engine)
        assert other_engine.extract() == Extracted(2, 2, 0)
        _remember(engine._parts, scope, items)

    assert extract(engine._parts.records, model, store_after_another_engine, 1) == Extracted(1, 1, 0)
    facts_before = get_facts_by_text(maya)
    assert set(facts_before) == {"Maya's cat is called Biscuit.", "Maya's dog is called Pepper."}
    assert all(fact.access_count == 0 for fact in facts_before.values())
    assert len(endpoint.requests) == 3


# messages of sessions


def test_messages_of_sessions_are_read_once(store: Store, endpoint: Endpoint) -> None:
    engine = open_with_llm(store, endpoint, batch=2)
    chat = engine.scope(user="maya", project="home", agent="helper", session="s1")
    messages = [chat.say(text, role="user", name="Maya") for text in ("My cat is called Biscuit", "Thanks a lot")]
    chat.say("Your cat is called Biscuit", role="assistant")
    chat.say("My dog is called Pepper", role="user", name="Maya")
    chat.say(role="user", content=[{"type": "image"}])
    planned = engine.maintain(dry_run=True)["extract"]
    assert (planned.outcome, planned.counts) == ("planned", {"messages": 3})
    assert endpoint.requests == []

    endpoint.add_answer(make_item("Maya's cat is called Biscuit."))
    endpoint.add_answer(make_item("Maya's dog is called Pepper."))
    assert engine.maintain()["extract"].counts == {"messages": 3, "facts": 2}
    assert [[message["text"] for message in endpoint.read_prompt_messages(number)] for number in range(2)] == [
        ["My cat is called Biscuit", "Thanks a lot"],
        ["My dog is called Pepper"],
    ]
    assert engine.maintain()["extract"].counts == {}
    facts_before = get_facts_by_text(engine.scope(user="maya"))
    assert set(facts_before) == {"Maya's cat is called Biscuit.", "Maya's dog is called Pepper."}
    fact = facts_before["Maya's cat is called Biscuit."]
    assert fact.provenance == {"message": messages[0].id, "by": "reader"}
    assert (fact.user_id, fact.project_id, fact.agent_id, fact.session_id) == ("maya", "home", "helper", None)
    assert fact.occurred_at == messages[0].created_at

    chat.say("My parrot is called Kiwi", role="user", name="Maya")
    endpoint.add_answer(make_item("Maya's parrot is called Kiwi."))
    assert engine.extract() == Extracted(1, 1, 0), "it continues after what was read"


@pytest.mark.parametrize("purge", ["at once", "by maintenance"])
def test_a_fact_is_deleted_with_the_only_message_that_states_it(
    sqlite_store: Store, endpoint: Endpoint, purge: str
) -> None:
    engine = open_with_llm(sqlite_store, endpoint, batch=1, grace_days=0)
    maya = engine.scope(user="maya")
    for text in ("My cat is called Biscuit", "My dog is called Pepper"):
        engine.scope(user="maya", session="s1").say(text, role="user", name="Maya")
    endpoint.add_answer(make_item("Maya's cat is called Biscuit."))
    endpoint.add_answer(make_item("Maya's dog is called Pepper."))
    engine.extract()
    maya.remember("Maya's dog is called Pepper.", kind="fact")  # now it is known without the message, too
    engine.delete_session("s1", hard=purge == "at once")
    engine.maintain()
    assert get_facts_by_text(maya) == {}
    assert [memory.text for memory in maya.list()] == ["Maya's dog is called Pepper."]
    assert get_records(engine).count(Message, "default", deleted=True) == 0


def test_a_message_of_a_deleted_session_is_not_read(store: Store, endpoint: Endpoint) -> None:
    engine = open_with_llm(store, endpoint)
    engine.scope(user="maya", session="s1").say("My cat is called Biscuit", role="user")
    engine.delete_session("s1")
    assert engine.extract() == Extracted(0, 0, 0)
    assert endpoint.requests == []


# when the model fails


def test_a_model_that_cannot_be_reached_loses_nothing(store: Store, endpoint: Endpoint, pauses: list[float]) -> None:
    engine = open_with_llm(store, endpoint, batch=1)
    maya = engine.scope(user="maya")
    say(maya, "My dog is called Pepper")
    say(maya, "My cat is called Biscuit")
    endpoint.add_answer(make_item("Maya's dog is called Pepper."))
    endpoint.script += [503, 503, 503]
    job = engine.maintain()["extract"]
    assert (job.outcome, job.counts, job.left) == ("failed", {"facts": 1, "messages": 1}, {"messages": 1})
    assert "status 503" in str(job.error)
    assert len(pauses) == 2
    assert set(get_facts_by_text(maya)) == {"Maya's dog is called Pepper."}

    endpoint.add_answer(make_item("Maya's cat is called Biscuit."))
    engine.maintain()
    assert set(get_facts_by_text(maya)) == {"Maya's dog is called Pepper.", "Maya's cat is called Biscuit."}
    assert [message["text"] for message in endpoint.read_prompt_messages(-1)] == ["My cat is called Biscuit"]


def test_a_passing_failure_is_tried_again(store: Store, endpoint: Endpoint) -> None:
    engine = open_with_llm(store, endpoint)
    say(engine.scope(user="maya"), "My cat is called Biscuit")
    endpoint.script.append(429)
    endpoint.add_answer(make_item("Maya's cat is called Biscuit."))
    assert engine.extract().kept == 1


def test_a_server_that_cannot_be_reached_is_reported(store: Store) -> None:
    unused = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    unused.server_close()
    url = f"http://reader:{KEY}@127.0.0.1:{unused.server_port}/v1"
    engine = store.open(llm={"url": url, "model": "reader", "api_key": KEY})
    say(engine.scope(user="maya"), "My cat is called Biscuit")
    with pytest.raises(ModelUnavailable, match="after 3 attempts") as raised:
        engine.extract()
    assert raised.value.retryable
    assert KEY not in str(raised.value)
    assert KEY not in repr(engine._parts.language_model) + repr(engine.settings)


@pytest.mark.parametrize(
    ("answer", "error"),
    [(401, InvalidSettings), (400, ModelError), (b"<html>", ModelError), (b'{"choices": []}', ModelError)],
)
def test_an_endpoint_that_will_never_answer_says_so(
    store: Store, endpoint: Endpoint, answer: Any, error: type[Exception]
) -> None:
    engine = open_with_llm(store, endpoint)
    say(engine.scope(user="maya"), "My cat is called Biscuit")
    endpoint.script.append(answer)
    with pytest.raises(error) as raised:
        engine.extract()
    assert len(endpoint.requests) == 1
    assert KEY not in str(raised.value)


# settings


def test_without_a_model_nothing_happens(store: Store) -> None:
    engine = store.open(remember={"extract": False})
    maya = engine.scope(user="maya")
    say(maya, "My cat is called Biscuit")
    engine.maintain()
    assert engine.extract() == Extracted(0, 0, 0)
    assert get_facts_by_text(maya) == {}


@pytest.mark.parametrize(
    "llm_settings",
    [{"url": "localhost:11434/v1"}, {"url": "http://here:port/v1"}, {"api_key": "sk-é"}, {"api_key": "sk\nb"}],
)
def test_unusable_llm_settings_are_refused_when_the_engine_opens(llm_settings: dict[str, str]) -> None:
    with pytest.raises(InvalidSettings, match="llm") as raised:
        make_language_model(load("memory://", llm={"url": "http://localhost/v1", "model": "reader", **llm_settings}))
    assert "sk" not in str(raised.value)


def test_without_its_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    for name in [name for name in sys.modules if name.startswith("everhold.adapters.openai")]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(MissingExtra, match=r"everhold\[openai\]"):
        make_language_model(load("memory://", llm={"url": "http://localhost/v1", "model": "reader"}))


def test_a_missing_name_is_reported_without_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidSettings, match=r"setting llm\.model is missing") as raised:
        load("memory://", llm={"url": "http://localhost/v1", "api_key": KEY})
    assert KEY not in str(raised.value)
    monkeypatch.setenv("EVERHOLD_LLM__URL", "http://localhost/v1")
    with pytest.raises(InvalidSettings, match="EVERHOLD_LLM__MODEL is missing, which EVERHOLD_LLM__URL needs; set it"):
        load("memory://")
