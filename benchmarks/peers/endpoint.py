"""A local endpoint that answers OpenAI's `/v1/embeddings` from a table of precomputed vectors.

Embedding therefore takes the same, very short time for every client. A text that is not in the table is embedded when
it is requested.
"""

import base64
import json
import socket
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.protocol import DIMENSIONS, MODEL
from everhold.ports.embedder import Embedder


class VectorTable:
    """Holds the vector of each text, and the vector as JSON."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._encoded: dict[tuple[str, bool], str] = {}
        self._lock = Lock()
        self.unforeseen = 0
        """Texts that had to be embedded during a request."""

    def prepare(self, texts: Sequence[str]) -> None:
        """Embed the texts that are not in the table, and encode all of them."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        with self._lock:
            for text, vector in zip(missing, self._embedder.embed(missing) if missing else (), strict=True):
                self._vectors[text] = _make_placeholder() if vector is None else vector
        for text in texts:
            for packed in (False, True):
                self.encode_vector(text, packed=packed)

    def make_matrix(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.prepare(texts)
        return np.array([self._vectors[text] for text in texts], np.float32)

    def encode_vector(self, text: str, *, packed: bool) -> str:
        """Return a vector as JSON: a list of numbers, or their bytes in base64."""
        encoded = self._encoded.get((text, packed))
        if encoded is None:
            vector = self._vectors[text]
            value_to_encode = (
                base64.b64encode(vector.tobytes()).decode("ascii") if packed else [float(value) for value in vector]
            )
            encoded = self._encoded[text, packed] = json.dumps(value_to_encode)
        return encoded

    def make_answer(self, texts: Sequence[str], *, packed: bool) -> bytes:
        if not all((text, packed) in self._encoded for text in texts):
            self.unforeseen += sum((text, packed) not in self._encoded for text in texts)
            self.prepare(texts)
        rows = ",".join(
            f'{{"object":"embedding","index":{index},"embedding":{self.encode_vector(text, packed=packed)}}}'
            for index, text in enumerate(texts)
        )
        usage = '{"prompt_tokens":0,"total_tokens":0}'
        return f'{{"object":"list","model":"{MODEL}","data":[{rows}],"usage":{usage}}}'.encode()


def _make_placeholder() -> NDArray[np.float32]:
    """Return a vector for a text that the model cannot embed, because every client requires one."""
    vector = np.zeros(DIMENSIONS, np.float32)
    vector[0] = 1.0
    return vector


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "_Server"

    def do_POST(self) -> None:
        request: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.endswith("/embeddings"):
            self.send_error(404, f"only /v1/embeddings is answered here, not {self.path}")
            return
        texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
        body = self.server.table.make_answer(texts, packed=request.get("encoding_format") == "base64")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.server.requests += 1
        self.wfile.write(head.encode("ascii") + body)  # in one piece, so that no client waits for a second

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: a line for every request would be slower than the request."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    address_family = socket.AF_INET

    def __init__(self, table: VectorTable) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.table = table
        self.requests = 0


class Endpoint:
    """The endpoint, which is open within a `with` block."""

    def __init__(self, table: VectorTable) -> None:
        self._server = _Server(table)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def requests(self) -> int:
        return self._server.requests

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
