"""The worker process of `benchmarks.maintenance_crash`, which is killed: it changes memories and undoes its run."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from benchmarks.engines import build_settings, open_engine
from everhold import Everhold, MemoryInput, View, clock
from everhold.maintenance.pipeline import JobRun, MaintenanceJob, MaintenanceReport, run_jobs
from everhold.maintenance_jobs import JOBS
from everhold.model import Memory, Scope
from everhold.parts import Parts
from everhold.schema.operations import Increment
from everhold.testing.fake_embedder import FakeEmbedder

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

USERS: Final = ("alice", "bob", "carol")
MODEL: Final = FakeEmbedder(dimensions=32)
BUDGET: Final = 30
PAIRS, NOTES, MESSAGES = 8, 40, 12
# The beginnings of three memories of different days about the same person. Consolidation relates them and writes a
# reflection.
_BEGINNINGS: Final = ("I met", "I phoned", "I wrote to")
_RULES: Final[dict[str, Any]] = {"half_life_days": 10, "prune_after_days": 60, "max_memories": BUDGET}


def open_store(storage: str) -> Everhold:
    settings = build_settings(
        storage, maintenance=_RULES, sqlite={"synchronous": "NORMAL"}, postgres={"pool_size": 2, "retries": 1}
    )
    return open_engine(settings, MODEL, MODEL)


def fill(engine: Everhold) -> None:
    """Store near-duplicates with tags, notes of every age and priority, and relationships between them."""
    for user in USERS:
        view = engine.scope(user=user)
        parcels = [(number, end) for number in range(PAIRS) for end in ("", "!")]
        items: list[MemoryInput] = [
            {"text": f"{user} keeps parcel {number} in shed {number % 5}{end}", "tags": [f"tag-{number % 7}{end}"]}
            for number, end in parcels
        ]
        items += [
            {"text": f"{user} wrote note {number}", "priority": 1 + number % 8, "kind": "fact"}
            for number in range(NOTES)
        ]
        items += [{"text": f"Yesterday {beginning} Ingrid, said {user}", "priority": 9} for beginning in _BEGINNINGS]
        memories = view.remember_many(items)
        notes = memories[-NOTES - len(_BEGINNINGS) : -len(_BEGINNINGS)]
        for first, second in zip(notes[::4], notes[1::4], strict=False):
            view.relate(first.id, second.id)
        _make_older(engine, memories)
        _contradict(engine, user)
        chat = engine.scope(user=user, session=f"chat of {user}")
        for number in range(MESSAGES):
            chat.say(f"Message {number} of {user}")
        chat.archive_session()


def _contradict(engine: Everhold, user: str) -> None:
    """Store two contradicting memories through two agents, so that only consolidation compares them."""
    for agent, town in (("phone", "Oslo"), ("desk", "Bergen")):
        engine.scope(user=user, agent=agent).remember(f"I live in {town}", kind="preference", priority=9)


def _make_older(engine: Everhold, memories: Sequence[Memory]) -> None:
    now = clock.now()
    changes = []
    for number, memory in enumerate(memories):
        at = now - timedelta(days=2 * number)
        key = (memory.organization_id, memory.id)
        changes.append(Increment(Memory, key, {}, {"created_at": at, "updated_at": at}))
    engine._parts.records.commit(changes)


def _tidy(parts: Parts, run: JobRun) -> None:
    """Merge, revise, supersede, relate, add and forget memories of every user."""
    for user in USERS:
        view = View(parts.journal_under(run.run_id), Scope(user=user))
        run.add("merges", view.merge_duplicates().count)
        notes = [memory for memory in view.list(limit=100, kind="fact").memories if memory.superseded_at is None]
        for number, note in enumerate(notes[:12]):
            match number % 4:
                case 0:
                    view.revise(note.id, text=f"{note.text}, revised", importance=0.3)
                case 1:
                    view.supersede(note.id, f"{note.text}, superseded")
                case 2:
                    view.relate(note.id, notes[-1].id, "reference", metadata={"reason": "the same writer"})
                case 3:
                    view.forget(note.id)
            run.add("notes")
        view.remember(f"{user} often writes notes", kind="reflection", tags=["pattern"])
        run.add("reflections")


TIDY: Final = MaintenanceJob[Parts]("tidy", "Change memories in every way.", lambda _: {}, _tidy, lease="tidy")


def maintain(engine: Everhold) -> MaintenanceReport:
    """Run the job `tidy` and then all maintenance jobs."""
    parts = engine._parts
    return run_jobs(parts.records, [TIDY, *JOBS], parts)


def work(storage: str, is_open: "Event") -> None:
    """Maintain a store and undo the run. This process is usually killed before it ends."""
    engine = open_store(storage)
    is_open.set()
    report = maintain(engine)
    assert report.run_id is not None
    engine.undo_run(report.run_id)
    engine.close()
