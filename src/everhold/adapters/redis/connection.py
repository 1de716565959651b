"""The connection to Redis, and messages for its failures."""

import re
import threading
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit
from weakref import WeakSet

from everhold.errors import InvalidSettings, MissingExtra
from everhold.model.validation import suggest_name

try:
    import redis
    from redis.backoff import ExponentialWithJitterBackoff
    from redis.cache import CacheConfig
    from redis.cluster import RedisCluster
    from redis.exceptions import AuthenticationError, NoPermissionError, OutOfMemoryError, RedisClusterException
    from redis.retry import Retry
except ImportError as error:
    raise MissingExtra(
        "a session cache in Redis needs redis, which is not installed", remedy="run `pip install 'everhold[redis]'`"
    ) from error

SCHEMES = ("redis", "rediss", "redis+cluster", "rediss+cluster")
# The errors that the driver raises for problems with the server, the network, or stored bytes that are not text.
FAILURES = (redis.RedisError, RedisClusterException, OSError, ValueError)
_PARAMETERS = (
    "db", "username", "password", "client_name", "max_connections", "health_check_interval", "retry_on_timeout",
    "socket_timeout", "socket_connect_timeout", "socket_keepalive", "socket_read_size",
)  # fmt: skip
_TLS_PARAMETERS = (
    "ssl_ca_certs", "ssl_ca_path", "ssl_ca_data", "ssl_cert_reqs", "ssl_check_hostname", "ssl_certfile", "ssl_keyfile",
    "ssl_password", "ssl_min_version", "ssl_ciphers",
)  # fmt: skip
_RETRIES = 1
# The first version of Redis for which the driver offers client-side caching; it refuses other servers.
_MIN_CACHING_VERSION = (7, 4)


@dataclass(frozen=True)
class RedisOptions:
    """The address of Redis and how it is used. The address may have a password, so it is not in the repr."""

    url: str = field(repr=False)
    ttl_seconds: int = 86_400
    socket_seconds: float = 5.0
    health_seconds: int = 30
    history: int = 100
    prefix: str = "everhold"
    """The prefix of the names of keys. If it is empty, keys have no organization in their names; see `keys.py`."""


