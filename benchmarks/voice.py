"""How long does a request over the voice gateway take, compared with the same verb in process and a bare round trip?

    python -m benchmarks.voice            # 1 client and 32 clients
    python -m benchmarks.voice --quick    # fewer questions: rough figures

A client stores an interaction (`say` in process) and reads the context of a session (`messages` in process), each in a
session of its own. The floor of a request is the verb, called by as many threads in this process, plus the round trip
of the same bytes to a bare ROUTER in another process that sends them back. The three are measured by turns. In each
turn all clients make their calls at the same time, one after the other; the figure is how long one call of one client
took on average, and the median over the turns. Clients of sockets are in this process; the gateway and the bare ROUTER
each have a process of their own. Both stores are SQLite files with the default settings, on the same disk. The embedder
is a fake one, so that the model's time, which is the same on both sides, does not hide the gateway's.

`stop_seconds` is the longest time that `everhold serve-voice` takes to end after SIGTERM, while four clients write.
"""

import argparse
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import zmq

from benchmarks.engines import build_settings, open_engine
from benchmarks.report import Report
from everhold import Everhold, View
from everhold.interfaces.voice.gateway import Gateway
from everhold.interfaces.voice.serving import make_options
from everhold.settings_sections import Voice
from everhold.testing.fake_embedder import FakeEmbedder

USER = "alice"
BAR = 1.5
MAX_STOP_SECONDS = 2
STOPS = 3
WRITERS = 4
MESSAGES = 100  # of a session, before anything is measured
TEXT = "The kettle is in the garage, and the garage door is open."
TIMEOUT_SECONDS = 60  # to wait for a reply, and for a process to end
GATEWAY, ECHO = "--serve-gateway", "--serve-echo"

# Makes one call of a client; the result is not used.
Call = Callable[[], object]


def serve_gateway(folder: Path) -> None:
    """Run a gateway until standard input ends."""
    model = FakeEmbedder()
    voice = Voice(bind=("tcp://127.0.0.1:*=session-memory",), publish="none", workers=4)
    with open_engine(build_settings(folder / "gateway.db"), model, model) as engine:
        gateway = Gateway(engine, make_options(voice))
        print(gateway.addresses[0]["address"], flush=True)
        stop = wait_for_end()
        gateway.run(stop.is_set)


def serve_echo() -> None:
    """Send every message back until standard input ends."""
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.linger = 0
    port = router.bind_to_random_port("tcp://127.0.0.1")
    print(f"tcp://127.0.0.1:{port}", flush=True)
    stop = wait_for_end()
    while not stop.is_set():
        if router.poll(100):
            router.send_multipart(router.recv_multipart())
    context.destroy(0)


def wait_for_end() -> threading.Event:
    """Return an event that is set when standard input ends."""
    stop = threading.Event()

    def read() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=read, daemon=True).start()
    return stop


@contextmanager
def start_server(*arguments: str) -> Iterator[str]:
    """Run this program as a server; yield the address that it prints."""
    command = [sys.executable, "-m", "benchmarks.voice", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


class SocketClient:
    """A REQ client that sends the same request again and again."""

    def __init__(self, context: "zmq.Context[Any]", address: str) -> None:
        self._socket = context.socket(zmq.REQ)
        self._socket.linger = 0
        self._socket.connect(address)

    def ask(self, body: bytes) -> bytes:
        self._socket.send(body)
        assert self._socket.poll(TIMEOUT_SECONDS * 1000), "no reply"
        reply: bytes = self._socket.recv()
        assert b'"error"' not in reply, reply
        return reply


def encode(action: str, session: str, **fields: Any) -> bytes:
    return json.dumps({"action": action, "session_id": session, **fields}).encode()


def time_calls(calls: Sequence[Call], rounds: int) -> float:
    """Let each client make its call `rounds` times, all clients at the same time. Return the mean seconds of a call.

    The mean follows from the time of the whole turn. A single call cannot be timed: with many threads, Python lets one
    of them make several calls while the others wait between theirs.
    """

    barrier = threading.Barrier(len(calls) + 1)

    def run(call: Call) -> None:
        barrier.wait()
        for _ in range(rounds):
            call()

    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(run, call) for call in calls]
        barrier.wait()
        started = perf_counter()
        for future in futures:
            future.result()
        return (perf_counter() - started) / rounds


