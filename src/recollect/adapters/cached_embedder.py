"""An embedder that remembers."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from hashlib import sha256

from recollect.errors import InvalidSettings
from recollect.ports.embedder import Embedder, Vector

Found = Future[Vector | None]


class CachedEmbedder:
    """Asks another embedder for each text once, also when a text comes twice in one call or from two threads.

    It keeps the vectors of the `capacity` texts used last, by their digest; the texts are not kept.
    """

    def __init__(self, inner: Embedder, capacity: int) -> None:
        if capacity < 1:
            raise InvalidSettings(f"a cache of {capacity} vectors holds nothing; set it to 1 or more")
        self._inner = inner
        self._capacity = capacity
        self._vectors: OrderedDict[bytes, Found] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dimensions(self) -> int:
        return self._inner.dimensions

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        digests = [sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        futures, own = self._look_up(dict(zip(digests, texts, strict=True)))
        # Its own texts before waiting for those of others, or two calls could wait for each other.
        self._fill(own, futures)
        return [self._result(futures[digest], text) for digest, text in zip(digests, texts, strict=True)]

    def _look_up(self, texts: dict[bytes, str]) -> tuple[dict[bytes, Found], dict[bytes, str]]:
        """A future for each text, and the texts whose future is this call's to fill."""
        futures: dict[bytes, Found] = {}
        own: dict[bytes, str] = {}
        with self._lock:
            for digest, text in texts.items():
                future = self._vectors.get(digest)
                if future is None:
                    future = self._vectors[digest] = Future()
                    own[digest] = text
                self._vectors.move_to_end(digest)
                futures[digest] = future
            while len(self._vectors) > self._capacity:
                self._vectors.popitem(last=False)
        return futures, own

    def _fill(self, own: dict[bytes, str], futures: dict[bytes, Found]) -> None:
        if not own:
            return
        try:
            vectors = self._inner.embed(list(own.values()))
        except BaseException:
            with self._lock:
                for digest in own:
                    if self._vectors.get(digest) is futures[digest]:
                        del self._vectors[digest]
            for digest in own:
                futures[digest].cancel()
            raise
        for digest, vector in zip(own, vectors, strict=True):
            futures[digest].set_result(vector)

    def _result(self, future: Found, text: str) -> Vector | None:
        if not future.done():
            _wait(future)
        # The call that was to fill it failed, perhaps for another of its texts.
        return self.embed([text])[0] if future.cancelled() else future.result()


def _wait(future: Found) -> None:
    finished = threading.Event()
    future.add_done_callback(lambda _: finished.set())
    finished.wait()
