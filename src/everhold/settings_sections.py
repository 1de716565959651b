"""The sections of the settings: each class has the settings of one part, with their defaults and bounds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, SecretStr, field_validator

from everhold.model.base import DeferredModel
from everhold.model.fields import MAX_DIMENSIONS
from everhold.text.lazy_pattern import lazy_pattern

DEFAULT_MODEL = "all-MiniLM-L6-v2"
_PASSWORD = lazy_pattern(
    r"(?<=://)([^:/?#@]*:).*@"
    r"|(?<=[?&])((?:ssl)?password=)[^&]*"
    r"|(?<![?&\w])((?:ssl)?password\s*=\s*)(?:'(?:\\.|[^'\\])*'?|(?:\\.|[^\s\\])*)",  # libpq's keywords
)


def hide_password(address: str) -> str:
    """Return an address without its password."""
    return _PASSWORD.sub(lambda match: f"{match[1]}***@" if match[1] else f"{match[2] or match[3]}***", address)


class SettingsSection(DeferredModel):
    """Settings that belong together. A password is hidden in its repr."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, hide_password(value) if isinstance(value, str) else value


class EmbeddingModelSettings(SettingsSection):
    """A model that turns texts into vectors. With a `url`, it is an HTTP endpoint with OpenAI's protocol."""

    model: str = DEFAULT_MODEL
    path: Path | None = None
    url: str | None = None
    api_key: SecretStr | None = None
    dimensions: int = Field(default=384, ge=1, le=MAX_DIMENSIONS)


class Embedding(EmbeddingModelSettings):
    """The first embedding model, the division of texts into chunks for it, and the additional models."""

    also: tuple[EmbeddingModelSettings, ...] = ()
    chunk_tokens: int = Field(default=64, ge=16, le=8192)
    chunk_overlap: int = Field(default=16, ge=0)
    cache_texts: int = Field(default=20_000, ge=0)


class Llm(SettingsSection):
    """A language model that reads facts from messages and questions about data, over HTTP with OpenAI's protocol."""

    url: str = Field(min_length=1)
    model: str = Field(min_length=1)
    api_key: SecretStr | None = None
    batch: int = Field(default=20, ge=1, le=1000)


class Sqlite(SettingsSection):
    """Settings for writing SQLite files. FULL survives a power cut; NORMAL may lose the last commits to one."""

    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    busy_seconds: float = Field(default=30.0, ge=0)
    cache_megabytes: int = Field(default=64, ge=1)
    mmap_megabytes: int = Field(default=64, ge=0)
    maximum_pages: int | None = Field(default=None, ge=1)


class Postgres(SettingsSection):
    """The connection to PostgreSQL, and its indexes and partitions."""

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


class Duckdb(SettingsSection):
    """The memory and the threads that DuckDB may use."""

    memory_megabytes: int = Field(default=1024, ge=64)
    threads: int | None = Field(default=None, ge=1)


class Dynamodb(SettingsSection):
    """The endpoint and the capacity of DynamoDB. Credentials are found as AWS's own tools find them."""

    endpoint: str | None = None
    capacity: Literal["on_demand", "provisioned"] = "on_demand"
    read_units: int = Field(default=5, ge=1)
    write_units: int = Field(default=5, ge=1)
    retries: int = Field(default=8, ge=0)
    seconds: float = Field(default=10.0, gt=0)


class ChromaSettings(SettingsSection):
    """The collection of vectors in Chroma, if `vectors` names one."""

    prefix: str = Field(default="memories", pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}$")
    batch: int = Field(default=200, ge=1, le=5000)
    seconds: float = Field(default=10.0, gt=0)


class Redis(SettingsSection):
    """The session cache: how many messages it keeps for how long, and the optional connection to Redis."""

    ttl_seconds: int = Field(default=86_400, ge=1)
    history: int = Field(default=100, ge=1, le=10_000)
    socket_seconds: float = Field(default=5.0, gt=0)
    health_seconds: int = Field(default=30, ge=0)
    prefix: str = Field(default="everhold", pattern=r"^[^\s{}]{1,100}$")


class Images(SettingsSection):
    """Limits of the part of the store that is loaded into memory for searching."""

    megabytes: int = Field(default=1024, ge=1)
    max_memories: int = Field(default=200_000, ge=0)


