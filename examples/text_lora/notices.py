"""Which part of Python's library does a sentence come from? A BERT-like network with adapters.

The texts are the docstrings of the standard library, so they are on every machine and nothing is downloaded. A word's
number is its checksum. `python notices.py` trains the base once on telling two other parts apart and writes
`base.safetensors`; without it the base is the untrained network. Nothing of RelayTrain in here.
"""

from __future__ import annotations

import ast
import re
import sysconfig
import zlib
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

WORDS, LENGTH, BATCH, MOST = 2048, 16, 16, 400
PARTS = ("unittest", "asyncio", "email")
EARLIER = ("importlib", "http", "xml", "logging", "urllib", "json")
SHARES = {"library": 0.4, "desk-1": 0.15, "desk-2": 0.15, "validation": 0.15, "test": 0.15}
BASE = Path(__file__).with_name("base.safetensors")


@cache
def sentences(part: str) -> list[str]:
    """The docstrings of a package of the standard library, in pieces of a sentence's length, by file and line."""
    folder = Path(sysconfig.get_path("stdlib")) / part
    found: list[str] = []
    for file in sorted(folder.rglob("*.py")):
        if len(found) >= MOST:
            break
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                words = re.findall(r"[a-z]+", (ast.get_docstring(node) or "").lower())
                found += [" ".join(words[at : at + LENGTH]) for at in range(0, len(words) - LENGTH // 2, LENGTH)]
    return found[:MOST]


class Sentences(Dataset[dict[str, Tensor]]):
    """Sentences as token numbers, a mask, and the part they are from."""

    def __init__(self, parts: tuple[str, ...] = PARTS) -> None:
        pairs = [(text, label) for label, part in enumerate(parts) for text in sentences(part)]
        pairs.sort(key=lambda pair: zlib.crc32(pair[0].encode()))
        self.rows = [self._row(text, label) for text, label in pairs]

    def _row(self, text: str, label: int) -> dict[str, Tensor]:
        numbers = [2 + zlib.crc32(word.encode()) % (WORDS - 2) for word in text.split()][: LENGTH - 1]
        ids = [1, *numbers] + [0] * (LENGTH - 1 - len(numbers))
        mask = [1] * (1 + len(numbers)) + [0] * (LENGTH - 1 - len(numbers))
        return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask), "labels": torch.tensor(label)}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return self.rows[index]


def loader(who: str) -> DataLoader[dict[str, Tensor]]:
    """The sentences of a node, or of "validation" and "test"."""
    rows = Sentences()
    names = list(SHARES)
    ends = [round(len(rows) * sum(SHARES[name] for name in names[: at + 1])) for at in range(len(names))]
    at = names.index(who)
    part = torch.utils.data.Subset(rows, range(ends[at - 1] if at else 0, ends[at]))
    return DataLoader(part, batch_size=BATCH, shuffle=who not in ("validation", "test"))


def classifier(labels: int = len(PARTS)) -> nn.Module:
    """BERT from a small config; its body as `base.safetensors` has it, where there is one."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        max_position_embeddings=LENGTH, num_labels=labels, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    if BASE.exists():
        from safetensors.torch import load_file

        model.bert.load_state_dict(load_file(BASE))
    return model


def pretrain(epochs: int = 4) -> None:
    """Train the whole network on other parts of the library and keep its body."""
    from safetensors.torch import save_file

    torch.manual_seed(0)
    model = classifier(len(EARLIER))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        total = 0.0
        for batch in DataLoader(Sentences(EARLIER), batch_size=BATCH, shuffle=True):
            loss = model(**batch).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch + 1}: {total:.1f}")
    save_file(model.bert.state_dict(), BASE)


if __name__ == "__main__":
    pretrain()
