"""What can only be measured in a process of its own: how long the first answer takes, and what an image holds."""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_BEGIN = "from time import perf_counter; begun = perf_counter(); import json, sys; from benchmarks import fresh; "
QUESTION = "where is the telescope of Alma Novak now?"


def run(work: Callable[..., dict[str, Any]], *given: str) -> dict[str, Any]:
    """What a function of this module returns in a fresh process, and the seconds from its start to its end."""
    code = f"{_BEGIN} print(json.dumps({{**fresh.{work.__name__}(*sys.argv[1:]), 'seconds': perf_counter() - begun}}))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in ["", *sys.path] if entry)}
    done = subprocess.run(
        [sys.executable, "-c", code, *given], stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def load_model() -> dict[str, Any]:
    """The program and the model, and one text embedded."""
    from everhold import settings
    from everhold.embedding import make_embedder

    embedder, *_ = make_embedder(settings.checked_settings({}))
    embedder.embed([QUESTION])
    return {}


def first_recall(path: str, user: str) -> dict[str, Any]:
    """The same and a store opened, and a first question answered."""
    from everhold import Everhold

    engine = Everhold.open(path)  # and not closed, which is no part of answering
    hits = engine.scope(user=user).recall(QUESTION, minimum=0)
    assert len(hits) == 10, hits
    return {"hits": len(hits)}


def grow(path: str, user: str, caches: str) -> dict[str, Any]:
    """How many bytes the process grows by when the image of a user is built, with the store's own caches as small as
    can be (`small`) or as they are set by default (`usual`)."""
    from benchmarks.engines import chosen, open_engine
    from everhold.testing.fake_embedder import FakeEmbedder

    embedder = FakeEmbedder("all-MiniLM-L6-v2")
    sqlite = {"cache_megabytes": 1, "mmap_megabytes": 0} if caches == "small" else {}
    with open_engine(chosen(Path(path), sqlite=sqlite), embedder, embedder) as engine:
        engine.scope(user="nobody").recall(QUESTION)
        before = _resident()
        engine.scope(user=user).recall(QUESTION)
        grown = _resident() - before
        images = engine._parts.recall_deps.images
        rows = images.use([images.space("default", user)], lambda held: held[0].size)
        return {"rows": rows, "bytes": grown}


def _resident() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
