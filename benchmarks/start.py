"""How long does a process of Everhold take from start to exit, compared with a floor?

    python -m benchmarks.start

Each figure is the median time of whole processes, from start to exit, run by turns with their floor:

- `everhold --help`, and the help of a Typer program with two commands
- `import everhold`, with the engine's class and without it, and `import pydantic, numpy`
- `everhold recall` on a small store, and a script that loads the same model with onnxruntime and embeds one question

Bytecode, the file cache and the cache of the model are warm.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.fresh import QUESTION
from benchmarks.report import Report, run_interleaved
from benchmarks.texts import make_sentences
from everhold import Everhold, settings
from everhold.adapters.minilm import graph, weights

MEMORIES = 200
USER = "alma"
WARM_UP = 2
# The environment of the shell. It is copied before an engine is opened here, because an engine sets variables that turn
# off telemetry of libraries, and a script without Everhold does not.
ENVIRONMENT = dict(os.environ)
# The code that the installed command `everhold` runs.
COMMAND = "import sys; from everhold_command import main; sys.exit(main())"

TWO_COMMANDS = '''
import typer

app = typer.Typer(help="Keep notes.")


@app.command()
def add(text: str, tag: str = "") -> None:
    """Add a note."""


@app.command()
def find(text: str, limit: int = 10) -> None:
    """Find notes."""


if __name__ == "__main__":
    app()
'''

ONE_QUESTION = """
import sys

import numpy
import onnxruntime
import tokenizers

graph, tokenizer_file, question = sys.argv[1:]
session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
tokenizer = tokenizers.Tokenizer.from_file(tokenizer_file)
tokenizer.no_padding()
ids = tokenizer.encode(question).ids
vector = session.run(None, {"ids": numpy.array([ids], numpy.int64)})[0][0]
assert vector.shape == (384,)
"""


def make_start(*arguments: str) -> Callable[[int], object]:
    """Return a function that runs Python with these arguments to its end."""
    environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # without bytecode, every start compiles all modules

    def run(_: int) -> object:
        return subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True, env=environment)

    return run


def measure_help(report: Report, folder: Path, pairs: int) -> None:
    program = folder / "notes.py"
    program.write_text(TWO_COMMANDS, "utf-8")
    pairs_of_times = run_interleaved(
        make_start("-c", COMMAND, "--help"), make_start(str(program), "--help"), pairs, WARM_UP
    )
    pairs_of_times.add_to(report, "help", 1.5)


def measure_import(report: Report, pairs: int) -> None:
    floor = make_start("-c", "import pydantic, numpy")
    for name, statement in (("import", "import everhold"), ("import_engine", "from everhold import Everhold")):
        run_interleaved(make_start("-c", statement), floor, pairs, WARM_UP).add_to(report, name, 2.0)


def measure_recall(report: Report, folder: Path, pairs: int) -> None:
    store, program = folder / "memories.db", folder / "question.py"
    program.write_text(ONE_QUESTION, "utf-8")
    with Everhold.open(store) as engine:  # also fills the cache of the model
        engine.scope(user=USER).remember_many(make_sentences(MEMORIES))
        engine_settings = engine.settings
    ours = make_start("-c", COMMAND, "recall", QUESTION, "--user", USER, "--minimum", "0", "--store", str(store))
    run_interleaved(ours, make_start(str(program), *find_model(engine_settings), QUESTION), pairs, WARM_UP).add_to(
        report, "recall", 1.5
    )


def find_model(engine_settings: settings.Settings) -> Sequence[str]:
    """Return the paths of the default model's cached graph and of its tokenizer."""
    graph_path, _ = graph.find_cache_files(engine_settings.cache / "minilm")
    folder = weights.find_folder(engine_settings.embedding.path, data=engine_settings.data)
    return str(graph_path), str(folder / weights.TOKENIZER)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=15)
    options = parser.parse_args()
    report = Report("start")
    with TemporaryDirectory(prefix="everhold-") as name:
        measure_help(report, Path(name), options.pairs)
        measure_import(report, options.pairs)
        measure_recall(report, Path(name), options.pairs)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