class Link:
    """Clients of one server or Cluster, made at first use.

    `plain` has a pool of connections and always asks the server. `caching` uses client-side caching: it answers from
    memory until the server reports that a key has changed; it is None if the server or the driver does not support
    that. Each thread has its own caching client, because the driver does not keep one thread from reading from a
    connection that another is using. Values that a write depends on must be read with `plain`: the cache may lag.
    """

    def __init__(self, options: RedisOptions) -> None:
        self._options = options
        address = _parse_address(options.url)
        self._cluster = address.scheme.endswith("+cluster")
        if self._cluster and not options.prefix:
            raise InvalidSettings(
                "the layout 'julep' names keys that a Cluster keeps in different slots",
                remedy="use one server, or the layout 'everhold'",
            )
        self._url = options.url.replace("+cluster://", "://", 1)
        self._secrets = _check_parameters(address, self._url)
        self.host_and_port = f"{address.hostname}:{address.port or 6379}"
        self._clients: _Clients | None = None
        self._thread_state = threading.local()
        self._caching_clients: WeakSet[Any] = WeakSet()
        self._lock = threading.Lock()

    @property
    def plain(self) -> Any:
        return self._get_clients().plain

    @property
    def caching(self) -> Any:
        clients = self._get_clients()
        if clients.can_cache is None:
            clients.can_cache = not self._cluster and _can_cache(clients.plain)
        if not clients.can_cache:
            return None
        if self._thread_state.__dict__.get("clients") is not clients:
            self._thread_state.client = client = self._make_client(cache_config=CacheConfig())
            self._thread_state.clients = clients
            with self._lock:
                self._caching_clients.add(client)
        return self._thread_state.client

    def refresh(self, *keys: str) -> None:
        """Remove keys from this thread's cache after writing them."""
        if self._clients is not None and self._thread_state.__dict__.get("clients") is self._clients:
            self._thread_state.client.get_cache().delete_by_redis_keys([key.encode() for key in keys])

    def list_nodes(self) -> list[Any]:
        """Return a client of each server that has keys."""
        client = self.plain
        return [client.get_redis_connection(node) for node in client.get_primaries()] if self._cluster else [client]

    def reset(self) -> None:
        """Discard the clients, because the server may have been replaced; the next use makes new ones.

        Threads can finish with the old clients. A Cluster's client finds new servers itself, so it is not discarded.
        """
        if not self._cluster:
            with self._lock:
                self._clients = None

    def explain(self, failure: Exception) -> str:
        """Return a message with the problem and the remedy, without the password."""
        match failure:
            case AuthenticationError() | NoPermissionError():
                return f"Redis at {self.host_and_port} refused the user or the password; correct `sessions`"
            case OutOfMemoryError():
                return f"Redis at {self.host_and_port} is full; raise its maxmemory or let it evict keys"
        message = f"{type(failure).__name__}: {failure}"
        for secret in self._secrets:
            message = message.replace(secret, "***")
        return f"Redis at {self.host_and_port} does not answer ({message}); the store answers instead"

    def close(self) -> None:
        """Close all connections, including those of other threads."""
        with self._lock:
            clients, self._clients = self._clients, None
            caching = list(self._caching_clients)
        for client in caching:
            client.connection_pool.disconnect()
        if clients is not None and self._cluster:
            clients.plain.close()
        elif clients is not None:
            clients.plain.connection_pool.disconnect()

    def _get_clients(self) -> "_Clients":
        clients = self._clients
        if clients is None:
            # This is outside the lock, because asking a Cluster for its slots takes time.
            fresh_clients = _Clients(self._make_client())
            with self._lock:
                clients = self._clients = self._clients or fresh_clients
        return clients

    def _make_client(self, **overrides: Any) -> Any:
        options = self._options
        arguments: dict[str, Any] = {
            "decode_responses": True,
            "protocol": 3,
            "socket_timeout": options.socket_seconds,
            "socket_connect_timeout": options.socket_seconds,
            "health_check_interval": options.health_seconds,
            "retry": Retry(ExponentialWithJitterBackoff(base=0.05, cap=0.5), _RETRIES),
            **overrides,
        }
        if self._cluster:
            return RedisCluster.from_url(self._url, **arguments)
        # The pool is explicit, because a client closes its own pool when it is garbage-collected, and another thread
        # may still read.
        return redis.Redis(connection_pool=redis.ConnectionPool.from_url(self._url, **arguments))


@dataclass(eq=False)
class _Clients:
    plain: Any
    can_cache: bool | None = None


def _can_cache(client: Any) -> bool:
    hello = client.execute_command("HELLO")
    version = tuple(int(part) for part in hello["version"].split(".")[:2])
    return bool(hello["server"] == "redis" and version >= _MIN_CACHING_VERSION)


def _parse_address(url: str) -> SplitResult:
    """Return the parts of the address. Error messages must not quote it, because it may have a password."""
    try:
        address = urlsplit(url)
        has_server = address.hostname and address.port != 0
        has_database = re.fullmatch(r"/?\d*", address.path)  # a number, or nothing for the first one
        if address.scheme in SCHEMES and has_server and has_database and not address.fragment:
            return address
    except ValueError:
        pass  # the port is not a number
    raise InvalidSettings(
        "`sessions` is not the address of a Redis server",
        remedy="write it as redis://host:6379/0, rediss:// with TLS, or redis+cluster://",
    )


def _check_parameters(address: SplitResult, url: str) -> list[str]:
    """Raise InvalidSettings for parameters that the driver refuses. Return the secrets of the address."""
    known_parameters = _PARAMETERS + (_TLS_PARAMETERS if address.scheme.startswith("rediss") else ())
    parameters = parse_qs(address.query, keep_blank_values=True)
    for name in parameters:
        if name not in known_parameters:
            raise InvalidSettings(
                f"the address in `sessions` takes no parameter {name!r}",
                value=name,
                remedy=suggest_name(name, known_parameters),
            )
    try:
        redis.ConnectionPool.from_url(url)
    except ValueError as error:  # it names the parameter and not the value
        raise InvalidSettings(
            f"`sessions` cannot be read: {error}", remedy="write another value, or leave it out"
        ) from None
    secrets = [unquote(secret) for secret in (address.password, address.username) if secret]
    return secrets + [secret for name in ("password", "ssl_password") for secret in parameters.get(name, ()) if secret]
