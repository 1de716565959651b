"""Settings: arguments win over environment variables, and both over the YAML file; errors help and hide secrets."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from everhold import Everhold, settings
from everhold.adapters.address import read_file
from everhold.errors import InvalidSettings, UnknownField
from everhold.settings import Settings, load
from everhold.settings_fields import SettingsFields
from everhold.settings_sections import hide_password


@pytest.fixture(autouse=True)
def isolate_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in an empty folder and without the variables of Everhold."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("EVERHOLD_"):
            monkeypatch.delenv(name)


def test_settings_have_documented_defaults() -> None:
    settings = load()
    assert settings.storage == "sqlite:///everhold.db"
    assert (settings.timezone, settings.text_bytes, settings.strict_scopes) == ("UTC", 1_000_000, False)
    assert (settings.sqlite.synchronous, settings.sqlite.busy_seconds, settings.sqlite.cache_megabytes) == (
        "FULL",
        30.0,
        64,
    )
    assert (settings.postgres.pool_size, settings.postgres.query_seconds) == (10, 30.0)
    assert (settings.embedding.chunk_tokens, settings.embedding.chunk_overlap, settings.embedding.dimensions) == (
        64,
        16,
        384,
    )
    assert settings.log.mode == "buffered"


def test_arguments_win_over_variables_and_variables_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    yaml = "timezone: Asia/Bangkok\ntext_bytes: 10\nembedding:\n  chunk_tokens: 100\n  chunk_overlap: 10\n"
    (tmp_path / "everhold.yaml").write_text(yaml)
    settings = load()
    assert (settings.timezone, settings.text_bytes, settings.embedding.chunk_tokens) == ("Asia/Bangkok", 10, 100)
    monkeypatch.setenv("EVERHOLD_TEXT_BYTES", "20")
    monkeypatch.setenv("EVERHOLD_EMBEDDING__CHUNK_TOKENS", "200")
    monkeypatch.setenv("EVERHOLD_STRICT_SCOPES", "true")
    monkeypatch.setenv("EVERHOLDED", "is not ours")
    settings = load()
    assert (settings.timezone, settings.text_bytes, settings.embedding.chunk_tokens) == ("Asia/Bangkok", 20, 200)
    assert (settings.embedding.chunk_overlap, settings.strict_scopes) == (10, True)
    settings = load(text_bytes=30, embedding={"chunk_overlap": 20})
    assert (settings.text_bytes, settings.embedding.chunk_tokens, settings.embedding.chunk_overlap) == (30, 200, 20)
    assert settings.timezone == "Asia/Bangkok"


def test_settings_name_the_store_that_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "everhold.yaml").write_text("storage: from-here.db\n")
    (tmp_path / "other.yml").write_text("storage: from-there.db\n")
    assert load().storage == "from-here.db"
    assert load("other.yml").storage == "from-there.db"
    assert load(tmp_path / "other.yml").storage == "from-there.db"
    assert load("notes.db").storage == "notes.db"
    assert load(Path("notes.db")).storage == "notes.db"
    assert load("postgresql://h/d").storage == "postgresql://h/d"
    monkeypatch.setenv("EVERHOLD_STORAGE", "from-the-environment.db")
    assert load().storage == "from-the-environment.db"
    assert load("notes.db").storage == "notes.db"
    assert load("other.yml").storage == "from-the-environment.db"
    assert load("notes.db", storage="named.db").storage == "named.db"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"storag": "x"}, "no setting 'storag'; did you mean 'storage'"),
        ({"sqlite": {"synchronus": "FULL"}}, "no setting 'sqlite.synchronus'; did you mean 'sqlite.synchronous'"),
        ({"sqlite": {"synchronous": "OFF"}}, "setting sqlite.synchronous is 'OFF'; it should be 'FULL' or 'NORMAL'"),
        ({"text_bytes": 0}, "setting text_bytes is 0; it should be greater than or equal to 1"),
        ({"text_bytes": "many"}, "setting text_bytes is 'many'; it should be"),
        ({"timezone": "Mars"}, "setting timezone: no time zone 'Mars'; use an IANA name"),
        ({"embedding": {"dimensions": 0}}, "setting embedding.dimensions"),
        ({"log": {"mode": "loud"}}, "setting log.mode is 'loud'; it should be 'buffered' or 'strict'"),
        ({"embedding": "MiniLM"}, "setting embedding"),
        ({"embeding": {"model": "x"}}, "no setting 'embeding'; did you mean 'embedding'"),
        ({"llm": {"url": "http://h", "model": "m", "modle": "x"}}, "no setting 'llm.modle'; did you mean 'llm.model'"),
        ({"llm": {"url": "http://h", "modle": "x"}}, "no setting 'llm.modle'; did you mean 'llm.model'"),
        ({"llm": {"url": "http://h"}}, "setting llm.model is missing; set it, or leave out llm"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        load(**settings)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"SQLITE__SYNCHRONUS": "FULL"},
         "environment variable EVERHOLD_SQLITE__SYNCHRONUS; did you mean EVERHOLD_SQLITE__SYNCHRONOUS"),
        ({"SQLITE_BUSY_SECONDS": "3"}, "did you mean EVERHOLD_SQLITE__BUSY_SECONDS"),
        ({"QQQQ": "3"}, "EVERHOLD_QQQQ; unset it"),
        ({"SQLITE__BUSY_SECONDS": "soon"}, "^EVERHOLD_SQLITE__BUSY_SECONDS is 'soon'; it should be a valid number"),
        ({"TIMEZONE": "Mars"}, "^EVERHOLD_TIMEZONE: no time zone 'Mars'"),
        ({"TEXT_BYTES": "0"}, "^EVERHOLD_TEXT_BYTES is '0'"),
        ({"EMBEDDING": "MiniLM"}, "^EVERHOLD_EMBEDDING names a section, .*; set EVERHOLD_EMBEDDING__MODEL"),
        ({"EMBEDDING": "MiniLM", "EMBEDDING__MODEL": "x"},
         "EVERHOLD_EMBEDDING__MODEL and EVERHOLD_EMBEDDING are both set"),
    ],
)  # fmt: skip
def test_a_wrong_environment_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"EVERHOLD_{name}", value)
    with pytest.raises(InvalidSettings, match=message):
        load()


def test_a_variable_is_not_blamed_for_an_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERHOLD_TEXT_BYTES", "20")
    with pytest.raises(InvalidSettings, match=r"^setting text_bytes is 0"):
        load(text_bytes=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", "is not YAML"), ("- a\n- b\n", "holds a list; write settings as"), ("just text", "holds a str"),
        ("nonsense: 1\n", "no setting 'nonsense'"),
        ("a: 2024-13-45\n", r"is not YAML: month must be in 1\.\.12; correct it$"),
        ("a: b\0c\n", "is not YAML: unacceptable character"),
        ("a: x\n b: y\n", r"is not YAML: .* in line 2; correct it$"),
        ("memory: x.db\n", "memory is 'x.db' and not a section; write `name: value` lines below it"),
    ],
)  # fmt: skip
def test_an_invalid_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "bad.yaml").write_text(content)
    with pytest.raises(InvalidSettings, match=message):
        load("bad.yaml")


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_bytes("timezone: Zürich".encode("latin-1"))
    with pytest.raises(InvalidSettings, match=r"bad.yaml is not UTF-8 \(byte 12\); save it as UTF-8"):
        load("bad.yaml")


def test_a_file_that_is_not_yaml_shows_no_secret(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(f"embedding:\n  api_key: {SECRET}\n model: x\n")
    with pytest.raises(InvalidSettings, match="is not YAML") as caught:
        load("bad.yaml")
    assert SECRET not in str(caught.value)


def test_an_empty_section_has_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "everhold.yaml").write_text("timezone: Asia/Bangkok\nembedding:\nsqlite:\nllm:\nmemory:\n")
    assert load() == load("notes.db", storage=Settings().storage, timezone="Asia/Bangkok")
    (tmp_path / "everhold.yaml").write_text("storage:\n")
    with pytest.raises(InvalidSettings, match="setting storage"):
        load()


@pytest.mark.parametrize("name", ["memory", "provider", "x", "embedding.provider"])
def test_an_error_about_an_unknown_name_lists_few_settings(name: str) -> None:
    first, _, second = name.partition(".")
    arguments: dict[str, Any] = {first: {second: "x"} if second else "x"}
    with pytest.raises(InvalidSettings, match=f"no setting '{name}'; ") as caught:
        load(**arguments)
    listed = [setting for setting in settings.list_names() if setting in str(caught.value).split("; ", 1)[1]]
    assert len(listed) <= 4


def test_a_missing_file_is_refused_and_an_empty_one_has_the_defaults(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"nothing.yaml cannot be read: .*; name a readable file"):
        load("nothing.yaml")
    (tmp_path / "empty.yaml").write_text("")
    assert load("empty.yaml") == load()


def test_settings_are_frozen() -> None:
    settings = load()
    with pytest.raises(ValidationError):
        settings.storage = "x"
    with pytest.raises(ValidationError):
        settings.sqlite.synchronous = "NORMAL"


SECRET = "s3cr3t-canary"


@pytest.mark.parametrize(
    "values",
    [
        {"embedding": {"api_key": SECRET}},
        {"storage": f"postgresql://user:{SECRET}@host:5432/database?sslmode=require"},
        {"storage": f"postgresql://host/database?user=u&password={SECRET}"},
        {"embedding": {"url": f"https://user:{SECRET}@host/v1"}},
        {"postgres": {"owner_url": f"host=host user=u password={SECRET} dbname=d"}},
        {"postgres": {"replica_url": f"host=host password = 'it\\'s {SECRET}' dbname=d"}},
        {"postgres": {"replica_url": f"password=a\\ {SECRET} host=host"}},
        {"postgres": {"owner_url": f"host=host sslpassword={SECRET}"}},
        {"postgres": {"owner_url": f"postgresql://host/d?sslpassword={SECRET}&user=u"}},
    ],
)
def test_secrets_are_in_no_repr(values: dict[str, Any]) -> None:
    settings = load(**values)
    for representation in (repr(settings), str(settings), f"{settings}", repr(settings.embedding), repr([settings])):
        assert SECRET not in representation
    assert "host" in repr(settings) or "api_key" in str(values)


@pytest.mark.parametrize(
    "values",
    [
        {"embedding": {"api_key": [SECRET]}},
        {"embedding": {"api_key": {"k": SECRET}}},
        {"embedding": [{"api_key": SECRET}]},
        {"postgres": f"host=h password='a {SECRET}'"},
        {"postgres": {"owner_url": [f"host=h password='a {SECRET}'"]}},
        {"postgres": {"owner_url": [f"postgresql://user:{SECRET}{'x' * 60}@host/database"]}},
    ],
)
def test_secrets_are_in_no_error(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings) as caught:
        load(**values)
    assert SECRET not in str(caught.value)


def test_only_the_password_of_an_address_is_hidden() -> None:
    hidden = hide_password("host=h password='a b' dbname=d passfile=/f")
    assert hidden == "host=h password=*** dbname=d passfile=/f"
    assert hide_password("postgresql://h/d?password=x&user=u") == "postgresql://h/d?password=***&user=u"


def test_every_setting_has_a_dotted_name() -> None:
    names = settings.list_names()
    assert {"storage", "sqlite.synchronous", "embedding.api_key", "log.mode", "llm.model", "images.megabytes"} <= set(
        names
    )
    assert len(names) == len(set(names))
    assert set(Settings.model_fields) <= {name.partition(".")[0] for name in names}


def test_data_and_cache_folders_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/somewhere")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    settings = load()
    assert (settings.data, settings.cache) == (Path("/somewhere/everhold"), Path("/home/me/.cache/everhold"))


AGENT_CONFIG = """
agent: {name: helper}
memory:
  sqlite:
    database: "storage/memory.db"
    pragmas: {journal_mode: "WAL", cache_size: -64000, synchronous: NORMAL, mmap_size: 67108864}
  chroma: {collection: "julep_memories", persist_directory: "storage/chromadb", embedding_model: "all-MiniLM-L6-v2"}
  redis: {host: "localhost", port: 6380, ttl: 3600}
