"""An agent that works through a task with tools and files, and continues after a crash. It has no language model.

    python examples/autonomous_agent.py             # works through the task, then tells the story of the run
    kill -9 …, then the same command                # continues where it was killed

The agent writes a summary of the orders of each region, mails it, and writes a report. Each action is proposed before
it is taken and completed afterwards. If the process is killed in between, the next one takes the same action again with
the same idempotency key. Writing a file twice changes nothing. A mail must not be sent twice, so the mail service gets
the key and delivers only one mail for each key.

A real agent asks a language model what to do next: `choose_action` is the only function to change.
"""

import argparse
import csv
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from everhold import Everhold, Run, RunStep, View

STORE, FOLDER = "agent.db", "agent-files"
TASK = "Report on this week's orders"
REGIONS = ("north", "east", "south", "west")
# Made-up orders of regions: five for each, with different amounts.
ORDERS = [(region, 10 * number + len(region)) for number in range(1, 6) for region in REGIONS]

# A tool, its arguments, and the reason for calling it.
Action = tuple[str, dict[str, Any], str]


class Tools:
    """What the agent can do. Every tool gets the idempotency key of its action."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mailbox = folder, folder / "mailbox"
        self.mailbox.mkdir(parents=True, exist_ok=True)

    def read_orders(self, key: str) -> dict[str, list[int]]:
        """Return the amounts of the orders by region."""
        with (self.folder / "orders.csv").open(newline="") as file:
            rows = list(csv.reader(file))
        return {region: [int(amount) for name, amount in rows if name == region] for region in REGIONS}

    def summarise(self, key: str, region: str, amounts: list[int]) -> str:
        """Write the summary of a region and return it."""
        text = f"{region}: {len(amounts)} orders, {sum(amounts)} in total, the largest {max(amounts)}\n"
        write_file(self.folder / f"{region}.txt", text)
        return text.strip()

    def send_mail(self, key: str, region: str, text: str) -> str:
        """Mail a summary. The mail service is independent of the store and delivers one mail for each key."""
        mail, draft = self.mailbox / f"{key}.json", self.mailbox / f".{key}.draft"
        draft.write_text(json.dumps({"to": f"{region}@example.org", "text": text}))
        with suppress(FileExistsError):  # a mail with this key was delivered before
            os.link(draft, mail)
        draft.unlink()
        return f"mailed {region}@example.org"

    def write_report(self, key: str, lines: list[str]) -> str:
        """Write the report and return the name of its file."""
        write_file(self.folder / "report.txt", "\n".join([TASK, *lines, ""]))
        return "report.txt"


def write_file(path: Path, text: str) -> None:
    """Write a file so that a crash leaves the old one or the new one."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text)
    draft.replace(path)


def choose_action(steps: Sequence[RunStep]) -> Action | None:
    """Return the next tool, its arguments and the reason, or None if the task is done.

    This script decides from the steps that succeeded; a real agent asks a language model.
    """
    succeeded = [step for step in steps if step.status == "succeeded"]
    if not succeeded:
        return "read_orders", {}, "I need the orders first"
    orders = succeeded[0].output
    summaries = {step.arguments["region"]: step.output for step in succeeded if step.tool == "summarise"}
    mailed = {step.arguments["region"] for step in succeeded if step.tool == "send_mail"}
    for region in REGIONS:
        if region not in summaries:
            return "summarise", {"region": region, "amounts": orders[region]}, f"{region} has no summary yet"
        if region not in mailed:
            return "send_mail", {"region": region, "text": summaries[region]}, f"{region} waits for its summary"
    if not any(step.tool == "write_report" for step in succeeded):
        return "write_report", {"lines": [summaries[region] for region in REGIONS]}, "Every region has its summary"
    return None


def propose_next(run: Run) -> RunStep | None:
    """Decide on the next action and store it, before it is taken."""
    action = choose_action(run.steps())
    if action is None:
        return None
    tool, arguments, thoughts = action
    return run.propose(tool, arguments, thoughts=thoughts)


def work(agent: View, folder: Path, make_tools: Callable[[Path], Tools] = Tools) -> Run:
    """Work through the task, from the beginning or from where the last process stopped."""
    tools = make_tools(folder)
    write_file(folder / "orders.csv", "".join(f"{region},{amount}\n" for region, amount in ORDERS))
    run = agent.run(TASK, id="weekly-report")
    while run.status == "running":
        step = run.pending or propose_next(run)
        if step is None:
            run.finish("report.txt", summary="The report is written and every region has its mail")
        else:
            output = getattr(tools, str(step.tool))(step.idempotency_key, **step.arguments)
            observation = f"{step.tool} for {step.arguments.get('region', 'all regions')} is done"
            run.complete(output, memories=[observation, {"kind": "result", "text": f"{observation}: {output}"}])
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", default=STORE, help=f"where runs and memories are kept; by default {STORE}")
    parser.add_argument("--folder", type=Path, default=Path(FOLDER), help=f"the agent's files; by default {FOLDER}")
    options = parser.parse_args()
    with Everhold.open(options.store) as engine:
        agent = engine.scope(agent="reporter")
        print(work(agent, options.folder).story())
        print("\nhow it was done:")
        for procedure in agent.how_to("a report about the orders of this week"):
            print(*(f"  {step.tool}({', '.join(step.arguments)})" for step in procedure.steps), sep="\n")


if __name__ == "__main__":
    main()
