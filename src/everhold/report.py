"""Examine an engine: its parts, the amount of stored data, and its problems."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from everhold.access.signed_chain import find_head_problems
from everhold.embedding import MissingEmbedder
from everhold.errors import EncryptionError, EverholdError, InvalidInput
from everhold.exchange import moving
from everhold.maintenance.integrity import find_impossible_rows
from everhold.maintenance.pipeline import read_runs
from everhold.maintenance.serving import WordsOnlyEmbedder
from everhold.model import Chunk, Job, Memory, Organization
from everhold.model.encrypted_values import is_encrypted
from everhold.parts import Parts
from everhold.ports.records import Records
from everhold.remember.forget import find_running_jobs, read_job
from everhold.schema.catalog import CATALOG
from everhold.schema.operations import Op, Where
from everhold.sessions.archive import find_archive_problems
from everhold.sql_views.installing import PresetViews, list_presets
from everhold.tenancy.erasure import find_incomplete_erasures

_RUNS = 50  # how many of the latest runs `doctor` reads


@dataclass(frozen=True)
class Report:
    """The result of `doctor`: a description of each part, row counts by table, and problems, if there are any."""

    parts: Mapping[str, str]
    counts: Mapping[str, int]
    problems: Sequence[str] = field(default_factory=list)

    def __repr__(self) -> str:
        place = self.parts.get("file") or self.parts.get("store")
        return f"Report({place!r}, memories={self.counts.get('memories', 0)}, problems={len(self.problems)})"


def examine(parts: Parts) -> Report:
    """Return a report on an engine."""
    traits = parts.records.traits
    embedder = parts.recall_deps.embedder
    descriptions = {
        "store": traits.name,
        "words": traits.words,
        "vectors": traits.vectors,
        "embedding": f"{embedder.model} ({embedder.dimensions} dimensions)",
        "images": f"{parts.recall_deps.images.size_in_bytes / 1e6:.1f} MB held",
        "sessions": _describe_sessions(parts),
        "access log": f"signed heads in {parts.heads.place}" if parts.heads else "chained without a key",
        "maintenance": _describe_maintenance(parts.records),
        "encryption": _describe_encryption(parts),
        **traits.details,
        **parts.recall_deps.candidates.report(),
    }
    if parts.reembedding is not None and not parts.reembedding.progress.serves:
        done, total, _ = parts.reembedding.progress
        descriptions["changing to"] = (
            f"{parts.write_deps.chunking.embedder.model}: {done} of {total} memories embedded again"
        )
    installed = [preset for preset in _list_view_presets(parts) if preset.views]
    if installed:
        descriptions["SQL views"] = ", ".join(f"{preset.preset} ({preset.state})" for preset in installed)
    for name, beside in parts.beside.items():
        done, total, is_complete = beside.filling.progress
        state = "complete" if is_complete else f"{done} of {total} memories embedded"
        descriptions[f"beside: {name}"] = f"{beside.recall_deps.embedder.dimensions} dimensions, {state}"
    counts = {
        table.name: parts.records.count(entity, None, deleted=True)
        for entity, table in CATALOG.items()
        if entity in (Organization, Memory, Chunk) or parts.records.count(entity, None, deleted=True)
    }
    return Report(descriptions, counts, list(_find_problems(parts)))


def _describe_sessions(parts: Parts) -> str:
    """Return the place of the session cache, and the memory that sessions take there."""
    cache = parts.session_deps.cache
    usage = cache.measure_usage()
    return cache.name if usage is None else f"{cache.name} ({usage.used / 1e6:.1f} MB, at most {usage.peak / 1e6:.1f})"


def _describe_encryption(parts: Parts) -> str:
    """Describe the encryption: the master key's fingerprint, the owners of data keys, and the encrypted fields."""
    encryption = parts.encryption
    if encryption is None:
        return "off"
    if encryption.is_missing:
        return "the master key is missing"
    fields = ", ".join([*encryption.fields.names, "memories of kind vault"])
    keys = "a key per user" if encryption.keys.per_user else "a key per organization"
    return f"AES-256-GCM, master key {encryption.keys.master_fingerprint}, {keys}: {fields}"


def _list_view_presets(parts: Parts) -> list[PresetViews]:
    views = parts.find_sql_views()
    return [] if views is None or not views.list_views() else list_presets(views)


def _describe_maintenance(records: Records) -> str:
    """Return when maintenance last ran, and which jobs failed when they last ran."""
    runs = read_runs(records, _RUNS)
    if not runs:
        return "has not run yet; run `everhold maintain`"
    latest_outcomes: dict[str, str] = {}
    for run in runs:
        for name, report in run.jobs.items():
            if report["outcome"] != "held":  # "held" means that a different process ran the job at that time
                latest_outcomes.setdefault(name, report["outcome"])
    failed = ", ".join(sorted(name for name, outcome in latest_outcomes.items() if outcome == "failed"))
    return f"last ran at {runs[0].started_at:%Y-%m-%d %H:%M} UTC" + (f"; failed: {failed}" if failed else "")


