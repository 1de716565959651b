"""The page docs/settings.md lists every setting with its default."""

import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from everhold.settings import Settings, list_names
from everhold.settings_sections import EncryptionSettings, Llm

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def read_documented_defaults() -> dict[str, str]:
    return dict(re.findall(r"^\| `([a-z_.]+)` \| `?([^`|]*?)`? \|", PAGE.read_text("utf-8"), re.MULTILINE))


def test_every_setting_is_on_the_page_and_nothing_else() -> None:
    assert set(read_documented_defaults()) == set(list_names())


def test_defaults_are_those_of_the_code() -> None:
    settings = Settings(
        llm=Llm.model_construct(url=None, model=None), encryption=EncryptionSettings.model_construct(master_key=None)
    )
    wrong = {}
    for name, shown in read_documented_defaults().items():
        value: Any = settings
        for step in name.split("."):
            value = getattr(value, step)
        assert not isinstance(value, BaseModel)
        if name not in ("data", "cache") and shown != _format_value(value):
            wrong[name] = (shown, _format_value(value))
    assert not wrong


def _format_value(value: Any) -> str:
    match value:
        case None | ():
            return "none"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case tuple():
            return " ".join(map(str, value))
    return str(value)
