"""all-MiniLM-L6-v2: 384 dimensions, English, at most 510 tokens a text."""

import logging
import os
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.adapters.minilm import graph, weights
from everhold.adapters.minilm.similar_words import SimilarWords
from everhold.adapters.minilm.verification import FileCheck, ModelVerification
from everhold.background import BackgroundValue
from everhold.errors import EverholdError, InvalidInput, ModelDamaged
from everhold.files import make_private_folder
from everhold.interrupts import GuardedEvent
from everhold.ports.embedder import Vector, round_to_half_precision
from everhold.ports.thesaurus import Thesaurus
from everhold.retries import RetryPolicy, TryAgain, retry
from everhold.settings import switch_telemetry_off

if TYPE_CHECKING:
    # Importing these takes a quarter of a second, so only opening the model imports them.
    import onnxruntime
    import tokenizers

SPECIAL_TOKENS = 2
# The model has 512 positions for tokens.
MAX_TOKENS = 512 - SPECIAL_TOKENS

# A longer unknown word, such as a key of 200 characters, counts with this many letters.
MAX_WORD_LETTERS = 16

# The maximum size of a batch; tokens include padding. Larger batches need more memory and are not faster.
BATCH_TEXTS = 32
BATCH_TOKENS = 2048

# The number of texts that are tokenised together and sorted by length before they are divided into batches.
TOKENISED_TOGETHER = 1024

_RETRIES = RetryPolicy(attempts=3)
# The tokenizer's import waits for that of onnxruntime for at most this long.
_IMPORT_SECONDS = 1.0

logger = logging.getLogger(__name__)


class MiniLM:
    """The default `Embedder`, and the `Tokenizer` of its model. May be used by several threads at once."""

    def __init__(self, weights: Path | None, *, data: Path, cache: Path, threads: int | None = None) -> None:
        """`weights` is the folder of the model, or None to search for it; without `threads`, all cores are used."""
        files = _find_model(weights, data=data, cache=cache)
        # Loading takes a tenth of a second, during which the caller can open its store.
        imported = GuardedEvent()
        load_model = partial(_load_model, files, threads or os.cpu_count() or 1, imported)
        self._loading = BackgroundValue("everhold-model", load_model)
        self._tokenizer_loading = BackgroundValue(
            "everhold-tokenizer", partial(_load_tokenizer, files.folder, imported)
        )
        self._thesaurus = SimilarWords(files.folder, files.cache, self._find_token_number)

    @cached_property
    def _loaded(self) -> "_LoadedModel":
        loaded = self._loading.wait()
        self._tokenizer_loading.wait()  # a damaged tokenizer makes the model unusable
        return loaded

    @cached_property
    def _tokenizer(self) -> "tokenizers.Tokenizer":
        return self._tokenizer_loading.wait()  # before the session, which takes longer

    def _find_token_number(self, word: str) -> int | None:
        number: int | None = self._tokenizer.token_to_id(word)
        return number

    @cached_property
    def _unknown_token(self) -> int | None:
        return self._find_token_number("[UNK]")

    @cached_property
    def _is_word_token(self) -> NDArray[np.bool_]:
        """For each token of the vocabulary, whether it is a word, a number or a part of one, and not punctuation."""
        is_word = np.zeros(self._tokenizer.get_vocab_size(), np.bool_)
        is_word[[number for token, number in self._tokenizer.get_vocab().items() if token[-1].isalnum()]] = True
        return is_word

    @property
    def model(self) -> str:
        return weights.MODEL

    @property
    def dimensions(self) -> int:
        return graph.DIMENSIONS

    @property
    def special_tokens(self) -> int:
        return SPECIAL_TOKENS

    @property
    def thesaurus(self) -> Thesaurus:
        """The words that mean nearly the same to the model."""
        return self._thesaurus

    def offsets(self, text: str) -> list[tuple[int, int]]:
        encoding = self._tokenizer.encode(_replace_surrogates(text), add_special_tokens=False)
        offsets: list[tuple[int, int]] = encoding.offsets
        return offsets

    def find_problems(self) -> list[str]:
        """Wait for the verification of the model's files and return what is wrong with them."""
        try:
            damage = self._loaded.verification.wait()
        except EverholdError as error:
            return [str(error)]
        return [] if damage is None else [damage]

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        self._loaded.verification.require_intact()
        vectors: list[Vector | None] = [None] * len(texts)
        for start in range(0, len(texts), TOKENISED_TOGETHER):
            tokenised = self._tokenise(texts[start : start + TOKENISED_TOGETHER], start)
            for batch in _make_batches(tokenised):
                rows = round_to_half_precision(self._run([tokenised[index] for index in batch]))
                for index, row in zip(batch, rows, strict=True):
                    vectors[start + index] = row
        return vectors

    def _tokenise(self, texts: Sequence[str], start: int) -> dict[int, NDArray[np.int64]]:
        """Return the token ids of each text that the model understands, by the position of the text.

        `start` is the number of texts before these, for the message of an error.
        """
        encodings = self._tokenizer.encode_batch_fast([_replace_surrogates(text) for text in texts])
        tokenised = {}
        for index, encoding in enumerate(encodings):
            ids = np.array(encoding.ids, np.int64)
            if len(ids) > MAX_TOKENS + SPECIAL_TOKENS:
                raise InvalidInput(
                    f"text {start + index} has {len(ids) - SPECIAL_TOKENS} tokens, but {self.model} reads at"
                    f" most {MAX_TOKENS}",
                    remedy="cut it with everhold.text.chunking.split_into_chunks first",
                )
            if self._understands(texts[index], ids):
                tokenised[index] = ids
        return tokenised

    def _understands(self, text: str, ids: NDArray[np.int64]) -> bool:
        """Return whether the text has more known than unknown tokens, and more letters in the known ones.

        Counting tokens is not enough: "นัดประชุมวันศุกร์ 10:00 ห้อง A" has only two unknown ones and three known ones.
        """
        is_unknown = ids[1:-1] == self._unknown_token
        if not is_unknown.any():
            return len(is_unknown) > 0
        is_known = self._is_word_token[ids[1:-1]]
        letters = np.minimum([end - start for start, end in self.offsets(text)], MAX_WORD_LETTERS)
        return bool(is_known.sum() > is_unknown.sum() and letters[is_known].sum() > letters[is_unknown].sum())

    def _run(self, batch: list[NDArray[np.int64]]) -> NDArray[np.float32]:
        padded = np.full((len(batch), max(map(len, batch))), graph.PAD, np.int64)
        for row, ids in zip(padded, batch, strict=True):
            row[: len(ids)] = ids
        vectors: NDArray[np.float32] = self._loaded.session.run([graph.OUTPUT], {graph.INPUT: padded})[0]
        return vectors


