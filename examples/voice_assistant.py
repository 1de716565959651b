"""A voice assistant that stores a conversation through the voice gateway and follows the gateway's events.

    everhold serve-voice --bind tcp://127.0.0.1:5596=session-memory@home    # in one terminal
    python examples/voice_assistant.py                                      # in another; an empty line ends it
    python examples/voice_assistant.py --demo                               # starts its own gateway

It needs pyzmq and nothing else of Everhold: a client in any language can send the same requests.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import zmq

REQUESTS, EVENTS = "tcp://127.0.0.1:5596", "tcp://127.0.0.1:5598"
REPLY_SECONDS = 30
DEMO = ("My kettle is in the garage.", "I fly to Oslo on Friday.", "Where is my kettle?", "When do I fly to Oslo?")


class Assistant:
    """Sends requests of the protocol "session-memory"."""

    def __init__(self, context: "zmq.Context[Any]", address: str, user: str) -> None:
        self._socket = context.socket(zmq.REQ)
        self._socket.connect(address)
        self._session = self.ask("create_session", user_id=user)["session_id"]

    def ask(self, action: str, **fields: Any) -> Any:
        """Send a request and return the reply."""
        self._socket.send_json({"action": action, **fields})
        if not self._socket.poll(REPLY_SECONDS * 1000):
            raise SystemExit("the gateway does not answer; start it with: everhold serve-voice")
        reply = json.loads(self._socket.recv())
        if reply["status"] == "error":
            raise SystemExit(reply["message"])
        return reply

    def hear(self, text: str) -> str:
        """Store what the user said and return an answer, which is stored too."""
        answer = self._find_answer(text) if text.endswith("?") else "I will remember that."
        for role, content in (("user", text), ("assistant", answer)):
            self.ask("add_interaction", session_id=self._session, role=role, content=content)
        return answer

    def count_turns(self) -> int:
        return len(self.ask("get_context", session_id=self._session)["context"])

    def _find_answer(self, question: str) -> str:
        for hit in self.ask("search_interactions", query=question, session_id=self._session)["results"]:
            if hit["role"] == "user" and not hit["content"].endswith("?"):
                return f"You told me: {hit['content']}"
        return "I do not know that yet."


class EventFollower:
    """Handles every event of the gateway once and in order. After a restart, pass the stored `last` to continue."""

    def __init__(self, context: "zmq.Context[Any]", address: str, assistant: Assistant, last: int = 0) -> None:
        self._socket, self._assistant = context.socket(zmq.SUB), assistant
        self._socket.subscribe(b"")
        self._socket.connect(address)
        self.last = last
        self.events: list[dict[str, Any]] = []

    def read(self, milliseconds: int) -> None:
        """Handle published events and replay missed ones, until no message has come for this number of milliseconds."""
        while self._socket.poll(milliseconds):
            _, body = self._socket.recv_multipart()
            message = json.loads(body)
            if message.get("previous", message.get("number", 0)) > self.last:
                self.replay()
            elif "previous" in message:
                self._handle(message)

    def replay(self) -> None:
        """Ask for the events after the last one that was handled."""
        has_more = True
        while has_more:
            reply = self._assistant.ask("replay", after=self.last)
            for event in reply["events"]:
                self._handle(event)
            self.last, has_more = max(self.last, reply["last"]), reply["more"]

    def _handle(self, event: dict[str, Any]) -> None:
        if event["number"] > self.last:
            self.last = event["number"]
            self.events.append(event)


@contextmanager
def start_gateway() -> Iterator[list[str]]:
    """Start a gateway on free ports; yield the addresses for requests and events."""
    options = ["--bind", "tcp://127.0.0.1:*=session-memory@demo", "--publish", "tcp://127.0.0.1:*", "--json"]
    command = [sys.executable, "-m", "everhold.interfaces.cli", "serve-voice", *options, "--store", "voice.db"]
    gateway = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert gateway.stdout is not None
        yield [listener["address"] for listener in json.loads(gateway.stdout.readline())["listening"]]
    finally:
        gateway.terminate()
        gateway.wait()


def talk(request_address: str, event_address: str, lines: Iterable[str]) -> None:
    """Let the assistant hear lines, and show the gateway's events about them."""
    with zmq.Context() as context:
        context.linger = 0
        assistant = Assistant(context, request_address, "alice")
        follower = EventFollower(context, event_address, assistant)
        for text in lines:
            print(f"you:       {text}\nassistant: {assistant.hear(text)}")
            follower.read(0)
        follower.replay()
        stored = [event for event in follower.events if event["entity"] == "message"]
        print(f"{assistant.count_turns()} turns are stored; the last event has the number {follower.last}")
        print(f"{len(stored)} events told of messages")
        context.destroy()


def read_lines() -> Iterator[str]:
    """Yield the typed lines, until an empty line."""
    for line in sys.stdin:
        if not line.strip():
            return
        yield line.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", action="store_true", help="start a gateway, and say prepared lines")
    parser.add_argument("--requests", default=REQUESTS, help=f"the gateway's bind; by default {REQUESTS}")
    parser.add_argument("--events", default=EVENTS, help=f"where it publishes events; by default {EVENTS}")
    options = parser.parse_args()
    if options.demo:
        with start_gateway() as (requests, events):
            talk(requests, events, DEMO)
    else:
        talk(options.requests, options.events, read_lines())


if __name__ == "__main__":
    main()
