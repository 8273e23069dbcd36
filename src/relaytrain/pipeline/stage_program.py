"""What a stage's process does: its row of actions in order, with links to its neighbours and snapshots along the way.

The order is fixed beforehand, whatever arrives when, so a result does not depend on timing and equals the simulator's
bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from torch import Tensor, nn

from ..core.errors import UsageError
from ..models.rebuild import code_of
from ..models.spec import validate_spec
from ..planners.pipeline.actions import ActionKind
from ..planners.pipeline.chain import Policy
from ..training.losses import loss_named
from .blueprint import units_from
from .factors import Tensors
from .job_file import StageJob
from .links import Links, QueuedSender, Receiver, Shape
from .snapshots import SnapshotContent, place, read, write_part
from .stage import Stage
from .tensorfile import DTYPES, TensorFile
from .update_rules import OptimizerState

ACTIVATIONS, ERRORS, INPUTS, LABELS = 1, 2, 3, 4
"""Tags of the links."""
Report = Callable[..., None]
"""`report(kind, **values)`: a word to whoever supervises."""


class MinibatchFile:
    """The minibatches in a safetensors file, read one at a time."""

    def __init__(self, job: StageJob) -> None:
        self._file = TensorFile(job.data)
        self._edges = [0]
        for size in job.batches:
            self._edges.append(self._edges[-1] + size)

    def inputs(self, index: int) -> Tensor:
        """The inputs of a minibatch."""
        return self._rows("inputs", index)

    def labels(self, index: int) -> Tensor:
        """Its labels."""
        return self._rows("labels", index)

    def close(self) -> None:
        """Read no more."""
        self._file.close()

    def _rows(self, key: str, index: int) -> Tensor:
        return self._file.rows(key, self._edges[index], self._edges[index + 1])


def serve_data(job: StageJob, report: Report, links: Links) -> None:
    """The master's part: inputs to the first stage, labels to the last, each over a link that is charged."""
    data, wire = MinibatchFile(job), job.wires[-1]
    inputs, labels = links.sender(0, INPUTS, wire, room=2), links.sender(job.stages - 1, LABELS, wire, room=2)
    for index in range(job.start * (job.flush or 1), len(job.batches)):
        inputs.send(data.inputs(index))
        labels.send(data.labels(index))
    inputs.close()
    labels.close()
    data.close()
    report("done", sent_bytes=inputs.sent_bytes + labels.sent_bytes)


