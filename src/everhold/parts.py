"""The parts of an engine, chosen once, here."""

import hashlib
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from everhold.access.buffer import AccessBuffer
from everhold.access.chain import seal
from everhold.access.signing import SigningRecords
from everhold.adapters.address import read_file, read_table, refuse_parameters, scheme_of
from everhold.adapters.cached_embedder import CachedEmbedder
from everhold.adapters.head_files import HeadFiles, read_key
from everhold.adapters.in_memory import InMemoryRecords
from everhold.adapters.in_process import InProcessSessions
from everhold.adapters.minilm import MiniLM
from everhold.adapters.minilm.install import install
from everhold.adapters.portable.scanned_vectors import ScannedVectors
from everhold.adapters.portable.scanned_words import ScannedWords
from everhold.adapters.sqlite import SqliteOptions, SqliteRecords, SqliteWords
from everhold.adapters.usearch import UsearchVectors
from everhold.embedding import (
    BesideModel,
    EmbeddingParts,
    add_beside,
    add_cache,
    find_missing_embedder,
    find_seeker,
    make_beside_embedders,
    make_caller_embedder,
    make_embedder,
    make_former_embedder,
    make_seeker,
    mark_beside,
    prepare_beside,
)
from everhold.errors import InvalidSettings, MissingExtra
from everhold.model import EmbeddingModel
from everhold.ports.candidates import Candidates
from everhold.ports.embedder import Embedder
from everhold.ports.language_model import LanguageModel
from everhold.ports.log_heads import SignedHeads
from everhold.ports.records import Records
from everhold.ports.session_cache import SessionCache
from everhold.ports.thesaurus import NO_THESAURUS, Thesaurus
from everhold.ports.tokenizer import Tokenizer
from everhold.recall.pipeline import Seeker
from everhold.remember.chunks import Chunking, chunks_for_one_model
from everhold.remember.pipeline import Keeper
from everhold.remember.reading import Reading
from everhold.remember.scope_rows import ScopeRows
from everhold.sessions.host import Host
from everhold.sessions.secret import load_secret
from everhold.settings import Settings
from everhold.upkeep.reembedding import Reembedding
from everhold.upkeep.serving import retired_models, serving_model

if TYPE_CHECKING:
    from everhold.adapters.files import FileBlobs


@dataclass
class Parts:
    """Everything an engine is made of. Only a change of the embedding model exchanges any of it."""

    settings: Settings
    records: Records
    keeper: Keeper
    seeker: Seeker
    access: AccessBuffer
    host: Host
    heads: SignedHeads | None = None
    reembedding: Reembedding | None = None
    language_model: LanguageModel | None = None
    beside: dict[str, BesideModel] = field(default_factory=dict)
    """The models kept beside the first one, by name."""
    model_problems: Callable[[], list[str]] = list
    """Returns what is wrong with the embedding model's files."""
    is_closed: bool = False
    _closing: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def is_changing_model(self) -> bool:
        """Return whether everything is being embedded again by another first model."""
        return self.reembedding is not None and self.reembedding.is_running

    def find_seeker(self, model: str | None) -> Seeker:
        """Return what searches by a model; by the one that serves if it is None."""
        return find_seeker(model, self.seeker, self.beside, self.keeper.chunking.embedder.model)

    def clear_images(self) -> None:
        """Drop what is held in memory for searching, of all models."""
        for seeker in (self.seeker, *(beside.seeker for beside in self.beside.values())):
            seeker.images.clear()

    def close(self) -> None:
        """Close every part. A second call waits for the first; if that was interrupted, it closes the rest."""
        with self._closing:
            if not self.is_closed:
                stop = [self.reembedding.stop] if self.reembedding is not None else []
                stop += [beside.filling.stop for beside in self.beside.values()]
                parts = (self.access.close, self.seeker.candidates.close, self.host.cache.close, self.records.close)
                _do_all(*stop, *parts)
                self.is_closed = True


