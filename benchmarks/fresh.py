"""Measures that need a new process: the time of the first answer, and the memory that an image takes."""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_BEGIN = "from time import perf_counter; started = perf_counter(); import json, sys; from benchmarks import fresh; "
QUESTION = "where is the telescope of Alma Novak now?"


def run(work: Callable[..., dict[str, Any]], *arguments: str) -> dict[str, Any]:
    """Return what a function of this module returns in a new process, and the seconds that the process took."""
    code = (
        f"{_BEGIN} print(json.dumps({{**fresh.{work.__name__}(*sys.argv[1:]), 'seconds': perf_counter() - started}}))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in ["", *sys.path] if entry)}
    process = subprocess.run(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    answer: dict[str, Any] = json.loads(process.stdout)
    return answer


def load_model() -> dict[str, Any]:
    """Load the program and the model, and embed one text."""
    from everhold import settings
    from everhold.embedders import make_embedder

    embedder, *_ = make_embedder(settings.validate_settings({}))
    embedder.embed([QUESTION])
    return {}


def recall_first(path: str, user: str) -> dict[str, Any]:
    """Load the program and the model, open a store and answer a first question."""
    from everhold import Everhold

    engine = Everhold.open(path)  # not closed, because closing is not part of answering
    hits = engine.scope(user=user).recall(QUESTION, minimum=0)
    assert len(hits) == 10, hits
    return {"hits": len(hits)}


def measure_image(path: str, user: str, caches: str) -> dict[str, Any]:
    """Return by how many bytes the process grows when the image of a user is built.

    If `caches` is "small", the store's own caches are as small as possible; if it is "usual", they have their default
    size.
    """
    from benchmarks.engines import build_settings, open_engine
    from everhold.testing.fake_embedder import FakeEmbedder

    embedder = FakeEmbedder("all-MiniLM-L6-v2")
    sqlite = {"cache_megabytes": 1, "mmap_megabytes": 0} if caches == "small" else {}
    with open_engine(build_settings(Path(path), sqlite=sqlite), embedder, embedder) as engine:
        engine.scope(user="unknown").recall(QUESTION)
        before = _measure_resident_bytes()
        engine.scope(user=user).recall(QUESTION)
        growth = _measure_resident_bytes() - before
        images = engine._parts.recall_deps.images
        rows = images.use([images.space("default", user)], lambda views: views[0].size)
        return {"rows": rows, "bytes": growth}


def _measure_resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
