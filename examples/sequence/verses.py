"""A model of sequences with a step of its own; nothing of RelayTrain in here.

A recurrent network learns to continue lines of a made-up language. Lines differ in length, so a batch is a dict of
padded tokens and a mask, made by a `collate_fn`; the step counts only what is no padding.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

LETTERS, LONGEST, BATCH = 12, 14, 16
COUNTS = {"library": 400, "desk-1": 120, "desk-2": 120, "validation": 120, "test": 120}


class Lines(Dataset[Tensor]):
    """Lines in which a letter is mostly followed by the next but one, or after a 3 by a 0."""

    def __init__(self, count: int, seed: int) -> None:
        draws = torch.Generator().manual_seed(seed)
        self.lines = [self._line(draws) for _ in range(count)]

    def _line(self, draws: torch.Generator) -> Tensor:
        length = int(torch.randint(6, LONGEST, (1,), generator=draws))
        line = [int(torch.randint(LETTERS, (1,), generator=draws))]
        while len(line) < length:
            usual = 0 if line[-1] == 3 else (line[-1] + 2) % LETTERS
            odd = torch.rand((), generator=draws) < 0.1
            line.append(int(torch.randint(LETTERS, (1,), generator=draws)) if odd else usual)
        return torch.tensor(line)

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> Tensor:
        return self.lines[index]


def padded(lines: list[Tensor]) -> dict[str, Tensor]:
    """Lines of different lengths as one batch."""
    tokens = pad_sequence(lines, batch_first=True)
    lengths = torch.tensor([len(line) for line in lines])
    return {"tokens": tokens, "mask": torch.arange(tokens.shape[1]) < lengths[:, None]}


def lines(who: str) -> DataLoader[Tensor]:
    """The lines that a node holds, or those of "validation" and "test"."""
    dataset = Lines(COUNTS[who], seed=sorted(COUNTS).index(who))
    return DataLoader(dataset, batch_size=BATCH, shuffle=who not in ("validation", "test"), collate_fn=padded)


class Reader(nn.Module):
    """Letters in, scores of the letter to come out."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.memory = nn.GRU(width, width, batch_first=True)
        self.scores = nn.Linear(width, LETTERS)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores (batch, length, letters) of tokens (batch, length)."""
        seen, _ = self.memory(self.letters(tokens))
        return self.scores(seen)


def reader() -> nn.Module:
    """The network, untrained."""
    return Reader()


def _nats(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Cross-entropy of every letter but the first, and which of them count."""
    scores, wanted = model(batch["tokens"][:, :-1]), batch["tokens"][:, 1:]
    nats = functional.cross_entropy(scores.flatten(0, 1), wanted.flatten(), reduction="none")
    return nats, batch["mask"][:, 1:].flatten()


def step(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """The mean over letters that are no padding."""
    nats, counts = _nats(model, batch)
    return nats[counts].mean()


def evaluate(model: nn.Module, batch: dict[str, Tensor]) -> dict[str, float]:
    """Sums over letters, so that the perplexity is that of a letter, however the lines fall into batches."""
    nats, counts = _nats(model, batch)
    return {"count": int(counts.sum()), "loss": float(nats[counts].sum())}
