"""Engines with a chosen embedder, as benchmarks need them."""

from pathlib import Path
from typing import Any, Protocol

from everhold import Everhold
from everhold.parts import assemble
from everhold.ports.embedder import Embedder
from everhold.ports.tokenizer import Tokenizer
from everhold.settings import Settings, validate_settings
from everhold.stores import open_store


class TextModel(Embedder, Tokenizer, Protocol):
    """An embedder that is also the tokenizer of its model."""


def build_settings(storage: Path | str, **values: Any) -> Settings:
    """Return the default settings for a store, with these values. The environment is not read."""
    address = f"sqlite:///{storage}" if isinstance(storage, Path) else storage
    return validate_settings({"storage": address, **values})


def open_engine(settings: Settings, embedder: Embedder, tokenizer: Tokenizer) -> Everhold:
    return Everhold(assemble(settings, *open_store(settings), embedder, tokenizer))
