"""`run_epoch` of a pipeline node set: the version is split over the nodes and trained stage by stage (mcPipe).

    checkpoint -> partition over the nodes' devices -> minibatches of the owners' data -> pipeline -> loss -> outcome

The split is planned on the network itself, under the memories that the scenario gives its devices. The minibatches of
an epoch are a function of run seed, epoch and first node alone, and the stages' arithmetic of nothing else, so an epoch
that is repeated gives the same bits, in one process, in one a stage, or on nodes of their own (`stages`). One stage
trains as a federated set of one node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from ..core.errors import InfeasibleError, ScenarioError
from ..core.outcome import EpochOutcome, EpochResult, Evaluation, LostEpoch, NodeReport
from ..core.plan import Decision
from ..core.problem import Node, NodeSet
from ..costs.devices import DeviceProfile
from ..costs.meters import Meter
from ..costs.pipelined import stage_devices
from ..models.rebuild import code_of
from ..pipeline.pipeline_run import run_pipeline
from ..pipeline.pipeline_work import PipelineWork, Runtime, Training
from ..pipeline.update_rules import SGD, Adam, OptimizerState, Rule
from ..planners.pipeline.policy_choice import Keeping
from ..training.checkpoint import Checkpoint
from ..training.settings import TrainingSettings
from ..training.setup import TrainingSetup
from ..training.threads import threads
from .epoch import EpochNonFinite, EpochWindow, Metered, cpu_s_so_far, report_of
from .stage_order import PipelineData
from .stages import PipelinePass, StagesOnNodes

Evaluate = Callable[[Checkpoint], Evaluation]
Members = Mapping[str, Sequence[tuple[Node, DeviceProfile]]]
"""Nodes with their device profiles, by pipeline node set, in the order of the stages."""


class PipelinedEpoch:
    """Runs decided epochs of pipeline node sets.

    Args:
        setup: data, settings, versions. With transport "processes" each stage is a process, else they share this one.
        members: the devices of each pipeline set; a node without a profile is as fast as the others and has no cap.
        evaluate: loss and accuracy of a checkpoint on the target's set.
        meter: of the run's clock; without one only seconds are measured.
        on_nodes: where the nodes are machines of their own, and each plays its stage itself.
    """

    def __init__(
        self,
        setup: TrainingSetup,
        members: Members,
        evaluate: Evaluate,
        meter: Meter | None = None,
        on_nodes: StagesOnNodes | None = None,
    ) -> None:
        self.setup, self.members, self.evaluate, self.meter = setup, members, evaluate, meter
        self.on_nodes = on_nodes
        self._data = PipelineData(setup)

    def run_epoch(
        self, decision: Decision, checkpoint: Checkpoint, *, run: str = "run", attempt: int = 0
    ) -> EpochResult:
        """Split, train, evaluate. `run` and `attempt` are part of what nodes of their own have to repeat.

        Raises:
            EpochNonFinite: the losses, or the loss on the target's set, are not finite.
            WorkerLost: stages died again and again. ScenarioError: the network does not fit its devices.
        """
        settings, group = self.setup.settings, self._group(decision.nodes)
        window, cpu = EpochWindow(self.meter), cpu_s_so_far()
        minibatches = self._data.minibatches(group, decision.epoch, settings)
        samples = sum(len(labels) for _, labels in minibatches)
        done = self._train(decision, checkpoint, minibatches, window, (run, attempt))
        cpu_s = done.cpu_s if done.good else cpu_s_so_far() - cpu
        share_s = cpu_s / len(group.nodes)
        metered = window.close(sum([share_s] * len(group.nodes)))
        if done.good:
            metered = metered.by_meters_of(list(done.good.values()), done.failures)
        rule = rule_of(settings, decision.epoch)
        kept = {key: t for name, s in done.states.items() for key, t in optimizer_buffers(rule, name, s).items()}
        state = kept if settings.optimizer_state == "average" else {}
        weights = {name: done.weights[name] for name in checkpoint.weights}
        trained = Checkpoint(
            checkpoint.spec, _copied(weights), _copied(state), checkpoint.version, whole=checkpoint.whole
        )
        finite = math.isfinite(done.train_loss)
        evaluation = self.evaluate(trained) if finite else Evaluation(math.nan, 0.0)
        if not math.isfinite(evaluation.loss):
            raise EpochNonFinite(
                f"epoch {decision.epoch}: the losses of the pipeline {decision.nodes} are not finite",
                LostEpoch((), cpu_s, metered.wall_s, metered.energy_j),
            )
        loss = evaluation.metric(self.setup.problem.target.metric)
        outcome = EpochOutcome(
            decision,
            loss,
            metered.wall_s,
            metered.energy_j,
            metered.provenance,
            cpu_s=cpu_s,
            wall_s=metered.wall_s,
            wasted_j=metered.share_j(sum(result.cpu_s for result in done.failures)),
            wasted_s=done.wasted_s if metered.metered else 0.0,
        )
        every = NodeReport(
            "", 0, samples, done.train_loss, share_s, metered.wall_s, metered.wall_s, metered.share_j(share_s)
        )
        nodes = tuple(_own(replace(every, node=node), done, metered) for node in group.nodes)
        return EpochResult(
            outcome, trained, evaluation, nodes, tuple(map(report_of, done.failures)), train_loss=done.train_loss
        )

    def _train(
        self,
        decision: Decision,
        checkpoint: Checkpoint,
        minibatches: list[tuple[Tensor, Tensor]],
        window: EpochWindow,
        key: tuple[str, int],
    ) -> PipelinePass:
        settings, way = self.setup.settings, self._group(decision.nodes).pipeline
        rule = rule_of(settings, decision.epoch)
        training = Training(
            rule,
            settings.loss,
            m=way.in_flight,
            keeping=Keeping(way.keep),
            checkpoint=way.checkpoint,
            code=self.setup.folder,
        )
        where: Literal["processes", "simulator"] = "processes" if settings.transport == "processes" else "simulator"
        model = checkpoint.model(resolve=self.setup.resolve).train()
        devices, states = stage_devices(self.members[decision.nodes]), optimizer_states(rule, checkpoint.optimizer)
        try:
            with threads(settings.threads), code_of(checkpoint.spec):
                if self.on_nodes is not None:
                    runtime = Runtime("simulator")
                    work = PipelineWork.of(model, minibatches, training, runtime, spec=checkpoint.spec, states=states)
                    return self.on_nodes.train(decision, work, devices, window, key)
                done = run_pipeline(
                    model, minibatches, devices, training, Runtime(where), spec=checkpoint.spec, states=states
                )
        except InfeasibleError as error:
            raise ScenarioError(
                f"{decision.pair}: {error}; its costs were modelled from versions.{decision.version}.chain: "
                "count it again with `relaytrain pipeline count`"
            ) from None
        sizes = [len(labels) for _, labels in minibatches]
        loss = sum(loss * size for loss, size in zip(done.losses, sizes, strict=True)) / sum(sizes)
        return PipelinePass(done.weights, done.states, loss)

    def _group(self, nodes: str) -> NodeSet:
        return next(group for group in self.setup.problem.node_sets if group.name == nodes)


def _own(shared: NodeReport, done: PipelinePass, metered: Metered) -> NodeReport:
    """A node's own figures, where it has any."""
    result = done.good.get(shared.node)
    if result is None:
        return shared
    return replace(
        shared,
        attempt=result.attempt,
        cpu_s=result.cpu_s,
        wall_s=result.wall_s,
        energy_j=metered.share_j(result.cpu_s) if result.energy_j is None else result.energy_j,
        provenance=result.provenance or (metered.provenance if metered.metered else None),
        flops=done.flops.get(shared.node, 0.0),
    )


