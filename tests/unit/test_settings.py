"""One YAML file, environment variables over it, keyword arguments over both; errors that help; secrets hidden."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from recollect import settings
from recollect.errors import InvalidSettings
from recollect.settings import Settings, load


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("RECOLLECT_"):
            monkeypatch.delenv(name)


def test_with_nothing_given() -> None:
    found = load()
    assert found.storage == "sqlite:///recollect.db"
    assert (found.timezone, found.text_bytes, found.strict_scopes) == ("UTC", 1_000_000, False)
    assert (found.sqlite.synchronous, found.sqlite.busy_seconds, found.sqlite.cache_megabytes) == ("FULL", 30.0, 64)
    assert (found.postgres.pool_size, found.postgres.query_seconds) == (10, 30.0)
    assert (found.embedding.chunk_tokens, found.embedding.chunk_overlap, found.embedding.dimensions) == (512, 50, 384)
    assert found.log.mode == "buffered"


def test_each_goes_over_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    yaml = "timezone: Asia/Bangkok\ntext_bytes: 10\nembedding:\n  chunk_tokens: 100\n  chunk_overlap: 10\n"
    (tmp_path / "recollect.yaml").write_text(yaml)
    found = load()
    assert (found.timezone, found.text_bytes, found.embedding.chunk_tokens) == ("Asia/Bangkok", 10, 100)
    monkeypatch.setenv("RECOLLECT_TEXT_BYTES", "20")
    monkeypatch.setenv("RECOLLECT_EMBEDDING__CHUNK_TOKENS", "200")
    monkeypatch.setenv("RECOLLECT_STRICT_SCOPES", "true")
    monkeypatch.setenv("RECOLLECTED", "is not ours")
    found = load()
    assert (found.timezone, found.text_bytes, found.embedding.chunk_tokens) == ("Asia/Bangkok", 20, 200)
    assert (found.embedding.chunk_overlap, found.strict_scopes) == (10, True)
    found = load(text_bytes=30, embedding={"chunk_overlap": 20})
    assert (found.text_bytes, found.embedding.chunk_tokens, found.embedding.chunk_overlap) == (30, 200, 20)
    assert found.timezone == "Asia/Bangkok"


def test_what_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recollect.yaml").write_text("storage: from-here.db\n")
    (tmp_path / "other.yml").write_text("storage: from-there.db\n")
    assert load().storage == "from-here.db"
    assert load("other.yml").storage == "from-there.db"
    assert load(tmp_path / "other.yml").storage == "from-there.db"
    assert load("notes.db").storage == "notes.db"
    assert load(Path("notes.db")).storage == "notes.db"
    assert load("postgresql://h/d").storage == "postgresql://h/d"
    monkeypatch.setenv("RECOLLECT_STORAGE", "from-the-environment.db")
    assert load().storage == "from-the-environment.db"
    assert load("notes.db").storage == "notes.db"
    assert load("other.yml").storage == "from-the-environment.db"
    assert load("notes.db", storage="named.db").storage == "named.db"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"storag": "x"}, "no setting 'storag'; did you mean 'storage'"),
        ({"sqlite": {"synchronus": "FULL"}}, "no setting 'sqlite.synchronus'; did you mean 'sqlite.synchronous'"),
        ({"sqlite": {"synchronous": "OFF"}}, "setting sqlite.synchronous: .*'FULL' or 'NORMAL'.* .got 'OFF'"),
        ({"text_bytes": 0}, "setting text_bytes: .*greater than or equal to 1 .got 0"),
        ({"text_bytes": "many"}, "setting text_bytes: .*got 'many'"),
        ({"timezone": "Mars"}, "setting timezone: no time zone 'Mars'; use an IANA name"),
        ({"embedding": {"dimensions": 0}}, "setting embedding.dimensions"),
        ({"log": {"mode": "loud"}}, "setting log.mode: .*'buffered' or 'strict'"),
        ({"embedding": "MiniLM"}, "setting embedding"),
    ],
)
def test_what_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSettings, match=words):
        load(**given)


def test_the_environment_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_SQLITE__SYNCHRONUS", "FULL")
    with pytest.raises(InvalidSettings, match=r"no setting 'sqlite.synchronus'; did you mean 'sqlite.synchronous'"):
        load()
    monkeypatch.delenv("RECOLLECT_SQLITE__SYNCHRONUS")
    monkeypatch.setenv("RECOLLECT_EMBEDDING", "MiniLM")
    monkeypatch.setenv("RECOLLECT_EMBEDDING__MODEL", "x")
    with pytest.raises(InvalidSettings):
        load()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: [", "is not YAML"), ("- a\n- b\n", "holds a list; write settings as"), ("just text", "holds a str"),
        ("nonsense: 1\n", "no setting 'nonsense'"),
    ],
)  # fmt: skip
def test_a_bad_file(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "bad.yaml").write_text(content)
    with pytest.raises(InvalidSettings, match=words):
        load("bad.yaml")


def test_a_missing_and_an_empty_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"nothing.yaml cannot be read: .*; name a YAML file that exists"):
        load("nothing.yaml")
    (tmp_path / "empty.yaml").write_text("")
    assert load("empty.yaml") == load()


def test_they_are_frozen() -> None:
    found = load()
    with pytest.raises(ValidationError):
        found.storage = "x"
    with pytest.raises(ValidationError):
        found.sqlite.synchronous = "NORMAL"


SECRET = "s3cr3t-canary"


@pytest.mark.parametrize(
    "given",
    [
        {"embedding": {"api_key": SECRET}},
        {"storage": f"postgresql://user:{SECRET}@host:5432/database?sslmode=require"},
        {"storage": f"postgresql://host/database?user=u&password={SECRET}"},
        {"embedding": {"url": f"https://user:{SECRET}@host/v1"}},
    ],
)
def test_secrets_are_in_no_repr(given: dict[str, Any]) -> None:
    found = load(**given)
    for shown in (repr(found), str(found), f"{found}", repr(found.embedding), repr([found])):
        assert SECRET not in shown
    assert "host" in repr(found) or "api_key" in str(given)


@pytest.mark.parametrize("given", [{"embedding": {"api_key": [SECRET]}}, {"embedding": {"api_key": {"k": SECRET}}}])
def test_secrets_are_in_no_error(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings) as caught:
        load(**given)
    assert SECRET not in str(caught.value)


def test_every_setting_has_a_dotted_name() -> None:
    names = settings.known_names()
    assert {"storage", "sqlite.synchronous", "embedding.api_key", "log.mode", "images.megabytes"} <= set(names)
    assert len(names) == len(set(names))
    assert set(Settings.model_fields) <= {name.partition(".")[0] for name in names}


def test_homes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/somewhere")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    found = load()
    assert (found.data, found.cache) == (Path("/somewhere/recollect"), Path("/home/me/.cache/recollect"))


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
    found = load(path)
    assert found.storage == "sqlite:///storage/memory.db"
    assert (found.sqlite.synchronous, found.sqlite.cache_megabytes, found.sqlite.mmap_megabytes) == ("NORMAL", 64, 64)
    assert (found.vectors, found.chroma.prefix) == ("chroma:///storage/chromadb", "julep_memories")
    assert (found.sessions, found.redis.ttl_seconds) == ("redis://localhost:6380/0", 3600)
    assert found.embedding.model == "all-MiniLM-L6-v2"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('journal_mode: "WAL"', "journal_mode: DELETE", "journal_mode can only be WAL"),
        ("ttl: 3600", "tll: 3600", r"memory\.redis has no setting 'tll'"),
        ("cache_size: -64000", "cache_sice: 1", r"memory\.sqlite\.pragmas has no setting 'cache_sice'"),
        ("synchronous: NORMAL", "synchronous: OFF", r"sqlite\.synchronous"),
    ],
)
def test_what_an_agent_config_cannot_have_is_told(tmp_path: Path, old: str, new: str, told: str) -> None:
    path = tmp_path / "agent_config.yaml"
    path.write_text(AGENT_CONFIG.replace(old, new), "utf-8")
    with pytest.raises(InvalidSettings, match=told):
        load(path)
