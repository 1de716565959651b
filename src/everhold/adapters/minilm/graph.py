"""The model as an ONNX graph: token ids in, normalised sentence vectors out.

The model is a BERT with 6 layers, 12 heads and 384 values per token. A vector is the mean over all tokens but padding,
scaled to length 1.
"""

import errno
import hashlib
import logging
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.adapters.minilm import weights
from everhold.adapters.minilm.weights import Fingerprint, Receipts

if TYPE_CHECKING:
    import onnx  # slow to import, and needed only to build

# Increase it whenever this file builds another graph, so that a cached graph of the earlier format is not used.
FORMAT = 2

LAYERS = 6
HEADS = 12
DIMENSIONS = 384
PAD = 0
INPUT = "ids"
OUTPUT = "vector"

# The size in bytes from which a constant is stored apart. onnxruntime uses the smaller ones to optimize the graph.
_MIN_EXTERNAL_BYTES = 1024
_PAGE = 4096

Tensors = Mapping[str, NDArray[np.float32]]

logger = logging.getLogger(__name__)


class BuiltGraph(NamedTuple):
    """A graph ready to load: its verified bytes, and the file of its constants, unless they are in the bytes."""

    model: bytes
    constants: Path | None = None
    constants_sha256: str = ""


def load_cached(model: Path, cache: Path, receipts: Receipts) -> BuiltGraph:
    """Return the graph of the model in a folder. It is built unless the cache has it undamaged."""
    graph, constants = find_cache_files(cache)
    built = _read_cached(graph, constants, receipts)
    if built is None:
        _build_into_cache(model, graph, constants, receipts)
        built = _read_cached(graph, constants, receipts)
    if built is None:
        raise OSError(errno.EAGAIN, "the files just built have changed", str(graph))
    return built


def find_cache_files(cache: Path) -> tuple[Path, Path]:
    """Return where the graph and its constants are cached."""
    graph = cache / f"{weights.MODEL}-{weights.PUBLISHED[weights.TENSORS][:16]}-{FORMAT}.onnx"
    return graph, graph.with_suffix(".bin")


def _read_cached(graph: Path, constants: Path, receipts: Receipts) -> BuiltGraph | None:
    """Return the cached graph, or None if it is missing or changed. The constants are verified later."""
    sha256, constants_sha256 = receipts.digest(graph), receipts.digest(constants)
    if sha256 is None or constants_sha256 is None:
        return None
    content = graph.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        logger.warning("the cached graph %s is damaged and built again", graph)
        return None
    return BuiltGraph(content, constants, constants_sha256)


def _build_into_cache(model: Path, graph: Path, constants: Path, receipts: Receipts) -> None:
    with tempfile.TemporaryDirectory(dir=graph.parent, prefix=".building-") as scratch:
        _save(build(read_tensors(model)), Path(scratch, graph.name), constants.name)
        # The graph last, because it refers to the constants.
        for file in (constants, graph):
            built_file = Path(scratch, file.name)
            built_file.chmod(0o600)
            with built_file.open("rb") as stream:
                sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
                os.fsync(stream.fileno())
            built_file.replace(file)
            receipts.add(file, Fingerprint.from_file(file), sha256)


def _save(model: "onnx.ModelProto", file: Path, constants: str) -> None:
    """Save the graph and its constants in two files.

    onnxruntime maps the file of constants into memory, which takes less than half of the time of reading them. onnx
    could write these files too, but it would make a UUID, for which it calls a service of the machine.
    """
    from onnx.external_data_helper import set_external_data

    with file.with_name(constants).open("xb") as stream:
        for tensor in model.graph.initializer:
            content = tensor.raw_data
            if len(content) >= _MIN_EXTERNAL_BYTES:
                stream.seek(-stream.tell() % _PAGE, os.SEEK_CUR)  # a mapping must begin at a page
                set_external_data(tensor, constants, offset=stream.tell(), length=len(content))
                tensor.ClearField("raw_data")
                stream.write(content)
    file.write_bytes(model.SerializeToString())


def read_tensors(model: Path) -> Tensors:
    """Return the published weights in a folder. Raise ModelDamaged if they differ."""
    from safetensors.numpy import load

    tensors: Tensors = load(weights.read_verified(model / weights.TENSORS))
    return tensors


def build(tensors: Tensors) -> "onnx.ModelProto":
    """Return the graph from `ids` [texts, tokens], padded with 0, to `vector` [texts, 384]."""
    graph = _Graph(tensors)
    mask = graph.add_node("Cast", graph.add_node("Cast", INPUT, to=_BOOL), to=_FLOAT)
    hidden = _add_embeddings(graph)
    # These are added to the scores of padding, so that its share after softmax is 0. They are finite, so that no value
    # becomes NaN.
    padding_scores = graph.add_node("Mul", graph.add_node("Sub", mask, graph.add_number(1.0)), graph.add_number(1e4))
    padding_scores = graph.add_node("Unsqueeze", padding_scores, graph.add_integers(1, 2))
    for layer in range(LAYERS):
        hidden = _add_layer(graph, f"encoder.layer.{layer}", hidden, padding_scores)
    _pool_tokens(graph, hidden, mask)
    return graph.make_model()


# The numbers of these types in ONNX.
_FLOAT, _INT64, _BOOL = 1, 7, 9


