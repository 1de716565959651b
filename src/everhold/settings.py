"""Settings from a YAML file, environment variables, which override it, and keyword arguments, which override both.

Only this module reads or changes the environment. `EVERHOLD_STORAGE` sets `storage`; two underscores go one level
down, so `EVERHOLD_EMBEDDING__MODEL` sets `embedding.model`. A secret is hidden in every repr.
"""

import os
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeGuard, TypeVar, get_args
from urllib.parse import quote

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from everhold.environment import PREFIX, merge_settings, name_variable, nest, read_variables, refuse_unknown
from everhold.errors import InvalidSettings, format_value
from everhold.model.fields import Timezone
from everhold.model.validation import describe_fault, suggest_name
from everhold.settings_sections import (
    AskSettings,
    ChromaSettings,
    Connections,
    Duckdb,
    Dynamodb,
    Embedding,
    EncryptionSettings,
    Images,
    Llm,
    Log,
    Maintenance,
    Postgres,
    Redis,
    Remember,
    SettingsSection,
    Sqlite,
    Uploads,
    Voice,
    WorkspaceSettings,
    hide_password,
)

FILE = "everhold.yaml"
# The places of data in the layout "julep", unless other settings change them.
JULEP_LAYOUT: Mapping[str, Any] = {
    "storage": "sqlite:///storage/memory.db",
    "vectors": "chroma:///storage/chromadb",
    "sessions": "redis://localhost:6379/0",
    "chroma": {"prefix": "julep_memories"},
}
_SECRETS = ("api_key", "key", "token")
MAX_FILE_BYTES = 1_000_000
_NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1", "ANONYMIZED_TELEMETRY": "False"}  # onnxruntime, Chroma


def _check_not_empty(address: str) -> str:
    if not address.strip():
        raise PydanticCustomError("empty_address", "the address is empty; write one, or leave the setting out")
    return address


Address = Annotated[str, AfterValidator(_check_not_empty)]


