"""A stranger's package: wines told apart by their analysis. It knows nothing of RelayTrain.

The loader reads the analyses with scikit-learn as they are, in percent, grams and milligrams, and adds the noise of the
small instruments with scipy; scaling is left to whoever trains.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

FEATURES, KINDS = 13, 3
Part = tuple[NDArray[np.float32], NDArray[np.int64]]


class Taster(nn.Module):
    """Two layers and a decision, all as convolutions over a picture of one pixel with a channel for each feature."""

    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        self.smell = nn.Conv2d(FEATURES, hidden, 1)
        self.taste = nn.Conv2d(hidden, hidden, 1)
        self.decide = nn.Linear(hidden, KINDS)

    def forward(self, analyses: Tensor) -> Tensor:
        """Scores (batch, kinds) of analyses (batch, features, 1, 1)."""
        hidden = torch.relu(self.taste(torch.relu(self.smell(analyses))))
        return self.decide(hidden.mean(dim=(2, 3)))


def taster() -> nn.Module:
    """The network, untrained."""
    return Taster()


def wines() -> dict[str, Part]:
    """Analyses by who holds them: the laboratory, two growers, and what is judged by."""
    from scipy.linalg import toeplitz
    from sklearn.datasets import load_wine
    from sklearn.model_selection import train_test_split

    analyses, kinds = load_wine(return_X_y=True)
    rest, test, rest_kinds, test_kinds = train_test_split(analyses, kinds, test_size=58, random_state=0, stratify=kinds)
    train, tried, train_kinds, tried_kinds = train_test_split(
        rest, rest_kinds, test_size=40, random_state=0, stratify=rest_kinds
    )
    rng = np.random.default_rng(0)
    drift = toeplitz(0.5 ** np.arange(FEATURES))  # neighbouring features of a small instrument drift together
    blurred = train * (1.0 + 0.05 * rng.standard_normal(train.shape) @ drift)
    return {
        "laboratory": _pictures(train, train_kinds),
        "growers": _pictures(np.concatenate([blurred, train]), np.concatenate([train_kinds, train_kinds])),
        "validation": _pictures(tried, tried_kinds),
        "test": _pictures(test, test_kinds),
    }


def _pictures(analyses: NDArray[np.float64], kinds: NDArray[np.int64]) -> Part:
    return analyses[:, :, None, None].astype(np.float32), kinds.astype(np.int64)
