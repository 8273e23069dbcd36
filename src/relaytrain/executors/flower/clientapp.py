"""The ClientApp: a new process for every message, so it holds nothing and imports nothing heavy; it asks a trainer."""

from __future__ import annotations

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from ...training.task import NodeTask
from .messages import of_about, of_frame, to_frame
from .trainer_link import TrainerPlace, ask, describe

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Who this node is."""
    place = TrainerPlace.of_config(context.node_config, context.node_id)
    return Message(of_about(describe(place)), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Hand a task to the trainer, and its result back."""
    place = TrainerPlace.of_config(context.node_config, context.node_id)
    frame = to_frame(message.content)
    return Message(of_frame(ask(place, NodeTask.from_bytes(frame), frame)), reply_to=message)
