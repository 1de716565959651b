"""all-MiniLM-L6-v2 in the caller's process, on onnxruntime: found, verified, built once, run."""

from everhold.adapters.minilm.embedder import MiniLM

__all__ = ["MiniLM"]
