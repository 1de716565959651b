"""Settings files that are made to be slow, huge or ambiguous are refused with a line and a remedy."""

from pathlib import Path

import pytest

from everhold import settings
from everhold.errors import InvalidSettings
from everhold.evaluation.precision_format import load_document
from everhold.yaml_files import load_yaml

ALIAS_BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))

HOSTILE_SETTINGS = {
    "alias bomb": (ALIAS_BOMB, "the alias *a0 is not allowed; write the value out in line 2"),
    "self-reference": ("storage: &a [*a]\n", "the alias *a is not allowed"),
    "reference to the whole": ("&a\nstorage: *a\n", "the alias *a is not allowed"),
    "merge": ("a: &a {x: 1}\nb:\n  <<: *a\n", "the alias *a is not allowed"),
    "deep lists": ("storage: " + "[" * 10_000, "deeper than 32 levels; flatten them"),
    "deep mappings": ("storage: " + "{a: " * 10_000, "deeper than 32 levels"),
    "deep blocks": ("".join(" " * n + "a:\n" for n in range(200)), "deeper than 32 levels"),
    "long value": ("storage: " + "x" * 20_000, "a value has 20,000 characters; use at most 10,000"),
    "sexagesimal": ("text_bytes: " + "1:" * 10_000 + "1", "a value has 20,001 characters"),
    "digits": ("text_bytes: " + "9" * 5_000, "is not YAML"),
    "key twice": ("storage: a\nstorage: b\n", "the key 'storage' is given twice; keep one in line 2"),
    "python object": ("storage: !!python/object/apply:os.system [id]\n", "could not determine a constructor"),
    "other tag": ("storage: !secret x\n", "could not determine a constructor"),
    "two documents": ("a: 1\n---\nb: 2\n", "found another document"),
    "list as a key": ("[a, b]: 1\n", "unhashable"),
    "impossible date": ("storage: 2024-99-99\n", "is not YAML"),
    "NUL": ("storage: \x00\n", "is not YAML"),
    "large file": ("# " + "x" * 1_000_000, "settings.yaml has more than 1,000,000 bytes; name a settings file"),
}


@pytest.mark.parametrize("name", HOSTILE_SETTINGS)
def test_hostile_settings_are_refused(name: str, tmp_path: Path) -> None:
    text, message = HOSTILE_SETTINGS[name]
    file = tmp_path / "settings.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(InvalidSettings) as caught:
        settings.load(file)
    assert message in str(caught.value)
    assert str(caught.value).count(str(file)) == 1
    assert len(str(caught.value)) < 400


def test_ordinary_settings_are_read(tmp_path: Path) -> None:
    text = "storage: memory://\nsqlite: {synchronous: NORMAL}\nembedding:\n  chunk_tokens: 256\n"
    assert load_yaml(text) == {
        "storage": "memory://",
        "sqlite": {"synchronous": "NORMAL"},
        "embedding": {"chunk_tokens": 256},
    }
    file = tmp_path / "settings.yaml"
    file.write_text(text, "utf-8")
    assert settings.load(file).embedding.chunk_tokens == 256


def test_a_precision_suite_is_bounded_too(tmp_path: Path) -> None:
    file = tmp_path / "suite.yaml"
    for text, message in ((ALIAS_BOMB, "alias"), ("a: " + "[" * 10_000, "deeper than 32 levels")):
        file.write_text(text, "utf-8")
        with pytest.raises(ValueError, match=message):
            load_document(file)
