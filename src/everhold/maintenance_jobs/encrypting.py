"""The job that encrypts rows which were stored before their fields were encrypted, or with keys that were replaced."""

from functools import partial

from everhold.maintenance.pipeline import Counts, JobRun
from everhold.parts import Parts
from everhold.views.encryption import make_rewriting_deps


def count_outdated_rows(parts: Parts) -> Counts:
    if parts.encryption is None:
        return {}
    from everhold.encryption.rewriting import count_outdated

    return {"rows": count_outdated(parts.encryption)}


def encrypt_rows(parts: Parts, run: JobRun) -> None:
    encryption = parts.encryption
    if encryption is None or encryption.is_missing:
        return
    from everhold.encryption.rewriting import is_complete, rewrite_rows

    if not is_complete(encryption):
        unreadable = rewrite_rows(make_rewriting_deps(parts, encryption, partial(run.add, "rows")))
        run.leave({"unreadable rows": unreadable})
