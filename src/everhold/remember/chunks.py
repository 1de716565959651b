"""Make the chunks by which a memory, or another searchable entity, is found."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from everhold.errors import InvalidInput, ModelError, format_value
from everhold.model import Chunk, Memory
from everhold.model.base import Entity
from everhold.model.memory import LONG_TERM, REPEATABLE_KINDS
from everhold.model.searchable import SEARCHABLE_BY_CLASS_NAME, Searchable
from everhold.model.validation import suggest_name
from everhold.ports.embedder import Embedder, Vector
from everhold.ports.tokenizer import Tokenizer
from everhold.text.chunking import Span, split_into_chunks
from everhold.text.own_name import is_assistant, name_user
from everhold.text.terms import QUESTION_MARK, extract_terms
from everhold.values import Value, value_class

# The vectors that a caller passes with a text, by model name.
CallerVectors = Mapping[str, Vector]

# The name under which a caller passes a vector for the engine's first model without naming that model.
FIRST_MODEL = ""

NO_VECTORS: CallerVectors = {}
# The callers' vectors by the id of their entity, if no caller passed any.
NO_CALLER_VECTORS: Mapping[str, CallerVectors] = {}

# The name that callers give as speaker for the user of any scope.
_USER_ROLE = "user"

# The usual number of letters in a token of English text.
_USUAL_LETTERS = 4

# A text of at most this many letters may be one chunk without counting its tokens: it has no more tokens than letters,
# and every model accepts this many tokens.
_SURE_LETTERS = 500


def hide_nothing(_: Entity) -> bool:
    """Return False for every entity: no text is encrypted."""
    return False


@value_class
class Chunking(Value):
    """The embedder, tokenizer and sizes that turn text into chunks for one model.

    `also` has the chunking of each further model of the store.
    """

    embedder: Embedder
    tokenizer: Tokenizer
    tokens: int = 64
    overlap: int = 16
    also: tuple["Chunking", ...] = ()
    hides_text: Callable[[Entity], bool] = hide_nothing
    """Returns whether an entity's text is encrypted. Such an entity is found by its key and aliases only."""

    @property
    def models(self) -> dict[str, "Chunking"]:
        """The chunking of each model, by model name."""
        return {part.embedder.model: part for part in (self, *self.also)}


def assign_to_models(vectors: CallerVectors, chunking: Chunking) -> CallerVectors:
    """Return a caller's vectors by model name, with FIRST_MODEL replaced by the name of that model.

    Raise InvalidInput if a model is unknown, or if a vector does not have its model's number of dimensions.
    """
    chunking_by_model = chunking.models
    vectors_by_model: dict[str, Vector] = {}
    for name, vector in vectors.items():
        model = name or chunking.embedder.model
        if model not in chunking_by_model:
            raise InvalidInput(
                f"vector is for unknown model {format_value(name)}",
                value=name,
                remedy=suggest_name(name, chunking_by_model),
            )
        dimensions = chunking_by_model[model].embedder.dimensions
        if len(vector) != dimensions:
            raise InvalidInput(
                f"vector has {len(vector):,} numbers, and model {model!r} has {dimensions:,} dimensions",
                value=len(vector),
                remedy=f"pass {dimensions:,} numbers",
            )
        vectors_by_model[model] = vector
    return vectors_by_model


def make_chunks(
    owners: Sequence[Entity], chunking: Chunking, vectors: Mapping[str, CallerVectors] = NO_CALLER_VECTORS
) -> list[list[Chunk]]:
    """Return the chunks of each entity for every model; `vectors` are the caller's, by the id of the entity.

    All entities must be of the same kind. A kind without vectors has one set of chunks, which belongs to no model.
    """
    chunks_by_owner = make_chunks_for_model(owners, chunking, vectors)
    if owners and not _find_kind(owners[0]).has_vectors:
        return chunks_by_owner
    for part in chunking.also:
        further_chunks = make_chunks_for_model(owners, part, vectors)
        chunks_by_owner = [chunks + further for chunks, further in zip(chunks_by_owner, further_chunks, strict=True)]
    return chunks_by_owner