class _Graph:
    """Collects nodes and constants. Every method returns the name of a value for the next node to use."""

    def __init__(self, tensors: Tensors) -> None:
        self.tensors = tensors
        self._nodes: list[Any] = []
        self._constants: dict[str, NDArray[Any]] = {}

    def add_node(self, operation: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        return self.add_nodes(operation, *inputs, outputs=[output] if output else 1, **attributes)[0]

    def add_nodes(self, operation: str, *inputs: str, outputs: list[str] | int, **attributes: Any) -> list[str]:
        from onnx import helper

        if isinstance(outputs, int):
            outputs = [f"{operation}.{len(self._nodes)}.{number}" for number in range(outputs)]
        self._nodes.append(helper.make_node(operation, inputs, outputs, **attributes))
        return outputs

    def add_constant(self, name: str, value: NDArray[Any]) -> str:
        self._constants[name] = value
        return name

    def add_number(self, value: float) -> str:
        return self.add_constant(f"number {value}", np.array(value, np.float32))

    def add_integers(self, *values: int) -> str:
        return self.add_constant(f"integers {values}", np.array(values, np.int64))

    def add_weight(self, name: str) -> str:
        return self.add_constant(name, self.tensors[name])

    def add_linear(self, name: str, value: str) -> str:
        return self.add_affine(name, value, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"])

    def add_affine(self, name: str, value: str, weight: NDArray[np.float32], bias: NDArray[np.float32]) -> str:
        product = self.add_node("MatMul", value, self.add_constant(f"{name}.weight", weight.T))
        return self.add_node("Add", product, self.add_constant(f"{name}.bias", bias))

    def add_layer_norm(self, name: str, value: str) -> str:
        scale, bias = self.add_weight(f"{name}.weight"), self.add_weight(f"{name}.bias")
        return self.add_node("LayerNormalization", value, scale, bias, axis=-1, epsilon=1e-12)

    def make_model(self) -> "onnx.ModelProto":
        from onnx import helper, numpy_helper

        graph = helper.make_graph(
            self._nodes,
            weights.MODEL,
            inputs=[helper.make_tensor_value_info(INPUT, _INT64, ["texts", "tokens"])],
            outputs=[helper.make_tensor_value_info(OUTPUT, _FLOAT, ["texts", DIMENSIONS])],
            initializer=[
                numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in self._constants.items()
            ],
        )
        # Opset 20 is the first with Gelu, and IR version 9 was released with it.
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def _add_embeddings(graph: _Graph) -> str:
    """Add the embeddings of words and positions. All tokens have the first type, so its embedding is added to each."""
    prefix = "embeddings"
    words = graph.add_weight(f"{prefix}.word_embeddings.weight")
    positions = graph.add_constant(
        f"{prefix}.position_embeddings.weight",
        graph.tensors[f"{prefix}.position_embeddings.weight"]
        + graph.tensors[f"{prefix}.token_type_embeddings.weight"][0],
    )
    length = graph.add_node("Slice", graph.add_node("Shape", INPUT), graph.add_integers(1), graph.add_integers(2))
    token_positions = graph.add_node("Slice", positions, graph.add_integers(0), length, graph.add_integers(0))
    embeddings = graph.add_node("Add", graph.add_node("Gather", words, INPUT), token_positions)
    return graph.add_layer_norm(f"{prefix}.LayerNorm", embeddings)


def _add_layer(graph: _Graph, prefix: str, hidden: str, padding_scores: str) -> str:
    attention = _add_attention(graph, f"{prefix}.attention", hidden, padding_scores)
    projection = graph.add_linear(f"{prefix}.attention.output.dense", attention)
    hidden = graph.add_layer_norm(f"{prefix}.attention.output.LayerNorm", graph.add_node("Add", projection, hidden))
    expanded = graph.add_node("Gelu", graph.add_linear(f"{prefix}.intermediate.dense", hidden))
    contracted = graph.add_linear(f"{prefix}.output.dense", expanded)
    return graph.add_layer_norm(f"{prefix}.output.LayerNorm", graph.add_node("Add", contracted, hidden))


def _add_attention(graph: _Graph, prefix: str, hidden: str, padding_scores: str) -> str:
    """Add attention. Queries, keys and values come from one large product, which is faster than three small ones."""
    width = DIMENSIONS // HEADS
    # 1/√width belongs to the scores; in the weights of the queries it costs nothing at run time.
    scales = {"query": np.float32(1 / math.sqrt(width)), "key": np.float32(1), "value": np.float32(1)}

    def join(part: str) -> NDArray[np.float32]:
        tensors = [graph.tensors[f"{prefix}.self.{name}.{part}"] * scale for name, scale in scales.items()]
        joined: NDArray[np.float32] = np.concatenate(tensors)
        return joined

    products = graph.add_affine(f"{prefix}.self", hidden, join("weight"), join("bias"))
    by_head = graph.add_node("Reshape", products, graph.add_integers(0, 0, 3 * HEADS, width))
    by_head = graph.add_node("Transpose", by_head, perm=[0, 2, 1, 3])
    queries, keys, values = graph.add_nodes("Split", by_head, outputs=3, axis=1, num_outputs=3)
    scores = graph.add_node("MatMul", queries, graph.add_node("Transpose", keys, perm=[0, 1, 3, 2]))
    shares = graph.add_node("Softmax", graph.add_node("Add", scores, padding_scores), axis=-1)
    by_token = graph.add_node("Transpose", graph.add_node("MatMul", shares, values), perm=[0, 2, 1, 3])
    return graph.add_node("Reshape", by_token, graph.add_integers(0, 0, DIMENSIONS))


def _pool_tokens(graph: _Graph, hidden: str, mask: str) -> None:
    """Add the output: the direction of the mean over the tokens. Their sum has the same direction, so it is used."""
    row = graph.add_node("Unsqueeze", mask, graph.add_integers(1))
    token_sum = graph.add_node("Squeeze", graph.add_node("MatMul", row, hidden), graph.add_integers(1))
    graph.add_node("LpNormalization", token_sum, axis=-1, p=2, output=OUTPUT)