class StageProgram:
    """A stage with its links, its data where it owns some, and its snapshots."""

    def __init__(self, job: StageJob, rank: int, report: Report, links: Links) -> None:
        self.job, self.rank, self.report, self._links = job, rank, report, links
        self.last = rank == job.stages - 1
        self.flush = job.flush or 1
        self.offset = job.start * self.flush
        self.first, _ = job.bounds(rank)
        self.stage = stage_of(job, rank)
        self.spec = validate_spec(job.blueprint["spec"]) if "spec" in job.blueprint else None
        self.stage.watch(self._reached)
        self._written: dict[int, int] = {}
        self._busy_s, self._peak_bytes = 0.0, 0
        self._senders: list[QueuedSender] = []
        self._inputs, self._labels, self._errors = self._receivers()
        self._on, self._back, self._labels_on = self._openings()
        self.data = MinibatchFile(job) if job.owner == "first" and rank == 0 else None

    def _receivers(self) -> tuple[Receiver | None, Receiver | None, Receiver | None]:
        """From before: activations or inputs; labels, at the last stage; from behind: errors."""
        job, rank, master = self.job, self.rank, self.job.owner == "master"
        inputs = labels = errors = None
        if rank or master:
            before, tag = (rank - 1, ACTIVATIONS) if rank else (job.stages, INPUTS)
            inputs = self._links.receiver(before, tag, self._shapes(rank))
        if self.last and (rank or master):
            kind = DTYPES[job.label[1]]
            shapes = (((size, *job.label[0]), kind) for size in job.batches[self.offset :])
            labels = self._links.receiver(job.stages if master else 0, LABELS, shapes)
        if not self.last:
            errors = self._links.receiver(rank + 1, ERRORS, self._shapes(rank + 1))
        return inputs, labels, errors

    def _openings(self) -> tuple[QueuedSender | None, QueuedSender | None, QueuedSender | None]:
        """Onwards: activations; backwards: errors; and labels, where the first stage owns the data."""
        rank = self.rank
        on = None if self.last else self._sender(rank + 1, ACTIVATIONS, rank)
        back = self._sender(rank - 1, ERRORS, rank - 1) if rank else None
        owner = rank == 0 and not self.last and self.job.owner == "first"
        return on, back, self._sender(self.job.stages - 1, LABELS, 0) if owner else None

    def _shapes(self, stage: int) -> Iterator[Shape]:
        """What enters `stage`, minibatch by minibatch; errors at its entry have the same shapes."""
        for size in self.job.batches[self.offset :]:
            shape, kind = self.job.entries[str(size)][stage]
            yield tuple(shape), DTYPES[kind]

    def _sender(self, peer: int, tag: int, wire: int) -> QueuedSender:
        self._senders.append(self._links.sender(peer, tag, self.job.wires[wire]))
        return self._senders[-1]

    def run(self) -> None:
        """All actions in order; then the last snapshot, which is the result."""
        try:
            self._run()
        finally:
            if self.data is not None:
                self.data.close()

    def _run(self) -> None:
        counts = dict.fromkeys(ActionKind, 0)
        began_s = time.process_time()
        for letter in self.job.rows[self.rank]:
            kind = ActionKind(letter)
            index = self.offset + counts[kind]
            counts[kind] += 1
            if kind is ActionKind.forward:
                self._forward(index)
            elif kind is ActionKind.backward:
                self._backward(index)
            else:
                self.stage.update()
            if self.job.count_bytes:
                self._peak_bytes = max(self._peak_bytes, self.stage.held().total)
        cpu_s = time.process_time() - began_s
        self._write(self.job.updates, SnapshotContent(buffers=self.stage.buffers()))
        for sender in self._senders:
            sender.close()
        sent = sum(sender.sent_bytes for sender in self._senders)
        self.report("done", busy_s=self._busy_s, cpu_s=cpu_s, sent_bytes=sent, held_bytes=self._peak_bytes)

    def _forward(self, index: int) -> None:
        if self.job.every and index > self.offset and index % (self.job.every * self.flush) == 0:
            # buffers belong to forwards: those of the first `index` minibatches have been, no others
            self._write(
                index // self.flush, SnapshotContent(buffers={n: b.clone() for n, b in self.stage.buffers().items()})
            )
        if self._labels_on is not None:
            self._labels_on.send(self._own().labels(index))
        inputs = (
            self._own().inputs(index) if self._inputs is None else self._inputs.recv().requires_grad_(self.rank > 0)
        )
        labels = None
        if self.last:
            labels = self._own().labels(index) if self._labels is None else self._labels.recv()
        began_s = time.monotonic()
        with self._network():
            output = self.stage.forward(index, inputs, labels)
        self._pace(began_s, self.job.paces[self.rank].forward_s)
        if self._on is not None:
            self._on.send(output)
        else:
            self.report("loss", index=index, value=float(output.detach()) * self.flush)

    def _backward(self, index: int) -> None:
        errors = None if self._errors is None else self._errors.recv()
        began_s, least_s = time.monotonic(), self.job.paces[self.rank].backward_s
        with self._network():
            back = self.stage.errors(index, errors)
        if not least_s:
            self._send_back(back)  # it travels while this stage updates
        with self._network():
            self.stage.push()
        self._pace(began_s, least_s)
        if least_s:
            self._send_back(back)
        self.report("step", index=index, busy_s=self._busy_s)

    def _send_back(self, errors: Tensor | None) -> None:
        if self._back is not None and errors is not None:
            self._back.send(errors)

    def _network(self) -> AbstractContextManager[None]:
        """Where the network computes: exceptions of a user's own are the user's."""
        return nullcontext() if self.spec is None else code_of(self.spec)

    def _own(self) -> MinibatchFile:
        assert self.data is not None
        return self.data

    def _pace(self, began_s: float, least_s: float) -> None:
        left_s = least_s - (time.monotonic() - began_s)
        if left_s > 0.0:
            time.sleep(left_s)
        self._busy_s += time.monotonic() - began_s

    def _reached(self, layer: str, version: int, weights: Tensors, states: dict[str, OptimizerState]) -> None:
        """A layer's weights and optimizer state stand at `version`: write them, if that is to be kept."""
        every = self.job.every
        if version == self.job.updates or (every and version % every == 0):
            named = {f"{layer}.{name}": tensor for name, tensor in weights.items()}
            self._write(version, SnapshotContent(named, {f"{layer}.{name}": state for name, state in states.items()}))

    def _write(self, version: int, part: SnapshotContent) -> None:
        number = self._written[version] = self._written.get(version, 0) + 1
        if part.weights or part.buffers:
            folder = place(Path(self.job.snapshots), version, self.job.attempt)
            write_part(folder, f"{self.first:03d}-{number}", part.moved(self.first))


def stage_of(job: StageJob, rank: int) -> Stage:
    """The stage with the weights of the snapshot that the job starts from; no memory is taken for any other."""
    code = Path(job.code) if job.code else None
    units = units_from(job.blueprint, code)
    first, end = job.bounds(rank)
    module = nn.Sequential(*units[first:end])
    held = read(Path(job.source), units=(first, end)).within(first, end)
    missing, surplus = module.load_state_dict({**held.weights, **held.buffers}, strict=False, assign=True)
    if missing or surplus:
        raise UsageError(f"snapshot {job.source}: lacks {missing[:3]}, has {surplus[:3]} too many")
    loss = loss_named(job.loss, code) if rank == job.stages - 1 else None
    stage = Stage(
        module,
        job.rule,
        job.policies[rank] or Policy.stash,
        loss=loss,
        flush=job.flush,
        checkpoint=job.checkpoint[rank],
        owned=True,
    )
    stage.resume(job.start, held.states)
    return stage