def make_chunks_or_words(owners: Sequence[Entity], chunking: Chunking) -> list[list[Chunk]]:
    """Return the chunks of each entity, without vectors if a model fails, so that the entity can be stored anyway."""
    try:
        return make_chunks(owners, chunking)
    except ModelError:
        disabled = [_disable_vectors(part) for part in chunking.also]
        return make_chunks(owners, replace(_disable_vectors(chunking), also=tuple(disabled)))


def _disable_vectors(chunking: Chunking) -> Chunking:
    return replace(chunking, embedder=_NoVectors(chunking.embedder.model, chunking.embedder.dimensions), also=())


@value_class
class _NoVectors(Value):
    """An embedder that returns no vectors, in place of one that fails."""

    model: str
    dimensions: int

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [None] * len(texts)


def make_chunks_for_model(
    owners: Sequence[Entity], chunking: Chunking, vectors: Mapping[str, CallerVectors] = NO_CALLER_VECTORS
) -> list[list[Chunk]]:
    """Return the chunks of each entity for one model."""
    if not owners:
        return []
    kind = _find_kind(owners[0])
    if any(map(chunking.hides_text, owners)):
        return [_make_chunks_alone(owner, chunking, vectors) for owner in owners]
    if kind.chunk_tokens is not None:
        chunking = replace(chunking, tokens=kind.chunk_tokens)
    texts = [kind.text(owner) for owner in owners]
    spans = [find_spans(text, chunking) for text in texts]
    pieces = [
        text[span.start : span.end] for text, owner_spans in zip(texts, spans, strict=True) for span in owner_spans
    ]
    if kind.has_vectors:
        piece_vectors = _embed(owners, kind, spans, pieces, chunking.embedder, vectors)
    else:
        piece_vectors = [None] * len(pieces)
    # All texts of all entities are embedded in one call, and the vectors come back in the order of the pieces.
    pieces_with_vectors = iter(zip(pieces, piece_vectors, strict=True))
    return [
        [
            _make_chunk(kind, owner, index, span, *next(pieces_with_vectors), chunking.embedder)
            for index, span in enumerate(owner_spans)
        ]
        for owner, owner_spans in zip(owners, spans, strict=True)
    ]


def _make_chunks_alone(owner: Entity, chunking: Chunking, vectors: Mapping[str, CallerVectors]) -> list[Chunk]:
    """Return the chunks of one entity.

    If its text is encrypted, return one chunk with the terms of its key and aliases, or none if it has neither.
    """
    if not chunking.hides_text(owner):
        return make_chunks_for_model([owner], chunking, vectors)[0]
    kind = _find_kind(owner)
    # The chunk has no vector: one of the text would reveal much of it, and one of the names alone would make different
    # secrets look alike.
    key = owner.__dict__.get("key") or ""
    chunk = _make_chunk(kind, owner, 0, Span(0, 0), key, None, chunking.embedder)
    return [chunk] if chunk.terms else []


def _embed(
    owners: Sequence[Entity],
    kind: Searchable,
    spans: Sequence[Sequence[Span]],
    pieces: Sequence[str],
    embedder: Embedder,
    vectors: Mapping[str, CallerVectors],
) -> Sequence[Vector | None]:
    """Return the vector of each piece."""
    piece_owners = [owner for owner, owner_spans in zip(owners, spans, strict=True) for _ in owner_spans]
    inputs = [_make_input(kind, owner, piece) for owner, piece in zip(piece_owners, pieces, strict=True)]
    if not vectors:
        return embedder.embed(inputs) if inputs else []
    return _embed_missing(inputs, [vectors.get(owner.id, NO_VECTORS) for owner in piece_owners], embedder)


def _make_input(kind: Searchable, owner: Entity, piece: str) -> str:
    """Return the text to embed for a piece of an entity's text.

    The name of a speaker is embedded with the words, except in a plain memory of a user: it was said by the user,
    whatever name it carries, unless the name is a word for an assistant.
    """
    values, speaker = owner.__dict__, kind.get_value(owner, "speaker")
    if kind.kind == "memory" and values["user_id"] is not None and values["kind"] not in REPEATABLE_KINDS:
        # The weights of recall are fitted to texts with the speaker "user", which is a role and no name.
        speaker = speaker if speaker == _USER_ROLE or is_assistant(speaker) else None
        piece = name_user(piece, values["content"])
    return f"{speaker}: {piece}" if speaker else piece


