"""From a memory's text to the chunks that search sees."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from everhold.errors import InvalidInput, shown
from everhold.model import Chunk, Memory
from everhold.model.validation import nearest
from everhold.ports.embedder import Embedder, Vector
from everhold.ports.tokenizer import Tokenizer
from everhold.text.chunking import Span
from everhold.text.chunking import chunk as cut_text
from everhold.text.terms import QUESTION_MARK, terms

OwnVectors = Mapping[str, Vector]
"""The vectors that a caller passes with a text, by the name of their model."""

FIRST_MODEL = ""
"""Stands for the name of the engine's first model."""

NO_VECTORS: OwnVectors = {}
_NOBODYS: Mapping[str, OwnVectors] = {}


@dataclass(frozen=True)
class Chunking:
    """The parts that turn text into chunks by one model; `also` are those of the other models that are written for."""

    embedder: Embedder
    tokenizer: Tokenizer
    tokens: int = 512
    overlap: int = 50
    also: tuple["Chunking", ...] = ()

    @property
    def models(self) -> dict[str, "Chunking"]:
        """The parts of each model by its name."""
        return {part.embedder.model: part for part in (self, *self.also)}


def name_models(vectors: OwnVectors, chunking: Chunking) -> OwnVectors:
    """Return a caller's vectors by the models' real names.

    InvalidInput if a model is unknown, or has another number of dimensions than its vector.
    """
    known = chunking.models
    named: dict[str, Vector] = {}
    for name, vector in vectors.items():
        model = name or chunking.embedder.model
        if model not in known:
            raise InvalidInput(f"vector is for unknown model {shown(name)}", value=name, remedy=nearest(name, known))
        dimensions = known[model].embedder.dimensions
        if len(vector) != dimensions:
            raise InvalidInput(
                f"vector has {len(vector):,} numbers, and model {model!r} has {dimensions:,} dimensions",
                value=len(vector),
                remedy=f"pass {dimensions:,} numbers",
            )
        named[model] = vector
    return named


def chunks_of(
    memories: Sequence[Memory], chunking: Chunking, vectors: Mapping[str, OwnVectors] = _NOBODYS
) -> list[list[Chunk]]:
    """Return each memory's chunks by every model; `vectors` are callers' own, by the id of the memory."""
    own = chunks_for_one_model(memories, chunking, vectors)
    for part in chunking.also:
        others = chunks_for_one_model(memories, part, vectors)
        own = [mine + theirs for mine, theirs in zip(own, others, strict=True)]
    return own


def chunks_for_one_model(
    memories: Sequence[Memory], chunking: Chunking, vectors: Mapping[str, OwnVectors] = _NOBODYS
) -> list[list[Chunk]]:
    """Return each memory's chunks. All texts are embedded together."""
    spans = [spans_of(memory.text, chunking) for memory in memories]
    pieces = [memory.text[span.start : span.end] for memory, own in zip(memories, spans, strict=True) for span in own]
    speakers = [memory.speaker for memory, own in zip(memories, spans, strict=True) for _ in own]
    said = [f"{who}: {piece}" if who else piece for who, piece in zip(speakers, pieces, strict=True)]
    if vectors:
        owners = [memory.id for memory, own in zip(memories, spans, strict=True) for _ in own]
        embedded = _embed_rest(said, [vectors.get(owner, NO_VECTORS) for owner in owners], chunking.embedder)
    else:
        embedded = chunking.embedder.embed(said) if said else []
    rows = iter(zip(pieces, embedded, strict=True))
    return [
        [_row(memory, at, span, *next(rows), chunking.embedder) for at, span in enumerate(own)]
        for memory, own in zip(memories, spans, strict=True)
    ]


def _embed_rest(texts: Sequence[str], vectors: Sequence[OwnVectors], embedder: Embedder) -> list[Vector | None]:
    """Return the vector of each text: the caller's, or else the embedder's."""
    given = [own.get(embedder.model) for own in vectors]
    rest = [text for text, vector in zip(texts, given, strict=True) if vector is None]
    embedded = iter(embedder.embed(rest) if rest else ())
    return [next(embedded) if vector is None else vector for vector in given]


def rewrite_chunks(
    memory: Memory, earlier: Sequence[Chunk], chunking: Chunking, vectors: OwnVectors = NO_VECTORS
) -> Iterator[Chunk]:
    """Yield the chunks of a memory whose text is that of `earlier` chunks.

    They keep their spans and vectors, so that a vector that a caller passed is not lost when something else changes.
    `vectors` replace those of their models. A model that has no chunk yet gets its own.
    """
    for model, part in chunking.models.items():
        if not any(chunk.model == model for chunk in earlier):
            yield from chunks_for_one_model([memory], part, {memory.id: vectors})[0]
    for chunk in earlier:
        vector = vectors.get(chunk.model)
        values = {
            **chunk.__dict__,
            "revision": memory.revision,
            "terms": _terms_of(memory, chunk.chunk_index, memory.text[chunk.span_start : chunk.span_end]),
            "known_from": memory.updated_at,
            "known_to": None,
        }
        if vector is not None:
            values |= {"dimensions": len(vector), "vector": _pack(vector)}
        yield Chunk.trusted(values)


def spans_of(text: str, chunking: Chunking) -> list[Span]:
    return cut_text(text, chunking.tokenizer, limit=chunking.tokens, overlap=chunking.overlap) if text.strip() else []


def _row(memory: Memory, at: int, span: Span, piece: str, vector: Vector | None, embedder: Embedder) -> Chunk:
    return Chunk.trusted(
        {
            "organization_id": memory.organization_id,
            "user_id": memory.user_id or "",
            "owner_id": memory.id,
            "model": embedder.model,
            "revision": memory.revision,
            "chunk_index": at,
            "span_start": span.start,
            "span_end": span.end,
            "terms": _terms_of(memory, at, piece),
            "dimensions": embedder.dimensions if vector is not None else 0,
            "vector": None if vector is None else _pack(vector),
            # an imported memory was known when it was made; a revised text is known since it was revised
            "known_from": memory.updated_at if memory.revision else memory.created_at,
        }
    )


def _terms_of(memory: Memory, at: int, piece: str) -> str:
    """Return the terms of a chunk; those of the first one include the memory's aliases."""
    words = terms(piece)
    if piece.rstrip().endswith(QUESTION_MARK):
        words.append(QUESTION_MARK)
    if at == 0:
        for alias in memory.aliases:
            words += terms(alias)
    return " ".join(words)


def _pack(vector: Vector) -> bytes:
    return vector.astype("<f2").tobytes()
