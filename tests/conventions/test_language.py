"""The language of the code stays plain: the figures of `benchmarks.language` meet their bars."""

from pathlib import Path

import pytest

from benchmarks.language import BARS, ROOT, Counts, count_package, count_source, is_participle_like

# All tests run in one process, because they share a result that takes seconds to compute.
pytestmark = pytest.mark.xdist_group("source tree")

PACKAGE = ROOT / "src" / "everhold"


@pytest.fixture(scope="module")
def package() -> Counts:
    return count_package([PACKAGE], ROOT)


def test_every_class_has_a_name_of_its_own(package: Counts) -> None:
    assert package.repeated_classes == {}


def test_functions_are_named_by_verbs(package: Counts) -> None:
    assert len(package.participles) <= BARS["participle_names"][1] * package.functions, package.participles


def test_docstrings_have_no_archaic_words(package: Counts) -> None:
    assert len(package.archaic) <= BARS["archaic_words"][1] * package.words / 1000, package.archaic


@pytest.mark.parametrize("name", ["found", "_looked_at", "_before_a_refusal", "held", "having_any"])
def test_fragments_are_found(name: str) -> None:
    assert is_participle_like(name)


@pytest.mark.parametrize("name", ["find_rows", "__init__", "embed", "on_change", "with_lock", "test_held"])
def test_verbs_are_not_counted(name: str) -> None:
    assert not is_participle_like(name)


def test_broken_language_rules_are_counted(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(
        'def held() -> None:\n    """Whoever asks."""\n\n\nclass Place: ...\n\n\nclass Place: ...  # twice\n'
    )
    counts = Counts()
    count_source(source, "module.py", counts)
    assert [len(counts.participles), len(counts.archaic), counts.comments] == [1, 1, 1]
    assert list(counts.repeated_classes) == ["Place"]