"""


def test_an_agent_config_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "agent_config.yaml"
    path.write_text(AGENT_CONFIG, "utf-8")
    settings = load(path)
    assert settings.storage == "sqlite:///storage/memory.db"
    assert (settings.sqlite.synchronous, settings.sqlite.cache_megabytes, settings.sqlite.mmap_megabytes) == (
        "NORMAL",
        64,
        64,
    )
    assert (settings.vectors, settings.chroma.prefix) == ("chroma:///storage/chromadb", "julep_memories")
    assert (settings.sessions, settings.redis.ttl_seconds) == ("redis://localhost:6380/0", 3600)
    assert settings.embedding.model == "all-MiniLM-L6-v2"


@pytest.mark.parametrize("on", ["ON", "on", "true", "yes", "1", '"ON"', '"on"', '"1"'])
def test_pragmas_are_understood_as_yaml_and_sqlite_spell_them(tmp_path: Path, on: str) -> None:
    path = tmp_path / "agent_config.yaml"
    pragmas = f"foreign_keys: {on}, journal_mode: wal, temp_store: 2, synchronous: 1, cache_size: 2560"
    path.write_text(f"memory: {{sqlite: {{pragmas: {{{pragmas}}}}}, chroma: , redis: }}\n", "utf-8")
    assert load(path) == load(
        "x.db", storage=Settings().storage, sqlite={"synchronous": "NORMAL", "cache_megabytes": 10}
    )


def test_a_path_in_an_agent_config_may_hold_any_character(tmp_path: Path) -> None:
    path = tmp_path / "agent_config.yaml"
    path.write_text('memory: {sqlite: {database: "/a?b/c#d %41.db"}}\n', "utf-8")
    assert read_file(load(path).storage) == (Path("/a?b/c#d %41.db"), False)


def test_a_file_whose_storage_and_memory_both_name_a_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agent_config.yaml"
    path.write_text(f"storage: other.db\n{AGENT_CONFIG}", "utf-8")
    with pytest.raises(InvalidSettings, match="`storage` and `memory` of one file both name a store; leave out one"):
        load(path)
    path.write_text(f"storage: {{kind: s3}}\n{AGENT_CONFIG}", "utf-8")
    assert load(path).storage == "sqlite:///storage/memory.db"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('journal_mode: "WAL"', "journal_mode: DELETE", "journal_mode is not WAL; leave it out"),
        ('journal_mode: "WAL"', "foreign_keys: OFF", r"foreign_keys is not ON; leave it out"),
        ("cache_size: -64000", "cache_size: big", r"pragmas\.cache_size is 'big'; write a whole number"),
        ("mmap_size: 67108864", "mmap_size: [1]", r"pragmas\.mmap_size is \[1\]; write a whole number"),
        (
            'redis: {host: "localhost", port: 6380, ttl: 3600}',
            "redis: redis://:pass@h",
            r"redis is 'redis://:\*\*\*@h'",
        ),
        ("ttl: 3600", "tll: 3600", r"memory\.redis has no setting 'tll'"),
        ("cache_size: -64000", "cache_sice: 1", r"memory\.sqlite\.pragmas has no setting 'cache_sice'"),
        ("synchronous: NORMAL", "synchronous: OFF", r"sqlite\.synchronous is 'OFF'"),
    ],
)
def test_unsupported_settings_of_an_agent_config_are_reported(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "agent_config.yaml"
    path.write_text(AGENT_CONFIG.replace(old, new), "utf-8")
    with pytest.raises(InvalidSettings, match=message):
        load(path)


@pytest.mark.parametrize("name", ["sqlite", "chroma", "redis"])
def test_an_invalid_section_of_an_agent_config_is_reported(tmp_path: Path, name: str) -> None:
    path = tmp_path / "agent_config.yaml"
    path.write_text(f"memory: {{{name}: b.db}}\n", "utf-8")
    with pytest.raises(
        InvalidSettings, match=rf"memory\.{name} is 'b.db' and not a section; write `name: value` lines"
    ):
        load(path)


def test_every_setting_is_a_typed_keyword_argument() -> None:
    assert list(SettingsFields.__annotations__) == list(Settings.model_fields)
    with pytest.raises(UnknownField, match="open takes no argument 'timezon'; did you mean 'timezone'"):
        Everhold.open("memory://", timezon="UTC")  # type: ignore[call-arg]
    with pytest.raises(InvalidSettings, match="setting sqlite"):
        Everhold.open("memory://", sqlite=3)  # type: ignore[arg-type]


def test_a_layout_is_a_preset_that_other_settings_replace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    preset = load(layout="julep")
    assert (preset.storage, preset.vectors) == ("sqlite:///storage/memory.db", "chroma:///storage/chromadb")
    assert (preset.sessions, preset.chroma.prefix) == ("redis://localhost:6379/0", "julep_memories")
    monkeypatch.setenv("EVERHOLD_LAYOUT", "julep")
    chosen = load("other.db", sessions="auto", chroma={"batch": 10})
    assert (chosen.layout, chosen.storage, chosen.sessions) == ("julep", "other.db", "auto")
    assert (chosen.chroma.prefix, chosen.chroma.batch) == ("julep_memories", 10)
    with pytest.raises(InvalidSettings, match="layout"):
        load(layout="julip")