def build(settings: Settings, embedder: Embedder | None = None, also: Sequence[Embedder] = ()) -> Parts:
    """An engine's parts; `embedder` is the caller's and takes the place of the model that the settings name.

    `also` are the caller's embedders of models beside it, besides those that the settings name.
    """
    records, candidates = open_store(settings)
    try:
        if embedder is not None:
            chosen = make_caller_embedder(embedder)
        else:
            chosen = find_missing_embedder(settings, records) or EmbeddingParts(*make_embedder(settings))
        cached = add_cache(settings, chosen.embedder)
        beside = [*make_beside_embedders(settings), *map(make_caller_embedder, also)]
        parts = assemble(
            settings, records, candidates, cached, chosen.tokenizer, thesaurus=chosen.thesaurus, beside=beside
        )
    except BaseException:
        _do_all(candidates.close, records.close)
        raise
    if isinstance(chosen.embedder, MiniLM):
        parts.model_problems = chosen.embedder.problems
    return parts


def assemble(
    settings: Settings,
    records: Records,
    candidates: Candidates,
    embedder: Embedder,
    tokenizer: Tokenizer,
    former: Callable[[EmbeddingModel], Embedder] | None = None,
    thesaurus: Thesaurus = NO_THESAURUS,
    beside: Sequence[EmbeddingParts] = (),
) -> Parts:
    """An engine's parts around a store and an embedder. `former` makes the embedder of a model that still serves."""
    language_model = make_language_model(settings)
    heads = make_heads(settings)
    if heads is not None:
        records = SigningRecords(records, heads.key)
    chosen = settings.embedding
    chunking = Chunking(embedder, tokenizer, chosen.chunk_tokens, chosen.chunk_overlap)
    if beside:
        chunking = add_beside(settings, chunking, beside)
    scope_rows = ScopeRows(records, strict=settings.strict_scopes, timezone=settings.timezone)
    reading = Reading(settings.remember.resolve, settings.remember.extract, ZoneInfo(settings.timezone))
    drop = embedder.clear if isinstance(embedder, CachedEmbedder) else _drop_nothing
    keeper = Keeper(records, chunking, scope_rows, settings.text_bytes, settings.interface, reading, drop)
    seeker = make_seeker(settings, records, candidates, embedder, thesaurus)
    host = Host(records, scope_rows, make_session_cache(settings, records), settings.text_bytes, settings.interface)
    access = AccessBuffer(
        records,
        seconds=settings.log.flush_seconds,
        strict=settings.log.mode == "strict",
        interface=settings.interface,
        after=partial(seal, records, heads),
    )
    parts = Parts(settings, records, keeper, seeker, access, host, heads, language_model=language_model)
    try:
        if beside:
            parts.beside = prepare_beside(settings, seeker, records, chunking, beside, parts.is_changing_model)
        _serve(parts, embedder, former)
        for model in parts.beside.values():
            model.filling.start()
    except BaseException:  # otherwise its thread would go on
        access.close()
        raise
    return parts


def _serve(parts: Parts, embedder: Embedder, former: Callable[[EmbeddingModel], Embedder] | None) -> None:
    """Serve with the store's model, and begin changing it if the settings name another."""
    serving = serving_model(parts.records, embedder.model, embedder.dimensions)
    if parts.beside:
        mark_beside(parts.records, parts.beside, serving)
    if serving.name != embedder.model:
        _change_model(parts, serving, former or partial(make_former_embedder, parts.settings))
    elif serving.dimensions != embedder.dimensions or retired_models(parts.records):
        _reembed(parts, serving, lambda: None)  # what an earlier change did not finish: dropping the old chunks


def _drop_nothing() -> None:
    """Do nothing: this embedder keeps no vectors."""


def make_heads(settings: Settings) -> SignedHeads | None:
    """Return the signed heads of the access log; None without a key."""
    secret = settings.log.key.get_secret_value() if settings.log.key is not None else None
    key = read_key(settings.log.key_file, secret)
    return None if key is None else HeadFiles(settings.log.heads or _choose_heads_folder(settings), key)


def _choose_heads_folder(settings: Settings) -> Path:
    """Return the default folder for this store's heads, one for each store address."""
    place = _place(settings)
    if scheme_of(settings.storage) in ("sqlite", "duckdb"):
        place = str(read_file(settings.storage).path.resolve())
    return settings.data / "log-heads" / hashlib.sha256(place.encode()).hexdigest()[:32]


