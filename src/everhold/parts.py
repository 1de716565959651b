"""Choose and assemble the parts of an engine. Modules that few processes need are imported inside functions."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from everhold.access.buffer import AccessBuffer
from everhold.adapters.cached_embedder import CachedEmbedder
from everhold.adapters.minilm import MiniLM
from everhold.arguments.protocols import require_protocol
from everhold.context.earlier import EarlierSummaries
from everhold.embedders import EmbeddingParts, begin_loading
from everhold.embedding import (
    BesideModel,
    add_beside,
    add_cache,
    find_missing_embedder,
    find_recall_deps,
    make_beside_embedders,
    make_caller_embedder,
    make_former_embedder,
    make_recall_deps,
    mark_beside,
    prepare_beside,
    report_embedding,
)
from everhold.errors import StoreUnavailable
from everhold.language_models import make_language_model, make_question_model
from everhold.maintenance.serving import ensure_serving_model, list_unused_models
from everhold.model import EmbeddingModel
from everhold.optional_parts import (
    encrypt_store,
    make_encryption,
    make_heads,
)
from everhold.ports.backup_targets import BackupTargets, NoBackupTargets
from everhold.ports.embedder import Embedder
from everhold.ports.language_model import LanguageModel
from everhold.ports.records import Records
from everhold.ports.search_indexes import SearchIndexes, VectorIndex, WordIndex
from everhold.ports.thesaurus import NO_THESAURUS, Thesaurus
from everhold.ports.tokenizer import Tokenizer
from everhold.progress import ReportProgress, ignore_progress
from everhold.recall.request import RecallDeps
from everhold.remember.chunks import Chunking, hide_nothing, make_chunks_for_model, make_chunks_or_words
from everhold.remember.deps import ReadingOptions, WriteDeps
from everhold.remember.scope_rows import ScopeRows
from everhold.schema.operations import Operation
from everhold.session_parts import SessionParts, make_session_deps
from everhold.settings import Settings
from everhold.stores import do_all, make_sql_views, open_store

if TYPE_CHECKING:
    from everhold.ask.language_model.calling import BoundedModel
    from everhold.ask.sources.cache import TableCache
    from everhold.encryption.deps import Encryption
    from everhold.episodes.deps import EpisodeDeps
    from everhold.events.subscription import Subscription
    from everhold.maintenance.reembed import MakeChunks
    from everhold.maintenance.reembedding import Reembedding
    from everhold.maintenance.schedule import MaintenanceThread
    from everhold.model import Message
    from everhold.ports.data_engine import DataEngine
    from everhold.ports.log_heads import SignedHeads
    from everhold.ports.sql_views import SqlViews
    from everhold.sessions.deps import SessionDeps
    from everhold.workspaces.deps import WorkspaceDeps


@dataclass(eq=False, repr=False)
class Parts:
    """All parts of an engine. They are only replaced when the embedding model changes."""

    settings: Settings
    records: Records
    write_deps: WriteDeps
    recall_deps: RecallDeps
    access: AccessBuffer
    sessions: SessionParts
    heads: "SignedHeads | None" = None
    reembedding: "Reembedding | None" = None
    maintenance: "MaintenanceThread | None" = None
    language_model: LanguageModel | None = None
    beside: dict[str, BesideModel] = field(default_factory=dict)
    """The additional models, by name."""
    model_problems: Callable[[], list[str]] = list
    """Returns the problems with the embedding model's files."""
    find_sql_views: "Callable[[], SqlViews | None]" = field(default=lambda: None, repr=False)
    """Returns the object that creates SQL views in the store's database, or None if the store cannot have views."""
    is_closed: bool = False
    encryption: "Encryption | None" = None
    backup_targets: BackupTargets = field(default_factory=NoBackupTargets)
    """The places of backups that the erasure of a user calls, so that the user's data is also erased there."""
    subscriptions: "list[Subscription]" = field(default_factory=list, repr=False)
    summaries: EarlierSummaries = field(default_factory=EarlierSummaries, repr=False)
    _closing: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def session_deps(self) -> "SessionDeps":
        """The dependencies of the session verbs."""
        return self.sessions.get()

    def is_changing_model(self) -> bool:
        """Return whether all texts are being embedded again because the first model was replaced."""
        return self.reembedding is not None and self.reembedding.is_running

    def find_recall_deps(self, model: str | None = None) -> RecallDeps:
        """Return the dependencies of a recall by a model; the default is the serving model."""
        return find_recall_deps(model, self.recall_deps, self.beside, self.write_deps.chunking.embedder.model)

    def embed_imported(self, organization: str, report: ReportProgress = ignore_progress) -> int:
        """Embed the memories of an organization that only have chunks of other models, and return their number."""
        from everhold.maintenance.reembed import fill_imported

        models = self.write_deps.chunking.models.values()
        return max(fill_imported(self.records, organization, *_make_chunk_maker(part), report) for part in models)

    def report_embedding(self, report: ReportProgress) -> "Parts":
        """Return the same parts with embedders that report their progress."""
        chunking = report_embedding(self.write_deps.chunking, report)
        return replace(self, write_deps=replace(self.write_deps, chunking=chunking))

    def journal_under(self, run_id: str) -> "Parts":
        """Return the same parts with all that they write journalled under a run of maintenance."""
        return replace(self, write_deps=replace(self.write_deps, run_id=run_id))

    @cached_property
    def count_tokens(self) -> Callable[[str], int]:
        """Return how many tokens a text costs in a prompt."""
        from everhold.context.counting import TokenCounter

        return TokenCounter(self.write_deps.chunking.tokenizer)

    @cached_property
    def workspace_deps(self) -> "WorkspaceDeps":
        """The dependencies of the verbs on workspaces."""
        from everhold.blob_places import make_workspace_deps

        return make_workspace_deps(self.settings, self.records, self.write_deps.scope_rows)

    @cached_property
    def data_engine(self) -> "DataEngine":
        """The engine that runs statements on uploaded data."""
        from everhold.adapters.data_engine import SandboxedDataEngine

        return SandboxedDataEngine()

    @cached_property
    def question_model(self) -> "BoundedModel | None":
        """The language model that is asked about questions on data, if there is one."""
        return make_question_model(self.settings)

    @cached_property
    def table_cache(self) -> "TableCache":
        """The cache of the tables about which questions were asked."""
        from everhold.ask.sources.cache import TableCache  # few processes ask

        return TableCache()

    @property
    def episode_deps(self) -> "EpisodeDeps":
        """The dependencies for building episodes. They are made at each use, because a change of model replaces the
        embedder."""
        from everhold.episodes.deps import EpisodeDeps

        chunking = self.write_deps.chunking
        return EpisodeDeps(
            self.records,
            self.count_tokens,
            partial(make_chunks_or_words, chunking=chunking),
            self.recall_deps.embedder.model,
            ZoneInfo(self.settings.timezone),
        )

    def update_episodes(self, messages: "Sequence[Message]", now: datetime, are_restored: bool) -> list[Operation]:
        """Return the operations that update episodes when messages are deleted, or with the flag restored."""
        from everhold.episodes.erasure import forget_messages, restore_messages

        make_operations = restore_messages if are_restored else forget_messages
        return make_operations(self.episode_deps, messages, now)

    def clear_images(self) -> None:
        """Drop the images of all models from memory."""
        for recall_deps in (self.recall_deps, *(beside.recall_deps for beside in self.beside.values())):
            recall_deps.images.clear()

    def add_subscription(self, subscription: "Subscription") -> None:
        """Start a subscription; closing the engine ends it."""
        with self._closing:
            if self.is_closed:
                raise StoreUnavailable("this engine has been closed", remedy="open it again")
            running = [other for other in self.subscriptions if other.is_running]
            self.subscriptions = [*running, subscription]
            subscription.start()

    def close(self) -> None:
        """Close every part. A second call waits for the first; if that was interrupted, it closes the rest."""
        with self._closing:
            if not self.is_closed:
                # Threads first and the records last: everything in between may still write to the records.
                stop = [subscription.close for subscription in self.subscriptions]
                stop += [thread.stop for thread in (self.maintenance, self.reembedding) if thread is not None]
                stop += [beside.filling.stop for beside in self.beside.values()]
                parts = (
                    self.access.close,
                    self.recall_deps.candidates.close,
                    self.sessions.close,
                    self.records.close,
                    *([self.data_engine.close] if "data_engine" in self.__dict__ else []),
                )
                do_all(*stop, *parts)
                self.is_closed = True