class Remember(SettingsSection):
    """Whether a newer statement replaces an older one, and whether facts in messages are stored as memories."""

    resolve: bool = True
    extract: bool = True


class Maintenance(SettingsSection):
    """Settings for aging, pruning and consolidating memories, and the interval of automatic maintenance."""

    every_minutes: float | None = Field(default=None, gt=0)
    decay: bool = True
    half_life_days: float = Field(default=90.0, gt=0)
    exempt_priority: int = Field(default=8, ge=1, le=10)
    prune_after_days: float | None = Field(default=None, gt=0)
    prune_below: float | None = Field(default=None, gt=0, le=1)
    max_memories: int | None = Field(default=None, ge=1)
    max_megabytes: float | None = Field(default=None, gt=0)
    consolidate: bool = True
    idle_minutes: float = Field(default=0, ge=0)


class WorkspaceSettings(SettingsSection):
    """The folder that contains the folders of the workspaces, and the limits of each workspace."""

    folder: Path | None = None
    max_bytes: int = Field(default=1_000_000_000, ge=0)
    max_file_bytes: int = Field(default=64_000_000, ge=0)
    max_files: int = Field(default=100_000, ge=0)


class Log(SettingsSection):
    """When the access log's lines about reads are written, and the key that lines and chain heads are signed with."""

    mode: Literal["buffered", "strict"] = "buffered"
    flush_seconds: float = Field(default=1.0, gt=0)
    key_file: Path | None = None
    key: SecretStr | None = None
    heads: Path | None = None


class EncryptionSettings(SettingsSection):
    """The source of the master key, and the fields that are encrypted in addition to those that always are."""

    master_key: str = Field(min_length=1)
    former_keys: tuple[str, ...] = ()
    per_user: bool = True
    fields: tuple[str, ...] = ()

    @field_validator("former_keys", "fields", mode="before")
    @classmethod
    def split_names(cls, value: Any) -> Any:
        """Return the names of a text, which is all that an environment variable can hold, as a list."""
        return value.replace(",", " ").split() if isinstance(value, str) else value


class Uploads(SettingsSection):
    """Limits for reading one uploaded file, and whether files at addresses such as s3:// are read."""

    memory_megabytes: int = Field(default=256, ge=64)
    seconds: float = Field(default=8.0, gt=0)
    max_megabytes: int = Field(default=4096, ge=1)
    addresses: bool = False


class Connections(SettingsSection):
    """Settings for the databases that may be connected. Hosts of private networks and of this machine must be named."""

    hosts: tuple[str, ...] = ("public",)
    drivers: tuple[str, ...] = ()
    folders: tuple[Path, ...] | None = None
    variables: tuple[str, ...] = ("*",)
    seconds: float = Field(default=60.0, ge=1, le=3600)

    @field_validator("hosts", "drivers", "folders", "variables", mode="before")
    @classmethod
    def split_texts(cls, value: Any) -> Any:
        """Return the entries of a text, which is all that an environment variable can hold, as a list."""
        return value.split() if isinstance(value, str) else value


class AskSettings(SettingsSection):
    """When and for how long the language model of `llm` is asked about questions on data, and which data it may get."""

    llm: Literal["off", "auto", "always"] = "auto"
    send_rows: bool = False
    llm_seconds: float = Field(default=20.0, gt=0, le=600)
    prompt_tokens: int = Field(default=3000, ge=500, le=100_000)

    @field_validator("llm", mode="before")
    @classmethod
    def read_off(cls, value: Any) -> Any:
        """Return "off" for false, because YAML reads the word off as false."""
        return "off" if value is False else value


class Voice(SettingsSection):
    """The addresses of `everhold serve-voice`, the clients that may connect, and the limits of waiting requests."""

    bind: tuple[str, ...] = ()
    publish: str = "tcp://127.0.0.1:5598"
    token: SecretStr | None = None
    curve_keys: Path | None = None
    workers: int = Field(default=4, ge=1, le=64)
    max_bytes: int = Field(default=1_000_000, ge=1024, le=64_000_000)
    max_waiting: int = Field(default=1000, ge=1)

    @field_validator("bind", mode="before")
    @classmethod
    def split_binds(cls, value: Any) -> Any:
        """Return the binds of a text, which is all that an environment variable can hold, as a list."""
        return value.split() if isinstance(value, str) else value
