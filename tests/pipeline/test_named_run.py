"""What `pipeline run` computes beside the stages: losses before and after, on all threads that torch has."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from relaytrain.pipeline.named_run import TrainingOrder, loss_on_test, loss_over  # noqa: E402
from relaytrain.training.threads import threads  # noqa: E402

pytestmark = pytest.mark.train


class Counting(torch.nn.Module):
    """Ten equal logits, and with how many threads they were asked for."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def forward(self, images):
        self.seen.add(torch.get_num_threads())
        return torch.zeros(len(images), 10)


@pytest.mark.parametrize("count", [1, 2])
def test_losses_are_computed_on_the_threads_that_torch_has(count):
    model = Counting()
    with threads(count):
        over = loss_over(model, [(torch.zeros(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64))])
        tested = loss_on_test(TrainingOrder("mlp"), model)
    assert model.seen == {count}
    assert over.loss == pytest.approx(tested.loss) == pytest.approx(torch.tensor(10.0).log().item())