def _embed_missing(texts: Sequence[str], vectors: Sequence[CallerVectors], embedder: Embedder) -> list[Vector | None]:
    """Return the vector of each text: the caller's if there is one, else the embedder's."""
    caller_vectors = [vectors_by_model.get(embedder.model) for vectors_by_model in vectors]
    texts_to_embed = [text for text, vector in zip(texts, caller_vectors, strict=True) if vector is None]
    made_vectors = iter(embedder.embed(texts_to_embed) if texts_to_embed else ())
    return [next(made_vectors) if vector is None else vector for vector in caller_vectors]


def rewrite_chunks(
    memory: Memory, earlier_chunks: Sequence[Chunk], chunking: Chunking, vectors: CallerVectors = NO_VECTORS
) -> Iterator[Chunk]:
    """Yield new chunks for a memory that has the same text as when it had the `earlier_chunks`.

    The new chunks keep the spans and vectors, so that a vector that a caller passed is not lost when another field
    changes. `vectors` replaces the vectors of the models that it names. For a model without earlier chunks, and for an
    encrypted text, the chunks are made from the memory instead.
    """
    if chunking.hides_text(memory):
        for part in chunking.models.values():
            yield from _make_chunks_alone(memory, part, NO_CALLER_VECTORS)
        return
    for model, part in chunking.models.items():
        if not any(chunk.model == model for chunk in earlier_chunks):
            yield from make_chunks_for_model([memory], part, {memory.id: vectors})[0]
    for chunk in earlier_chunks:
        vector = vectors.get(chunk.model)
        values = {
            **chunk.__dict__,
            "namespace": memory.namespace,
            "revision": memory.revision,
            "terms": _join_terms(memory.aliases, chunk.chunk_index, memory.text[chunk.span_start : chunk.span_end]),
            "known_from": memory.updated_at,
            "known_to": None,
        }
        if vector is not None:
            values |= {"dimensions": len(vector), "vector": _pack(vector)}
        yield Chunk.build_unchecked(values)


def find_spans(text: str, chunking: Chunking) -> list[Span]:
    """Return the spans of a text's chunks. A short ASCII text is one span."""
    # The tokens of a short text are not counted: that would take longer than storing it.
    if len(text) <= min(chunking.tokens * _USUAL_LETTERS, _SURE_LETTERS) and text.isascii():
        return [Span(len(text) - len(text.lstrip()), len(text.rstrip()))] if text.strip() else []
    return (
        split_into_chunks(text, chunking.tokenizer, limit=chunking.tokens, overlap=chunking.overlap)
        if text.strip()
        else []
    )


def _make_chunk(
    kind: Searchable, owner: Entity, index: int, span: Span, piece: str, vector: Vector | None, embedder: Embedder
) -> Chunk:
    """Return the chunk of one piece of an entity's text, with its terms and its vector."""
    values = owner.__dict__
    return Chunk.build_unchecked(
        {
            "organization_id": owner.organization_id,
            "user_id": values.get("user_id") or "",
            "owner_id": owner.id,
            "owner_kind": kind.kind,
            "namespace": values.get("namespace", LONG_TERM),
            "model": embedder.model if kind.has_vectors else "",
            "revision": values.get("revision", 0),
            "chunk_index": index,
            "span_start": span.start,
            "span_end": span.end,
            "terms": _join_terms(kind.get_value(owner, "aliases") or (), index, piece),
            "dimensions": embedder.dimensions if vector is not None else 0,
            "vector": None if vector is None else _pack(vector),
            "score": values.get("score"),
            # An imported entity has been known since its creation, and a revised text since its revision.
            "known_from": owner.updated_at if values.get("revision") or kind.has_links else owner.created_at,
        }
    )


def _find_kind(owner: Entity) -> Searchable:
    return SEARCHABLE_BY_CLASS_NAME[type(owner).__name__]


def _join_terms(aliases: Sequence[str], index: int, piece: str) -> str:
    """Return the terms of a chunk; those of the first chunk include the owner's aliases."""
    words = extract_terms(piece)
    if piece.rstrip().endswith(QUESTION_MARK):
        words.append(QUESTION_MARK)
    if index == 0:
        for alias in aliases:
            words += extract_terms(alias)
    return " ".join(words)


def _pack(vector: Vector) -> bytes:
    # Embedders and `read_vector` have rounded to half precision already, so this loses nothing.
    return vector.astype("<f2").tobytes()