def build(
    settings: Settings,
    embedder: Embedder | None = None,
    also: Sequence[Embedder] = (),
    get_model: Callable[[], EmbeddingParts] | None = None,
) -> Parts:
    """Return an engine's parts. The caller's `embedder` replaces the model that the settings name.

    `also` are the caller's embedders of further models, in addition to those that the settings name. `get_model`
    returns the model that the settings name, if the caller has begun to load it.
    """
    records, candidates = open_store(settings)
    try:
        if embedder is not None:
            chosen = make_caller_embedder(embedder)
        else:
            chosen = find_missing_embedder(settings, records) or (get_model or begin_loading(settings))()
        cached = add_cache(settings, chosen.embedder)
        beside = [*make_beside_embedders(settings), *map(make_caller_embedder, also)]
        parts = assemble(
            settings, records, candidates, cached, chosen.tokenizer, thesaurus=chosen.thesaurus, beside=beside
        )
    except BaseException:  # also KeyboardInterrupt, which must not leave the store open
        do_all(candidates.close, records.close)
        raise
    if isinstance(chosen.embedder, MiniLM):
        parts.model_problems = chosen.embedder.find_problems
    return parts


def assemble(
    settings: Settings,
    records: Records,
    candidates: SearchIndexes,
    embedder: Embedder,
    tokenizer: Tokenizer,
    make_former: Callable[[EmbeddingModel], Embedder] | None = None,
    thesaurus: Thesaurus = NO_THESAURUS,
    beside: Sequence[EmbeddingParts] = (),
) -> Parts:
    """Return an engine's parts for a store and an embedder.

    `make_former` makes the embedder of a model that still serves.
    """
    _require_ports(records, candidates, embedder, tokenizer, thesaurus)
    language_model = make_language_model(settings)
    heads = make_heads(settings)
    find_sql_views = partial(make_sql_views, settings, records)
    encryption = make_encryption(settings, records)
    records, candidates = encrypt_store(encryption, records, candidates)
    records = _sign_lines(records, heads)
    chunking = add_beside(settings, _make_chunking(settings, embedder, tokenizer, encryption), beside)
    scope_rows = ScopeRows(records, strict=settings.strict_scopes, timezone=settings.timezone)
    reading = ReadingOptions(settings.remember.resolve, settings.remember.extract, ZoneInfo(settings.timezone))
    summaries = EarlierSummaries()
    clear_texts = partial(do_all, summaries.clear, *([embedder.clear] if isinstance(embedder, CachedEmbedder) else []))
    write_deps = WriteDeps(records, chunking, scope_rows, settings.text_bytes, settings.interface, reading, clear_texts)
    recall_deps = make_recall_deps(settings, records, candidates, embedder, thesaurus)
    make_deps = partial(make_session_deps, settings, records, scope_rows, encryption)
    sessions = SessionParts(lambda: _connect_sessions(parts, make_deps()))
    access = _make_access_buffer(settings, records, heads)
    parts = Parts(settings, records, write_deps, recall_deps, access, sessions, heads, summaries=summaries)
    parts.language_model = language_model
    parts.find_sql_views, parts.encryption = find_sql_views, encryption
    try:
        if settings.sessions != "auto":
            sessions.get()  # connect now, so that a wrong address of a server is reported when the engine is opened
        parts.beside = prepare_beside(settings, recall_deps, records, chunking, beside, parts.is_changing_model)
        _serve(parts, embedder, make_former)
    except BaseException:  # otherwise its thread would keep running
        access.close()
        raise
    return parts


