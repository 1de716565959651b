"""Paths that a file of a workspace may have."""

import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.errors import InvalidInput
from everhold.workspaces.paths import MAX_NAME_BYTES, MAX_PATH_BYTES, find_path_fault, fold_path, split_path
from tests.unit.hostile_paths import list_hostile_paths


def test_there_are_enough_hostile_paths() -> None:
    assert len(list_hostile_paths()) >= 300


@pytest.mark.parametrize("path", list_hostile_paths(), ids=ascii)
def test_hostile_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidInput, match="pass a relative path"):
        split_path(path)


@pytest.mark.parametrize(
    "path",
    ["a", "a.txt", ".gitignore", "src/main.py", "a b/c d.txt", "a..b", "-", "console", "com", "com10", "nul_", "~",
     "naïve", "日本語/ファイル.txt", "e\u0301", "😀.png", "a" * 255, "$HOME", "*?<>|\"'", "x/.hidden/y",
     "Ⅷ", "ﬁle"],
)  # fmt: skip
def test_ordinary_paths_are_accepted(path: str) -> None:
    assert "/".join(split_path(path)) == path


@given(st.text(min_size=1, max_size=40))
def test_accepted_paths_stay_below_the_folder(path: str) -> None:
    if find_path_fault(path) is not None:
        return
    for form in (path, *(unicodedata.normalize(name, path) for name in ("NFC", "NFD", "NFKC", "NFKD"))):
        joined = os.path.normpath(f"/root/{form}")
        assert joined.startswith("/root/")
        assert ".." not in form.split("/")
        assert "\\" not in form
        assert "\x00" not in form
    assert len(path.encode()) <= MAX_PATH_BYTES
    assert all(0 < len(name.encode()) <= MAX_NAME_BYTES for name in path.split("/"))


@given(st.text(alphabet="aAbBéÉe\u0301ßẞsSİi\u0130K\u212a./", max_size=12))
def test_folding_is_stable_and_ignores_case(path: str) -> None:
    folded = fold_path(path)
    assert fold_path(folded) == folded
    assert fold_path(unicodedata.normalize("NFD", path)) == folded
    assert fold_path(path.lower()) == fold_path(path.lower().upper().lower())


@pytest.mark.parametrize(
    ("first", "second"),
    [("README", "readme"), ("é", "e\u0301"), ("É", "e\u0301"), ("straße", "STRASSE"), ("\u212a", "k")],
)
def test_names_that_a_file_system_may_confuse_have_one_form(first: str, second: str) -> None:
    assert fold_path(f"a/{first}") == fold_path(f"A/{second}")
