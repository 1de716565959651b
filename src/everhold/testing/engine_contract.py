"""The contract of an engine: a test suite for any store, any projection and any session cache.

    @pytest.fixture(scope="module")
    def engine():
        with Everhold.open("my-store://…") as engine:
            yield engine

    @pytest.fixture(scope="module")
    def other_engine(engine): ...  # another engine on the same store, as another process would have it

    @pytest.fixture(scope="module")
    def reference(): ...  # an engine in memory with the same embedder

    class TestMyStore(EngineContract):
        pass

Every test uses a separate organization, so that all can share one store.
"""

from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pytest

from everhold import clock
from everhold.engine import Everhold
from everhold.errors import Conflict, InvalidInput, NotFound
from everhold.recall.hit import Hits
from everhold.testing.engine_walk import walk
from everhold.views.view import View


def read_texts(hits: Hits) -> list[str]:
    return [hit.text for hit in hits]


class EngineContract:
    """The whole contract. Supply `engine` and `other_engine`, two engines on one store, and the `reference`."""

    steps: ClassVar[int] = 120
    """The number of steps of the random walk."""

    @pytest.fixture
    def organization(self) -> str:
        return clock.make_id("org")

    @pytest.fixture
    def alice(self, engine: Everhold, organization: str) -> View:
        return engine.scope(organization=organization, user="alice")

    @pytest.fixture
    def other_alice(self, other_engine: Everhold, organization: str) -> View:
        return other_engine.scope(organization=organization, user="alice")

    @pytest.fixture
    def session_views(self, engine: Everhold, other_engine: Everhold, organization: str) -> list[View]:
        """One session of alice, as two processes see it."""
        return [e.scope(organization=organization, user="alice", session="s1") for e in (engine, other_engine)]

    # This runs first, while few organizations exist, because on some stores the doctor checks them one after the other.

    def test_doctor_finds_no_problems(self, engine: Everhold, other_engine: Everhold, alice: View) -> None:
        alice.forget(alice.remember("Gone soon").id)
        alice.remember("Stays", tags=["one"])
        other_engine.maintain()
        engine.maintain()
        assert engine.doctor().problems == other_engine.doctor().problems == []

    # remember and recall

    def test_recall_finds_a_memory_and_explains_why(self, alice: View) -> None:
        alice.remember_many(["Prefers green tea in the morning", "Drives a blue car", "Lives near the river"])
        [first, *_] = alice.recall("tea in the morning", minimum=0)
        assert first.memory.text == "Prefers green tea in the morning"
        assert "tea" in first.why.matched

    def test_a_vector_of_the_caller_is_searched_and_survives_changes(self, alice: View, other_alice: View) -> None:
        dimensions = alice._parts.recall_deps.embedder.dimensions
        east, north = ([float(index == axis) for index in range(dimensions)] for axis in (0, 1))
        alice.remember_many(["Sails to the islands", {"text": "Walks to the pole", "vector": north}])
        memory = alice.remember("Rides to the desert", vector=east)
        other_alice.revise(memory.id, aliases=["caravan"])
        alice.revise(memory.id, text="Flies to the desert")
        other_alice.undo(memory.id)
        for view in (alice, other_alice):
            for vector, text in ((east, "Rides to the desert"), (north, "Walks to the pole")):
                [hit] = view.recall("", vector=vector, k=1, minimum=0, recipe="meaning")
                assert (hit.memory.text, hit.why.similarity) == (text, 1.0)

    def test_another_process_finds_a_new_memory_at_once(self, alice: View, other_alice: View) -> None:
        for number in range(5):
            memory = alice.remember(f"Ship {number} carries amber")
            assert memory.id in {hit.memory.id for hit in other_alice.recall("amber ship", minimum=0)}

    def test_a_retry_with_the_same_key_adds_nothing(self, alice: View, other_alice: View) -> None:
        first = alice.remember("Signed the lease", idempotency_key="once")
        retry = other_alice.remember("Signed the lease", idempotency_key="once")
        assert first.id == retry.id
        assert len(alice.list()) == 1

    def test_a_revision_is_found_by_its_new_words_only(self, alice: View, other_alice: View) -> None:
        memory = alice.remember("Plays the violin")
        other_alice.revise(memory.id, text="Collects stamps")
        for view in (alice, other_alice):
            assert read_texts(view.recall("stamps", minimum=0)) == ["Collects stamps"]
            assert "violin" not in {word for hit in view.recall("violin", minimum=0) for word in hit.why.matched}
        assert [revision.value["text"] for revision in alice.history(memory.id)] == ["Plays the violin"]

    def test_recall_as_of_an_earlier_time_finds_the_text_of_that_time(self, alice: View) -> None:
        memory = alice.remember("Works in Oslo")
        earlier = clock.now()
        alice.revise(memory.id, text="Works in Lima")
        assert read_texts(alice.recall("works where", as_of=earlier, minimum=0)) == ["Works in Oslo"]
        assert read_texts(alice.recall("works where", minimum=0)) == ["Works in Lima"]

    def test_a_superseding_memory_is_found_instead_of_the_old_one(self, alice: View, other_alice: View) -> None:
        old = alice.remember("The meeting is on Monday")
        other_alice.supersede(old.id, "The meeting is on Friday")
        assert read_texts(alice.recall("when is the meeting", minimum=0)) == ["The meeting is on Friday"]

    def test_a_forgotten_memory_is_not_found_until_undo(self, alice: View, other_alice: View) -> None:
        memory = alice.remember("Is afraid of spiders")
        other_alice.recall("spiders", minimum=0)
        alice.forget(memory.id)
        for view in (alice, other_alice):
            assert not view.recall("spiders", minimum=0)
        alice.undo(memory.id)
        for view in (alice, other_alice):
            assert read_texts(view.recall("spiders", minimum=0)) == ["Is afraid of spiders"]

    def test_a_purged_memory_cannot_be_restored(self, alice: View, other_alice: View) -> None:
        memory = alice.remember("A secret about the vault")
        other_alice.forget(memory.id, hard=True)
        assert not alice.recall("secret vault", minimum=0)
        with pytest.raises(NotFound):
            alice.get(memory.id)
        with pytest.raises((NotFound, Conflict)):
            alice.undo(memory.id)

    def test_an_expired_memory_is_not_found(self, alice: View) -> None:
        alice.remember("The code is seven", expires_at=clock.now() - timedelta(seconds=1))
        alice.remember("The code is nine", expires_at=clock.now() + timedelta(days=1))
        assert read_texts(alice.recall("what is the code", minimum=0)) == ["The code is nine"]

    def test_filters_apply_before_the_best_are_chosen(self, alice: View) -> None:
        alice.remember_many(f"tea and rain {number}" for number in range(30))
        alice.remember_many(
            [
                {"text": "rain on stone", "kind": "plan", "tags": ["rare"], "metadata": {"place": "harbour"}},
                {"text": "tea on stone", "kind": "plan"},
            ]
        )
        assert read_texts(alice.recall("tea and rain", k=1, tags="rare", minimum=0)) == ["rain on stone"]
        assert len(alice.recall("tea and rain", k=3, kind="plan", minimum=0)) == 2
        condition = {"metadata.place": "harbour"}
        assert read_texts(alice.recall("tea and rain", k=1, where=condition, minimum=0)) == ["rain on stone"]

    def test_pages_neither_repeat_nor_skip_hits(self, alice: View) -> None:
        alice.remember_many(f"tea number {number}" for number in range(23))
        seen: list[str] = []
        cursor = None
        while True:
            hits = alice.recall("tea", k=5, minimum=0, cursor=cursor)
            seen += [hit.memory.id for hit in hits]
            cursor = hits.cursor
            if cursor is None:
                break
        assert len(seen) == len(set(seen)) == 23

    def test_memories_can_be_tagged_and_related(self, alice: View, other_alice: View) -> None:
        first, second = alice.remember("Bought a boat"), alice.remember("Learned to sail")
        assert alice.tag(first.id, "sea", "summer") == ("sea", "summer")
        other_alice.relate(first.id, second.id, "led_to")
        assert [related.memory.id for related in alice.relations(first.id)] == [second.id]
        assert other_alice.tags() == {"sea": 1, "summer": 1}
        assert alice.untag(first.id, "sea") == ("summer",)

    # tenancy

    def test_no_user_finds_the_memories_of_another(self, engine: Everhold, organization: str) -> None:
        names = (organization, f"{organization}-other")
        views = [engine.scope(organization=name, user=user) for name in names for user in ("alice", "bob")]
        for number, view in enumerate(views):
            view.remember(f"The secret tea of view {number}", id="mem_same" if number % 2 else None)
        for number, view in enumerate(views):
            assert read_texts(view.recall("secret tea", minimum=0)) == [f"The secret tea of view {number}"]
        for name, numbers in zip(names, (("0", "1"), ("2", "3")), strict=True):
            found_texts = read_texts(engine.scope(organization=name).recall("secret tea", minimum=0))
            assert {text[-1] for text in found_texts} == set(numbers)

    def test_a_deleted_user_is_gone_until_restored(
        self, engine: Everhold, other_engine: Everhold, alice: View, other_alice: View, organization: str
    ) -> None:
        memory = alice.remember("Likes walnut bread")
        assert other_alice.recall("walnut bread", minimum=0)
        engine.delete_user("alice", organization=organization)
        organization_view = other_engine.scope(organization=organization)
        assert not organization_view.recall("walnut bread", minimum=0)
        other_engine.restore("user", "alice", organization=organization)
        assert [hit.memory.id for hit in organization_view.recall("walnut bread", minimum=0)] == [memory.id]

    def test_nothing_is_added_to_a_user_that_another_engine_deleted(
        self, engine: Everhold, other_engine: Everhold, alice: View, other_alice: View, organization: str
    ) -> None:
        other_alice.remember("Has a red bicycle")
        engine.delete_user("alice", organization=organization)
        for remember in (other_alice.remember, alice.remember):
            with pytest.raises(NotFound, match="user 'alice' has been deleted"):
                remember("Has a blue bicycle")
        assert not engine.scope(organization=organization).recall("bicycle", minimum=0)

    def test_a_purged_organization_is_gone(self, engine: Everhold, other_engine: Everhold, organization: str) -> None:
        view = engine.scope(organization=organization, user="alice", session="s1")
        view.remember("Owns a lighthouse")
        view.say("About the lighthouse")
        engine.delete_organization(organization, hard=True)
        reopened = other_engine.scope(organization=organization, user="alice", session="s1")
        assert not reopened.recall("lighthouse", minimum=0)
        with pytest.raises(NotFound):
            reopened.messages()

    # sessions

    def test_both_processes_read_messages_in_order(self, session_views: list[View]) -> None:
        for number in range(8):
            session_views[number % 2].say(f"line {number}", role="assistant" if number % 2 else "user")
            for view in session_views:
                assert view.messages(limit=1)[0].text == f"line {number}"
        for view in session_views:
            assert [message.text for message in view.messages(oldest_first=True)] == [f"line {n}" for n in range(8)]
            assert [message.text for message in view.session().history][:2] == ["line 7", "line 6"]

    def test_both_processes_see_changes_of_a_session(
        self, engine: Everhold, other_engine: Everhold, organization: str
    ) -> None:
        first_view, second_view = (
            reader.scope(organization=organization, session="s1") for reader in (engine, other_engine)
        )
        first_view.say("hello")
        second_view.session()
        first_view.update_session(topic="boats", context={"open": ["sail"]})
        assert (second_view.session().topic, second_view.session().context) == ("boats", {"open": ["sail"]})
        second_view.end_session()
        with pytest.raises((Conflict, InvalidInput)):
            first_view.say("one more")
        assert [message.text for message in first_view.messages()] == ["hello"]

    def test_a_deleted_session_is_not_read(self, engine: Everhold, other_engine: Everhold, organization: str) -> None:
        first_view, second_view = (
            reader.scope(organization=organization, session="s1") for reader in (engine, other_engine)
        )
        first_view.say("between us")
        assert second_view.session().history
        messages_before = second_view.messages()
        engine.delete_session("s1", organization=organization)
        for view in (first_view, second_view):
            with pytest.raises(NotFound):
                view.messages()
        other_engine.restore("session", "s1", organization=organization)
        assert [message.text for message in first_view.messages()] == [message.text for message in messages_before]

    def test_a_deleted_message_is_not_read(self, session_views: list[View]) -> None:
        first_view, second_view = session_views
        added = first_view.add([{"text": "I live in Lisbon.", "id": "m1"}, {"text": "Good night", "id": "m2"}])
        assert [memory.message_ids for memory in added.memories] == [("m1",)]
        assert [message.id for message in second_view.session().history] == ["m2", "m1"]
        first_view.delete_message("m1")
        for view in (first_view, second_view):
            assert [message.id for message in view.session().history] == ["m2"]
            assert [message.id for message in view.messages()] == ["m2"]
            assert "m1" not in {hit.id for hit in view.recall("Lisbon", among="message", minimum=0)}
        second_view.restore_message("m1")
        for view in (first_view, second_view):
            assert [message.id for message in view.session().history] == ["m2", "m1"]
            assert "m1" in {hit.id for hit in view.recall("Lisbon", among="message", minimum=0)}
        second_view.delete_message("m1", hard=True)
        for view in (first_view, second_view):
            assert [message.id for message in view.messages()] == ["m2"]
            assert not view.recall("Lisbon", among=["memory", "message"])

    def test_messages_are_recalled_with_the_scores_of_the_reference(
        self, engine: Everhold, other_engine: Everhold, reference: Everhold, organization: str
    ) -> None:
        scopes = [{"user": "alice"}, {"user": "alice", "session": "s1"}, {"session": "s1"}, {}]
        answers: list[list[Any]] = [[], [], []]
        for writer in (engine, reference):
            alice = writer.scope(organization=organization, user="alice", session="s1")
            alice.remember("Rosa repairs violins", id="mem_rosa")
            alice.say("My piano teacher is called Rosa", name="Alice", id="msg_1")
            alice.say("When is your lesson?", role="assistant", id="msg_2")
            alice.say("On Tuesday at five", name="Alice", id="msg_3")
            alice.say(content=[{"type": "image"}], id="msg_4")
            writer.scope(organization=organization, user="bob", session="s2").say("Rosa owes me money", id="msg_5")
        for number, reader in enumerate((engine, other_engine, reference)):
            for scope in scopes:
                view = reader.scope(organization=organization, **scope)
                for among in ("message", ["memory", "message"]):
                    for question in ("who is the piano teacher", "when is the lesson", "Rosa"):
                        hits = view.recall(question, among=among, k=20, minimum=0)
                        answers[number].append([(hit.kind, hit.id, hit.score, hit.why.contributions) for hit in hits])
        assert answers[0] == answers[1] == answers[2]
        assert answers[0][0][0][1] == "msg_1"
        all_hits = engine.scope(organization=organization).recall("Rosa", among=["memory", "message"], minimum=0)
        assert {hit.id for hit in all_hits} >= {"mem_rosa", "msg_1", "msg_5"}
        hits_of_alice = engine.scope(organization=organization, user="alice").recall("Rosa", among="message", minimum=0)
        assert "msg_5" not in {hit.id for hit in hits_of_alice}

    def test_messages_are_hidden_and_purged_with_their_session(
        self, engine: Everhold, other_engine: Everhold, organization: str, alice: View, other_alice: View
    ) -> None:
        engine.scope(organization=organization, user="alice", session="s1").say("The lighthouse is for sale")
        for view in (alice, other_alice):
            assert read_texts(view.recall("lighthouse", among="message", minimum=0)) == ["The lighthouse is for sale"]
            assert not view.recall("lighthouse", minimum=0)
        engine.delete_session("s1", organization=organization)
        for view in (alice, other_alice):
            assert not view.recall("lighthouse", among="message", minimum=0)
        other_engine.restore("session", "s1", organization=organization)
        for view in (alice, other_alice):
            assert read_texts(view.recall("lighthouse", among="message", minimum=0)) == ["The lighthouse is for sale"]
        engine.delete_session("s1", organization=organization, hard=True)
        for view in (alice, other_alice):
            assert not view.recall("lighthouse", among="message", minimum=0)

    def test_a_session_reads_memories_of_the_users_other_sessions(
        self, engine: Everhold, other_engine: Everhold, reference: Everhold, organization: str
    ) -> None:
        answers: list[list[Any]] = [[], [], []]
        for writer in (engine, reference):
            for name, session in (("alice", "s1"), ("alice", "s2"), ("bob", "s3"), (None, "s4")):
                view = writer.scope(organization=organization, user=name, session=session)
                view.remember(f"{name} keeps lamp oil in {session}", id=f"mem_{session}")
                view.remember(f"{name} needs lamp oil in {session}", id=f"note_{session}", namespace="short-term")
        spaces = ("long-term", "short-term", ["long-term", "short-term"])
        for number, reader in enumerate((engine, other_engine, reference)):
            for scope in ({"user": "alice", "session": "s2"}, {"session": "s2"}, {"user": "bob", "session": "s1"}):
                view = reader.scope(organization=organization, **scope)
                for options in product(spaces, (None, "session"), ((), ("session", "user", "organization"))):
                    arguments: dict[str, Any] = dict(zip(("namespace", "only", "include"), options, strict=True))
                    hits = view.recall("lamp oil", k=20, minimum=0, **arguments)
                    answers[number].append([(hit.id, hit.score, hit.why.contributions) for hit in hits])
        assert answers[0] == answers[1] == answers[2]
        # Each scope asks 12 times: 3 namespaces × 2 values of `only` × 2 of `include`.
        found_ids = [[hit[0] for hit in hits] for hits in answers[0]]
        assert found_ids[0] == ["mem_s2", "mem_s1"]
        assert found_ids[2] == ["mem_s2"]
        assert {name for hits in found_ids[:12] for name in hits} == {"mem_s1", "mem_s2", "note_s2"}
        assert {name for hits in found_ids[24:] for name in hits} == {"mem_s3"}

    def test_a_namespace_is_searched_by_itself(self, alice: View, other_alice: View) -> None:
        note = alice.remember("Buy lamp oil", namespace="short-term")
        alice.remember("Buys lamp oil in the harbour")
        for view in (alice, other_alice):
            assert read_texts(view.recall("lamp oil", minimum=0)) == ["Buys lamp oil in the harbour"]
            assert read_texts(view.recall("lamp oil", namespace="short-term", minimum=0)) == ["Buy lamp oil"]
            assert len(view.recall("lamp oil", namespace=["short-term", "long-term"], minimum=0)) == 2
        other_alice.revise(note.id, namespace="long-term")
        for view in (alice, other_alice):
            assert not view.recall("lamp oil", namespace="short-term", minimum=0)
            assert len(view.recall("lamp oil", minimum=0)) == 2
        alice.undo(note.id)
        assert read_texts(other_alice.recall("lamp oil", namespace="short-term", minimum=0)) == ["Buy lamp oil"]

    def test_a_context_has_memories_and_messages(self, engine: Everhold, organization: str) -> None:
        view = engine.scope(organization=organization, user="alice", session="s1")
        view.remember("Prefers green tea", pinned=True)
        view.say("What should I drink?")
        context = view.context("what tea", budget=400)
        assert "Prefers green tea" in context.text
        assert "What should I drink?" in context.text

    # export, log and random use

    def test_a_bundle_restores_a_deleted_organization(
        self, engine: Everhold, other_engine: Everhold, organization: str, tmp_path: Path
    ) -> None:
        view = engine.scope(organization=organization, user="alice", session="s1")
        view.remember_many({"text": f"note {number} about tea", "tags": ["t"]} for number in range(12))
        view.say("and this was said")
        written_count = engine.export(tmp_path / "bundle.jsonl", organization=organization)
        engine.delete_organization(organization, hard=True)
        assert 0 < other_engine.load(tmp_path / "bundle.jsonl", organization=organization).count <= written_count
        reopened = other_engine.scope(organization=organization, user="alice", session="s1")
        assert len(reopened.recall("tea", k=20, tags="t", minimum=0)) == 12
        assert [message.text for message in reopened.messages()] == ["and this was said"]

    def test_the_access_log_records_each_operation(self, engine: Everhold, alice: View, organization: str) -> None:
        memory = alice.remember("Wears a hat")
        alice.recall("hat", minimum=0)
        alice.forget(memory.id)
        assert {"create", "search", "delete"} <= {line.operation for line in alice.log()}
        assert engine.verify_log(organization).intact

    def test_random_use_finds_no_difference_from_the_reference(
        self, engine: Everhold, other_engine: Everhold, reference: Everhold, organization: str
    ) -> None:
        """Two processes take turns; the reference is one engine in memory, without projections or caches."""
        assert walk((engine, other_engine), reference, organization, steps=self.steps) == self.steps
