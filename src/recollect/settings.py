"""Settings: one YAML file, environment variables over it, keyword arguments over both.

The only place that reads the environment. `RECOLLECT_STORAGE` sets `storage`; two underscores go one level down, so
`RECOLLECT_EMBEDDING__MODEL` sets `embedding.model`. A secret is hidden in every repr.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from recollect.errors import InvalidSettings
from recollect.model.tenancy import Timezone
from recollect.model.validation import nearest, shown

FILE = "recollect.yaml"
PREFIX = "RECOLLECT_"
_PASSWORD = re.compile(r"(?<=://)([^:/?#@]*:).*@|(?<=[?&])(password=)[^&]*")
_SECRETS = ("api_key",)
DEFAULT_MODEL = "all-MiniLM-L6-v2"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, without_password(value) if isinstance(value, str) else value


class Embedding(_Part):
    """The model that turns texts into vectors. With a `url` it is asked over HTTP, OpenAI's way."""

    model: str = DEFAULT_MODEL
    path: Path | None = None
    url: str | None = None
    api_key: SecretStr | None = None
    dimensions: int = Field(default=384, ge=1, le=16_000)
    chunk_tokens: int = Field(default=512, ge=16, le=8192)
    chunk_overlap: int = Field(default=50, ge=0)
    cache_texts: int = Field(default=20_000, ge=0)


class Llm(_Part):
    """A language model that reads facts from messages during upkeep, asked over HTTP, OpenAI's way."""

    url: str = Field(min_length=1)
    model: str = Field(min_length=1)
    api_key: SecretStr | None = None
    batch: int = Field(default=20, ge=1, le=1000)


class Sqlite(_Part):
    """How a SQLite file is written. FULL survives a power cut; NORMAL may lose the last commits to one."""

    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    busy_seconds: float = Field(default=30.0, ge=0)
    cache_megabytes: int = Field(default=64, ge=1)
    mmap_megabytes: int = Field(default=64, ge=0)
    maximum_pages: int | None = Field(default=None, ge=1)


class Postgres(_Part):
    """How PostgreSQL is reached."""

    pool_size: int = Field(default=10, ge=1)
    connect_seconds: float = Field(default=30.0, gt=0)
    query_seconds: float = Field(default=30.0, gt=0)
    ssl: str | None = None
    retries: int = Field(default=5, ge=0)
    transaction_pooler: bool = False
    row_security: bool = False
    owner_url: str | None = None
    replica_url: str | None = None
    vector_index: Literal["hnsw", "ivfflat"] = "hnsw"
    hnsw_m: int = Field(default=16, ge=2, le=100)
    hnsw_ef_construction: int = Field(default=64, ge=4, le=1000)
    lists: int = Field(default=100, ge=1, le=32_768)
    partitions: Literal["none", "month", "quarter"] = "none"


class Duckdb(_Part):
    """What DuckDB may use."""

    memory_megabytes: int = Field(default=1024, ge=64)
    threads: int | None = Field(default=None, ge=1)


class Dynamodb(_Part):
    """How DynamoDB is reached and paid for. Credentials are found as AWS's own tools find them."""

    endpoint: str | None = None
    capacity: Literal["on_demand", "provisioned"] = "on_demand"
    read_units: int = Field(default=5, ge=1)
    write_units: int = Field(default=5, ge=1)
    retries: int = Field(default=8, ge=0)
    seconds: float = Field(default=10.0, gt=0)


class Chroma(_Part):
    """How vectors are kept in Chroma, if `vectors` names one."""

    prefix: str = Field(default="memories", pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}$")
    batch: int = Field(default=200, ge=1, le=5000)
    seconds: float = Field(default=10.0, gt=0)


class Redis(_Part):
    """The working memory of sessions: how much of it is kept for how long, and how a Redis is asked for it."""

    ttl_seconds: int = Field(default=86_400, ge=1)
    history: int = Field(default=100, ge=1, le=10_000)
    socket_seconds: float = Field(default=5.0, gt=0)
    health_seconds: int = Field(default=30, ge=0)
    prefix: str = Field(default="recollect", pattern=r"^[^\s{}]{1,100}$")


class Images(_Part):
    """How much of the store is held in memory to be searched."""

    megabytes: int = Field(default=1024, ge=1)
    most_memories: int = Field(default=200_000, ge=0)


class Remember(_Part):
    """What is done with what texts state: a newer statement replaces an older one; messages' facts are kept."""

    resolve: bool = True
    extract: bool = True


class Log(_Part):
    """When the access log's lines about reads are written: within a second, or before the read returns."""

    mode: Literal["buffered", "strict"] = "buffered"
    flush_seconds: float = Field(default=1.0, gt=0)


class Settings(_Part):
    """Everything that can be chosen."""

    storage: str = "sqlite:///recollect.db"
    vectors: str = "auto"
    sessions: str = "auto"
    blobs: str = "auto"
    embedding: Embedding = Embedding()
    timezone: Timezone = "UTC"
    text_bytes: int = Field(default=1_000_000, ge=1)
    interface: str = Field(default="library", min_length=1, max_length=50)
    strict_scopes: bool = False
    grace_days: float = Field(default=30.0, ge=0)
    sqlite: Sqlite = Sqlite()
    postgres: Postgres = Postgres()
    duckdb: Duckdb = Duckdb()
    dynamodb: Dynamodb = Dynamodb()
    chroma: Chroma = Chroma()
    redis: Redis = Redis()
    images: Images = Images()
    remember: Remember = Remember()
    llm: Llm | None = None
    log: Log = Log()
    data: Path = Field(default_factory=lambda: _home("XDG_DATA_HOME", ".local/share"))
    cache: Path = Field(default_factory=lambda: _home("XDG_CACHE_HOME", ".cache"))


