"""The connection to Redis, and what its failures mean."""

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
except ImportError as missing:
    raise MissingExtra(
        "a session cache in Redis needs redis, which is not installed", remedy="run `pip install 'everhold[redis]'`"
    ) from missing

SCHEMES = ("redis", "rediss", "redis+cluster", "rediss+cluster")
# All that a driver may raise because of the server, the way to it, or bytes there that are no text.
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
# The first Redis for which the driver keeps what it read; it refuses any other server.
_CACHES_SINCE = (7, 4)


@dataclass(frozen=True)
class RedisOptions:
    """Where Redis is and how it is used. The address may hold a password, so it is not shown."""

    url: str = field(repr=False)
    ttl_seconds: int = 86_400
    socket_seconds: float = 5.0
    health_seconds: int = 30
    history: int = 100
    prefix: str = "everhold"


class Link:
    """Clients of one server or Cluster, made when first needed.

    `plain` has a pool of connections and always asks the server. `keeping` answers from memory what it has read before
    and the server has not since declared changed; it is None where the server or the driver cannot do that. Each thread
    has its own, because the driver lets one thread read from a connection that another is using. What decides anything
    about a write must be read with `plain`.
    """

    def __init__(self, options: RedisOptions) -> None:
        self._options = options
        address = _address(options.url)
        self._cluster = address.scheme.endswith("+cluster")
        self._url = options.url.replace("+cluster://", "://", 1)
        self._secrets = _check_parameters(address, self._url)
        self.place = f"{address.hostname}:{address.port or 6379}"
        self._made: _Made | None = None
        self._own = threading.local()
        self._keeping: WeakSet[Any] = WeakSet()
        self._lock = threading.Lock()

    @property
    def plain(self) -> Any:
        return self._current().plain

    @property
    def keeping(self) -> Any:
        made = self._current()
        if made.keeps is None:
            made.keeps = not self._cluster and _can_keep(made.plain)
        if not made.keeps:
            return None
        if self._own.__dict__.get("made") is not made:
            self._own.client = client = self._client(cache_config=CacheConfig())
            self._own.made = made
            with self._lock:
                self._keeping.add(client)
        return self._own.client

    def refresh(self, *keys: str) -> None:
        """What this thread remembers of these keys is no longer so: it has just written them."""
        if self._made is not None and self._own.__dict__.get("made") is self._made:
            self._own.client.get_cache().delete_by_redis_keys([key.encode() for key in keys])

    def nodes(self) -> list[Any]:
        """A client of each server that holds keys."""
        client = self.plain
        return [client.get_redis_connection(node) for node in client.get_primaries()] if self._cluster else [client]

    def reset(self) -> None:
        """Make new clients at the next use, as the server may be another one. Callers may finish with the old ones.

        A Cluster's client looks by itself who is there.
        """
        if not self._cluster:
            with self._lock:
                self._made = None

    def explain(self, failure: Exception) -> str:
        """What went wrong and what to do, without the password."""
        match failure:
            case AuthenticationError() | NoPermissionError():
                return f"Redis at {self.place} refused the user or the password; correct `sessions`"
            case OutOfMemoryError():
                return f"Redis at {self.place} is full; raise its maxmemory or let it evict keys"
        said = f"{type(failure).__name__}: {failure}"
        for secret in self._secrets:
            said = said.replace(secret, "***")
        return f"Redis at {self.place} does not answer ({said}); sessions are read from the records meanwhile"

    def close(self) -> None:
        """Close every connection, also those of other threads."""
        with self._lock:
            made, self._made = self._made, None
            keeping = list(self._keeping)
        for client in keeping:
            client.connection_pool.disconnect()
        if made is not None and self._cluster:
            made.plain.close()
        elif made is not None:
            made.plain.connection_pool.disconnect()

    def _current(self) -> "_Made":
        made = self._made
        if made is None:
            fresh = _Made(self._client())  # outside the lock: a Cluster is asked for its slots, which takes time
            with self._lock:
                made = self._made = self._made or fresh
        return made

    def _client(self, **more: Any) -> Any:
        chosen = self._options
        given: dict[str, Any] = {
            "decode_responses": True,
            "protocol": 3,
            "socket_timeout": chosen.socket_seconds,
            "socket_connect_timeout": chosen.socket_seconds,
            "health_check_interval": chosen.health_seconds,
            "retry": Retry(ExponentialWithJitterBackoff(base=0.05, cap=0.5), _RETRIES),
            **more,
        }
        if self._cluster:
            return RedisCluster.from_url(self._url, **given)
        # a client with a pool of its own would close it when it goes, under the hands of a thread that still reads
        return redis.Redis(connection_pool=redis.ConnectionPool.from_url(self._url, **given))


@dataclass(eq=False)
class _Made:
    plain: Any
    keeps: bool | None = None


def _can_keep(client: Any) -> bool:
    said = client.execute_command("HELLO")
    version = tuple(int(part) for part in said["version"].split(".")[:2])
    return bool(said["server"] == "redis" and version >= _CACHES_SINCE)


def _address(url: str) -> SplitResult:
    """The address in parts. A message must not quote it."""
    try:
        address = urlsplit(url)
        is_whole = address.hostname and address.port != 0 and re.fullmatch(r"/?\d*", address.path)
        if address.scheme in SCHEMES and is_whole and not address.fragment:
            return address
    except ValueError:
        pass  # a port that is none
    raise InvalidSettings(
        "`sessions` is no address of a Redis",
        remedy="write it as redis://host:6379/0, rediss:// with TLS, or redis+cluster://",
    )


def _check_parameters(address: SplitResult, url: str) -> list[str]:
    """Raise InvalidSettings for parameters that the driver refuses. Return the secrets of the address."""
    known = _PARAMETERS + (_TLS_PARAMETERS if address.scheme.startswith("rediss") else ())
    given = parse_qs(address.query, keep_blank_values=True)
    for name in given:
        if name not in known:
            raise InvalidSettings(
                f"the address in `sessions` takes no parameter {name!r}", value=name, remedy=suggest_name(name, known)
            )
    try:
        redis.ConnectionPool.from_url(url)
    except ValueError as error:  # it names the parameter and not the value
        raise InvalidSettings(
            f"`sessions` cannot be read: {error}", remedy="write another value, or leave it out"
        ) from None
    said = [unquote(one) for one in (address.password, address.username) if one]
    return said + [one for name in ("password", "ssl_password") for one in given.get(name, ()) if one]
