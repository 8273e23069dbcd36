"""The ClientApp: a new process for every message, so it holds nothing and imports nothing heavy; it asks a trainer."""

from __future__ import annotations

import sys
import time

from flwr.app import Context, Message, MetricRecord
from flwr.clientapp import ClientApp

from ...training.task import NodeTask, unpack
from .messages import of_about, of_frame, to_about, to_frame
from .trainer_link import TrainerPlace, ask, describe, profiled

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Who this node is; with `profile`, what versions cost here."""
    place = TrainerPlace.of_config(context.node_config, context.node_id)
    batches = to_about(message.content).get("profile")
    answer = profiled(place, batches) if isinstance(batches, int) else describe(place)
    return Message(of_about(answer), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Hand a task to the trainer, and its result back."""
    started_cpu_s = time.process_time()
    place = TrainerPlace.of_config(context.node_config, context.node_id)
    frame = to_frame(message.content)
    answer = ask(place, NodeTask.from_bytes(frame), frame)
    reply = of_frame(answer)
    reply["metrics"] = _metrics(answer, started_cpu_s)
    return Message(reply, reply_to=message)


def _metrics(answer: bytes, started_cpu_s: float) -> MetricRecord:
    """Figures of a result, for Flower's own tools; ours reads them from the result."""
    header = unpack(answer)[0]
    figures = {key: header.get(key) for key in ("samples", "train_loss", "cpu_s", "wall_s", "energy_j")}
    numbers = {key: value for key, value in figures.items() if isinstance(value, int | float)}
    return MetricRecord({**numbers, "started_cpu_s": started_cpu_s, "torch": int("torch" in sys.modules)})