def _sign_lines(records: Records, heads: "SignedHeads | None") -> Records:
    """Return the store with the lines of the access log signed, if there is a key."""
    if heads is None:
        return records
    from everhold.access.signing import SigningRecords

    return SigningRecords(records, heads.key)


def _make_chunking(
    settings: Settings, embedder: Embedder, tokenizer: Tokenizer, encryption: "Encryption | None"
) -> Chunking:
    chosen = settings.embedding
    hides_text = hide_nothing if encryption is None else encryption.fields.hides_text
    return Chunking(embedder, tokenizer, chosen.chunk_tokens, chosen.chunk_overlap, hides_text=hides_text)


def _connect_sessions(parts: Parts, session_deps: "SessionDeps") -> "SessionDeps":
    """Let session verbs index messages, and update episodes when messages are deleted."""
    if not parts.settings.index_messages:
        return replace(session_deps, update_summaries=parts.update_episodes)
    return replace(
        session_deps,
        update_summaries=parts.update_episodes,
        # `parts.write_deps` is read at each call, because a change of model replaces it.
        make_chunks=lambda message: make_chunks_or_words([message], parts.write_deps.chunking)[0],
    )


def _make_access_buffer(settings: Settings, records: Records, heads: "SignedHeads | None") -> AccessBuffer:
    def seal_log() -> None:
        from everhold.access.chain import seal

        seal(records, heads)

    return AccessBuffer(
        records,
        seconds=settings.log.flush_seconds,
        strict=settings.log.mode == "strict",
        interface=settings.interface,
        seal=seal_log,
    )


