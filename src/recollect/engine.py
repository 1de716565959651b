"""Builds the parts from settings and offers the verbs. Holds no logic of its own."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from recollect import parts, settings
from recollect.model import Scope
from recollect.model.scope import DEFAULT_ORGANIZATION
from recollect.model.validation import checked
from recollect.parts import Parts
from recollect.view import View


class Recollect:
    """A memory engine on one store. Data is reached through `scope` only."""

    def __init__(self, built: Parts) -> None:
        self._parts = built

    @classmethod
    def open(cls, target: str | Path | None = None, **given: Any) -> Self:
        """Opens a path, a URL, or what a YAML file says; `./recollect.db` with nothing given.

        Keyword arguments are settings: `Recollect.open("notes.db", sqlite={"synchronous": "NORMAL"})`.
        """
        return cls(parts.build(settings.load(target, **given)))

    def scope(
        self,
        *,
        organization: str = DEFAULT_ORGANIZATION,
        project: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
    ) -> View:
        """A view of the data of one scope. Given dimensions must match; omitted ones are unrestricted."""
        values = {"organization": organization, "project": project, "user": user, "agent": agent, "session": session}
        return View(self._parts, checked(Scope, values))

    @property
    def settings(self) -> settings.Settings:
        return self._parts.settings

    def flush(self) -> None:
        """Writes the access log's waiting lines now."""
        self._parts.access.flush()

    def close(self) -> None:
        self._parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
