"""No library sends telemetry: no connection is opened, and no file is written to the home folder.

The kernel ends the process, and every process that it starts, at the first attempt to connect or to resolve a name.
This needs no special rights and, unlike a patched `socket` module, also covers native code.
"""

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from everhold.adapters.minilm import weights

REFUSE_CONNECTIONS = """
import ctypes, struct
# The number of the architecture, and those of the system calls connect, sendmmsg and sendto.
NUMBERS = {"x86_64": (0xC000003E, 42, 307, 44), "aarch64": (0xC00000B7, 203, 269, 206)}
# Instructions of the kernel's filter language, and two of its results.
LOAD, JUMP, RETURN, KILL, ALLOW = 0x20, 0x15, 0x06, 0x80000000, 0x7FFF0000
def refuse_connections(machine):
    architecture, connect, sendmmsg, sendto = NUMBERS[machine]
    steps = [
        (LOAD, 0, 0, 4), (JUMP, 0, 6, architecture),
        (LOAD, 0, 0, 0), (JUMP, 5, 0, connect), (JUMP, 4, 0, sendmmsg), (JUMP, 0, 2, sendto),
        (LOAD, 0, 0, 48), (JUMP, 0, 1, 0),  # sendto without an address writes to what is connected already
        (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, KILL),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
"""

USE_EVERYTHING = """
from pathlib import Path
from everhold import Everhold
folder = Path(sys.argv[2])
options = {"data": folder / "data", "cache": folder / "cache", "embedding": {"path": sys.argv[3]}}
for store in ("a.db", "a.duckdb"):
    vectors = f"chroma://{folder}/chroma" if store == "a.db" else "auto"
    address = f"duckdb:///{folder / store}" if store.endswith("duckdb") else str(folder / store)
    with Everhold.open(address, vectors=vectors, images={"max_memories": 1}, **options) as engine:
        alice = engine.scope(user="alice")
        for text in ("Prefers tea", "Plays the piano", "Lives in Bergen"):
            alice.remember(text)
        engine.maintain()
        assert alice.recall("what does she drink?")
        assert engine.doctor().problems == [], engine.doctor().problems
with Everhold.open(str(folder / "b.db"), images={"max_memories": 1}, **options) as engine:  # usearch
    engine.scope().remember("Prefers tea")
    assert engine.scope().recall("tea")
"""


CONNECT_IN_A_CHILD = """
import subprocess
child = subprocess.run([sys.executable, "-c", "import socket; socket.socket().connect(('127.0.0.1', 9))"])
sys.exit(child.returncode)
"""


def run(program: str, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "LANG", "VIRTUAL_ENV")
    }
    source = f"import sys\n{REFUSE_CONNECTIONS}\nrefuse_connections(sys.argv[1])\n{program}"
    return subprocess.run(
        [sys.executable, "-c", source, platform.machine(), *arguments],
        env={**environment, "HOME": str(home), "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        cwd=home.parent,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.mark.model
def test_no_library_opens_a_connection_or_writes_to_the_home_folder(home: Path, tmp_path: Path) -> None:
    model = weights.find_folder(None, data=Path("/nonexistent"))
    process = run(USE_EVERYTHING, home, str(tmp_path), str(model))
    assert process.returncode == 0, process.stderr
    assert [str(path) for path in home.rglob("*")] == []


@pytest.mark.parametrize(
    "program",
    [
        "import socket; socket.socket().connect(('127.0.0.1', 9))",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
        "import socket; socket.getaddrinfo('example.org', 80)",
        CONNECT_IN_A_CHILD,
    ],
)
def test_the_check_notices_a_connection(home: Path, program: str) -> None:
    assert run(program, home).returncode in (-signal.SIGSYS, 256 - signal.SIGSYS)


def test_the_check_leaves_other_sockets_alone(home: Path) -> None:
    assert run("import socket; socket.socket(); pair = socket.socketpair(); pair[0].send(b'x')", home).returncode == 0


def test_the_check_notices_what_onnxruntime_writes_by_default(home: Path) -> None:
    run("import onnxruntime; onnxruntime.SessionOptions()", home)
    assert list(home.rglob("*"))
