"""Takes away from this process what a query does not need: files, the network, programs, memory, time.

Limits of the system (`setrlimit`) hold everywhere. On Linux, Landlock leaves only the files of the data set to be
read, and a seccomp filter refuses sockets and programs. Both need no privileges and cannot be undone. A kernel without
them is no reason to fail: the guard and the engine's own settings still hold.
"""

import ctypes
import os
import platform
import resource
import signal
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

_MEGABYTE: Final = 1 << 20
_NO_NEW_PRIVILEGES, _SET_SECCOMP_FLAG_THREADS = 38, 1
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446  # the same on every architecture
_LANDLOCK_VERSION_FLAG: Final = 1
_READ_FILE: Final = 1 << 2
# How many rights over files, and over the network, each version of Landlock knows. A right that the kernel does not
# know must not be asked for.
_FILE_RIGHTS: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NETWORK_SINCE, _SCOPES_SINCE = 4, 6

# socket, connect, bind, listen, accept, accept4, execve, execveat, ptrace, kill, process_vm_writev, io_uring_setup,
# open_by_handle_at, unshare, setns, mount, bpf, userfaultfd, add_key, keyctl
_REFUSED_CALLS: Final[Mapping[str, tuple[int, tuple[int, ...]]]] = {
    "x86_64": (0xC000003E, (41, 42, 49, 50, 43, 288, 59, 322, 101, 62, 311, 425, 304, 272, 308, 165, 321, 323, 248,
                            250)),
    "aarch64": (0xC00000B7, (198, 203, 200, 201, 202, 242, 221, 281, 117, 129, 271, 425, 265, 97, 268, 40, 280, 282,
                             217, 219)),
}  # fmt: skip
_SECCOMP_CALL: Final = {"x86_64": 317, "aarch64": 277}


def set_first_limits(seconds: float, cpu_seconds: int, disk_megabytes: int) -> None:
    """Limit time, files and descriptors, before anything of the data set is opened.

    The alarm has no handler, so the kernel ends the process even if its parent is gone and Python is not running.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails instead
    signal.setitimer(signal.ITIMER_REAL, seconds)
    # At the soft limit the kernel sends SIGXCPU, which tells the reason; at the hard limit SIGKILL.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (disk_megabytes * _MEGABYTE, disk_megabytes * _MEGABYTE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    libc = _load_libc()
    if libc is not None:
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


class MemoryLimit:
    """The limit of this process's resident memory. Made before files are restricted, for it reads one of /proc."""

    def __init__(self, megabytes: int) -> None:
        self._bytes = megabytes * _MEGABYTE
        try:
            self._sizes: int | None = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # not Linux: everything that is mapped counts
            self._sizes = None

    def apply(self) -> None:
        """Limit the address space to what is mapped now and the memory that may still become resident.

        What is mapped and not resident, such as stacks of threads and reserved arenas, does not count.
        """
        mapped = resident = 0
        if self._sizes is not None:
            page = os.sysconf("SC_PAGE_SIZE")
            mapped, resident = (int(pages) * page for pages in os.read(self._sizes, 100).split()[:2])
        room = mapped + max(0, self._bytes - resident)
        resource.setrlimit(resource.RLIMIT_AS, (room, room))


def restrict_files(readable: Iterable[str], scratch: str | None = None) -> bool:
    """Allow this thread, and threads that it starts, only to read these files and to use the folder `scratch`.

    Return whether the kernel does so.
    """
    libc = _load_libc()
    version = -1 if libc is None else libc.syscall(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION_FLAG)
    if libc is None or version < 1:
        return False
    rights = (1 << _FILE_RIGHTS.get(version, 16)) - 1
    words = [rights]
    if version >= _NETWORK_SINCE:
        words.append(3)  # binding and connecting by TCP
    if version >= _SCOPES_SINCE:
        words.append(3)  # abstract sockets and signals to processes outside
    content = struct.pack(f"={len(words)}Q", *words)
    ruleset = libc.syscall(_LANDLOCK_CREATE, content, len(content), 0)
    if ruleset < 0:
        return False
    for path in readable:
        _allow(libc, ruleset, path, _READ_FILE)
    if scratch is not None:
        _allow(libc, ruleset, scratch, rights)
    done = libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0
    os.close(ruleset)
    return bool(done)


def _allow(libc: Any, ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        libc.syscall(_LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def refuse_calls() -> bool:
    """Refuse sockets, programs and the like in all threads. Return whether the kernel does so."""
    libc, machine = _load_libc(), platform.machine()
    if libc is None or machine not in _REFUSED_CALLS:
        return False
    architecture, numbers = _REFUSED_CALLS[machine]
    instructions = [
        (0x20, 0, 0, 4),  # load the architecture
        (0x15, 1, 0, architecture),
        (0x06, 0, 0, 0x80000000),  # another one: end the process
        (0x20, 0, 0, 0),  # load the number of the call
        (0x35, 0, 1, 0x40000000),  # calls of the x32 interface
        (0x06, 0, 0, 0x80000000),
    ]
    for position, number in enumerate(numbers):
        instructions.append((0x15, len(numbers) - position, 0, number))
    instructions.extend([(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050001)])  # allow; or fail with EPERM
    program = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(program, len(program))
    filter_program = ctypes.create_string_buffer(struct.pack("@HP", len(instructions), ctypes.addressof(buffer)))
    return bool(libc.syscall(_SECCOMP_CALL[machine], 1, _SET_SECCOMP_FLAG_THREADS, filter_program) == 0)


def _load_libc() -> Any:
    return ctypes.CDLL(None, use_errno=True) if platform.system() == "Linux" else None
