"""Many nodes in one process, each a thread: they join a SuperLink as SuperNodes do and answer without training.

    python benchmarks/light_nodes.py ADDRESS COUNT

For `flower_load.py` only: it speaks Flower's fleet interface by modules of Flower's that are not public.
"""

from __future__ import annotations

import sys
import threading
import time

from flwr.app import Message, MessageType
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, pull_objects
from flwr.supernode.fleet_http_connection import http_request_response

from relaytrain.executors.flower.messages import of_about, of_frame, to_frame
from relaytrain.training.task import NodeResult, NodeTask

POLL_S = 1.0


def play(address: str, name: str) -> None:
    """One node, until the process ends."""
    with http_request_response(address, True) as (_, receive, send, _run, _fab, pull, push, confirm):
        while True:
            received = receive()
            if received is None:
                time.sleep(POLL_S)
                continue
            message, tree = received
            run, key = message.metadata.run_id, message.metadata.message_id
            ids = [one.object_id for one in iterate_object_tree(tree)]
            contents = pull_objects(ids, pull_object_fn=lambda wanted, run=run: pull(run, wanted))
            confirm(run, key)
            whole = inflate_object_from_contents(key, contents)
            whole.metadata.__dict__["_message_id"] = key
            reply = Message(answer(whole, name), reply_to=whole)
            reply.metadata.__dict__["_message_id"] = reply.object_id
            objects = get_all_nested_objects(reply)
            wanted, session = send(reply, get_object_tree(reply), 0.0)
            for one in wanted:
                push(run, session, one, objects[one].deflate())


def answer(message: Message, name: str):
    """Who it is, or its task's own weights."""
    if message.metadata.message_type == MessageType.QUERY:
        return of_about({"nodes": [name]})
    task = NodeTask.from_bytes(to_frame(message.content))
    result = NodeResult(task.run, task.node, task.epoch, task.attempt, 10, task.checkpoint, 1.0, 0.01, 0.01)
    return of_frame(result.to_bytes())


if __name__ == "__main__":
    threads = [threading.Thread(target=play, args=(sys.argv[1], f"n{i}"), daemon=True) for i in range(int(sys.argv[2]))]
    for thread in threads:
        thread.start()
        time.sleep(0.02)
    sys.stdin.read()
