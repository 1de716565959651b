"""The process that Chroma has for itself: it does what it is told through a socket and ends when that is closed.

Chroma can end its process (a damaged index), never answer (a server that hangs: its client knows no timeout), or keep
a folder open until the process ends. None of that must happen to the engine.
"""

from multiprocessing.connection import Connection
from typing import Any

from everhold.adapters.chroma.address import Address
from everhold.adapters.chroma.collections import Collections
from everhold.adapters.chroma.failures import ConnectionBroken, Damaged, ServerRestarted, Unavailable
from everhold.errors import InvalidInput

VERBS = ("create", "count", "write", "replace", "list_ids", "remove", "nearest", "drop")


def main(descriptor: int) -> None:
    orders = Connection(descriptor)
    try:
        address: Address = orders.recv()
        collections = Collections(address)
        verbs = {name: getattr(collections, name) for name in VERBS}
        orders.send(("done", None))
    except (EOFError, OSError):
        return
    try:
        while True:
            verb, arguments = orders.recv()
            orders.send(_run_order(verbs[verb], arguments))
    except (EOFError, OSError):
        return  # the engine has closed the connection
    finally:
        collections.close()


def _run_order(verb: Any, arguments: tuple[Any, ...]) -> tuple[str, Any]:
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
