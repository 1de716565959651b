"""Runs on the command line."""

from tests.interfaces.conftest import Run

CODER = ("--user", "alice", "--agent", "coder")


def test_a_run_is_started_continued_and_finished(run: Run) -> None:
    assert "run r1 is running" in run("run", "start", "Deploy the shop", "--id", "r1", *CODER).out
    proposed = run("run", "propose", "build", "--arguments", '{"target": "web"}', "--thoughts", "First build",
                   "--plan", '["build"]', "--raw", "as it came", *CODER, "--json").document  # fmt: skip
    assert proposed["step"]["proposal"]["raw"] == "as it came"
    resumed = run("run", "resume", *CODER)
    assert 'build(target="web") has no result yet' in resumed.out
    assert proposed["idempotency_key"] in resumed.out.replace("\n", "")
    assert "failed" in run("run", "complete", "--error", "disk full", *CODER).out
    assert "attempt 2" in run("run", "retry", *CODER).out
    step = run("run", "complete", '{"size": 5}', "--summary", "Built", "--memory", "The build takes long",
               "--memory", '{"kind": "reflection", "text": "Cache it"}', "--duration", "1.5", "--artifact", "f1",
               *CODER, "--json").document["step"]  # fmt: skip
    assert (step["result"]["output"], step["result"]["artifacts"]) == ({"size": 5}, ["f1"])
    assert [memory["kind"] for memory in step["memories"]] == ["observation", "reflection"]
    assert "paused" in run("run", "pause", *CODER).out
    assert "is paused; call `everhold run resume`" in run("run", "propose", "push", *CODER).err.replace("\n", " ")
    run("run", "resume", *CODER)
    assert "has succeeded" in run("run", "finish", "ok", *CODER).out
    story = run("run", "show", *CODER).out
    for part in ("Run r1: Deploy the shop", "thought: First build", "failed: disk full", "succeeded in 1.5 s: Built"):
        assert part in story
    assert "1. build" in run("run", "how-to", "deploy the shop", *CODER).out
    assert "takes long" in run("run", "recall", "how long does the build take?", *CODER).out
    assert "no task like this" in run("run", "how-to", "bake bread", "--user", "bob").out
    listed = run("run", "list", "--status", "succeeded", *CODER, "--json").document["runs"]
    assert [row["id"] for row in listed] == ["r1"]
    assert "Deploy the shop" in run("run", "list", *CODER).out


def test_forks_are_compared(run: Run) -> None:
    run("run", "start", "Count", "--id", "r1", *CODER)
    for number in range(2):
        run("run", "propose", "count", "--arguments", f'{{"n": {number}}}', *CODER)
        run("run", "complete", str(number), "--memory", f"The count was {number}", *CODER)
    assert "continues after cycle 0 of r1" in run("run", "fork", "0", "r1", "--id", "r2", *CODER).out
    run("run", "propose", "stop", "--run", "r2", *CODER)
    run("run", "complete", "--run", "r2", *CODER)
    assert "another action" in run("run", "compare", "r1", "r2", *CODER).out
    assert run("run", "compare", "r1", "r2", *CODER, "--json").document["shared"] == 1
    assert "The count was 0" in run("run", "known-at", "1", "what was the count?", "r1", *CODER).out
    assert "has failed" in run("run", "fail", "No more", "--run", "r2", *CODER).out
    assert "cycles" in run("run", "delete", "r2", "--preview", *CODER).out
    assert "deleted run r2" in run("run", "delete", "r2", "--yes", *CODER).out
    assert "restored run r2" in run("run", "restore", "r2", *CODER).out
    assert "was cancelled" in run("run", "cancel", "--run", "r1", "--reason", "Enough", *CODER).out


def test_wrong_input_is_explained(run: Run) -> None:
    run("remember", "Something", *CODER)
    assert "begin one with `everhold run start`" in run("run", "propose", "x", *CODER).err.replace("\n", " ")
    assert "no run 'r9' in this scope" in run("run", "show", "r9", *CODER).err
    assert "no run in this scope" in run("run", "show", *CODER).err
    assert "is not a JSON object" in run("run", "propose", "x", "--arguments", "[1]", *CODER).err
    assert "status is 'done'" in run("run", "list", "--status", "done", *CODER).err


def test_the_shell_has_the_commands_on_runs(run: Run) -> None:
    run("run", "start", "Deploy the shop", "--id", "r1", *CODER)
    run("run", "propose", "build", *CODER)
    run("run", "complete", "ok", *CODER)
    run("run", "finish", *CODER)
    lines = "/run list\n/run show\n/run show r1\n/run how-to 'deploy the shop'\n/run how-to\n"
    answers = run("shell", *CODER, "--json", typed=lines).document["answers"]
    assert answers[0]["answer"]["runs"][0]["id"] == "r1"
    assert [answer["answer"]["run"]["id"] for answer in answers[1:3]] == ["r1", "r1"]
    assert answers[3]["answer"]["procedures"][0]["steps"][0]["tool"] == "build"
    assert "TASK" in answers[4]["error"]