def _require_ports(
    records: Records, candidates: SearchIndexes, embedder: Embedder, tokenizer: Tokenizer, thesaurus: Thesaurus
) -> None:
    """Raise InvalidInput for a part that does not implement its port: the caller may have passed it."""
    require_protocol(records, Records, "the store")
    require_protocol(candidates.words, WordIndex, "the search by words")
    require_protocol(candidates.vectors, VectorIndex, "the search by vectors")
    require_protocol(embedder, Embedder, "the embedder")
    require_protocol(tokenizer, Tokenizer, "the tokenizer")
    require_protocol(thesaurus, Thesaurus, "the thesaurus")


def _serve(parts: Parts, embedder: Embedder, make_former: Callable[[EmbeddingModel], Embedder] | None) -> None:
    """Serve with the store's model, and begin the change to the settings' model if that is a different one."""
    serving = ensure_serving_model(parts.records, embedder.model, embedder.dimensions)
    if parts.beside:
        mark_beside(parts.records, parts.beside, serving)
    if serving.name != embedder.model:
        _change_model(parts, serving, make_former or partial(make_former_embedder, parts.settings))
    elif serving.dimensions != embedder.dimensions or list_unused_models(parts.records):
        _reembed(parts, serving, lambda: None)  # an earlier change has not deleted the old chunks
    for model in parts.beside.values():
        model.filling.start()


def _change_model(parts: Parts, serving: EmbeddingModel, make_former: Callable[[EmbeddingModel], Embedder]) -> None:
    """Let the store's model serve, and write chunks for it, until the chosen model has embedded everything."""
    final_write_deps, final_recall_deps = parts.write_deps, parts.recall_deps
    chunking = final_write_deps.chunking
    if serving.name in parts.beside:  # chunks of this model are written already, and it stays
        parts.recall_deps = parts.beside[serving.name].recall_deps
    else:
        old = make_former(serving)
        other_chunkings = (replace(chunking, embedder=old, also=()), *chunking.also)
        parts.write_deps = replace(final_write_deps, chunking=replace(chunking, also=other_chunkings))
        parts.recall_deps = make_recall_deps(
            parts.settings, parts.records, final_recall_deps.candidates, old, final_recall_deps.thesaurus
        )

    def switch() -> None:
        parts.write_deps, parts.recall_deps = final_write_deps, final_recall_deps

    _reembed(parts, serving, switch)


def _make_chunk_maker(chunking: Chunking) -> "tuple[MakeChunks, EmbeddingModel]":
    """Return the function that makes chunks of one model, and the model."""
    embedder = chunking.embedder
    model = EmbeddingModel(name=embedder.model, dimensions=embedder.dimensions, status="building")
    return partial(make_chunks_for_model, chunking=chunking), model


def _reembed(parts: Parts, serving: EmbeddingModel, on_switch: Callable[[], None]) -> None:
    from everhold.maintenance.reembedding import Reembedding

    chunking = replace(parts.write_deps.chunking, also=())
    make_chunks, model = _make_chunk_maker(chunking)
    keep_old = serving.name in parts.beside
    parts.reembedding = Reembedding(
        parts.records, make_chunks, old=serving, new=model, on_switch=on_switch, keep_old=keep_old
    )
    parts.reembedding.start()