class _ValidatedByItself:
    """Marks a section of settings that its own validator checks.

    It is built when the section is first named. Otherwise the validator of `Settings` would contain those of all
    sections, and building them would take a hundredth of a short command.
    """

    def __get_pydantic_core_schema__(self, section: type[SettingsSection], _: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(section.model_validate)


S = TypeVar("S")
Section = Annotated[S, _ValidatedByItself()]


class Settings(SettingsSection):
    """Everything that can be chosen."""

    layout: Literal["everhold", "julep"] = "everhold"
    storage: Address = "sqlite:///everhold.db"
    vectors: Address = "auto"
    sessions: Address = "auto"
    blobs: Address = "auto"
    embedding: Section[Embedding] = Embedding.model_construct()
    timezone: Timezone = "UTC"
    text_bytes: int = Field(default=1_000_000, ge=1)
    interface: str = Field(default="library", min_length=1, max_length=50)
    strict_scopes: bool = False
    index_messages: bool = True
    grace_days: float = Field(default=30.0, ge=0)
    archive_days: float | None = Field(default=None, ge=0)
    slow_call_seconds: float = Field(default=1.0, gt=0)
    sqlite: Section[Sqlite] = Sqlite.model_construct()
    postgres: Section[Postgres] = Postgres.model_construct()
    duckdb: Section[Duckdb] = Duckdb.model_construct()
    dynamodb: Section[Dynamodb] = Dynamodb.model_construct()
    chroma: Section[ChromaSettings] = ChromaSettings.model_construct()
    redis: Section[Redis] = Redis.model_construct()
    images: Section[Images] = Images.model_construct()
    remember: Section[Remember] = Remember.model_construct()
    llm: Llm | None = None
    maintenance: Section[Maintenance] = Maintenance.model_construct()
    workspaces: Section[WorkspaceSettings] = WorkspaceSettings.model_construct()
    log: Section[Log] = Log.model_construct()
    encryption: EncryptionSettings | None = None
    uploads: Section[Uploads] = Uploads.model_construct()
    connections: Section[Connections] = Connections.model_construct()
    ask: Section[AskSettings] = AskSettings.model_construct()
    voice: Section[Voice] = Voice.model_construct()
    data: Path = Field(default_factory=lambda: _find_home("XDG_DATA_HOME", ".local/share"))
    cache: Path = Field(default_factory=lambda: _find_home("XDG_CACHE_HOME", ".cache"))


def load(target: str | Path | None = None, **arguments: Any) -> Settings:
    """Return the settings for a path, a URL or a YAML file. By default, read `./everhold.yaml` if it exists."""
    file = _find_settings_file(target)
    variables = read_variables(os.environ)
    file_values = _read_settings_file(file) if file else {}
    values = merge_settings(file_values, nest(variables))
    if target is not None and file is None:
        values["storage"] = str(target)
    files = {name: str(file) for name in file_values if name not in arguments}
    values = merge_settings(values, arguments)
    preset = JULEP_LAYOUT if values.get("layout") == "julep" else {}
    return validate_settings(merge_settings(preset, values), variables, files)


def _find_settings_file(target: str | Path | None) -> Path | None:
    file = Path(FILE if target is None else target)
    return file if (file.is_file() if target is None else file.suffix in (".yaml", ".yml")) else None


def find_storage_source(target: str | Path | None = None) -> str | None:
    """Return the environment variable or the settings file that names the store; None if it is `target` or neither."""
    file = _find_settings_file(target)
    if target is not None and file is None:
        return None
    return name_variable("storage") if "storage" in read_variables(os.environ) else str(file) if file else None


def name_setting(name: str, value: object) -> str:
    """Return the environment variable that gave a setting its value; if none did, the setting."""
    return name_variable(name) if read_variables(os.environ).get(name) == str(value) else f"setting {name}"


def convert_agent_config(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an `agent_config.yaml`: its `memory` names a SQLite file, a Chroma folder and a Redis.

    The options of the connection to Redis may also be in a section `redis_config`, beside `memory` or in it. Other
    sections of such a file are for other programs and are ignored.
    """
    if isinstance(values.get("storage"), str):
        raise InvalidSettings("`storage` and `memory` of one file both name a store", remedy="leave out one of them")
    memory = _read_section("memory", values["memory"])
    sqlite, chroma, redis = (_read_section(f"memory.{n}", memory.pop(n, None)) for n in ("sqlite", "chroma", "redis"))
    redis |= _read_section("redis_config", values.get("redis_config"))
    redis |= _read_section("memory.redis_config", memory.pop("redis_config", None))
    converted: dict[str, Any] = {"layout": values["layout"]} if "layout" in values else {}
    if "database" in sqlite:
        converted["storage"] = f"sqlite:///{quote(str(sqlite.pop('database')))}"
    pragmas = _read_section("memory.sqlite.pragmas", sqlite.pop("pragmas", None))
    converted["sqlite"] = dict(_convert_pragma(pragma, pragmas.pop(pragma)) for pragma in _PRAGMAS if pragma in pragmas)
    for name, allowed in _FIXED_PRAGMAS.items():
        value = pragmas.pop(name, allowed[0])
        if str(value).upper() not in allowed:
            raise InvalidSettings(
                f"memory.sqlite.pragmas.{name} is not {allowed[0]}", value=value, remedy="leave it out"
            )
    if "persist_directory" in chroma:
        converted["vectors"] = f"chroma:///{quote(str(chroma.pop('persist_directory')))}"
    if "collection" in chroma:
        converted["chroma"] = {"prefix": chroma.pop("collection")}
    if "embedding_model" in chroma:
        converted["embedding"] = {"model": chroma.pop("embedding_model")}
    if "host" in redis:
        converted["sessions"] = _make_redis_address(redis)
    converted["redis"] = {name: redis.pop(option) for option, name in _REDIS_OPTIONS.items() if option in redis}
    for option in ("decode_responses", "retry_on_timeout"):
        if redis.pop(option, True) is not True:
            raise InvalidSettings(f"memory.redis.{option} is not true", remedy="leave it out: it is always so here")
    for section, unused in (("", memory), (".sqlite", sqlite), (".sqlite.pragmas", pragmas), (".chroma", chroma),
                        (".redis", redis)):  # fmt: skip
        if unused:
            raise InvalidSettings(
                f"memory{section} has no setting {next(iter(unused))!r} that is understood here", remedy="leave it out"
            )
    return converted


def _make_redis_address(redis: dict[str, Any]) -> str:
    """Return the address of a Redis server made from the options, and remove the used options."""
    user, password = (quote(str(redis.pop(name, "")), safe="") for name in ("username", "password"))
    login = f"{user}:{password}@" if user or password else ""
    return f"redis://{login}{redis.pop('host')}:{redis.pop('port', 6379)}/{redis.pop('db', 0)}"


def _read_section(section: str, value: Any) -> dict[str, Any]:
    """Return the settings of a section without empty ones."""
    if not isinstance(value, dict | None):
        received = format_value(_hide_secrets(value))
        raise InvalidSettings(f"{section} is {received} and not a section", remedy="write `name: value` lines below it")
    return {name: inner for name, inner in (value or {}).items() if inner is not None}


def _convert_pragma(old: str, value: Any) -> tuple[str, Any]:
    name, convert = _PRAGMAS[old]
    try:
        return name, convert(value)
    except (TypeError, ValueError, OverflowError):
        received = format_value(value)
        raise InvalidSettings(f"memory.sqlite.pragmas.{old} is {received}", remedy="write a whole number") from None


_REDIS_OPTIONS = {
    "ttl": "ttl_seconds",
    "socket_timeout": "socket_seconds",
    "health_check_interval": "health_seconds",
}
_KILO, _MEGA, _PAGE = 1000, 1024 * 1024, 4096
_LEVELS = {"1": "NORMAL", "2": "FULL", "FALSE": "OFF", "TRUE": "ON"}
# SQLite counts a cache in pages; a negative number counts kilobytes.
_PRAGMAS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "synchronous": ("synchronous", lambda level: _LEVELS.get(str(level).upper(), str(level).upper())),
    "cache_size": ("cache_megabytes", lambda size: max(1, round(-int(size) / _KILO), round(int(size) * _PAGE / _MEGA))),
    "mmap_size": ("mmap_megabytes", lambda size: round(int(size) / _MEGA)),
}
_FIXED_PRAGMAS = {"journal_mode": ("WAL",), "foreign_keys": ("ON", "TRUE", "YES", "1"), "temp_store": ("MEMORY", "2")}


def validate_settings(
    values: Mapping[str, Any], variables: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None
) -> Settings:
    """Return the settings. InvalidSettings names the variable or the file, by top-level setting, of a bad value."""
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        fault = next((item for item in faults if item["type"] == "extra_forbidden"), faults[0])  # may cause the rest
        invalid = _explain_fault(fault, variables or {})
        if file := None if PREFIX in invalid.fact else (files or {}).get(str(fault["loc"][0])):
            invalid.fact = f"{file}: {invalid.fact}"
        raise invalid from None


def _explain_fault(fault: Any, variables: Mapping[str, str]) -> InvalidSettings:
    """Return the error for a fault that Pydantic found, with the name of the setting or of its variable."""
    name = ".".join(str(step) for step in fault["loc"])
    is_variable = name in variables and variables[name] == fault["input"]
    if fault["type"] == "extra_forbidden":
        if is_variable:
            return refuse_unknown(name, list_names())
        return InvalidSettings(f"no setting {name!r}", value=name, remedy=_suggest_names(name))
    if fault["type"] == "missing":  # its input is the whole section, secrets included, so it is not shown
        section = name.rpartition(".")[0]
        present = next((setting for setting in variables if setting.startswith(f"{section}.")), None)
        if present is None:
            return InvalidSettings(f"setting {name} is missing", remedy=f"set it, or leave out {section}")
        fact = f"{name_variable(name)} is missing, which {name_variable(present)} needs"
        return InvalidSettings(fact, remedy=f"set it, or unset {name_variable(present)}")
    subject = name_variable(name) if is_variable else f"setting {name}"
    if fault["type"] == "model_type":
        inner = next(setting for setting in list_names() if setting.startswith(f"{name}."))
        remedy = f"set {name_variable(inner)}" if is_variable else f"write `{inner.rpartition('.')[2]}: …` below it"
        return InvalidSettings(f"{subject} names a section, not a single setting", remedy=f"{remedy}, for example")
    received = "a secret" if name.split(".")[-1] in _SECRETS else format_value(_hide_secrets(fault["input"]))
    fact, remedy = describe_fault(fault, received)
    return InvalidSettings(subject + fact.removeprefix(name), remedy=remedy)


def _hide_secrets(value: Any) -> Any:
    """Return a value without secrets. This comes before it is shortened, which may cut off the end of a secret."""
    match value:
        case str():
            return hide_password(value)
        case dict():
            return {name: "***" if name in _SECRETS else _hide_secrets(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_hide_secrets(inner) for inner in value]
        case _:
            return value


def _suggest_names(name: str) -> str:
    """Return the remedy for an unknown setting: the names nearest to it."""
    names = sorted({*Settings.model_fields, *list_names()})
    suggestions = get_close_matches(name, names, n=1, cutoff=0.5) or [known for known in names if name in known][:3]
    return suggest_name(name, suggestions) if suggestions else "`everhold init` writes a file that names them all"


def list_names() -> list[str]:
    """Return the dotted name of every setting."""
    names = []
    for name, info in Settings.model_fields.items():
        parts = [kind for kind in (info.annotation, *get_args(info.annotation)) if _is_section(kind)]
        names += [f"{name}.{inner}" for part in parts for inner in part.model_fields] or [name]
    return names


def _is_section(annotation: Any) -> TypeGuard[type[SettingsSection]]:
    return isinstance(annotation, type) and issubclass(annotation, SettingsSection)


def _read_settings_file(path: Path) -> dict[str, Any]:
    values = read_yaml_file(path)
    sections = {"memory", *(name.partition(".")[0] for name in list_names() if "." in name)}
    filled = {name: value for name, value in values.items() if value is not None or name not in sections}
    return convert_agent_config(filled) if "memory" in filled else filled


def read_yaml_file(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file. Raise InvalidSettings if it cannot be read or does not contain a mapping."""
    from everhold.yaml_files import load_yaml  # slow to import, and needed only where there is a file

    try:
        values = load_yaml(_read_file(path)) or {}
    except InvalidSettings:
        raise
    except OSError as error:
        raise InvalidSettings(f"{path} cannot be read: {error.strerror}", remedy="name a readable file") from None
    except UnicodeDecodeError as error:
        raise InvalidSettings(f"{path} is not UTF-8 (byte {error.start + 1})", remedy="save it as UTF-8") from None
    except ValueError as error:
        raise InvalidSettings(f"{path} is not YAML: {error}", remedy="correct it") from None
    if not isinstance(values, dict):
        raise InvalidSettings(f"{path} holds a {type(values).__name__}", remedy="write settings as `name: value` lines")
    return values


def _read_file(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise InvalidSettings(f"{path} has more than {MAX_FILE_BYTES:,} bytes", remedy="name a settings file")
    return content.decode("utf-8")


def read_variable(name: str) -> str | None:
    """Return the value of an environment variable that a setting names."""
    return os.environ.get(name)


def switch_telemetry_off() -> None:
    """Disable the telemetry of libraries. Call this before one of them is imported.

    Otherwise onnxruntime writes two files to the home folder and sends events.
    """
    os.environ.update(_NO_TELEMETRY)


def _find_home(variable: str, fallback: str) -> Path:
    base = os.environ.get(variable)
    return (Path(base) if base else Path.home() / fallback) / "everhold"