def _change_model(parts: Parts, serving: EmbeddingModel, former: Callable[[EmbeddingModel], Embedder]) -> None:
    """Let the store's model serve and be written for, until everything has been embedded by the chosen one."""
    final_keeper, final_seeker = parts.keeper, parts.seeker
    chunking = final_keeper.chunking
    if serving.name in parts.beside:  # it is written for already, and stays
        parts.seeker = parts.beside[serving.name].seeker
    else:
        old = former(serving)
        written = (replace(chunking, embedder=old, also=()), *chunking.also)
        parts.keeper = replace(final_keeper, chunking=replace(chunking, also=written))
        parts.seeker = make_seeker(parts.settings, parts.records, final_seeker.candidates, old, final_seeker.thesaurus)

    def switch() -> None:
        parts.keeper, parts.seeker = final_keeper, final_seeker

    _reembed(parts, serving, switch)


def _reembed(parts: Parts, serving: EmbeddingModel, switched: Callable[[], None]) -> None:
    chunking = replace(parts.keeper.chunking, also=())
    embedder = chunking.embedder
    chosen = EmbeddingModel(name=embedder.model, dimensions=embedder.dimensions, status="building")
    cut = partial(chunks_for_one_model, chunking=chunking)
    keep_old = serving.name in parts.beside
    parts.reembedding = Reembedding(parts.records, cut, old=serving, new=chosen, switched=switched, keep_old=keep_old)
    parts.reembedding.start()


def open_store(settings: Settings) -> tuple[Records, Candidates]:
    scheme = scheme_of(settings.storage)
    maker = STORES.get(scheme) or _installed_store(scheme)
    if maker is None:
        known = ", ".join([*STORES, *entry_points(group=STORES_GROUP).names])
        raise InvalidSettings(f"no store for {scheme}:// (storage is {_place(settings)})", remedy=f"use {known}")
    if settings.blobs != "auto":
        from everhold.adapters.files import check_place  # takes a while

        check_place(settings.blobs)
    if settings.vectors != "auto":
        refuse_parameters(settings.vectors)
    return with_chosen_vectors(settings, *maker(settings))


def with_chosen_vectors(settings: Settings, records: Records, candidates: Candidates) -> tuple[Records, Candidates]:
    """The store with vectors searched where the settings say. What it would do by itself it does in their place."""
    if settings.vectors == "auto":
        return records, candidates
    try:
        from everhold.adapters.chroma import ChromaVectors, read_address

        chosen = ChromaVectors(
            records, candidates.vectors, read_address(settings.vectors), **settings.chroma.model_dump()
        )
    except BaseException:
        _do_all(candidates.close, records.close)
        raise
    return records, replace(
        candidates,
        vectors=chosen,
        close=lambda: _do_all(chosen.close, candidates.close),
        follow=chosen.follow,
        report=lambda: {**candidates.report(), **chosen.report()},
        problems=lambda: [*candidates.problems(), *chosen.problems()],
    )


def _do_all(*steps: Callable[[], None]) -> None:
    """One after the other, also those after one that fails."""
    with ExitStack() as left:
        for step in reversed(steps):
            left.callback(step)


def _installed_store(scheme: str) -> "Maker | None":
    """A store that another package brings: its entry point is named as the scheme and takes the storage's address."""
    for point in entry_points(group=STORES_GROUP, name=scheme):
        open_records = point.load()
        return lambda settings: _with_portable(open_records(settings.storage))
    return None


def _with_portable(records: Records) -> tuple[Records, Candidates]:
    """A store that proposes nothing by itself, and what proposes for it."""
    return records, Candidates(ScannedWords(records), ScannedVectors(records))


def _place(settings: Settings) -> str:
    """Where the store is, without who opens it."""
    return settings.storage.rpartition("@")[2]


def _sqlite(settings: Settings) -> tuple[Records, Candidates]:
    path, read_only = read_file(settings.storage)
    options = SqliteOptions(path=path, read_only=read_only, **settings.sqlite.model_dump())
    records = SqliteRecords(options)
    folder = options.path.with_name(options.path.name + ".vectors")
    vectors = UsearchVectors(records, folder)
    return records, Candidates(
        SqliteWords(records), vectors, vectors.close, problems=vectors.problems, drop_files=vectors.drop_files
    )


