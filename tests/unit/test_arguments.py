"""Arguments of the public verbs: strict types, limits, and errors that say what to pass."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict, Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.fuzz_values import EVERYTHING, NESTED, OBJECTS, CallerError
from everhold import AsyncEverhold, Everhold, View
from everhold.arguments.checks import Body, Checked, MemoryId, PageSize, Password, Question
from everhold.arguments.verbs import check_verbs, make_check
from everhold.errors import InvalidInput, MalformedId, NotFound, UnknownField
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.views.view import AsyncView
from tests.engines import Store, make_store


class Fields(TypedDict, total=False):
    level: int | None
    score: float | None


@check_verbs
class Verbs:
    """A few verbs that return the arguments that they received."""

    def ask(self, query: Question, *, limit: PageSize = 5, when: datetime | None = None) -> tuple[Any, ...]:
        return query, limit, when

    def keep(self, text: Body = "", *tags: str, **fields: Unpack[Fields]) -> Any:
        return text, tags, fields

    def find(self, name: str | Sequence[str] | Path) -> Any:
        return name

    @classmethod
    def make(cls, count: int) -> int:
        return count

    @staticmethod
    def move(source: str, hard: bool = False) -> tuple[str, bool]:
        return source, hard

    def _private(self, anything: int) -> Any:
        return anything


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda verbs: verbs.ask(None), "query is None; pass a question as text"),
        (lambda verbs: verbs.ask(5), "query is 5; pass"),
        (lambda verbs: verbs.ask("x" * 32_001), "query has 32,001 characters; pass at most 32,000"),
        (lambda verbs: verbs.ask("a\x00"), "query: text holds a NUL byte at position 1; remove it"),
        (lambda verbs: verbs.ask("\ud800"), "query: text holds a lone surrogate"),
        (lambda verbs: verbs.ask("x", limit="5"), "limit is '5'; pass 1 to 10,000, and the cursor for more"),
        (lambda verbs: verbs.ask("x", limit=True), "limit is True; pass"),
        (lambda verbs: verbs.ask("x", limit=0), "limit is 0; pass"),
        (lambda verbs: verbs.ask("x", limit=None), "limit is None; pass"),
        (lambda verbs: verbs.ask("x", limit=10**5000), "limit is a whole number of 16610 bits; pass"),
        (lambda verbs: verbs.ask("x", when="2024-05-01"), "when is '2024-05-01'; pass a datetime"),
        (lambda verbs: verbs.ask("x", when=datetime(2024, 5, 1)), "when: time 2024-05-01T00:00:00 has no zone"),  # noqa: DTZ001
        (lambda verbs: verbs.keep("x", "a", 5), "tags is 5; pass text"),
        (lambda verbs: verbs.keep("x", *["a"] * 10_001), "tags has 10,001 items; pass at most 10,000 at once"),
        (lambda verbs: verbs.keep("x", level="5"), "level is '5'; pass a whole number"),
        (lambda verbs: verbs.keep("x", level=2**63), "level is 9223372036854775808; pass a whole number of at most 64"),
        (lambda verbs: verbs.keep("x", score=float("nan")), "score is nan; pass a finite number"),
        (lambda verbs: verbs.keep("x", score=10**400), "score is a whole number of 1329 bits; pass"),
        (lambda verbs: verbs.keep("x", levl=5), "keep takes no argument 'levl'; did you mean 'level'?"),
        (lambda verbs: verbs.make("1"), "count is '1'; pass a whole number"),
        (lambda verbs: verbs.move(b"x"), r"source is b'x'; pass text"),
        (lambda verbs: verbs.move("x", hard=1), "hard is 1; pass True or False"),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[Any], object], words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        call(Verbs())
    assert words in str(caught.value)


def test_correct_arguments_reach_the_verb() -> None:
    verbs = Verbs()
    moment = datetime(2024, 5, 1, tzinfo=UTC)
    assert verbs.ask("tea?", limit=7, when=moment) == ("tea?", 7, moment)
    assert verbs.keep("x", "a", "b", level=None, score=1) == ("x", ("a", "b"), {"level": None, "score": 1})
    assert verbs.keep(text="y" * 50_000)[0] == "y" * 50_000
    assert verbs.make(3) == 3
    assert Verbs.move("a", hard=True) == ("a", True)
    assert verbs._private("anything") == "anything"  # type: ignore[arg-type]


def test_a_call_with_a_wrong_signature_raises_typeerror() -> None:
    with pytest.raises(TypeError, match="ask"):
        Verbs().ask()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="nothing"):
        Verbs().ask("x", nothing=1)  # type: ignore[call-arg]
    for kind in (Everhold, AsyncEverhold):
        with pytest.raises(TypeError, match=r"scope\(\) takes no argument 'usr'; did you mean 'user'\?"):
            kind.scope(object(), usr="alice")  # type: ignore[call-overload]


def test_an_annotation_without_a_check_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match="no check for the annotation"):

        @check_verbs
        class Unknown:
            def ask(self, query: "tuple[int, ...]") -> None: ...


def test_a_password_is_never_quoted() -> None:
    check = make_check(Password)
    for value in (12345678, b"very secret", ["very secret"], "very secret\x00", "very secret" * 1000):
        with pytest.raises(InvalidInput) as caught:
            check(value, "password")
        assert "secret" not in str(caught.value)
        assert "12345678" not in str(caught.value)


def test_subclasses_become_the_plain_type() -> None:
    class Shouting(str):
        def __str__(self) -> str:
            raise CallerError

    class Odd(int):
        def __repr__(self) -> str:
            raise CallerError

    assert type(make_check(str)(Shouting("x"), "name")) is str
    assert type(make_check(int)(Odd(5), "name")) is int
    with pytest.raises(InvalidInput, match="name is 5; pass text"):
        make_check(str)(Odd(5), "name")


@given(st.data())
def test_a_check_raises_no_other_error_than_invalid_input(data: st.DataObject) -> None:
    """Every value is accepted by every annotation, or refused with InvalidInput."""
    verbs = [View.recall, View.remember, View.forget_where, View.tag, Everhold.export, Everhold.create_user, View.say]
    verb = data.draw(st.sampled_from(verbs))
    parameters = inspect.signature(inspect.unwrap(verb)).parameters.values()
    named_parameters = [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    hints = [parameter.annotation for parameter in named_parameters if parameter.name != "self"]
    checks = [make_check(hint) for hint in hints]
    pool = data.draw(st.sampled_from(EVERYTHING))
    value = data.draw(st.sampled_from(pool))
    value = value() if pool in (NESTED, OBJECTS) else value
    for check in checks:
        try:
            check(value, "argument")
        except (InvalidInput, CallerError) as error:
            assert len(str(error)) < 1000  # noqa: PT017


def test_every_public_verb_checks_its_arguments() -> None:
    """`check_verbs` wraps every public verb; unwrapping an unchecked verb returns the verb itself."""
    for kind in (Everhold, View):
        for name, member in inspect.getmembers(kind, inspect.isroutine):
            if not name.startswith("_"):
                assert inspect.unwrap(member) is not member, f"{kind.__name__}.{name} takes unchecked arguments"
    # The asynchronous classes call the same verbs, as tests/flows/test_async.py shows.
    for kind in (AsyncEverhold, AsyncView):
        for name in dir(kind):
            verb = getattr(inspect.getattr_static(kind, name), "verb", None)
            assert verb is None or inspect.unwrap(verb) is not verb, f"{kind.__name__}.{name} is unchecked"


def test_every_signature_is_short_enough_to_be_shown() -> None:
    for kind in (Everhold, View):
        for name, verb in inspect.getmembers(kind, inspect.isroutine):
            if name.startswith("_"):
                continue
            signature = inspect.signature(verb)
            defaults = {parameter.name: parameter.default for parameter in signature.parameters.values()}
            assert not {argument for argument, default in defaults.items() if len(repr(default)) > 40}, name
            assert len(str(signature)) <= 800, f"{kind.__name__}.{name}: {signature}"
            assert "Checked" not in str(signature), f"{kind.__name__}.{name} shows a check instead of a type"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda view: view.remember("x", ttl=60), "remember takes no argument 'ttl'; use expires_at, the time when"),
        (lambda view: view.remember_many([{"text": "x", "ttl": 60}]), "'ttl'; use expires_at, the time when"),
        (lambda view: view.recall("x", limit=3), "recall takes no argument 'limit'; use k"),
        (lambda view: view.list(top_k=3), "list takes no argument 'top_k'; use limit"),
        (lambda view: view.recall("x", threshold=0.5), "'threshold'; use minimum"),
        (lambda view: view.revise("m1"), "revise has nothing to change; pass at least one of text, content, kind"),
        (lambda view: view.revise("m1", reason="because"), "revise has nothing to change"),
    ],
)
def test_a_likely_mistake_is_answered_with_the_right_argument(call: Callable[[View], Any], message: str) -> None:
    with Everhold.open("memory://", embedder=FakeEmbedder()) as engine:
        view = engine.scope(user="alice")
        view.remember("Likes tea", id="m1")
        with pytest.raises(InvalidInput, match=message):
            call(view)


def test_the_number_of_threads_must_be_in_range() -> None:
    for workers in (0, "8", True, 10**9):
        with pytest.raises(InvalidInput, match="workers is"):
            AsyncEverhold.open("memory://", workers=workers)  # type: ignore[arg-type]


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = make_store("in_memory", request, tmp_path)
    yield store
    store.close()


def test_calls_that_once_raised_other_errors_raise_invalid_input(store: Store) -> None:
    engine = store.open()
    alice = engine.scope(user="alice", session="s1")
    memory = alice.remember("Likes tea")
    alice.say("Hello")
    deep: Any = {}
    for _ in range(10_000):
        deep = {"a": deep}
    year_1, year_9999 = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
    cases: list[tuple[Callable[[], object], type[InvalidInput], str]] = [
        (lambda: alice.remember("x", metadata=deep), InvalidInput, "nested deeper than 64 levels"),
        (lambda: alice.remember_many([{"text": "x", "metadata": deep}]), InvalidInput, "nested deeper than 64 levels"),
        (lambda: alice.remember("x", metadata={"a": 10**5000}), InvalidInput, "use at most 64, or text"),
        (lambda: alice.remember_many([{"text": "x", "content": {"a": 10**5000}}]), InvalidInput, "use at most 64"),
        (lambda: alice.revise(memory.id, text="y", reason="a\x00b"), InvalidInput, "reason: text holds a NUL byte"),
        (lambda: alice.recall("tea", cursor="W1tbW1tb" * 200), InvalidInput, "invalid cursor"),
        (lambda: alice.recall("tea", cursor="WzFlOTk5LCJ4Il0"), InvalidInput, "invalid cursor"),
        (lambda: alice.list(cursor="!"), InvalidInput, "invalid cursor"),
        (lambda: alice.context("tea", budget=10**400), InvalidInput, "budget is a whole number of 1329 bits"),
        (lambda: engine.verify_log(""), MalformedId, "organization: id '' is malformed"),
        (lambda: alice.recall(None), InvalidInput, "query is None"),  # type: ignore[arg-type]
        (lambda: alice.forget(memory), InvalidInput, "memory_id is a Memory, not an id; pass memory.id"),  # type: ignore[arg-type]
        (lambda: alice.messages(limit="5"), InvalidInput, "limit is '5'"),  # type: ignore[arg-type]
        (lambda: alice.remember_many("hello"), InvalidInput, "items is text; pass a list"),
        (lambda: alice.remember_many({"text": "x"}), InvalidInput, "pass a list"),  # type: ignore[arg-type]
        (lambda: alice.update_session(topic=5), InvalidInput, "topic is 5"),  # type: ignore[typeddict-item]
        (lambda: alice.remember("x", level=5), InvalidInput, "level is 5"),  # type: ignore[typeddict-item]
        (lambda: alice.remember_many([{"text": "x", "level": 5}]), InvalidInput, "level"),
        (lambda: alice.recall("x", where={5: 1}), InvalidInput, "keys are text"),  # type: ignore[dict-item]
        (lambda: alice.recall("x", where={"revision": 2**70}), InvalidInput, "where: a whole number has 71 bits"),
        (
            lambda: alice.recall("x", where={"metadata.a": object()}),
            InvalidInput,
            "JSON cannot hold a value of type object",
        ),
        (lambda: alice.recall("x", knd="fact"), UnknownField, "recall takes no argument 'knd'; did you mean 'kind'?"),  # type: ignore[call-arg]
        (lambda: alice.context("x", befor=year_1), UnknownField, "context takes no argument 'befor'"),  # type: ignore[call-arg]
        (lambda: alice.why_not(memory.id, "x", kk=3), UnknownField, "why_not takes no argument 'kk'"),  # type: ignore[call-arg]
        (lambda: alice.list(tag="x"), UnknownField, "list takes no argument 'tag'; did you mean 'tags'?"),  # type: ignore[call-arg]
        (lambda: alice.forget_where(knd="fact"), UnknownField, "forget_where takes no argument 'knd'"),  # type: ignore[call-arg]
        (lambda: engine.export("x" * 300), InvalidInput, "path holds a name of 300 bytes"),
        (lambda: engine.load("a\x00b"), InvalidInput, "path: text holds a NUL byte"),
    ]
    for call, error, words in cases:
        with pytest.raises(error) as caught:
            call()
        assert words in str(caught.value)
    for asked_at in (year_1, year_9999):
        for question in ("yesterday", "in two years", "last summer", "the week before Christmas", "from May to July"):
            alice.recall(question, asked_at=asked_at)
            alice.recall(question, as_of=asked_at)
            alice.remember(f"I moved to Paris {question}", occurred_at=asked_at, kind="conversation")
    assert [message.text for message in alice.messages()] == ["Hello"]


def test_the_check_of_a_type_alias_applies() -> None:
    with pytest.raises(MalformedId, match="has 256 characters"):
        make_check(MemoryId | None)("x" * 256, "memory_id")
    doubled = Annotated[int, Checked(lambda value, name: value * 2)]
    assert make_check(doubled)(4, "n") == 8


def test_a_revision_that_was_purged_cannot_be_undone(store: Store) -> None:
    """The memory's id may be used again, and then the journal names a revision that no longer exists."""
    alice = store.open().scope(user="alice")
    memory = alice.remember("Likes tea", id="m1")
    alice.revise(memory.id, text="Likes coffee")
    alice.forget(memory.id, hard=True)
    alice.remember("Likes water", id="m1")
    with pytest.raises(NotFound):
        alice.undo("m1")
