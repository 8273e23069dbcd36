"""A vision transformer on small pictures, with augmentation; nothing of RelayTrain in here.

Fashion-MNIST where Debian's `dataset-fashion-mnist` is installed (or FASHION_MNIST names its folder), else digits of
scikit-learn, which are always at hand. A batch is a dict, as transformers takes it: `pixel_values` and `labels`.
"""

from __future__ import annotations

import gzip
import os
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

FOLDER = Path(os.environ.get("FASHION_MNIST", "/usr/share/datasets/fashion-mnist"))
COUNTS = {"studio": 480, "shop-1": 160, "shop-2": 160, "validation": 200, "test": 200}
BATCH = 32


def opening(file: Path, count: int) -> bytes:
    """The first `count` bytes of a file, compressed or not."""
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as held:
        return held.read(count)


@cache
def pictures() -> tuple[Tensor, Tensor]:
    """Pictures (count, 1, side, side) in 0..1 and their labels, always in the same order."""
    found = sorted(FOLDER.glob("train-images-idx3-ubyte*")) + sorted(FOLDER.glob("train-labels-idx1-ubyte*"))
    if len(found) == 2:
        count = sum(COUNTS.values())
        images = np.frombuffer(opening(found[0], 16 + count * 784), np.uint8, offset=16).reshape(count, 1, 28, 28)
        return torch.tensor(images / 255.0, dtype=torch.float32), torch.tensor(list(opening(found[1], 8 + count)[8:]))
    from sklearn.datasets import load_digits

    data = load_digits()
    return torch.tensor(data.images[:, None] / 16.0, dtype=torch.float32), torch.tensor(data.target)


class Pictures(Dataset[dict[str, Tensor]]):
    """Those that one place holds; in training each is moved by up to a pixel every time it is seen."""

    def __init__(self, who: str) -> None:
        first = sum(count for name, count in COUNTS.items() if name < who)
        images, labels = pictures()
        self.images, self.labels = images[first : first + COUNTS[who]], labels[first : first + COUNTS[who]]
        self.moves = who not in ("validation", "test")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        image = self.images[index]
        if self.moves:
            down, right = (torch.randint(3, (2,)) - 1).tolist()
            image = torch.roll(image, (down, right), dims=(1, 2))
        return {"pixel_values": image, "labels": self.labels[index]}


def loader(who: str) -> DataLoader[dict[str, Tensor]]:
    """The pictures of a node, or of "validation" and "test"."""
    return DataLoader(Pictures(who), batch_size=BATCH, shuffle=who not in ("validation", "test"))


def vit() -> nn.Module:
    """A small ViT from a config, untrained."""
    from transformers import ViTConfig, ViTForImageClassification

    side = int(pictures()[0].shape[-1])
    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=side,
        patch_size=side // 4, num_channels=1, num_labels=10,
    )  # fmt: skip
    return ViTForImageClassification(config)
