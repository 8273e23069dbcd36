"""Readers: the same images whatever the file format; a sentence for every broken file."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from relaytrain.core.errors import ScenarioError
from relaytrain.data.batchfile import read_batch
from relaytrain.data.cifar import cifar
from relaytrain.data.dataset import Dataset, from_arrays, select, union
from relaytrain.data.idx import idx_folder, read_idx
from relaytrain.data.source import read

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)
LABELS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]


def idx_bytes(array: np.ndarray) -> bytes:
    sizes = b"".join(int(size).to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def idx_files(folder: Path, *, gz: bool) -> np.ndarray:
    images = RNG.integers(0, 256, (7, 5, 4), dtype=np.uint8)
    labels = np.array([0, 1, 2, 0, 1, 2, 0], dtype=np.uint8)
    for stem, array in (("images-idx3", images), ("labels-idx1", labels)):
        data = idx_bytes(array)
        name = f"train-{stem}-ubyte" + (".gz" if gz else "")
        (folder / name).write_bytes(gzip.compress(data) if gz else data)
    return images


@pytest.mark.parametrize("gz", [False, True])
def test_idx_folders(tmp_path: Path, gz: bool) -> None:
    images = idx_files(tmp_path, gz=gz)
    data = idx_folder(tmp_path)
    assert data.input == (1, 5, 4) and data.classes == 3
    assert np.array_equal(np.round(data.images[:, 0] * 255).astype(np.uint8), images)
    assert data.labels.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert read("mnist", folder=tmp_path).digest() == data.digest()


GOOD_IDX = idx_bytes(np.zeros((3, 2, 2), dtype=np.uint8))


@pytest.mark.parametrize(
    "name, data, words",
    [
        ("a", GOOD_IDX[:-1], "11 bytes of data, its header promises 12"),
        ("a", GOOD_IDX + b"x", "more bytes of data"),
        ("a", GOOD_IDX[:9], "header is cut short"),
        ("a", b"", "not an idx file"),
        ("a", b"PK\x03\x04", "not an idx file"),
        ("a", b"\x00\x00\x0d\x03" + bytes(12), "not an idx file"),
        ("a", b"\x00\x00\x08\x03" + b"\xff" * 12, "claims sizes"),
        ("a.gz", gzip.compress(GOOD_IDX, mtime=0)[:-9], "cannot be read"),
        ("a.gz", b"not gzip at all", "cannot be read"),
        ("a.gz", gzip.compress(GOOD_IDX, mtime=0)[:12] + b"\x00" * 20, "cannot be read"),
    ],
)
def test_broken_idx_files(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ScenarioError, match=words):
        read_idx(tmp_path / name)


def test_missing_idx_files(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no such file"):
        read_idx(tmp_path / "absent")
    with pytest.raises(ScenarioError, match="train-images-idx3-ubyte"):
        idx_folder(tmp_path)


def binary(folder: Path, kind: str) -> None:
    rows = []
    for label, image in zip(LABELS, PIXELS, strict=True):
        rows.append(bytes([label] if kind == "cifar10" else [7, label]) + image.tobytes())
    if kind == "cifar10":
        (folder / "data_batch_1.bin").write_bytes(b"".join(rows[:5]))
        (folder / "data_batch_2.bin").write_bytes(b"".join(rows[5:]))
    else:
        (folder / "train.bin").write_bytes(b"".join(rows))


def old_pickle(key: str, pixels: np.ndarray, labels: list[int]) -> bytes:
    """The words of an official python batch, as Python 2 and numpy 1 wrote them."""

    def text(value: bytes) -> bytes:
        return (
            b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + len(value).to_bytes(4, "little") + value
        )

    def number(value: int) -> bytes:
        return b"K" + bytes([value]) if value < 256 else b"M" + value.to_bytes(2, "little")

    minus_one = b"J\xff\xff\xff\xff"
    listed = b"".join(number(label) for label in labels)
    dtype = (
        b"cnumpy\ndtype\nq\x0e"
        + text(b"u1")
        + b"K\x00K\x01\x87q\x10Rq\x11(K\x03"
        + text(b"|")
        + b"NNN"
        + 2 * minus_one
        + b"K\x00tq\x13b"
    )
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85q\x09"
        + text(b"b")
        + b"q\x0a\x87q\x0bRq\x0c"
        b"(K\x01"
        + number(pixels.shape[0])
        + number(pixels.shape[1])
        + b"\x86q\x0d"
        + dtype
        + b"\x89"
        + text(pixels.tobytes())
        + b"q\x14tq\x15b"
    )
    return (
        b"\x80\x02}q\x01(" + text(b"batch_label") + b"q\x02" + text(b"training batch 1 of 5") + b"q\x03"
        + text(key.encode()) + b"q\x04]q\x05(" + listed + b"e" + text(b"data") + b"q\x06" + array
        + text(b"filenames") + b"]q\x16(" + text(b"a.png") + b"h\x02eu."
    )  # fmt: skip


def python(folder: Path, kind: str) -> None:
    flat = PIXELS.reshape(12, -1)
    if kind == "cifar10":
        inner = folder / "cifar-10-batches-py"
        inner.mkdir()
        (inner / "data_batch_1").write_bytes(old_pickle("labels", flat[:5], LABELS[:5]))
        (inner / "data_batch_2").write_bytes(old_pickle("labels", flat[5:], LABELS[5:]))
    else:
        (folder / "train").write_bytes(old_pickle("fine_labels", flat, LABELS))


def parquet(folder: Path, kind: str) -> None:
    pa = pytest.importorskip("pyarrow")
    from PIL import Image
    from pyarrow import parquet as pq

    cells = []
    for image in PIXELS:
        buffer = io.BytesIO()
        Image.fromarray(image.transpose(1, 2, 0)).save(buffer, format="PNG")
        cells.append({"bytes": buffer.getvalue(), "path": None})
    column = "label" if kind == "cifar10" else "fine_label"
    table = pa.table({"img": cells, column: LABELS})
    pq.write_table(table.slice(0, 5), folder / "train-00000-of-00002.parquet")
    pq.write_table(table.slice(5), folder / "train-00001-of-00002.parquet")


@pytest.mark.parametrize("kind", ["cifar10", "cifar100"])
@pytest.mark.parametrize("write", [binary, python, parquet])
def test_cifar_in_every_format(tmp_path: Path, write: Callable[[Path, str], None], kind: str) -> None:
    write(tmp_path, kind)
    data = read(kind, folder=tmp_path)
    assert np.array_equal(np.round(data.images * 255).astype(np.uint8), PIXELS)
    assert data.labels.tolist() == LABELS
    assert data.classes == (10 if kind == "cifar10" else 100)


def test_python_batches_keep_all_their_fields(tmp_path: Path) -> None:
    path = tmp_path / "batch"
    path.write_bytes(old_pickle("labels", PIXELS.reshape(12, -1), LABELS))
    batch = read_batch(path)
    assert batch["batch_label"] == "training batch 1 of 5"
    assert batch["filenames"] == ["a.png", "batch_label"]
    whole = path.read_bytes()
    for end in range(0, len(whole), 97):
        path.write_bytes(whole[:end])
        with pytest.raises(ScenarioError):
            read_batch(path)


def test_broken_cifar_folders(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no such folder"):
        cifar(tmp_path / "absent")
    with pytest.raises(ScenarioError, match="found no files of cifar10"):
        cifar(tmp_path)
    with pytest.raises(ScenarioError, match="split 'all'"):
        cifar(tmp_path, "all")
    (tmp_path / "data_batch_1.bin").write_bytes(bytes(3072))
    with pytest.raises(ScenarioError, match="multiple of 3073"):
        cifar(tmp_path)
    (tmp_path / "train.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(ScenarioError, match="not readable as parquet"):
        cifar(tmp_path)


def test_parquet_with_the_wrong_contents(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    path = tmp_path / "train.parquet"
    for table, words in [
        (pa.table({"picture": [b"x"], "label": [1]}), "columns picture, label"),
        (pa.table({"img": [{"bytes": b"x"}], "label": [1]}), "image 0 cannot be decoded"),
        (pa.table({"img": [None], "label": [1]}), "image 0 cannot be decoded"),
    ]:
        pq.write_table(table, path)
        with pytest.raises(ScenarioError, match=words):
            cifar(tmp_path)


def test_digits_are_those_of_scikit_learn_without_importing_it() -> None:
    sklearn = pytest.importorskip("sklearn.datasets")
    bunch = sklearn.load_digits()
    train, test = read("digits"), read("digits", split="test")
    assert len(train) + len(test) == 1797 and len(test) == pytest.approx(359, abs=10)
    seen = sorted(map(bytes, np.concatenate([train.images, test.images])))
    assert seen == sorted(map(bytes, (bunch.images[:, None] / 16).astype(np.float32)))
    code = "import sys, relaytrain.data.source as d; d.read('digits'); print({'sklearn', 'torch'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"


def test_places_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mnist"
    folder.mkdir()
    idx_files(folder, gz=False)
    monkeypatch.setenv("RELAYTRAIN_DATA", str(tmp_path))
    assert len(read("mnist")) == 7
    with pytest.raises(ScenarioError, match="expected one of digits"):
        read("svhn")
    with pytest.raises(ScenarioError, match="split"):
        read("digits", split="all")
    monkeypatch.setattr("relaytrain.data.source.places", lambda name: [tmp_path / "nowhere"])
    with pytest.raises(ScenarioError, match="RELAYTRAIN_DATA"):
        read("cifar10")


def test_a_function_of_the_user() -> None:
    def mine(split: str) -> object:
        return {"train": (np.zeros((4, 1, 2, 2)), np.array([0, 1, 0, 1])), "test": "nothing"}[split]

    assert len(read("my.data:mine", resolve=lambda _reference: mine)) == 4
    with pytest.raises(ScenarioError, match="returned str"):
        read("my.data:mine", split="test", resolve=lambda _reference: mine)
    with pytest.raises(ScenarioError, match="only called when"):
        read("my.data:mine")


def tiny(labels: list[int], classes: int, value: float = 0.0, name: str = "tiny") -> Dataset:
    images = np.full((len(labels), 1, 2, 2), value, dtype=np.float32)
    return Dataset(images, np.array(labels, dtype=np.int64), classes, name)


def test_selecting_and_joining_classes() -> None:
    first, second = tiny([0, 1, 2, 2], 3), tiny([5, 7, 7, 9], 10, value=1.0, name="other")
    chosen = select(second, [7, 5])
    assert chosen.labels.tolist() == [1, 0, 0] and chosen.classes == 2
    both = union([first, chosen])
    assert both.labels.tolist() == [0, 1, 2, 2, 4, 3, 3] and both.classes == 5
    assert both.images.mean(axis=(1, 2, 3)).tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert both.name == "tiny + other"
    assert union([select(first, [2]), select(second, [9])]).labels.tolist() == [0, 0, 1]
    with pytest.raises(ScenarioError, match="no image of class 8"):
        select(second, [8])
    with pytest.raises(ScenarioError, match="one shape"):
        union([first, Dataset(np.zeros((1, 1, 3, 3), np.float32), np.zeros(1, np.int64), 1)])


def test_data_that_cannot_be_learnt_from() -> None:
    images, labels = np.zeros((4, 1, 2, 2), dtype=np.float32), np.array([0, 1, 0, 1])
    cases = [
        (np.zeros((0, 1, 2, 2)), np.zeros(0, dtype=int), "no images at all"),
        (images, np.zeros(4, dtype=int), "all 4 images are of class 0"),
        (np.where(np.arange(4)[:, None, None, None] == 2, np.nan, images), labels, "the first is number 2"),
        (images[:, 0], labels, "shape"),
        (images, labels[:3], "labels are"),
        (images, np.array([0, 1, -1, 1]), "run from -1"),
        (images, labels.astype(float), "whole numbers"),
    ]
    for bad_images, bad_labels, words in cases:
        with pytest.raises(ScenarioError, match=words):
            from_arrays(bad_images, bad_labels, name="mine")
    with pytest.raises(ScenarioError, match="expected 0 to 2"):
        from_arrays(images, np.array([0, 1, 5, 1]), name="mine", classes=3)