def rule_of(settings: TrainingSettings, epoch: int) -> Rule:
    """The update rule of `settings` at the learning rate of `epoch`."""
    lr, decay = settings.lr_at(epoch), settings.weight_decay
    if settings.optimizer == "sgd":
        return SGD(lr, settings.momentum, decay)
    if settings.optimizer == "adam":
        return Adam(lr, weight_decay=decay)
    raise ScenarioError(
        f"training.optimizer: got {settings.optimizer!r}, expected sgd or adam: a pipeline set trains with these"
    )


def members_of(setup: TrainingSetup, resolved: Mapping[str, Any]) -> dict[str, list[tuple[Node, DeviceProfile]]]:
    """The devices of every pipeline set: those of a resolved scenario, with the nodes' own links."""
    nodes = {node.name: node for node in setup.problem.nodes}
    tables = {table["name"]: table for table in resolved.get("nodes", ())}
    devices = resolved.get("devices", {})
    members: dict[str, list[tuple[Node, DeviceProfile]]] = {}
    for group in setup.problem.node_sets:
        if group.mode == "pipeline":
            members[group.name] = [
                (nodes[name], _profile(nodes[name], tables.get(name, {}), devices)) for name in group.nodes
            ]
    return members


def _profile(node: Node, own: Mapping[str, Any], devices: Mapping[str, Mapping[str, Any]]) -> DeviceProfile:
    figures = devices.get(node.device or "")
    if figures is None:
        return DeviceProfile(node.name, 1.0, 1.0)
    memory = figures["memory_bytes"]
    return DeviceProfile(
        node.device or "",
        figures["flops_per_s"],
        figures["busy_w"],
        figures["idle_w"],
        math.inf if memory is None else memory,
        own.get("bits_per_s") or figures["bits_per_s"],
        figures["j_per_bit"],
    )


def optimizer_states(rule: Rule, optimizer: Mapping[str, Tensor]) -> dict[str, OptimizerState]:
    """torch.optim's buffers (`BUFFER/PARAMETER`) as the rule's states, by parameter."""
    by_parameter: dict[str, dict[str, Tensor]] = {}
    for key, tensor in optimizer.items():
        buffer, _, name = key.partition("/")
        by_parameter.setdefault(name, {})[buffer] = tensor
    states = {}
    for name, buffers in by_parameter.items():
        if isinstance(rule, SGD) and rule.momentum and "momentum_buffer" in buffers:
            states[name] = OptimizerState(1, (buffers["momentum_buffer"],))
        elif isinstance(rule, Adam) and {"exp_avg", "exp_avg_sq"} <= set(buffers):
            states[name] = OptimizerState(int(buffers["step"].item()), (buffers["exp_avg"], buffers["exp_avg_sq"]))
    return states


def optimizer_buffers(rule: Rule, name: str, state: OptimizerState) -> dict[str, Tensor]:
    """The inverse, for one parameter."""
    if not state.tensors:
        return {}
    if isinstance(rule, SGD):
        return {f"momentum_buffer/{name}": state.tensors[0]}
    first, second = state.tensors
    return {f"step/{name}": torch.tensor(float(state.steps)), f"exp_avg/{name}": first, f"exp_avg_sq/{name}": second}


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