class ClientGroups:
    """The same clients of a gateway, of a bare ROUTER and of an engine in this process."""

    def __init__(self, engine: Everhold, context: "zmq.Context[Any]", addresses: tuple[str, str], count: int) -> None:
        names = [f"{count}-{number}" for number in range(count)]
        self.views = [engine.scope(user=USER, session=name) for name in names]
        self.clients = [SocketClient(context, addresses[0]) for _ in names]
        self.echoes = [SocketClient(context, addresses[1]) for _ in names]
        self._names = names
        for view, client, name in zip(self.views, self.clients, names, strict=True):
            client.ask(encode("create_session", name, user_id=USER))
            view.open_session()
            for _ in range(MESSAGES):
                client.ask(encode("add_interaction", name, role="user", content=TEXT))
                view.say(TEXT)

    def make_calls(self, body: Callable[[str], bytes], verb: Callable[[View], object]) -> list[list[Call]]:
        """Return the calls over the gateway, in process, and to the bare ROUTER."""
        bodies = [body(name) for name in self._names]
        return [
            [partial(client.ask, request) for client, request in zip(self.clients, bodies, strict=True)],
            [partial(verb, view) for view in self.views],
            [partial(client.ask, request) for client, request in zip(self.echoes, bodies, strict=True)],
        ]


def measure(report: Report, name: str, calls: list[list[Call]], turns: int, rounds: int) -> None:
    """Measure the three by turns, and add the ratio of the gateway to the sum of the other two."""
    seconds: list[list[float]] = [[], [], []]
    for turn in range(turns + 1):
        for side in range(3):
            call_seconds = time_calls(calls[(side + turn) % 3], rounds)
            if turn:  # the first turn warms up
                seconds[(side + turn) % 3].append(call_seconds)
    gateway, verb, round_trip = (median(side_seconds) for side_seconds in seconds)
    report.add(f"{name}_ratio", gateway / (verb + round_trip), "<=", BAR)
    # On a busy machine, the threads of the verb, which never sleep, wait longest for a processor. The shortest turns
    # give the ratio without that wait.
    fastest, verb_fastest, round_trip_fastest = (min(side_seconds) for side_seconds in seconds)
    report.add(f"{name}_fastest_ratio", fastest / (verb_fastest + round_trip_fastest))
    report.add(f"{name}_ms", 1000 * gateway)
    report.add(f"{name}_verb_ms", 1000 * verb)
    report.add(f"{name}_round_trip_ms", 1000 * round_trip)


def add_figures(report: Report, groups: ClientGroups, count: int, turns: int, rounds: int) -> None:
    say = groups.make_calls(
        lambda name: encode("add_interaction", name, role="user", content=TEXT), lambda view: view.say(TEXT)
    )
    measure(report, f"write_{count}_clients", say, turns, rounds)
    tokens = len(TEXT) * MESSAGES // 4 - 1  # one message less, so that the gateway reads one page
    read = groups.make_calls(
        lambda name: encode("get_context", name, max_tokens=tokens), lambda view: view.messages(limit=MESSAGES)
    )
    measure(report, f"read_{count}_clients", read, turns, rounds)


def measure_stop(folder: Path) -> float:
    """Start `everhold serve-voice`, let clients write, and return how long it takes to end after SIGTERM."""
    command = [str(Path(sys.executable).with_name("everhold")), "serve-voice", "--json",
               "--bind", "tcp://127.0.0.1:*=jarvis@home", "--publish", "none"]  # fmt: skip
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["listening"][0]["address"]
        have_written = [threading.Event() for _ in range(WRITERS)]
        threads = [threading.Thread(target=write_until_silence, args=(address, event)) for event in have_written]
        for thread in threads:
            thread.start()
        for event in have_written:
            assert event.wait(TIMEOUT_SECONDS), "no reply"
        started = perf_counter()
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_SECONDS) == 0
        seconds = perf_counter() - started
    for thread in threads:
        thread.join()
    return seconds


def write_until_silence(address: str, has_written: threading.Event) -> None:
    """Write memories until the gateway no longer replies. The event is set after the first reply."""
    context = zmq.Context()
    socket = context.socket(zmq.REQ)
    socket.linger = 0
    socket.connect(address)
    while True:
        socket.send(json.dumps({"action": "add_memory", "memory": TEXT}).encode())
        if not socket.poll(1000 * (MAX_STOP_SECONDS if has_written.is_set() else TIMEOUT_SECONDS)):
            break
        socket.recv()
        has_written.set()
    context.destroy(0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="5 turns")
    parser.add_argument(GATEWAY, type=Path, help=argparse.SUPPRESS)
    parser.add_argument(ECHO, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve_gateway or options.serve_echo:
        serve = partial(serve_gateway, options.serve_gateway) if options.serve_gateway else serve_echo
        serve()
        return 0
    report, turns = Report("voice"), 5 if options.quick else options.turns
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="everhold-")))
        addresses = (stack.enter_context(start_server(GATEWAY, str(folder))), stack.enter_context(start_server(ECHO)))
        model = FakeEmbedder()
        engine = stack.enter_context(open_engine(build_settings(folder / "ours.db"), model, model))
        context = zmq.Context()
        stack.callback(context.destroy, 0)
        for count, rounds in ((1, 20), (32, 4)):
            add_figures(report, ClientGroups(engine, context, addresses, count), count, turns, rounds)
        report.add("stop_seconds", max(measure_stop(folder) for _ in range(STOPS)), "<=", MAX_STOP_SECONDS)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
