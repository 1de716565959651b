"""Run an agent's loop with LangGraph's SqliteSaver, in the peers' environment.

python -m benchmarks.peers.checkpoints FILE

Each line of input is one cycle as JSON, and each line of output is the seconds that it took. The graph has two nodes:
the first takes the proposal into the state, the second takes its result and the memories. LangGraph stores a checkpoint
before the first node and after each of them. Nothing is embedded, and nothing can be searched.
"""

import importlib
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any


def make_graph(path: Path) -> Any:
    """Return a compiled graph that is checkpointed in a file."""
    graphs = importlib.import_module("langgraph.graph")
    sqlite = importlib.import_module("sqlite3")
    saver = importlib.import_module("langgraph.checkpoint.sqlite").SqliteSaver
    graph = graphs.StateGraph(dict)
    graph.add_node("propose", lambda state: {"proposal": state["next"]["proposal"], "next": state["next"]})
    graph.add_node("complete", lambda state: {"proposal": state["proposal"], "result": state["next"]["result"]})
    graph.add_edge(graphs.START, "propose")
    graph.add_edge("propose", "complete")
    graph.add_edge("complete", graphs.END)
    connection = sqlite.connect(path, check_same_thread=False)
    return graph.compile(checkpointer=saver(connection))


def main() -> None:
    graph = make_graph(Path(sys.argv[1]))
    config = {"configurable": {"thread_id": "run"}}
    for line in sys.stdin:
        cycle = json.loads(line)
        started = perf_counter()
        # With "sync", a checkpoint is stored before the next node begins, as a run stores its cycles.
        graph.invoke({"next": cycle}, config, durability="sync")
        print(perf_counter() - started, flush=True)


if __name__ == "__main__":
    main()
