"""All stages in one process, action by action in the order of a schedule: the reference for every other runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from ..core.errors import UsageError
from ..planners.pipeline.actions import ActionKind
from ..planners.pipeline.schedules import PipelineSchedule
from ..planners.pipeline.stage_memory import StageBytes
from .factors import Tensors
from .stage import Loss, Policies, Stage
from .update_rules import OptimizerState, Rule


@dataclass(frozen=True)
class Simulated:
    """What came out: losses by minibatch; by stage its weights, bytes after each action, optimizer state."""

    losses: tuple[float, ...]
    weights: tuple[Tensors, ...]
    held: tuple[tuple[StageBytes, ...], ...]
    states: tuple[dict[str, OptimizerState], ...]

    def peak_total(self, stage: int) -> int:
        """The most bytes that `stage` held between two actions."""
        return max(held.total for held in self.held[stage])


def simulate(
    parts: Sequence[nn.Module],
    schedule: PipelineSchedule,
    minibatches: Sequence[tuple[Tensor, Tensor]],
    loss: Loss,
    rule: Rule,
    policies: Sequence[Policies],
    *,
    checkpoint: Sequence[bool] | None = None,
    states: Sequence[Mapping[str, OptimizerState]] | None = None,
    count_bytes: bool = True,
) -> Simulated:
    """Train `parts`, one a stage, on (inputs, labels) as `schedule` says; the modules given are not changed.

    `checkpoint` says for each stage whether its activations are computed again in the backward; `states` are the
    optimizer's to go on from, those of an earlier run, and are not changed either. Without `count_bytes` none are held.

    Raises:
        UsageError: the numbers of parts, policies and stages differ.
    """
    if not len(parts) == len(policies) == schedule.stages:
        raise UsageError(f"parts: got {len(parts)} and {len(policies)} policies, expected {schedule.stages} of each")
    last = schedule.stages - 1
    flush = schedule.flush
    stages = [
        Stage(part, rule, policy, loss=loss if index == last else None, flush=flush, checkpoint=again)
        for index, (part, policy, again) in enumerate(
            zip(parts, policies, checkpoint or [False] * len(parts), strict=True)
        )
    ]
    for stage, state in zip(stages, states or (), strict=False):
        stage.resume(
            0, {name: OptimizerState(s.steps, tuple(t.clone() for t in s.tensors)) for name, s in state.items()}
        )
    activations: dict[tuple[int, int], Tensor] = {}
    errors: dict[tuple[int, int], Tensor | None] = {}
    losses: list[float] = []
    held: list[list[StageBytes]] = [[] for _ in stages]
    for action in schedule.in_order():
        at, k = action.stage, action.index
        if action.kind is ActionKind.forward:
            inputs, labels = minibatches[k]
            output = stages[at].forward(
                k, inputs if at == 0 else activations.pop((at, k)), labels if at == last else None
            )
            if at == last:
                losses.append(float(output.detach()) * (flush or 1))
            else:
                activations[at + 1, k] = output
        elif action.kind is ActionKind.backward:
            back = stages[at].backward(k, None if at == last else errors.pop((at, k)))
            if at:
                errors[at - 1, k] = back
        else:
            stages[at].update()
        if count_bytes:
            held[at].append(stages[at].held())
    weights, left = tuple(stage.weights() for stage in stages), tuple(stage.states() for stage in stages)
    return Simulated(tuple(losses), weights, tuple(map(tuple, held)), left)