def _postgres(settings: Settings) -> tuple[Records, Candidates]:
    try:
        from everhold.adapters.postgres import PostgresCandidates, PostgresOptions, PostgresRecords, ReplicaReading
    except ImportError as error:
        raise MissingExtra(f"psycopg is not installed ({error.name})", remedy=_INSTALL.format("postgres")) from error
    records = PostgresRecords(PostgresOptions(url=settings.storage, **settings.postgres.model_dump()))
    if settings.postgres.replica_url is None:
        proposals = PostgresCandidates(records)
        return records, Candidates(proposals, proposals)
    try:
        replica = ReplicaReading(records, settings.postgres.replica_url)
    except BaseException:
        records.close()
        raise
    proposals = PostgresCandidates(replica)
    return records, Candidates(
        proposals, proposals, replica.close, report=replica.report, problems=replica.problems, records=replica
    )


def _duckdb(settings: Settings) -> tuple[Records, Candidates]:
    try:
        from everhold.adapters.duckdb import DuckdbOptions, DuckdbRecords
    except ImportError as error:
        raise MissingExtra(f"DuckDB is not installed ({error.name})", remedy=_INSTALL.format("duckdb")) from error
    path, read_only = read_file(settings.storage)
    return _with_portable(DuckdbRecords(DuckdbOptions(path, read_only, **settings.duckdb.model_dump())))


def _dynamodb(settings: Settings) -> tuple[Records, Candidates]:
    try:
        from everhold.adapters.dynamodb import DynamoOptions, DynamoRecords
    except ImportError as error:
        raise MissingExtra(f"boto3 is not installed ({error.name})", remedy=_INSTALL.format("dynamodb")) from error
    address = read_table(settings.storage, settings.dynamodb.endpoint)
    options = DynamoOptions(**{**settings.dynamodb.model_dump(), **address._asdict()})
    return _with_portable(DynamoRecords(options, make_blobs(settings)))


def make_blobs(settings: Settings) -> "FileBlobs":
    """Where large contents lie: as the settings say, or beside a store that is a file, or among this user's data."""
    from everhold.adapters.files import FileBlobs  # takes a while

    if settings.blobs != "auto":
        return FileBlobs(settings.blobs)
    if scheme_of(settings.storage) in ("sqlite", "duckdb"):
        path, _ = read_file(settings.storage)
        return FileBlobs(str(path.absolute().with_name(f"{path.name}.blobs")))
    return FileBlobs(str(settings.data / "blobs"))


def _in_memory(settings: Settings) -> tuple[Records, Candidates]:
    refuse_parameters(settings.storage)
    return _with_portable(InMemoryRecords())


Maker = Callable[[Settings], tuple[Records, Candidates]]
STORES_GROUP = "everhold.stores"
_INSTALL = "pip install 'everhold[{}]'"
STORES: dict[str, Maker] = {
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "postgres": _postgres,
    "duckdb": _duckdb,
    "dynamodb": _dynamodb,
    "memory": _in_memory,
}


def install_model(settings: Settings, progress: Callable[[str], None] | None) -> Path:
    return install(progress or (lambda _: None), data=settings.data)


def make_session_cache(settings: Settings, records: Records) -> SessionCache:
    chosen = settings.redis
    if settings.sessions == "auto":
        return InProcessSessions(ttl_seconds=chosen.ttl_seconds, history=chosen.history)
    from everhold.adapters.redis import RedisOptions, RedisSessions  # needs an extra

    return RedisSessions(RedisOptions(settings.sessions, **chosen.model_dump()), partial(load_secret, records))


def make_language_model(settings: Settings) -> LanguageModel | None:
    if settings.llm is None:
        return None
    from everhold.adapters.openai import ChatModel  # needs an extra

    key = settings.llm.api_key.get_secret_value() if settings.llm.api_key else None
    return ChatModel(settings.llm.url, settings.llm.model, api_key=key)
