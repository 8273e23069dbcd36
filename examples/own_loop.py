"""Your own PyTorch loop, RelayTrain's decisions: ask what the next epoch should be, train it, tell how it went.

    python examples/own_loop.py

Nothing is handed to RelayTrain but numbers: the network, the data, pruning and training stay in this file. The
quickstart's scenario says what epochs cost and how losses are expected to fall.
"""

from __future__ import annotations

import torch
from torch import nn

import relaytrain as rt
from relaytrain.compression.prune import prune
from relaytrain.data.quick import quick_data
from relaytrain.models import build, family_spec

RATIOS = {"medium": 0.25, "small": 0.5}


def loss_of(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Cross-entropy without training."""
    model.eval()
    with torch.no_grad():
        return float(nn.functional.cross_entropy(model(images), labels))


def main(most_epochs: int = 80) -> rt.Session:
    """Train until the target is met or can no longer be."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    parts = {name: (torch.from_numpy(d.images), torch.from_numpy(d.labels)) for name, d in quick_data(0).items()}
    mean, deviation = parts["gold"][0].mean(), parts["gold"][0].std()
    parts = {name: ((images - mean) / deviation, labels) for name, (images, labels) in parts.items()}
    model: nn.Module = build(family_spec("cnn", input=(1, 8, 8), classes=10), seed=0)
    full_size = sum(p.numel() for p in model.parameters())
    costs = rt.load_scenario("quickstart").costs
    held = ("full", "gold")
    with rt.Session("quickstart", initial_loss=loss_of(model, *parts["validation"])) as session:
        while (decision := session.ask()) is not None and decision.epoch <= most_epochs:
            probed = None
            if decision.version != held[0]:
                made = prune(
                    model, parts["gold"][0][:2], RATIOS[decision.version], of="full", full_parameters=full_size
                )
                model = made.model
            if (decision.version, decision.nodes) != held:
                probed = loss_of(model, *parts["validation"])
            epoch(model, *parts[decision.nodes])
            loss = loss_of(model, *parts["validation"])
            pairs = rt.load_scenario("quickstart").problem.pairs
            before, now = pairs.index(rt.Pair(*held)), pairs.index(decision.pair)
            session.tell(
                loss,
                elapsed_s=float(costs.epoch_s[before, now]),
                energy_j=float(costs.epoch_j[before, now]),
                handover_loss=probed,
            )
            held = (decision.version, decision.nodes)
            print(f"epoch {decision.epoch:3}  {decision.pair}  loss {loss:.3f}")
    print(f"{session.verdict}: {session.state.energy_j:.0f} J, {session.state.elapsed_s:.0f} s")
    return session


def epoch(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> None:
    """One pass of plain PyTorch."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for chosen in torch.split(torch.randperm(len(labels)), 16):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