def _find_problems(parts: Parts) -> list[str]:
    """Return a sentence for each problem of the engine's parts and of the stored rows."""
    problems = []
    cache_problem = parts.session_deps.cache.find_problem()
    if cache_problem is not None:
        problems.append(cache_problem)
    problems += _find_thread_problems(parts)
    if parts.heads is not None:
        problems += find_head_problems(parts.records, parts.heads)
    if isinstance(parts.recall_deps.embedder, WordsOnlyEmbedder):
        problems.append(
            f"model {parts.recall_deps.embedder.model!r}, by which the store was embedded, cannot be asked; "
            "recall goes by words alone until everything is embedded by the new model"
        )
    if isinstance(parts.recall_deps.embedder, MissingEmbedder):
        problems.append(parts.recall_deps.embedder.problem)
    problems += _find_key_problems(parts)
    problems += parts.model_problems()
    problems += parts.recall_deps.candidates.find_problems()
    try:
        problems += parts.records.find_problems()
    except EverholdError as error:
        problems.append(str(error))
    if moving.is_unfinished(parts.records):
        problems.append("it holds an unfinished move: run `everhold move` again, or delete this store")
    problems += _find_row_problems(parts)
    problems += _find_job_problems(parts.records)
    problems += _find_erasure_problems(parts.records)
    problems += [
        f"the SQL views of preset {preset.preset!r} are outdated; run `everhold views install {preset.preset}`"
        for preset in _list_view_presets(parts)
        if preset.state == "outdated"
    ]
    orphans, unsearched = _count_unpaired(parts)
    if orphans:
        problems.append(f"{orphans} chunks belong to no memory; restore from a backup or export and import")
    if unsearched:
        problems.append(f"{unsearched} memories have a text and no chunk, so recall misses them; import them again")
    return problems


def _find_row_problems(parts: Parts) -> list[str]:
    try:
        return [*find_impossible_rows(parts.records), *find_archive_problems(parts.session_deps)]
    except EncryptionError as error:  # content that cannot be decrypted cannot be checked
        return [str(error)]


def _find_key_problems(parts: Parts) -> Sequence[str]:
    if parts.encryption is None:
        return []
    from everhold.encryption.status import describe_keys  # few stores are encrypted

    return describe_keys(parts.encryption).problems


def _find_thread_problems(parts: Parts) -> Iterator[str]:
    """Yield a problem for each background thread whose last attempt failed."""
    if parts.access.failure is not None:
        yield f"the access log could not be written: {_describe(parts.access.failure)}; it will be retried"
    if parts.reembedding is not None and parts.reembedding.failure is not None:
        yield f"embedding the store again by the new model has stopped: {_describe(parts.reembedding.failure)}"
    if parts.maintenance is not None and parts.maintenance.failure is not None:
        yield f"maintenance in the background failed: {_describe(parts.maintenance.failure)}; it will be retried"
    for name, beside in parts.beside.items():
        if beside.filling.failure is not None:
            yield f"embedding memories by model {name!r} has stopped: {_describe(beside.filling.failure)}"


def _find_job_problems(records: Records) -> Iterator[str]:
    """Yield a problem for each job that failed, and for each running job whose parameters are invalid."""
    for (organization,) in records.columns(Organization, None, ["id"], deleted=True):
        for job in records.scan(Job, organization, [Where("status", Op.EQ, "failed")]):
            yield f"job {job.id!r} of organization {organization!r} failed: {job.error or 'no reason is recorded'}"
        for job in find_running_jobs(records, organization):
            try:
                read_job(job)
            except InvalidInput as error:
                yield f"job {job.id!r} of organization {organization!r} cannot be carried out: {error}"


def _find_erasure_problems(records: Records) -> Iterator[str]:
    """Yield a problem for each erasure that is not complete. The list has no id by which it could name the user."""
    for erasure in find_incomplete_erasures(records):
        yield (
            f"the erasure {erasure.id!r} of a user of organization {erasure.organization_id!r}, begun at "
            f"{erasure.created_at:%Y-%m-%d %H:%M} UTC, is not complete; run `everhold erase` for this user again"
        )


def _describe(error: Exception) -> str:
    """Return the message of an EverholdError; for any other error, its type too."""
    return str(error) if isinstance(error, EverholdError) else repr(error)


def _count_unpaired(parts: Parts) -> tuple[int, int]:
    """Return how many chunks have no memory, and how many memories have a text but no chunk.

    The store's rules forbid the first and no write leaves the second, so either means that the store is damaged.
    """
    orphans = unsearched = 0
    for (organization,) in parts.records.columns(Organization, None, ["id"], deleted=True):
        ids_with_text = list(_list_with_text(parts, organization))
        owner_ids = {
            owner
            for owner, kind in parts.records.columns(Chunk, organization, ("owner_id", "owner_kind"))
            if kind == "memory"
        }
        memory_ids = {memory_id for (memory_id,) in parts.records.columns(Memory, organization, ["id"], deleted=True)}
        orphans += len(owner_ids - memory_ids)
        unsearched += sum(memory_id not in owner_ids for memory_id in ids_with_text)
    return orphans, unsearched


def _list_with_text(parts: Parts, organization: str) -> Iterator[str]:
    """Yield the ids of the memories that have a text which is not encrypted."""
    encryption = parts.encryption
    if encryption is None:
        where = [Where("text", Op.NE, "")]
        yield from (memory_id for (memory_id,) in parts.records.columns(Memory, organization, ["id"], where))
        return
    # This only checks whether a text is stored, which needs no key.
    for memory_id, text in encryption.stored.columns(Memory, organization, ["id", "text"]):
        if text and not is_encrypted(text):
            yield memory_id
