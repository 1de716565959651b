"""Names of keys. All keys of an organization are in one slot of a Cluster, so that a transaction can span them.

    everhold:{acme}:session:s1         hash: the session
    everhold:{acme}:history:s1         list: its last messages, newest first
    everhold:{acme}:active_sessions    set: ids
    everhold:{acme}:last_active        sorted set: ids by the time of their last activity

Ids are percent-encoded: a colon or a brace in an id could make its key equal to a key of another organization.

An empty prefix is for a store with a single organization, on one server. Its keys are `session:s1`, `history:s1`,
`active_sessions` and `last_active`, and ids are written as they are.
"""

from dataclasses import dataclass
from urllib.parse import quote, unquote

from everhold.ports.session_cache import SessionKey


def encode_id(name: str, prefix: str) -> str:
    return quote(name, safe="") if prefix else name


def decode_id(name: str, prefix: str) -> str:
    return unquote(name) if prefix else name


@dataclass(frozen=True)
class OrganizationKeys:
    """The keys of one organization's sessions."""

    prefix: str
    organization: str

    @property
    def active(self) -> str:
        return f"{self._base}active_sessions"

    @property
    def by_activity(self) -> str:
        return f"{self._base}last_active"

    def session(self, session: str) -> str:
        return f"{self._base}session:{encode_id(session, self.prefix)}"

    def history(self, session: str) -> str:
        return f"{self._base}history:{encode_id(session, self.prefix)}"

    @property
    def _base(self) -> str:
        return f"{self.prefix}:{{{encode_id(self.organization, self.prefix)}}}:" if self.prefix else ""


@dataclass(frozen=True)
class Keys:
    """The keys of one session's working memory, and its member name in the set and the sorted set."""

    session: str
    history: str
    active: str
    by_activity: str
    member: str

    @property
    def all(self) -> tuple[str, str, str, str]:
        return self.session, self.history, self.active, self.by_activity


def make_keys(prefix: str, session_key: SessionKey) -> Keys:
    organization_keys = OrganizationKeys(prefix, session_key.organization)
    session = session_key.session
    return Keys(
        organization_keys.session(session),
        organization_keys.history(session),
        organization_keys.active,
        organization_keys.by_activity,
        encode_id(session, prefix),
    )
