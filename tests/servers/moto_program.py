"""The program of DynamoServer: moto's DynamoDB behind a small HTTP server, with its slowest parts replaced.

The answers are those of moto; they are only computed faster. The argument is the port to listen on, or 0 for any port.
"""

import copy
import functools
import io
import sys
import threading
from collections import defaultdict
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

from moto.core import responses
from moto.core.request import Request
from moto.core.serialize import BaseJSONSerializer
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import Table
from moto.dynamodb.responses import DynamoHandler
from moto.server import create_backend_app
from werkzeug.test import create_environ, run_wsgi_app

URL = "http://dynamodb.test/"
PLAIN_TYPES = {"S", "N", "BOOL", "NULL"}
_copies: dict[str, Table] = {}

moto_transact = DynamoDBBackend.transact_write_items
moto_query = Table.query
moto_serialize = BaseJSONSerializer._serialize_type_structure
moto_cast = DynamoType.cast_value.fget
moto_equals = DynamoType.__eq__
moto_size = Item.size


def transact(backend: Any, actions: Any) -> Any:
    _copies.clear()
    return moto_transact(backend, actions)


def copy_table(table: Any, _: Any) -> Any:
    """Copy a table once per transaction. moto copies every item for every action; items are replaced, not changed."""
    if table.name not in _copies:
        table_copy = _copies[table.name] = copy.copy(table)
        table_copy.items = defaultdict(dict, {key: dict(value) for key, value in table.items.items()})
    return _copies[table.name]


def query_partition(table: Any, hash_key: Any, *arguments: Any, **options: Any) -> Any:
    """Query one partition. moto sorts the items of all partitions first."""
    items = table.items
    table.items = {hash_key: items[hash_key]} if hash_key in items else {}
    table.all_items = lambda: list(table.items[hash_key].values()) if table.items else []  # `query` sorts them itself
    try:
        return moto_query(table, hash_key, *arguments, **options)
    finally:
        table.items = items
        del table.all_items


def serialize(serializer: Any, serialized: Any, value: Any, shape: Any, key: Any) -> None:
    """Serialize plain attribute values directly. moto looks for every kind of attribute under several names."""
    if key and shape.name == "AttributeValue" and type(value) is dict and value.keys() <= PLAIN_TYPES:
        serialized[key] = value
    else:
        moto_serialize(serializer, serialized, value, shape, key)


def cast(value: Any) -> Any:
    """Return strings at once, because most compared values are strings and sorting compares many."""
    return value.value if value.type == "S" else moto_cast(value)


def equals(value: Any, other: Any) -> bool:
    if value.type == "S" and other.type == "S":
        return bool(value.value == other.value)
    return bool(moto_equals(value, other))


def measure_item(item: Any) -> int:
    """Return the size of an item. It is measured once, because a query needs the size of every item that it reads."""
    if "measured_size" not in item.__dict__:
        item.measured_size = moto_size(item)
    return int(item.measured_size)


DynamoDBBackend.transact_write_items = transact
Table.__deepcopy__, Table.query = copy_table, query_partition
BaseJSONSerializer._serialize_type_structure = serialize
DynamoType.cast_value, DynamoType.__eq__ = property(cast), equals
Item.size = measure_item
responses.method_names_from_class = functools.cache(responses.method_names_from_class)
responses.gen_amzn_requestid_long = lambda headers: headers.setdefault("x-amzn-requestid", "test")

ENVIRONMENT = create_environ(method="POST")
MOTO_API = create_backend_app("moto_api")
_request_lock = threading.Lock()


class Handler(StreamRequestHandler):
    """Answers one request at a time, because moto would let readers see half of a transaction, unlike DynamoDB.

    The connection stays open; moto's own server closes it after each request. Requests for DynamoDB go directly to
    moto's handler, because Flask and the parser of Python's HTTP server take longer than most answers.
    """

    disable_nagle_algorithm, wbufsize = True, -1

    def handle(self) -> None:
        while request_line := self.rfile.readline():
            path = request_line.split()[1].decode().partition("?")[0]
            environment = {**ENVIRONMENT, "PATH_INFO": path, **self._read_headers()}
            body = self.rfile.read(int(environment.get("CONTENT_LENGTH") or 0))
            environment["wsgi.input"] = io.BytesIO(body)
            handle = answer_moto_api if path.startswith("/moto-api") else dispatch
            with _request_lock:
                status, headers, answer = handle(environment)
            content = answer if isinstance(answer, bytes) else answer.encode()
            fields = {**headers, "content-length": len(content), "connection": "keep-alive"}
            lines = [f"HTTP/1.1 {status} -", *(f"{name}: {value}" for name, value in fields.items())]
            self.wfile.write("\r\n".join([*lines, "", ""]).encode("latin-1") + content)
            self.wfile.flush()

    def _read_headers(self) -> dict[str, str]:
        """Return the headers of a request by the names that they have in a WSGI environment."""
        headers: dict[str, str] = {}
        while line := self.rfile.readline().strip():
            name, _, value = line.decode("latin-1").partition(":")
            name = name.upper().replace("-", "_")
            headers[name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"] = value.strip()
        return headers


def dispatch(environment: dict[str, Any]) -> tuple[int, dict[str, Any], str | bytes]:
    request = Request(environment)
    status, headers, answer = DynamoHandler.dispatch(request, URL, request.headers)
    return int(status), headers, answer


def answer_moto_api(environment: dict[str, Any]) -> tuple[int, dict[str, Any], bytes]:
    parts, status, headers = run_wsgi_app(MOTO_API, environment, buffered=True)
    return int(status.split()[0]), {name.lower(): value for name, value in headers.items()}, b"".join(parts)


class MotoServer(ThreadingTCPServer):
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 128


def main() -> None:
    """Serve until standard input ends, which it does when the process that started this one ends."""
    server = MotoServer(("127.0.0.1", int(sys.argv[1])), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("port", server.server_address[1], flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    main()
