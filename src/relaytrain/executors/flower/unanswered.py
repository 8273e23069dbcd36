"""A ClientApp that ends before it has answered: started again, or answered for.

Flower itself answers only for an app that had taken its message, a minute after its last sign of life. In the other
cases its SuperNode waits for ever, and with it a loop whose tasks have no deadline:

| the app ended                             | Flower alone                  | here                              |
|---|---|---|
| before it asked for its input             | gives it out a minute later   | started again, `LIVES` times      |
| before it had its message                 | waits for ever                | an error in its place, at once    |
| with its message                          | an error after a minute       | an error in its place, at once    |
| asked to (SIGTERM), or failed to answer   | waits for ever                | an error in its place, at once    |
| amid its answer                           | waits for the rest, for ever  | the SuperNode ends, another comes |

How far it was, an app notes in memory that it shares with us: Flower's interface does not tell.
"""

from __future__ import annotations

import enum
import mmap
import os
import sys
import threading
from collections.abc import Callable
from functools import partial

import httpx
from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode, SubStatus
from flwr.common.serde import message_from_proto
from flwr.proto import message_pb2, runtime_pb2
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime import run_clientapp

LIVES = 3
"""How often an app is started again, or an answer for it tried again."""
ROOM = 2**14
"""Bytes for the head of a message."""


class AppStage(enum.IntEnum):
    """How far an app is."""

    STARTED, ASKED, HAS_INPUT, HAS_MESSAGE, ANSWERING, ANSWERED, ENDED = range(7)


