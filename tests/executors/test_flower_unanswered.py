"""ClientApps that end before they have answered, each at another moment: the SuperNode gets an answer to every message.

Flower's own interface for apps and its own apps; only the SuperNode's link to a SuperLink is left out.
"""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from flower_runs import free_port

from relaytrain.executors.flower.environment import environment

pytest.importorskip("flwr")
pytestmark = [pytest.mark.train, pytest.mark.slow]
SECRET = "0123"
WAIT_S = 60.0
RUN, NODE = 1, 1
KILLED = 128 + signal.SIGKILL
WAYS = {
    "at its start, once": (["9:", "-"], "its own"),
    "at its start, always": (["9:"] * 4, "signal 9"),
    "with its input, before its message": (["9:PullMessages"], "signal 9"),
    "with its message": (["9:PullObject"], "signal 9"),
    "asked to": (["15:PullObject"], "status 0"),
    "answered, before it says that it ends": (["9:PushTaskOutput"], "its own"),
    "never": (["-"], "its own"),
}
"""When an app ends, how that is said to the helper, and whose answer there is then: its own is that it has no code."""


@pytest.fixture
def node(monkeypatch):
    """What a SuperNode keeps, as Flower's apps see it; `told` of answers and of tasks that end."""
    import uvicorn
    from flwr.app import Context, RecordDict
    from flwr.supercore.fab import Fab
    from flwr.supercore.object_store import ObjectStoreFactory
    from flwr.supercore.run import Run
    from flwr.supercore.task_identity import TaskIdentity
    from flwr.supernode.main import create_app
    from flwr.supernode.nodestate import NodeStateFactory
    from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState

    class Telling(InMemoryNodeState):
        told: queue.Queue = queue.Queue()

        def store_message(self, message):
            stored = super().store_message(message)
            if message.metadata.reply_to_message_id:
                self.told.put((message.metadata.reply_to_message_id, message.error.reason))
            return stored

        def finish_task(self, task_id, sub_status, details):
            finished = super().finish_task(task_id, sub_status, details)
            self.told.put((task_id, finished))
            return finished

    for name, value in (("_run_id", RUN), ("_node_id", NODE), ("_task_id", 1)):
        monkeypatch.setattr(TaskIdentity, name, value)
    factory = NodeStateFactory(ObjectStoreFactory(""))
    factory.state_instance = state = Telling(factory.objectstore_factory.store())
    run = Run.create_empty(RUN)
    run.fab_hash = state.store_fab(Fab("", b"no code", {}))
    state.set_node_id(NODE)
    state.store_run(run)
    state.set_run_series_context(run.series_id, Context(RUN, NODE, {}, RecordDict(), {}))
    port = free_port()
    app = create_app(state_factory=factory, superexec_auth_secret=SECRET.encode())
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    state.address = f"127.0.0.1:{port}"
    yield state
    server.should_exit = True
    thread.join()


def give(state) -> tuple[str, int]:
    """A message comes, as from a SuperLink: its name, and that of its task."""
    from flwr.app import ConfigRecord, Message, MessageType, RecordDict
    from flwr.supercore.constant import TaskType
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree

    message = Message(RecordDict({"c": ConfigRecord({"a": 1})}), dst_node_id=NODE, message_type=MessageType.TRAIN)
    message.metadata.__dict__["_message_id"] = message.object_id
    state.object_store.preregister(RUN, get_object_tree(message))
    for name, part in get_all_nested_objects(message).items():
        state.object_store.put(name, part.deflate())
    state.store_message(message)
    return message.object_id, state.create_task(TaskType.CLIENT_APP, RUN)


def starting(state, folder: Path, ways: list[str]) -> subprocess.Popen[str]:
    helper = Path(__file__).with_name("dying_clientapp.py")
    command = [sys.executable, str(helper), state.address, SECRET, *ways]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, **pipes, text=True, env=environment(folder))


def test_every_message_is_answered(node, tmp_path):
    """Once, at once, and its task is ended; where that cannot be, the SuperNode ends, since it would wait for ever."""
    last = ["9:PushObject", "/", "used9:PullMessages"]
    helper = starting(node, tmp_path, [way for ways, _ in WAYS.values() for way in ways] + last)
    try:
        for when, (_, whose) in WAYS.items():
            message, task = give(node)
            answered, reason = node.told.get(timeout=WAIT_S)
            assert answered == message, when
            assert "before it had answered" not in reason if whose == "its own" else whose in reason, (when, reason)
            assert node.told.get(timeout=WAIT_S) == (task, True), when
        give(node)
        assert int(helper.stdout.readline()) == KILLED, "amid its answer"
        node.delete_messages()
        give(node)
        assert int(helper.stdout.readline()) == KILLED, "its token was used up"
    finally:
        words = helper.communicate()[1]
    mended = [line for line in words.splitlines() if "before it had answered" in line]
    assert [line.rpartition(": ")[2] for line in mended] == ["started again"] * 4 + ["answered for"] * 4, words
