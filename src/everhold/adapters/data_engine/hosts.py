"""Check which hosts a database may be on.

A name is resolved only once, and the connection goes to the address that was checked. If the driver resolved the name
again, its owner could answer with the address of an internal server.
"""

import socket
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, NamedTuple

from everhold.adapters.data_engine.child import QueryFailure
from everhold.ports.databases import ALL_PUBLIC

LOCALHOST: Final = "localhost"
# The prefix of IPv6 addresses that a NAT64 gateway translates to the IPv4 address in their last 32 bits (RFC 6052).
_NAT64: Final = ip_network("64:ff9b::/96")
_IpAddress = IPv4Address | IPv6Address


class ResolvedHost(NamedTuple):
    """An address that may be connected to."""

    family: socket.AddressFamily
    address: str


def resolve_host(host: str, port: int, allowed_hosts: Collection[str]) -> ResolvedHost:
    """Return the first address of a host.

    Raise QueryFailure of kind "unreachable" if the host has no address, and of kind "host" if it is not allowed.
    """
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise QueryFailure("unreachable", f"no address of the host {host!r} was found") from error
    family, *_, socket_address = infos[0]
    address = str(socket_address[0])
    without_zone = address.partition("%")[0]  # as in fe80::1%eth0
    if not is_allowed(host, ip_address(without_zone), allowed_hosts):
        raise QueryFailure("host", host)
    return ResolvedHost(family, address)


def require_local(socket_path: str, allowed_hosts: Collection[str]) -> None:
    """Raise QueryFailure of kind "host" if "localhost", which includes Unix sockets, is not allowed."""
    if LOCALHOST not in {entry.lower() for entry in allowed_hosts}:
        raise QueryFailure("host", socket_path)


def is_allowed(host: str, address: _IpAddress, allowed_hosts: Collection[str]) -> bool:
    """Return whether a list of allowed hosts includes this host and its address.

    An entry is the name of a host, an address, a network such as "10.0.0.0/8", "localhost", or "public" for every
    address of the public internet.
    """
    address = _unwrap_ipv4(address)
    for entry in allowed_hosts:
        name = entry.lower().rstrip(".")
        if name == ALL_PUBLIC:
            # Python counts multicast addresses as global.
            if address.is_global and not address.is_multicast:
                return True
        elif name == LOCALHOST:
            if address.is_loopback:
                return True
        elif name == host.lower().rstrip(".") or _is_in_network(address, name):
            return True
    return False


def _unwrap_ipv4(address: _IpAddress) -> _IpAddress:
    """Return the IPv4 address inside an IPv6 address, because a router may deliver to it; otherwise the address."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return inner
    return address


def _is_in_network(address: _IpAddress, entry: str) -> bool:
    try:
        network = ip_network(entry, strict=False)
    except ValueError:
        return False  # the entry is a name
    return address.version == network.version and address in network
