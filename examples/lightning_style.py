"""A Lightning-style module, RelayTrain's decisions: two hooks are all that joins them.

    python examples/lightning_style.py

`Classifier` is written as for Lightning (`training_step`, `validation_step`, `configure_optimizers`); `fit` stands for
the trainer and calls a callback's hooks at the same places. `Relay` is that callback: before an epoch it asks which
version and node set come next and changes the module and the loader, after it tells the validation loss.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import relaytrain as rt
from relaytrain.compression.prune import prune
from relaytrain.data.quick import quick_data
from relaytrain.models import build, family_spec

Batch = tuple[Tensor, Tensor]
RATIOS = {"medium": 0.25, "small": 0.5}


class Classifier(nn.Module):
    """As a `LightningModule` would be."""

    def __init__(self) -> None:
        super().__init__()
        self.net: nn.Module = build(family_spec("cnn", input=(1, 8, 8), classes=10), seed=0)

    def training_step(self, batch: Batch) -> Tensor:
        """The loss to go down."""
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch: Batch) -> Tensor:
        """The loss to watch."""
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1], reduction="sum")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """A fresh one: parameters change with the version."""
        return torch.optim.Adam(self.net.parameters(), lr=2e-3)


class Relay:
    """The callback. Seconds and joules are those of the scenario's emulated nodes."""

    def __init__(self, scenario: str, module: Classifier, loaders: dict[str, DataLoader[Batch]]) -> None:
        self.module, self.loaders = module, loaders
        self.scenario = rt.load_scenario(scenario)
        self.full = sum(p.numel() for p in module.net.parameters())
        self.session = rt.Session(self.scenario, initial_loss=validate(module, loaders["validation"]))
        self.pair = self.scenario.problem.pairs[self.scenario.problem.start]
        self.handover_loss: float | None = None

    def on_train_epoch_start(self) -> DataLoader[Batch] | None:
        """The loader of the next epoch, the module made ready for it; None when it is over."""
        decision = self.session.ask()
        if decision is None:
            return None
        self.before, self.handover_loss = self.pair, None
        if decision.version != self.pair.version:
            ratio = RATIOS[decision.version]
            self.module.net = prune(
                self.module.net, torch.zeros(2, 1, 8, 8), ratio, of="full", full_parameters=self.full
            ).model
        if decision.pair != self.pair:
            self.handover_loss = validate(self.module, self.loaders["validation"])
        self.pair = decision.pair
        return self.loaders[decision.nodes]

    def on_train_epoch_end(self, validation_loss: float) -> None:
        """Tell how it went."""
        problem, costs = self.scenario.problem, self.scenario.costs
        at = problem.index(self.before), problem.index(self.pair)
        self.session.tell(
            validation_loss,
            elapsed_s=float(costs.epoch_s[at]),
            energy_j=float(costs.epoch_j[at]),
            handover_loss=self.handover_loss,
        )


def validate(module: Classifier, loader: Iterable[Batch]) -> float:
    """Mean loss over a loader."""
    module.eval()
    total, seen = 0.0, 0
    with torch.no_grad():
        for batch in loader:
            total, seen = total + float(module.validation_step(batch)), seen + len(batch[1])
    return total / seen


def fit(module: Classifier, relay: Relay, most_epochs: int = 40) -> None:
    """What a trainer does, with the callback's hooks."""
    for number in range(1, most_epochs + 1):
        loader = relay.on_train_epoch_start()
        if loader is None:
            break
        optimizer = module.configure_optimizers()
        module.train()
        for batch in loader:
            optimizer.zero_grad()
            module.training_step(batch).backward()
            optimizer.step()
        loss = validate(module, relay.loaders["validation"])
        relay.on_train_epoch_end(loss)
        print(f"epoch {number:3}  {relay.pair}  loss {loss:.3f}")


def main(most_epochs: int = 40) -> rt.Session:
    """Build, fit, say how it ended."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sets = quick_data(0)
    mean, deviation = sets["gold"].images.mean(), sets["gold"].images.std()
    loaders = {
        name: DataLoader(
            TensorDataset(torch.from_numpy((data.images - mean) / deviation), torch.from_numpy(data.labels)),
            batch_size=16,
            shuffle=name != "validation",
        )
        for name, data in sets.items()
    }
    module = Classifier()
    relay = Relay("quickstart", module, loaders)  # type: ignore[arg-type]  # loaders of tensors are loaders of batches
    with relay.session as session:
        fit(module, relay, most_epochs)
    print(f"{session.verdict}: {session.state.energy_j:.0f} J, {session.state.elapsed_s:.0f} s")
    return session


if __name__ == "__main__":
    main()
