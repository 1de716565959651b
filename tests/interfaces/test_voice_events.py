"""Subscribers of the gateway get every event once and in order, even after they or the gateway were away."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from everhold import Everhold
from everhold.testing.fake_embedder import FakeEmbedder
from tests.voice_gateway import RunningGateway, serve

DEADLINE_SECONDS = 50


@pytest.fixture
def engine() -> Iterator[Everhold]:
    with Everhold.open("memory://", embedder=FakeEmbedder()) as engine:
        yield engine


class Follower:
    """A subscriber that follows the rule of docs/voice.md: skip events that it has handled, replay those it missed."""

    def __init__(self, last: int = 0) -> None:
        self.last = last
        self.events: list[dict[str, Any]] = []

    def connect(self, served: RunningGateway) -> None:
        self._socket, self._client = served.subscribe(), served.connect()
        assert self._socket.poll(DEADLINE_SECONDS * 1000)  # a heartbeat: the subscription has reached the gateway
        self.replay()

    def disconnect(self) -> None:
        self._socket.close(0)

    def replay(self) -> None:
        has_more = True
        while has_more:
            reply = self._client.ask(action="replay", after=self.last)
            for event in reply["events"]:
                self._take(event)
            self.last, has_more = max(self.last, reply["last"]), reply["more"]

    def receive_until(self, event_id: str) -> None:
        """Read what is published until the event about a record was handled."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not any(event["id"] == event_id for event in self.events):
            assert time.monotonic() < deadline
            if self._socket.poll(100):
                _, body = self._socket.recv_multipart()
                message = json.loads(body)
                if message.get("previous", message["number"]) > self.last:
                    self.replay()
                elif message["number"] > self.last:
                    self._take(message)

    def _take(self, event: dict[str, Any]) -> None:
        assert event["number"] > self.last
        self.last = event["number"]
        self.events.append(event)


def list_memory_ids(follower: Follower) -> list[str]:
    return [event["id"] for event in follower.events if event["entity"] == "memory"]


def test_a_subscriber_that_leaves_and_returns_misses_nothing_and_sees_nothing_twice(engine: Everhold) -> None:
    home, ids, follower = engine.scope(organization="home"), [], Follower()
    with serve(engine, "unified@home", publish="tcp://127.0.0.1:*") as served:
        for number in range(5):
            follower.connect(served)
            ids.append(home.remember(f"while connected {number}").id)
            follower.receive_until(ids[-1])
            follower.disconnect()
            ids += [home.remember(f"while away {number} {index}").id for index in range(5)]
        follower.connect(served)
    assert list_memory_ids(follower) == ids
    expected = [(event.number, event.id) for event in home.events()]
    assert [(event["number"], event["id"]) for event in follower.events] == expected


def test_a_subscriber_outlives_the_gateway(engine: Everhold) -> None:
    home, follower = engine.scope(organization="home"), Follower()
    with serve(engine, "unified@home", publish="tcp://127.0.0.1:*") as served:
        follower.connect(served)
        ids = [home.remember("first").id]
        follower.receive_until(ids[0])
    ids.append(home.remember("while the gateway was down").id)
    with serve(engine, "unified@home", publish="tcp://127.0.0.1:*") as served:
        follower.connect(served)
        ids.append(home.remember("second").id)
        follower.receive_until(ids[-1])
    assert list_memory_ids(follower) == ids


def test_a_heartbeat_tells_a_subscriber_that_it_missed_the_last_event(engine: Everhold) -> None:
    home = engine.scope(organization="home")
    with serve(engine, "unified@home", publish="tcp://127.0.0.1:*") as served:
        follower = Follower()
        follower.connect(served)
        memory = home.remember("the last event")
        time.sleep(0.5)  # it has been published by now
        while follower._socket.poll(0):
            follower._socket.recv_multipart()  # the event is lost on the way
        follower.receive_until(memory.id)
    assert list_memory_ids(follower) == [memory.id]


def test_events_have_topics_numbers_and_no_text(engine: Everhold) -> None:
    home = engine.scope(organization="home", user="alice")
    with serve(engine, "unified@home", publish="tcp://127.0.0.1:*@home") as served:
        Follower().connect(served)
        memories = served.subscribe(b"memory.")
        time.sleep(0.3)
        memory = home.remember("a secret text")
        topic, body = memories.recv_multipart()
        assert topic == b"memory.put"
        event = json.loads(body)
        assert (event["id"], event["user"], event["operation"]) == (memory.id, "alice", "put")
        assert 0 <= event["previous"] < event["number"]
        assert b"secret" not in body


def test_events_of_other_organizations_are_neither_published_nor_replayed(engine: Everhold) -> None:
    ours, theirs = engine.scope(organization="home"), engine.scope(organization="office")
    with serve(engine, "unified@home", "jarvis@office", publish="tcp://127.0.0.1:*@home") as served:
        follower = Follower()
        follower.connect(served)
        theirs.remember("not for home")
        memory = ours.remember("for home")
        follower.receive_until(memory.id)
        assert list_memory_ids(follower) == [memory.id]
        replayed = served.connect(bind=1).ask(action="replay", after=0)["events"]
        assert memory.id not in [event["id"] for event in replayed]


def test_reminders_are_announced_to_subscribers_of_their_organization(engine: Everhold) -> None:
    with serve(engine, "jarvis@home", "jarvis@office", publish="tcp://127.0.0.1:*@home") as served:
        reminders = served.subscribe(b"reminder")
        Follower().connect(served)
        time.sleep(0.3)
        for bind, text in ((1, "not for home"), (0, "Take a break")):
            served.connect(bind=bind).ask(action="add_memory", user_id="al", memory={"type": "reminder", "text": text})
        _, body = reminders.recv_multipart()
        announced = {"type": "reminder", "text": "Take a break", "user": "al", "emotion": "neutral", "proactive": True}
        assert json.loads(body) == announced
        assert not reminders.poll(200)


def test_a_wrong_number_is_refused(engine: Everhold) -> None:
    with serve(engine, "unified-4@home") as served:
        client = served.connect("DEALER")
        assert client.ask(command="replay", after=0)["events"] == []
        assert client.ask(command="REPLAY", after=-1)["status"] == "ERROR"


def test_a_subscriber_that_does_not_read_delays_no_other(engine: Everhold) -> None:
    with serve(engine, "unified@home", publish="tcp://127.0.0.1:*") as served:
        silent_subscriber = served.context.socket(zmq.SUB)
        silent_subscriber.rcvhwm = 1
        silent_subscriber.subscribe(b"")
        silent_subscriber.connect(served.addresses[-1])
        follower = Follower()
        follower.connect(served)
        ids = [memory.id for memory in engine.scope(organization="home").remember_many([f"n {n}" for n in range(500)])]
        follower.receive_until(ids[-1])
        silent_subscriber.close(0)
    assert list_memory_ids(follower) == ids
