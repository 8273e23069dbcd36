"""Where a batch becomes a loss: tuples, dicts, outputs with a loss of their own, and the figures of a set."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from relaytrain.core.errors import ScenarioError
from relaytrain.core.outcome import Evaluation
from relaytrain.core.user_code import UserCodeError
from relaytrain.data.own import OwnData
from relaytrain.training.evaluate import evaluate, evaluation_of
from relaytrain.training.losses import loss_named, squared_error
from relaytrain.training.step import PlainStep, step_of

pytestmark = pytest.mark.train


class Speaker(nn.Module):
    """As models of Hugging Face answer: with logits, and a loss where labels are given."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, values: Tensor, labels: Tensor | None = None) -> Any:
        logits = self.layer(values)
        loss = None if labels is None else 2.0 * functional.cross_entropy(logits, labels)
        return SimpleNamespace(loss=loss, logits=logits)


class Mute(Speaker):
    """The same without labels in its forward."""

    def forward(self, values: Tensor) -> Any:  # type: ignore[override]
        return {"logits": self.layer(values)}


def test_what_the_default_step_understands() -> None:
    torch.manual_seed(0)
    values, labels = torch.randn(6, 4), torch.arange(6) % 3
    step = step_of("cross-entropy")
    speaker, mute = Speaker(), Mute()
    mute.load_state_dict(speaker.state_dict())
    wanted = functional.cross_entropy(speaker.layer(values), labels)
    assert torch.equal(step.loss(speaker.layer, (values, labels)), wanted)
    assert torch.equal(step.loss(speaker.layer, [values, labels]), wanted)
    assert torch.equal(step.loss(mute, {"values": values, "labels": labels}), wanted)
    assert torch.equal(step.loss(speaker, {"values": values, "labels": labels}), 2.0 * wanted)
    both = nn.Bilinear(4, 4, 3)
    wanted_of_both = functional.cross_entropy(both(values, values), labels)
    assert torch.equal(step.loss(both, (values, values, labels)), wanted_of_both)
    with torch.no_grad():
        right = int((mute.layer(values).argmax(1) == labels).sum())
        assert step.sums(mute, {"values": values, "labels": labels})["correct"] == right
    with pytest.raises(ScenarioError, match="expected \\(inputs, labels\\)"):
        step.loss(speaker, values)


def test_float_labels_have_a_squared_error_whatever_the_form_of_the_outputs() -> None:
    torch.manual_seed(1)
    rows, wanted = torch.randn(10, 4), torch.randn(10)
    model = nn.Linear(4, 1)
    data = OwnData(TensorDataset(rows, wanted))
    figures = evaluate(model, data, batch=3, step=step_of("mse"))
    with torch.no_grad():
        squared = float(functional.mse_loss(model(rows)[:, 0], wanted))
    assert figures.loss == pytest.approx(squared, rel=1e-6)
    assert figures.metric("rmse") == pytest.approx(math.sqrt(squared), rel=1e-6)
    assert math.isnan(figures.accuracy)
    with pytest.raises(ScenarioError, match="as many of both"):
        PlainStep(squared_error).loss(nn.Linear(4, 2), (rows, wanted))


def test_figures_are_sums_over_the_set() -> None:
    def own(model: nn.Module, batch: Any) -> dict[str, float]:
        return {"count": len(batch[0]), "gap": float(batch[1].sum()), "loss": len(batch[0]) * 2.0}

    loader = DataLoader(TensorDataset(torch.zeros(5, 1), torch.arange(5.0)), batch_size=2)
    figures = evaluate(nn.Linear(1, 1), OwnData(loader), step=step_of("mse", None, own))
    assert figures.metric("gap") == 2.0 and figures.metric("loss") == 2.0
    assert figures.metric("perplexity") == math.exp(2.0)


def test_a_target_reads_what_is_there_and_says_what_is_not() -> None:
    assert Evaluation(1.0, 0.75).metric("error") == 0.25
    assert evaluation_of({"count": 4, "correct": 3, "loss": 2.0}).metric("error") == 0.25
    with pytest.raises(ScenarioError, match="expected one of loss, perplexity, gap"):
        Evaluation(1.0, figures={"gap": 3.0}).metric("rmse")
    with pytest.raises(ScenarioError, match="falls towards 0"):
        Evaluation(1.0, figures={"gap": -3.0}).metric("gap")


def test_cross_entropy_of_one_output_is_refused_for_it_is_zero_whatever_is_said() -> None:
    numbers = torch.randn(4, 1)
    assert functional.cross_entropy(numbers, torch.randn(4, 1)) == 0.0
    for labels in (torch.randn(4, 1), torch.zeros(4, dtype=torch.long)):
        with pytest.raises(UserCodeError, match='to predict numbers use loss = "mse"'):
            loss_named("cross-entropy")(numbers, labels)
