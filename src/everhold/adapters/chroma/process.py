"""The separate process that runs Chroma: it executes requests from a socket and ends when the socket is closed.

Chroma can crash its process (a damaged index), never answer (a server that hangs; the client has no timeout), or leave
a folder open until the process ends. In a separate process, none of this affects the engine.
"""

import ctypes
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from everhold.adapters.chroma.address import Address
from everhold.adapters.chroma.collections import Collections
from everhold.adapters.chroma.failures import ConnectionBroken, Damaged, ServerRestarted, Unavailable
from everhold.errors import InvalidInput

VERBS = ("create", "count", "write", "replace", "list_ids", "find_unreachable", "remove", "nearest", "drop")

_M_PERTURB = -6  # the option of glibc's `mallopt`
_FILLER = 0xFF


def main(descriptor: int) -> None:
    overwrite_freed_memory()
    requests = Connection(descriptor)
    try:
        address: Address = requests.recv()
        collections = Collections(address)
        verbs = {name: getattr(collections, name) for name in VERBS}
        requests.send(("done", None))
    except (EOFError, OSError):
        return
    try:
        while True:
            verb, arguments = requests.recv()
            requests.send(_execute(verbs[verb], arguments))
    except (EOFError, OSError):
        return  # the engine has closed the connection
    finally:
        collections.close()


def overwrite_freed_memory() -> None:
    """Let the C library overwrite memory when it is freed.

    Chroma writes uninitialized memory into its index files. Without this, the files could have texts of erased users.
    """
    with suppress(AttributeError, OSError):  # another C library than glibc
        ctypes.CDLL(None).mallopt(_M_PERTURB, _FILLER)


def _execute(verb: Any, arguments: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        return "done", verb(*arguments)
    except Damaged as error:
        return "damaged", str(error)
    except ConnectionBroken as error:
        return "broken off", str(error)
    except Unavailable as error:
        return "unavailable", str(error)
    except ServerRestarted as error:
        return "restarted", str(error)
    except InvalidInput as error:
        return "refused", str(error)