class _ModelFiles(NamedTuple):
    """The folder of a model, the cache if it is usable, and the graph that is built from the model."""

    folder: Path
    cache: Path | None
    graph: graph.BuiltGraph


class _LoadedModel(NamedTuple):
    """A session that is ready to run, and the verification of the model's files."""

    session: "onnxruntime.InferenceSession"
    verification: ModelVerification


def _find_model(configured: Path | None, *, data: Path, cache: Path) -> _ModelFiles:
    """Return the files of the model, which were verified now or earlier. The graph is built if it is not cached."""
    folder = weights.find_folder(configured, data=data)
    try:
        private_cache = make_private_folder(cache / "minilm")
        receipts = weights.Receipts(private_cache)
        weights.verify(folder, receipts)
        return _ModelFiles(folder, private_cache, graph.load_cached(folder, private_cache, receipts))
    except OSError as error:
        logger.warning("the model is built at every start; the cache %s is unusable: %s", cache, error)
        return _ModelFiles(folder, None, graph.BuiltGraph(graph.build(graph.read_tensors(folder)).SerializeToString()))


def _load_model(files: _ModelFiles, threads: int, imported: GuardedEvent) -> _LoadedModel:
    """Load the graph, and begin to verify the large files. `imported` is set when onnxruntime is imported."""
    folder, private_cache, built = files
    switch_telemetry_off()
    try:
        import onnxruntime  # noqa: F401
    finally:
        imported.set()
    if private_cache is None:
        return _LoadedModel(_create_session(built, threads), ModelVerification([]))
    session, constants_stream = _load_unchanged(built, threads)
    receipts, tensors = weights.Receipts(private_cache), folder / weights.TENSORS
    cached_graph, cached_constants = graph.find_cache_files(private_cache)
    checks = [
        FileCheck(
            cached_constants,
            constants_stream,
            built.constants_sha256,
            _REBUILD,
            lambda: receipts.discard(cached_graph, cached_constants),
        ),
        FileCheck(
            tensors,
            FileIO(tensors),
            weights.PUBLISHED[weights.TENSORS],
            f"delete it and {weights.REMEDY}",
            lambda: receipts.discard(tensors),
        ),
    ]
    return _LoadedModel(session, ModelVerification(checks))


_REBUILD = "open the store again to build it from the weights, then embed what was stored since this process began"


def _load_unchanged(built: graph.BuiltGraph, threads: int) -> tuple["onnxruntime.InferenceSession", FileIO]:
    """Load a cached graph and return it with its open constants. Raise ModelDamaged if they keep being replaced."""
    constants = built.constants
    assert constants is not None

    def load(_: int) -> tuple["onnxruntime.InferenceSession", FileIO]:
        stream = FileIO(constants)
        fingerprint = weights.Fingerprint.from_file(stream.fileno())
        session = _create_session(built, threads)
        if weights.Fingerprint.from_file(constants) != fingerprint:
            stream.close()
            raise TryAgain("its file was replaced at the same time")
        return session, stream

    damaged_error = ModelDamaged(
        f"{constants} keeps changing while it is loaded", remedy="stop the program that writes to it"
    )
    return retry("load the model", load, _RETRIES, give_up=lambda _: damaged_error)


def _create_session(built: graph.BuiltGraph, threads: int) -> "onnxruntime.InferenceSession":
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    # Threads that wait for work by spinning would take the cores from the process that called.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if built.constants is not None:
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(built.constants.parent)
        )
    return onnxruntime.InferenceSession(built.model, options, providers=["CPUExecutionProvider"])


def _load_tokenizer(folder: Path, imported: GuardedEvent) -> "tokenizers.Tokenizer":
    # Both imports need the interpreter's lock. That of onnxruntime comes first, because its session, which is then
    # created without the lock, takes longer. In a forked process no thread may set the event, so the wait is bounded.
    imported.wait(_IMPORT_SECONDS)
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_buffer(weights.read_verified(folder / weights.TOKENIZER))
    # The published file pads every text to 128 tokens and silently drops the rest.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    # "[SEP]" in somebody's text is five characters, not the end of the text.
    tokenizer.encode_special_tokens = True
    return tokenizer


def _replace_surrogates(text: str) -> str:
    """Return the text with each lone surrogate, which UTF-8 cannot encode, replaced by one character."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _make_batches(tokenised: dict[int, NDArray[np.int64]]) -> Iterator[list[int]]:
    """Yield batches of the positions of texts of similar length, so that little time is spent on padding."""
    batch: list[int] = []
    for index in sorted(tokenised, key=lambda index: len(tokenised[index])):
        if len(batch) == BATCH_TEXTS or (len(batch) + 1) * len(tokenised[index]) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