def load(target: str | Path | None = None, **given: Any) -> Settings:
    """The settings for a path, a URL or a YAML file; without one, for `recollect.yaml` here if there is one."""
    values: dict[str, Any] = {}
    storage = None
    if target is not None and Path(target).suffix in (".yaml", ".yml"):
        values = _read(Path(target))
    elif target is not None:
        storage = str(target)
    elif Path(FILE).is_file():
        values = _read(Path(FILE))
    values = _merged(values, _from_environment(os.environ))
    if storage is not None:
        values["storage"] = storage
    return checked_settings(_merged(values, given))


def from_agent_config(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that an `agent_config.yaml` asks for: its `memory` names a SQLite file, a Chroma folder and a Redis.

    What such a file says of other things than memory is for other programs.
    """
    memory = dict(values["memory"] or {})
    sqlite, chroma, redis = (dict(memory.pop(name, None) or {}) for name in ("sqlite", "chroma", "redis"))
    found: dict[str, Any] = {}
    if "database" in sqlite:
        found["storage"] = f"sqlite:///{sqlite.pop('database')}"
    pragmas = dict(sqlite.pop("pragmas", None) or {})
    found["sqlite"] = {name: convert(pragmas.pop(old)) for old, (name, convert) in _PRAGMAS.items() if old in pragmas}
    for old, must in _FIXED_PRAGMAS.items():
        if str(pragmas.pop(old, must)).upper() != must:
            raise InvalidSettings(f"memory.sqlite.pragmas.{old} can only be {must}; leave it out")
    if "persist_directory" in chroma:
        found["vectors"] = f"chroma:///{chroma.pop('persist_directory')}"
    if "collection" in chroma:
        found["chroma"] = {"prefix": chroma.pop("collection")}
    if "embedding_model" in chroma:
        found["embedding"] = {"model": chroma.pop("embedding_model")}
    if "host" in redis:
        found["sessions"] = f"redis://{redis.pop('host')}:{redis.pop('port', 6379)}/{redis.pop('db', 0)}"
    if "ttl" in redis:
        found["redis"] = {"ttl_seconds": redis.pop("ttl")}
    for place, left in (("", memory), (".sqlite", sqlite), (".sqlite.pragmas", pragmas), (".chroma", chroma),
                        (".redis", redis)):  # fmt: skip
        if left:
            raise InvalidSettings(f"memory{place} has no setting {next(iter(left))!r} that is understood here")
    return found


_KILO, _MEGA = 1000, 1024 * 1024
_PRAGMAS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "synchronous": ("synchronous", str),
    "cache_size": ("cache_megabytes", lambda size: max(1, round(-int(size) / _KILO))),
    "mmap_size": ("mmap_megabytes", lambda size: round(int(size) / _MEGA)),
}
_FIXED_PRAGMAS = {"journal_mode": "WAL", "foreign_keys": "ON", "temp_store": "MEMORY"}


def checked_settings(values: Mapping[str, Any]) -> Settings:
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = ".".join(str(step) for step in fault["loc"])
        if fault["type"] == "extra_forbidden":
            raise InvalidSettings(f"no setting {name!r}{nearest(name, known_names())}") from None
        if fault["type"] == "missing":  # its input is all that stands beside it, secrets too
            raise InvalidSettings(
                f"setting {name} is missing; set it, or leave out {name.rpartition('.')[0]}"
            ) from None
        got = "a secret" if name.split(".")[-1] in _SECRETS else shown(fault["input"])
        raise InvalidSettings(f"setting {name}: {fault['msg']} (got {without_password(got)})") from None


def without_password(address: str) -> str:
    """An address as it may be shown."""
    return _PASSWORD.sub(lambda found: f"{found[1]}***@" if found[1] else f"{found[2]}***", address)


def known_names() -> list[str]:
    """Every setting by its dotted name."""
    names = []
    for name, info in Settings.model_fields.items():
        part = info.annotation
        if isinstance(part, type) and issubclass(part, _Part):
            names += [f"{name}.{inner}" for inner in part.model_fields]
        else:
            names.append(name)
    return names


def _read(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidSettings(f"{path} cannot be read: {error.strerror}; name a YAML file that exists") from None
    except yaml.YAMLError as error:
        raise InvalidSettings(f"{path} is not YAML: {error}") from None
    if not isinstance(values or {}, dict):
        raise InvalidSettings(f"{path} holds a {type(values).__name__}; write settings as `name: value` lines")
    return from_agent_config(values) if isinstance((values or {}).get("memory"), dict) else dict(values or {})


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in sorted(environment.items()):
        if name.startswith(PREFIX):
            *above, last = name.removeprefix(PREFIX).lower().split("__")
            place = values
            for step in above:
                below = place.setdefault(step, {})
                if not isinstance(below, dict):
                    raise InvalidSettings(f"{name} and {PREFIX}{step.upper()} cannot both be set; choose one of them")
                place = below
            place[last] = value
    return values


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        merged[name] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _home(variable: str, fallback: str) -> Path:
    base = os.environ.get(variable)
    return (Path(base) if base else Path.home() / fallback) / "recollect"
