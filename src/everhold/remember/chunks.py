"""From a memory's text to the chunks that search sees."""

from collections.abc import Sequence
from dataclasses import dataclass

from everhold.model import Chunk, Memory
from everhold.model.announcement import image_of
from everhold.ports.embedder import Embedder, Vector
from everhold.ports.tokenizer import Tokenizer
from everhold.text.chunking import Span, chunk
from everhold.text.terms import QUESTION_MARK, terms


@dataclass(frozen=True)
class Chunking:
    """The parts that turn text into chunks; `also` is the model that still serves while this one takes over."""

    embedder: Embedder
    tokenizer: Tokenizer
    tokens: int = 512
    overlap: int = 50
    also: "Chunking | None" = None


def chunks_of(memories: Sequence[Memory], chunking: Chunking) -> list[list[Chunk]]:
    """Each memory's chunks, for the model that still serves too."""
    own = chunks_for_one_model(memories, chunking)
    if chunking.also is None:
        return own
    return [mine + theirs for mine, theirs in zip(own, chunks_of(memories, chunking.also), strict=True)]


def chunks_for_one_model(memories: Sequence[Memory], chunking: Chunking) -> list[list[Chunk]]:
    """Each memory's chunks. All texts are embedded together."""
    spans = [spans_of(memory.text, chunking) for memory in memories]
    pieces = [memory.text[span.start : span.end] for memory, own in zip(memories, spans, strict=True) for span in own]
    speakers = [memory.speaker for memory, own in zip(memories, spans, strict=True) for _ in own]
    said = [f"{who}: {piece}" if who else piece for who, piece in zip(speakers, pieces, strict=True)]
    vectors = iter(zip(pieces, chunking.embedder.embed(said), strict=True)) if pieces else iter(())
    return [
        [_row(memory, at, span, *next(vectors), chunking.embedder) for at, span in enumerate(own)]
        for memory, own in zip(memories, spans, strict=True)
    ]


def spans_of(text: str, chunking: Chunking) -> list[Span]:
    return chunk(text, chunking.tokenizer, limit=chunking.tokens, overlap=chunking.overlap) if text.strip() else []


def _row(memory: Memory, at: int, span: Span, piece: str, vector: Vector | None, embedder: Embedder) -> Chunk:
    words = terms(piece)
    if piece.rstrip().endswith(QUESTION_MARK):
        words.append(QUESTION_MARK)
    if at == 0:
        for alias in memory.aliases:
            words += terms(alias)
    return Chunk.trusted(
        {
            "organization_id": memory.organization_id,
            "image": image_of(memory),
            "owner_id": memory.id,
            "model": embedder.model,
            "revision": memory.revision,
            "chunk_index": at,
            "span_start": span.start,
            "span_end": span.end,
            "terms": " ".join(words),
            "dimensions": embedder.dimensions if vector is not None else 0,
            "vector": None if vector is None else vector.astype("<f2").tobytes(),
            "known_from": memory.updated_at,
        }
    )