class Notes:
    """What an app notes, for whoever forked it: its stage, and the head of its message."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, ROOM)

    @property
    def stage(self) -> AppStage:
        """How far it is."""
        return AppStage(self._shared[0])

    @stage.setter
    def stage(self, stage: AppStage) -> None:
        self._shared[0] = stage

    def keep(self, message: message_pb2.Message) -> None:
        """Its message, which comes here without its content; one that is too long for us is left to Flower."""
        head = message.SerializeToString()
        if len(head) <= ROOM - 5:
            self._shared[1:5] = len(head).to_bytes(4, "big")
            self._shared[5 : 5 + len(head)] = head
            self.stage = AppStage.HAS_MESSAGE

    def message(self) -> message_pb2.Message:
        """As it was kept."""
        size = int.from_bytes(self._shared[1:5], "big")
        head = message_pb2.Message()
        head.ParseFromString(self._shared[5 : 5 + size])
        return head


class NotingClient(RuntimeHttpClient):
    """An app's end of Flower's interface, which notes how far the app is."""

    notes: Notes
    _left: set[str]
    _counting = threading.Lock()

    def PullTaskInput(self, request: runtime_pb2.PullTaskInputRequest) -> runtime_pb2.PullTaskInputResponse:
        """From here on the token starts no second app."""
        self.notes.stage = AppStage.ASKED
        answer = super().PullTaskInput(request)
        self.notes.stage = AppStage.HAS_INPUT
        return answer

    def PullMessages(self, request: runtime_pb2.PullAppMessagesRequest) -> runtime_pb2.PullAppMessagesResponse:
        """From here on nobody else gets the message."""
        answer = super().PullMessages(request)
        for message in answer.messages_list:
            self.notes.keep(message)
        return answer

    def PushMessages(self, request: runtime_pb2.PushAppMessagesRequest) -> runtime_pb2.PushAppMessagesResponse:
        """From here on the SuperNode waits for the parts of this answer."""
        self.notes.stage = AppStage.ANSWERING
        answer = super().PushMessages(request)
        self._left = set(answer.objects_to_push)
        self._pushed("")
        return answer

    def PushObject(self, request: message_pb2.PushObjectRequest) -> message_pb2.PushObjectResponse:
        """One of the parts."""
        answer = super().PushObject(request)
        if answer.stored:
            self._pushed(request.object_id)
        return answer

    def _pushed(self, part: str) -> None:
        with self._counting:
            self._left.discard(part)
            if not self._left:
                self.notes.stage = AppStage.ANSWERED

    def PushTaskOutput(self, request: runtime_pb2.PushTaskOutputRequest) -> runtime_pb2.PushTaskOutputResponse:
        """The end of the task; without an answer it is ours to say, since it takes the token away."""
        if self.notes.stage < AppStage.ANSWERED:
            return runtime_pb2.PushTaskOutputResponse()
        answer = super().PushTaskOutput(request)
        self.notes.stage = AppStage.ENDED
        return answer


def _noting(app: Callable[[], None], notes: Notes) -> None:
    """`app`, in a process of its own."""
    NotingClient.notes = notes
    setattr(run_clientapp, "RuntimeHttpClient", NotingClient)  # noqa: B010  (it names the class that it makes)
    app()


class Watched:
    """A ClientApp from its start until its task has been answered.

    Args:
        app: Flower's program.
        fork: starts one in a process of its own; its number.
        client: speaks for its task.
        give_up: ends the SuperNode, which would wait for ever; the argument says why.
    """

    def __init__(
        self,
        app: Callable[[], None],
        *,
        fork: Callable[[Callable[[], None]], int],
        client: Callable[[], RuntimeHttpClient],
        give_up: Callable[[str], None],
    ) -> None:
        self._notes, self._client, self._give_up = Notes(), client, give_up
        self._start = partial(fork, partial(_noting, app, self._notes))
        self._lives = LIVES
        self._ended = ""
        self._pid = self._start()

    def is_over(self) -> bool:
        """Whether there is nothing left to do for its task; does what there is."""
        if not self._ended:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if not pid:
                return False
            code = os.waitstatus_to_exitcode(status)
            self._ended = f"the ClientApp ended ({f'signal {-code}' if code < 0 else f'status {code}'})"
        try:
            return self._is_settled(self._notes.stage)
        except Exception as error:  # its SuperNode does not listen, no process to be had: may pass
            self._lives -= 1
            if self._lives < 0:
                self._give_up(f"{self._ended}, and nobody can answer for it: {type(error).__name__}: {error}"[:300])
        return self._lives < 0

    def _is_settled(self, stage: AppStage) -> bool:
        if stage == AppStage.ANSWERING:
            self._give_up(f"{self._ended} amid its answer")
        elif stage == AppStage.STARTED and self._lives:
            self._pid = self._start()
            self._say("started again")
            self._lives -= 1
            self._ended = ""
        elif stage != AppStage.ENDED:
            try:
                self._settle(stage)
            except httpx.HTTPStatusError as refused:
                if refused.response.is_server_error:
                    raise
                # Flower took the token back: the task was answered, or goes out again
                if stage == AppStage.HAS_INPUT:  # or neither
                    self._give_up(f"{self._ended} without its message, and too long ago")
        return bool(self._ended)

    def _settle(self, stage: AppStage) -> None:
        """In its name: an error, if it did not answer, and the end of its task."""
        with self._client() as client:
            if stage < AppStage.HAS_MESSAGE:
                for message in client.PullMessages(runtime_pb2.PullAppMessagesRequest()).messages_list:
                    self._notes.keep(message)
            if self._notes.stage < AppStage.HAS_MESSAGE:
                return  # it took the message along: Flower, which knows that, answers after a minute
            if stage < AppStage.ANSWERED:
                self._answer(client)
            client.PushTaskOutput(runtime_pb2.PushTaskOutputRequest(sub_status=SubStatus.FAILED, details=self._ended))

    def _answer(self, client: RuntimeHttpClient) -> None:
        message = message_from_proto(self._notes.message())
        words = f"{self._ended} before it had answered"
        reply = Message(Error(ErrorCode.CLIENT_APP_CRASHED, words), reply_to=message)
        context = Context(message.metadata.run_id, message.metadata.dst_node_id, {}, RecordDict(), {})
        run_clientapp.push_message(client, reply, context)
        self._say("answered for")

    def _say(self, done: str) -> None:
        print(f"{self._ended} before it had answered: {done}", file=sys.stderr, flush=True)
