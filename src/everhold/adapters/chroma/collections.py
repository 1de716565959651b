"""The calls to Chroma's own API. This module runs in a separate process for Chroma.

Chroma never embeds or downloads anything: Everhold passes the vectors and sets no embedding function. Telemetry is off.
"""

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any

import chromadb
import httpx
from chromadb.config import Settings
from chromadb.errors import AuthorizationError, ChromaAuthError, ChromaError, InvalidArgumentError, RateLimitError

from everhold.adapters.chroma.address import Address
from everhold.adapters.chroma.failures import ConnectionBroken, Damaged, ServerRestarted, Unavailable
from everhold.adapters.chroma.folder import Folder, MainFolder, lock
from everhold.adapters.chroma.search import ChunkEntry, Match
from everhold.errors import InvalidInput

_HNSW: dict[str, Any] = {"space": "cosine", "ef_construction": 128, "ef_search": 256, "max_neighbors": 16}
_TEMPORARY = (ChromaAuthError, AuthorizationError, RateLimitError)
_GET_BATCH = 10_000  # ids in one page
_METADATA = {"made_by": "everhold"}

# chromadb annotates its clients with a base class that has no `close`.
Client = Any


class Collections:
    """All collections of one address. In a folder, each collection has its own folder, so that it can be deleted."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock: IO[Any] | None = None
        self._server: Client | None = None
        self._idle_socket: socket.socket | None = None
        self._open_folders: dict[str, tuple[Client, Folder]] = {}

    def create(self, name: str) -> None:
        """Create an empty collection; an existing one of this name is deleted."""
        if self._address.folder is not None:
            self.drop(name)
            self._open(name, is_new=True)
        with self._use_client(name) as client:
            if name == self._address.main_collection and self._address.folder is None:
                _drop_own_collection(client, name)
            client.create_collection(name, embedding_function=None, configuration={"hnsw": _HNSW}, metadata=_METADATA)

    def count(self, name: str) -> int:
        with self._use_collection(name) as collection:
            return int(collection.count())

    def write(self, name: str, entries: Sequence[ChunkEntry]) -> None:
        """Add the entries that are missing."""
        with self._use_collection(name) as collection:
            existing = set(collection.get(ids=[entry.id for entry in entries], include=[])["ids"])
            _upsert(collection, [entry for entry in entries if entry.id not in existing])

    def replace(self, name: str, organization_id: str, owner_ids: Sequence[str], entries: Sequence[ChunkEntry]) -> None:
        """Replace all entries of these owners."""
        with self._use_collection(name) as collection:
            _upsert(collection, entries)
            where: Any = {"$and": [{"organization_id": organization_id}, {"owner_id": {"$in": list(owner_ids)}}]}
            current_ids = {entry.id for entry in entries}
            stored_ids = collection.get(where=where, include=[])["ids"]
            outdated_ids = [entry_id for entry_id in stored_ids if entry_id not in current_ids]
            if outdated_ids:
                collection.delete(ids=outdated_ids)

    def list_ids(self, name: str, organization_id: str) -> list[str]:
        """Return the ids of all entries of an organization."""
        with self._use_collection(name) as collection:
            return _list_ids(collection, where={"organization_id": organization_id})

    def find_unreachable(self, name: str, dimensions: int) -> list[str]:
        """Return the ids of the entries that no search finds."""
        with self._use_collection(name) as collection:
            ids = _list_ids(collection)
            if not ids:
                return []
            # A search for as many entries as there are visits every entry that can be reached.
            result = collection.query(query_embeddings=[[1.0] * dimensions], n_results=len(ids), include=[])
            return sorted({*ids} - {*result["ids"][0]})

    def remove(self, name: str, ids: Sequence[str]) -> None:
        with self._use_collection(name) as collection:
            collection.delete(ids=list(ids))

    def nearest(
        self,
        name: str,
        vector: Any,
        limit: int,
        where: Mapping[str, Any] | None = None,
        where_document: Mapping[str, Any] | None = None,
    ) -> list[Match]:
        """Return the nearest entries that meet the conditions, best first."""
        conditions: dict[str, Any] = {"where": where, "where_document": where_document}
        with self._use_collection(name) as collection:
            result: Any = collection.query(
                query_embeddings=[vector],
                n_results=limit,
                include=["distances", "documents", "metadatas"],
                **{key: value for key, value in conditions.items() if value},
            )
        columns = (result["ids"][0], result["distances"][0], result["documents"][0], result["metadatas"][0])
        rows = zip(*columns, strict=True)
        return [Match(name, float(distance), text or "", dict(data or {})) for name, distance, text, data in rows]

    def drop(self, name: str) -> None:
        """Delete a collection, if it exists."""
        if self._address.folder is not None:
            self._require_lock()
            client, folder = self._open_folders.pop(name, (None, self._find_folder(name)))
            if client is not None:
                client.close()
            folder.remove()
            return
        with self._use_client(name) as client:
            if name in [collection.name for collection in client.list_collections()]:
                client.delete_collection(name)

    def close(self) -> None:
        """Close every folder and write its digests. A damaged folder gets none, so it is not opened again."""
        for client, folder in self._open_folders.values():
            try:
                folder.check()
                client.close()
                folder.sign()
                folder.close()
            except (Damaged, ChromaError, OSError):
                continue
        self._open_folders.clear()

    # connections

    @contextmanager
    def _use_collection(self, name: str) -> Iterator[Any]:
        with self._use_client(name) as client:
            yield client.get_collection(name, embedding_function=None)

    @contextmanager
    def _use_client(self, name: str) -> Iterator[Client]:
        """Yield a client for one collection. Chroma's errors are translated here and nowhere else."""
        try:
            if self._address.folder is None:
                yield self._connect_server()
                return
            client, folder = self._open_folders.get(name) or self._open(name, is_new=False)
            folder.check()
            yield client
            folder.sign()
        except _TEMPORARY as error:
            raise Unavailable(str(error)) from error
        except (InvalidArgumentError, ValueError, TypeError) as error:
            raise InvalidInput(f"Chroma refused the request: {error}", remedy="correct the query") from error
        except (ChromaError, OSError) as error:
            raise Damaged(f"Chroma failed: {error}") from error
        except httpx.HTTPError as error:
            self._idle_socket = self._server = None
            raise ConnectionBroken(f"{self._address.url} does not answer ({type(error).__name__})") from error

    def _connect_server(self) -> Client:
        """Return the client of the server. Raise ServerRestarted if the server closed the idle socket to it."""
        if self._idle_socket is not None and _is_closed(self._idle_socket):
            self._idle_socket = self._server = None
            raise ServerRestarted(f"{self._address.url} has closed its connections")
        if self._server is None or self._idle_socket is None:
            try:
                self._idle_socket = socket.create_connection((self._address.host, self._address.port), timeout=5)
                self._idle_socket.setblocking(False)
                self._server = chromadb.HttpClient(
                    host=self._address.host,
                    port=self._address.port,
                    ssl=self._address.tls,
                    settings=Settings(anonymized_telemetry=False),
                )
            except (ValueError, ChromaError, OSError) as error:
                self._idle_socket = self._server = None
                raise Unavailable(f"{self._address.url} does not answer ({error})") from error
        return self._server

    def _open(self, name: str, *, is_new: bool) -> tuple[Client, Folder]:
        self._require_lock()
        folder = self._find_folder(name)
        folder.create() if is_new else folder.open()
        try:
            client = chromadb.PersistentClient(path=folder.path, settings=Settings(anonymized_telemetry=False))
        except (ChromaError, ValueError, OSError) as error:
            raise Damaged(f"{folder.path} cannot be opened: {error}") from error
        folder.sign()
        self._open_folders[name] = (client, folder)
        return client, folder

    def _find_folder(self, name: str) -> Folder:
        assert self._address.folder is not None
        is_main = name == self._address.main_collection
        return MainFolder(self._address.folder) if is_main else Folder(self._address.folder / name)

    def _require_lock(self) -> None:
        if self._lock is None and self._address.folder is not None:
            self._lock = lock(self._address.folder)


def _drop_own_collection(client: Client, name: str) -> None:
    """Delete a collection of Everhold. Raise Unavailable if another program created it."""
    for collection in client.list_collections():
        if collection.name == name:
            if (collection.metadata or {}).get("made_by") != _METADATA["made_by"]:
                raise Unavailable(f"the server has a collection {name!r} of another program; rename it")
            client.delete_collection(name)


def _is_closed(idle_socket: socket.socket) -> bool:
    try:
        return not idle_socket.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _list_ids(collection: Any, **conditions: Any) -> list[str]:
    ids: list[str] = []
    while True:
        page = collection.get(**conditions, include=[], limit=_GET_BATCH, offset=len(ids))["ids"]
        ids += page
        if len(page) < _GET_BATCH:
            return ids


def _upsert(collection: Any, entries: Sequence[ChunkEntry]) -> None:
    if entries:
        collection.upsert(
            ids=[entry.id for entry in entries],
            embeddings=[entry.vector for entry in entries],
            documents=[entry.document for entry in entries],
            metadatas=[entry.metadata for entry in entries],
        )
