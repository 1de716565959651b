"""Take away this process's rights to files, network and programs that a query does not need; limit memory and time.

Resource limits (`setrlimit`) apply on every system. On Linux, Landlock permits reading the files of the data set only,
and a seccomp filter refuses sockets and new programs. Both need no privileges and cannot be undone. A kernel without
them is not an error: the guard and the settings of the query engine still apply.
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
# Constants of the kernel's headers, under the names that they have there.
_PR_SET_NO_NEW_PRIVS, _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC = 38, 1, 1
_LANDLOCK_RULE_PATH_BENEATH: Final = 1
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446  # the same on every architecture
_LANDLOCK_VERSION_FLAG: Final = 1
_READ_FILE: Final = 1 << 2
# How many rights over files each version of Landlock knows, and the first versions with rights over the network and
# with scopes. The kernel refuses a ruleset that names a right it does not know.
_FILE_RIGHTS: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NETWORK_SINCE, _SCOPES_SINCE = 4, 6

# The architecture's number, and the numbers of refused system calls: socket, connect, bind, listen, accept, accept4,
# execve, execveat, ptrace, kill, process_vm_writev, io_uring_setup, open_by_handle_at, unshare, setns, mount, bpf,
# userfaultfd, add_key, keyctl
_REFUSED_CALLS: Final[Mapping[str, tuple[int, tuple[int, ...]]]] = {
    "x86_64": (0xC000003E, (41, 42, 49, 50, 43, 288, 59, 322, 101, 62, 311, 425, 304, 272, 308, 165, 321, 323, 248,
                            250)),
    "aarch64": (0xC00000B7, (198, 203, 200, 201, 202, 242, 221, 281, 117, 129, 271, 425, 265, 97, 268, 40, 280, 282,
                             217, 219)),
}  # fmt: skip
_SECCOMP_CALL: Final = {"x86_64": 317, "aarch64": 277}


def set_first_limits(seconds: float, cpu_seconds: int, disk_megabytes: int) -> None:
    """Limit time, file sizes and descriptors, before a file of the data set is opened.

    The alarm has no handler, so the kernel ends the process even if its parent is gone and Python is not running.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails instead
    signal.setitimer(signal.ITIMER_REAL, seconds)
    # At the soft limit the kernel sends SIGXCPU, by which the parent knows the reason; at the hard limit SIGKILL.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (disk_megabytes * _MEGABYTE, disk_megabytes * _MEGABYTE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    libc = _load_libc()
    if libc is not None:
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


class MemoryLimit:
    """The limit of this process's resident memory. Create it before `restrict_files`: it opens a file in /proc."""

    def __init__(self, megabytes: int) -> None:
        self._bytes = megabytes * _MEGABYTE
        try:
            self._statm: int | None = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # not Linux: all mapped memory counts
            self._statm = None

    def apply(self) -> None:
        """Limit the address space to what is mapped now and the memory that may still become resident.

        Memory that is mapped but not resident, such as stacks of threads and reserved arenas, does not count.
        """
        mapped = resident = 0
        if self._statm is not None:
            page = os.sysconf("SC_PAGE_SIZE")
            mapped, resident = (int(pages) * page for pages in os.read(self._statm, 100).split()[:2])
        limit = mapped + max(0, self._bytes - resident)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def restrict_files(readable: Iterable[str], scratch: str | None = None) -> bool:
    """Allow this thread, and threads that it starts, only to read these files and to use the folder `scratch`.

    Return False if the kernel cannot do so.
    """
    libc = _load_libc()
    version = -1 if libc is None else libc.syscall(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION_FLAG)
    if libc is None or version < 1:
        return False
    rights = (1 << _FILE_RIGHTS.get(version, 16)) - 1
    attributes = [rights]
    if version >= _NETWORK_SINCE:
        attributes.append(3)  # binding and connecting by TCP
    if version >= _SCOPES_SINCE:
        attributes.append(3)  # abstract sockets and signals to processes outside
    content = struct.pack(f"={len(attributes)}Q", *attributes)
    ruleset = libc.syscall(_LANDLOCK_CREATE, content, len(content), 0)
    if ruleset < 0:
        return False
    for path in readable:
        _allow(libc, ruleset, path, _READ_FILE)
    if scratch is not None:
        _allow(libc, ruleset, scratch, rights)
    is_restricted = libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0
    os.close(ruleset)
    return bool(is_restricted)


def _allow(libc: Any, ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", rights, descriptor)
        libc.syscall(_LANDLOCK_ADD, ruleset, _LANDLOCK_RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)


def refuse_calls() -> bool:
    """Refuse the system calls of `_REFUSED_CALLS` in all threads. Return False if the kernel cannot do so."""
    libc, machine = _load_libc(), platform.machine()
    if libc is None or machine not in _REFUSED_CALLS:
        return False
    architecture, numbers = _REFUSED_CALLS[machine]
    # A BPF program: (operation, jump if true, jump if false, operand); a jump skips that many instructions.
    instructions = [
        (0x20, 0, 0, 4),  # load the architecture
        (0x15, 1, 0, architecture),
        (0x06, 0, 0, 0x80000000),  # every other call ends the process
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
    flags = _SECCOMP_FILTER_FLAG_TSYNC  # for all threads
    return bool(libc.syscall(_SECCOMP_CALL[machine], _SECCOMP_SET_MODE_FILTER, flags, filter_program) == 0)


def _load_libc() -> Any:
    return ctypes.CDLL(None, use_errno=True) if platform.system() == "Linux" else None
