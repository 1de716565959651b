"""The working memory of sessions in Redis or Valkey, on one server or a Cluster."""

from recollect.adapters.redis.connection import RedisOptions
from recollect.adapters.redis.session_cache import RedisSessions

__all__ = ["RedisOptions", "RedisSessions"]
