"""Engines with a chosen embedder, as benchmarks need them."""

from pathlib import Path
from typing import Any, Protocol

from recollect import Recollect
from recollect.parts import assemble, open_store
from recollect.ports.embedder import Embedder
from recollect.ports.tokenizer import Tokenizer
from recollect.settings import Settings, checked_settings


class TextModel(Embedder, Tokenizer, Protocol):
    """An embedder that knows its own tokens."""


def chosen(storage: Path | str, **given: Any) -> Settings:
    """The default settings for a store, whatever the environment says."""
    place = f"sqlite:///{storage}" if isinstance(storage, Path) else storage
    return checked_settings({"storage": place, **given})


def open_engine(settings: Settings, embedder: Embedder, tokenizer: Tokenizer) -> Recollect:
    return Recollect(assemble(settings, *open_store(settings), embedder, tokenizer))
