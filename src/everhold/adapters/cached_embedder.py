"""An embedder that caches the vectors of another embedder."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import sha256

from everhold.errors import InvalidSettings
from everhold.ports.embedder import Embedder, Vector


class _EmbedCall:
    """One call of the inner embedder: `lock` is held while it runs, `vectors` are its results by digest.

    If the call fails or is interrupted, the lock is released without vectors, and waiting threads embed the texts.
    """

    __slots__ = ("lock", "vectors")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.vectors: Mapping[bytes, Vector | None] = {}


class CachedEmbedder:
    """Asks another embedder once for each cached text, even if it occurs twice in a call or in two threads.

    It keeps the vectors of the `capacity` most recently used texts under the texts' digests, not the texts.
    """

    def __init__(self, inner: Embedder, capacity: int) -> None:
        if capacity < 1:
            raise InvalidSettings(f"a cache of {capacity} vectors holds nothing", remedy="set it to 1 or more")
        self._inner = inner
        self._capacity = capacity
        self._vectors: OrderedDict[bytes, Vector | None] = OrderedDict()
        self._running: dict[bytes, _EmbedCall] = {}
        self._lock = threading.Lock()

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dimensions(self) -> int:
        return self._inner.dimensions

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        digests = [sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        vectors = self._find_vectors(dict(zip(digests, texts, strict=True)))
        return [vectors[digest] for digest in digests]

    def clear(self) -> None:
        """Drop every vector that is kept."""
        with self._lock:
            self._vectors.clear()

    def _find_vectors(self, texts: Mapping[bytes, str]) -> dict[bytes, Vector | None]:
        call = _EmbedCall()
        with call.lock:  # until it is released, other threads wait for this call's texts
            known_vectors, other_calls, own_texts = self._look_up(texts, call)
            # Embed this call's texts before waiting for other calls, or two calls could wait for each other. Call the
            # inner embedder even without texts, so that a damaged model raises instead of being hidden by the cache.
            vectors = self._inner.embed(list(own_texts.values()))
            if own_texts:
                call.vectors = dict(zip(own_texts, vectors, strict=True))
                self._store(call)
        known_vectors.update(call.vectors)
        for digest, other_call in other_calls.items():
            with other_call.lock:
                other_vectors = other_call.vectors
            if digest in other_vectors:
                known_vectors[digest] = other_vectors[digest]
            else:
                known_vectors.update(self._find_vectors({digest: texts[digest]}))
        return known_vectors

    def _look_up(
        self, texts: Mapping[bytes, str], call: _EmbedCall
    ) -> tuple[dict[bytes, Vector | None], dict[bytes, _EmbedCall], dict[bytes, str]]:
        """Return the known vectors, the running calls that will return others, and the texts for `call` to embed."""
        known_vectors: dict[bytes, Vector | None] = {}
        other_calls: dict[bytes, _EmbedCall] = {}
        own_texts: dict[bytes, str] = {}
        with self._lock:
            for digest, text in texts.items():
                if digest in self._vectors:
                    known_vectors[digest] = self._vectors[digest]
                    self._vectors.move_to_end(digest)
                    continue
                running_call = self._running.get(digest)
                if running_call is not None and running_call.lock.locked():
                    other_calls[digest] = running_call
                else:  # no thread embeds it; a call that failed or was interrupted may have left its entry
                    self._running[digest] = call
                    own_texts[digest] = text
        return known_vectors, other_calls, own_texts

    def _store(self, call: _EmbedCall) -> None:
        with self._lock:
            for digest, vector in call.vectors.items():
                self._vectors[digest] = vector
                self._running.pop(digest, None)
            while len(self._vectors) > self._capacity:
                self._vectors.popitem(last=False)
