"""A DynamoDB for tests: moto's HTTP server in a process of its own.

It keeps everything in memory and enforces few of AWS's limits; what is sent to it is held to them by our own code.
"""

import re
import subprocess
import sys
import time
from types import TracebackType
from typing import Final, Self
from urllib.request import Request, urlopen

START_SECONDS: Final = 60.0
CREDENTIALS: Final = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
_CODE: Final = """
import copy, functools, io, sys, threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from moto.core import responses
from moto.core.serialize import BaseJSONSerializer
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.table import Table
from moto.server import create_backend_app
from werkzeug.test import create_environ, run_wsgi_app

copies, plain = {}, {"S", "N", "BOOL", "NULL"}

def all_or_none(self, actions):
    copies.clear()
    return transact(self, actions)

def kept(self, memo):
    if self.name not in copies:
        made = copies[self.name] = copy.copy(self)
        made.items = defaultdict(dict, {key: dict(value) for key, value in self.items.items()})
    return copies[self.name]

def in_partition(self, hash_key, *given, **more):
    everything = self.items
    self.items = {hash_key: everything[hash_key]} if hash_key in everything else {}
    try:
        return query(self, hash_key, *given, **more)
    finally:
        self.items = everything

def as_it_is(self, serialized, value, shape, key):
    if key and shape.name == "AttributeValue" and type(value) is dict and value.keys() <= plain:
        serialized[key] = value
    else:
        serialize(self, serialized, value, shape, key)

Table.__deepcopy__, query, Table.query = kept, Table.query, in_partition
transact, DynamoDBBackend.transact_write_items = DynamoDBBackend.transact_write_items, all_or_none
serialize = BaseJSONSerializer._serialize_type_structure
BaseJSONSerializer._serialize_type_structure = as_it_is
responses.method_names_from_class = functools.cache(responses.method_names_from_class)
always = create_environ(method="POST")
apps, turn = {name: create_backend_app(name) for name in ("dynamodb", "moto_api")}, threading.Lock()

class Handler(BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm, wbufsize = "HTTP/1.1", True, -1

    def do_POST(self):
        body = io.BytesIO(self.rfile.read(int(self.headers["Content-Length"] or 0)))
        given = {"HTTP_" + name.upper().replace("-", "_"): value for name, value in self.headers.items()}
        environ = {**always, **given, "PATH_INFO": self.path.partition("?")[0], "wsgi.input": body}
        environ |= {name: given.get(f"HTTP_{name}", "") for name in ("CONTENT_TYPE", "CONTENT_LENGTH")}
        with turn:
            app = apps["moto_api" if self.path.startswith("/moto-api") else "dynamodb"]
            parts, status, headers = run_wsgi_app(app, environ, buffered=True)
        answer = b"".join(parts)
        self.send_response_only(int(status.split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("port", server.server_port, flush=True)
sys.stdin.read()
"""
"""One request after the other: by itself moto lets readers see half of a transaction, which DynamoDB does not. And by
itself it copies every item for every action of a transaction, where which there were before the first is enough, since
items are replaced and not changed; for every query it sorts the items of all partitions; and it looks for each kind of
attribute under several names in every value of an answer, and for its own methods at every request. Its server
closes the connection after each; this one keeps it."""


class DynamoServer:
    """One server with its own data; `close`, or leaving the `with` block, ends both."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts, or starts again empty on the same port."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE, str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        deadline = time.monotonic() + START_SECONDS
        while not (found := re.search(r"port (\d+)", self._process.stdout.readline())):
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError("moto's server did not start; is moto[server] installed?")
        self.port = int(found[1])

    def reset(self) -> None:
        """Forgets everything."""
        urlopen(Request(f"{self.url}/moto-api/reset", method="POST"), timeout=30).close()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None

    close = kill

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
