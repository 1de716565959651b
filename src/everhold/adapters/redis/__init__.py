"""The working memory of sessions in Redis or Valkey, on one server or a Cluster."""

from everhold.adapters.redis.connection import RedisOptions
from everhold.adapters.redis.session_cache import RedisSessions

__all__ = ["RedisOptions", "RedisSessions"]
