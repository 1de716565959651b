"""Which hosts a database may be on. A name is resolved once: the connection goes to the address that was checked."""

import socket
from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, NamedTuple

from everhold.adapters.data_engine.child import QueryFailure
from everhold.ports.databases import ALL_PUBLIC

LOCALHOST: Final = "localhost"
_NAT64: Final = ip_network("64:ff9b::/96")
_Address = IPv4Address | IPv6Address


class ResolvedHost(NamedTuple):
    """An address that may be connected to."""

    family: socket.AddressFamily
    address: str


def resolve_host(host: str, port: int, allowed: Collection[str]) -> ResolvedHost:
    """Return the first address of a host, if it may be connected to.

    Raise QueryFailure of kind "unreachable" if there is no such host, and of kind "host" if it is not allowed.
    """
    try:
        listed = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise QueryFailure("unreachable", f"no address of the host {host!r} was found") from error
    family, *_, place = listed[0]
    address = ip_address(str(place[0]).partition("%")[0])
    if not is_allowed(host, address, allowed):
        raise QueryFailure("host", host)
    return ResolvedHost(family, str(place[0]))


def require_local(path: str, allowed: Collection[str]) -> None:
    """Raise QueryFailure of kind "host" unless sockets of this machine are allowed."""
    if LOCALHOST not in {entry.lower() for entry in allowed}:
        raise QueryFailure("host", path)


def is_allowed(host: str, address: _Address, allowed: Collection[str]) -> bool:
    """Return whether a list of hosts has this host, by its name, its address, a network of it or "public"."""
    meant = list(_list_meant(address))
    for entry in allowed:
        name = entry.lower().rstrip(".")
        if name == ALL_PUBLIC:
            if all(each.is_global and not each.is_multicast for each in meant):
                return True
        elif name == LOCALHOST:
            if all(each.is_loopback for each in meant):
                return True
        elif name == host.lower().rstrip(".") or _is_in_network(meant, name):
            return True
    return False


def _list_meant(address: _Address) -> Iterator[_Address]:
    """Yield an address, or the IPv4 address that it stands for: a router may deliver to that one."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            yield inner
            return
    yield address


def _is_in_network(addresses: Collection[_Address], entry: str) -> bool:
    try:
        network = ip_network(entry, strict=False)
    except ValueError:
        return False  # a name
    return all(address.version == network.version and address in network for address in addresses)
