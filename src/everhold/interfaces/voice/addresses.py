"""Parse the addresses on which the gateway listens, and decide which addresses need protection."""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from everhold.errors import InvalidSettings
from everhold.interfaces.voice.protocols import PROTOCOLS
from everhold.model.fields import is_id
from everhold.model.scope import DEFAULT_ORGANIZATION
from everhold.model.validation import suggest_name

DEFAULT_BIND = "tcp://127.0.0.1:5596=unified"
_BIND_REMEDY = "write ADDRESS=PROTOCOL@ORGANIZATION, for example tcp://127.0.0.1:5596=unified@home"
_TRANSPORTS = ("tcp://", "ipc://")
NOWHERE = "none"
_LAST_PORT = 65_535


@dataclass(frozen=True)
class Bind:
    """An address that answers requests, with the protocol and the organization of the requests."""

    address: str
    protocol: str
    organization: str


@dataclass(frozen=True)
class PublishAddress:
    """The address that publishes the events of one organization."""

    address: str
    organization: str


def parse_bind(text: str) -> Bind:
    """Parse a text such as "tcp://127.0.0.1:5596=unified@home": address, protocol and organization."""
    address, equals, target = text.rpartition("=")
    protocol, at, organization = target.partition("@")
    if not equals:
        raise InvalidSettings(f"bind {text!r} names no protocol", value=text, remedy=_BIND_REMEDY)
    _require_address(address)
    if protocol not in PROTOCOLS:
        raise InvalidSettings(
            f"no protocol {protocol!r}", value=protocol, remedy=suggest_name(protocol, sorted(PROTOCOLS))
        )
    return Bind(address, protocol, _require_organization(organization, text) if at else DEFAULT_ORGANIZATION)


def parse_publish(text: str, binds: Iterable[Bind]) -> PublishAddress | None:
    """Return the address that publishes events, or None for "none".

    If the text names no organization, the events are those of the organization of the binds. Raise InvalidSettings if
    the binds have several.
    """
    if text == NOWHERE:
        return None
    address, at, organization = text.partition("@")
    _require_address(address)
    if not at:
        organizations = sorted({bind.organization for bind in binds})
        if len(organizations) > 1:
            raise InvalidSettings(
                f"the binds are for {len(organizations)} organizations, and {text!r} names none of them",
                value=text,
                remedy=f"write {text}@{organizations[0]}, for example",
            )
        organization = organizations[0]
    return PublishAddress(address, _require_organization(organization, text))


def require_protection(binds: Iterable[Bind], publish: PublishAddress | None, *, token: bool, keys: bool) -> None:
    """Raise InvalidSettings if other machines can reach an address and neither a token nor keys restrict its use."""
    for bind in binds:
        if not is_local(bind.address) and not (token or keys):
            raise InvalidSettings(
                f"{bind.address} can be reached from other machines, and anyone there could read and write",
                value=bind.address,
                remedy="use 127.0.0.1, or set voice.curve_keys (--curve-keys DIR) or voice.token",
            )
    if publish is not None and not is_local(publish.address) and not keys:  # a subscriber sends no token
        raise InvalidSettings(
            f"{publish.address} can be reached from other machines, and anyone there could read the events",
            value=publish.address,
            remedy="use 127.0.0.1, or set voice.curve_keys (--curve-keys DIR)",
        )


def is_local(address: str) -> bool:
    """Return whether only programs on this machine can reach an address."""
    if not address.startswith("tcp://"):
        return True
    host = address.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@lru_cache(maxsize=1024)  # called for every request, and clients send many
def read_peer(text: str) -> str | None:
    """Return the IP address, without a zone, from libzmq's description of a client; None for a client over ipc."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return str(getattr(address, "ipv4_mapped", None) or address)


def _require_address(address: str) -> None:
    if not address.startswith(_TRANSPORTS) or (
        address.startswith("tcp://") and ":" not in address.removeprefix("tcp://")
    ):
        raise InvalidSettings(
            f"{address!r} is not an address to listen on", value=address, remedy="write tcp://HOST:PORT or ipc://PATH"
        )
    # libzmq takes a number that is too large modulo 65,536, and would listen on another port.
    port = address.rpartition(":")[2]
    is_port = port == "*" or (port.isascii() and port.isdigit() and 0 < int(port) <= _LAST_PORT)
    if address.startswith("tcp://") and not is_port:
        remedy = f"write a number from 1 to {_LAST_PORT}, or * for any free port"
        raise InvalidSettings(f"{address!r} has no port", value=address, remedy=remedy)


def require_distinct(binds: Sequence[Bind]) -> None:
    """Raise InvalidSettings if two services have the same address."""
    addresses = [bind.address for bind in binds if not bind.address.endswith(":*")]
    for address in addresses:
        if addresses.count(address) > 1:
            remedy = "give each protocol a port of its own"
            raise InvalidSettings(f"{address} is named twice", value=address, remedy=remedy)


def _require_organization(organization: str, text: str) -> str:
    if not organization:
        raise InvalidSettings(f"{text!r} names no organization after @", value=text, remedy="name it, or leave out @")
    if not is_id(organization):
        raise InvalidSettings(f"{organization!r} is not an organization", value=organization, remedy=_BIND_REMEDY)
    return organization
