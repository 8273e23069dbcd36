"""The floor: a client that does nothing, and a loop that looks for answers every 0.1 s."""

import json
import time
from pathlib import Path

from flwr.app import Array, ArrayRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    figures = MetricRecord({"started_cpu_s": time.process_time(), "wall_s": 0.0})
    return Message(RecordDict({"metrics": figures, "arrays": message.content["arrays"]}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    rounds = []
    while len(ids := list(grid.get_node_ids())) < int(context.run_config["nodes"]):
        time.sleep(0.5)
    for number in range(int(context.run_config["rounds"])):
        body = Array(dtype="uint8", shape=(60_000,), stype="bytes", data=bytes([number]) * 60_000)
        began = time.monotonic()
        content = RecordDict({"arrays": ArrayRecord({"a": body})})
        messages = [Message(content, dst_node_id=node, message_type=MessageType.TRAIN) for node in ids]
        waiting, figures = set(grid.push_messages(messages)), []
        while waiting:
            for reply in grid.pull_messages(list(waiting)):
                waiting.discard(reply.metadata.reply_to_message_id)
                figures.append(dict(reply.content["metrics"]))
            time.sleep(0.1 if waiting else 0.0)
        rounds.append({"wall_s": time.monotonic() - began, "nodes": figures})
    Path(str(context.run_config["out"])).write_text(json.dumps(rounds))
