"""Flower's own FedAvg as its documentation writes it: a client that imports torch and opens its data every time."""

import json
import time
from pathlib import Path

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    started_cpu_s = time.process_time()
    import numpy as np
    import torch
    from sklearn.datasets import load_digits

    torch.set_num_threads(1)
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    digits = load_digits()
    images = torch.tensor(digits.images[:64, None] / 16, dtype=torch.float32)
    labels = torch.tensor(np.asarray(digits.target[:64]))
    began = time.monotonic()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for first in range(0, 64, 16):
        loss = torch.nn.functional.cross_entropy(model(images[first : first + 16]), labels[first : first + 16])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    figures = {"num-examples": 64, "wall_s": time.monotonic() - began, "started_cpu_s": started_cpu_s}
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord(figures)})
    return Message(content, reply_to=message)


def network():
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip


class Timed(FedAvg):
    """FedAvg that notes when a round's tasks were made, when its answers were there, and what they say."""

    def __init__(self, **options):
        super().__init__(**options)
        self.rounds = []

    def configure_train(self, server_round, arrays, config, grid):
        self.began = time.monotonic()
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        figures = [dict(reply.content["metrics"]) for reply in replies if reply.has_content()]
        self.rounds.append({"wall_s": time.monotonic() - self.began, "nodes": figures})
        return super().aggregate_train(server_round, replies)


@server.main()
def main(grid: Grid, context: Context) -> None:
    nodes = int(context.run_config["nodes"])
    strategy = Timed(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
    rounds = int(context.run_config["rounds"])
    strategy.start(grid=grid, initial_arrays=ArrayRecord(network().state_dict()), num_rounds=rounds)
    Path(str(context.run_config["out"])).write_text(json.dumps(strategy.rounds))
